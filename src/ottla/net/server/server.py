"""A broker on the network: listeners, connections and timers on asyncio."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.broker import BrokerMachine
from ottla.broker.quotas.client_quotas import Client
from ottla.broker.releases import Dialect
from ottla.broker.security.principals import ANONYMOUS, rules
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Peer
from ottla.net.server.acceptor import Acceptor, Secure, listen
from ottla.net.server.buffer_pool import FramePool, Tally
from ottla.net.server.connection import ServerConnection
from ottla.net.server.connection_limits import ConnectionLimits
from ottla.net.server.exception_boundary import Door
from ottla.net.server.handshakes import Handshakes
from ottla.net.server.listeners import Listen
from ottla.net.server.outbox import CHUNK_BYTES
from ottla.net.server.turns import Turns, TurnTaker
from ottla.ports import Now

if TYPE_CHECKING:
    import ssl

    from ottla.net.security.tls import ListenerTls
    from ottla.net.server.request_meters import RequestMeters

log = logging.getLogger("ottla.net")

SCRATCH_BYTES = 256 * 1024
SWEEP_S = 10
LOOK_S = 1
WRITE_OUT_S = 30
BACKLOG_BYTES = 32 * 1024 * 1024
"""The limit, in bytes, on requests of all connections that wait or are served from a copy. Above the limit, reads are smaller."""

UNSENT_BYTES = 32 * 1024 * 1024
"""The limit, in bytes, on unread replies of all connections. Above it, a connection with any begins no new request."""

LARGEST_UNSENT_BYTES = 2 * UNSENT_BYTES
"""The size of unread replies of all connections, in bytes, above which the connections that read nothing longest are cut."""

IDLE_WHEN_FULL_MS = 10_000
MOST_CLOSED = 64
"""The number of idle connections closed each second at the connection limit: without a transfer for IDLE_WHEN_FULL_MS."""

SWEPT_AT_ONCE = 500
SWEPT_EVERY_S = 0.02
"""The pause, in s, after each SWEPT_AT_ONCE connections that the check for idle connections examines."""

CLOSED_AT_ONCE = 32
"""The most connections closed in one iteration of the loop, of those whose peers have left."""

STALE_BYTES = 2 * CHUNK_BYTES
"""The number of unread bytes up to which a connection is not cut to save memory."""

PORT_TRIES = 10
NOWHERE = ("", 0)
"""The address that is assumed if a peer left before its address could be read."""


class Server:
    """The adapter between one broker machine and asyncio.

    Connections pass requests to the broker, one timer wakes it at its deadlines, and completions of the disk are passed to it.
    """

    def __init__(self, broker: BrokerMachine, loop: asyncio.AbstractEventLoop, most_connections: int) -> None:
        self.broker = broker
        self.door = Door(broker, self._end)
        self.ended = asyncio.Event()
        """Set when the broker is to stop: after a signal, or because a bug ended it (`door.failure`)."""
        self.failed = asyncio.Event()
        """Set only when a bug ended the broker."""
        self.max_request_bytes: int = broker.settings.socket_request_max_bytes
        self.turns = Turns()
        self.pool = FramePool(broker.settings.queued_max_request_bytes, broker.checks.memory_of_large)
        self.backlogs = Tally(BACKLOG_BYTES)
        self.unsent = Tally(UNSENT_BYTES)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._loop = loop
        self.unheard: set[ServerConnection] = set()
        self._connections: set[ServerConnection] = set()
        self._acceptors: list[Acceptor[ServerConnection]] = []
        self._tls: list[ListenerTls] = []
        self._handshakes = Handshakes(loop)
        self._limits = ConnectionLimits(
            broker.settings_in_force, most_connections, self._make_room, broker.image.quotas, lambda: broker.clock.now().mono_ms
        )
        self.meters: RequestMeters | None = None
        """The durations of requests; None if they are not measured."""
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._turn_is_due = False
        self._settling = False
        self._is_closed = False
        self._room_made_ms = 0
        self._released: list[ServerConnection] = []
        self._left: deque[ServerConnection] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        broker.quotas.told.append(self._measure)
        self._choose_meters()
        broker.settings_in_force.told.append(self._choose_meters)

    def start(self, *, clean: bool, was_killed: bool = False) -> None:
        """Start the broker, and arm a timer for its deadlines, even if no request ever arrives.

        `clean` and `was_killed` are documented at `BrokerMachine.start`.
        """
        self.broker.start(clean=clean, was_killed=was_killed)
        # Only after the start: a broker that fails to start leaves nothing on its loop, which may belong to a user.
        self._loop.set_exception_handler(self._on_unhandled)
        self._sweep = self._loop.call_later(SWEEP_S, self._close_idle)
        self._next_look = self._loop.call_later(LOOK_S, self._check_periodically)
        self._arm(self.broker.clock.now())

    async def listen(self, where: Listen) -> tuple[str, int]:
        """Open a listener, and return its actual address.

        A host name can have several addresses, and the empty host means all addresses. The listener uses the same port on all of
        them, even if a free port is chosen. Raises OSError, and `SettingError` if the listener's TLS is unusable.
        """
        secure = self._securely(where) if where.spoken.has_tls else None
        self.broker.routers[where.release.dialect]  # otherwise the first request would wait for its creation
        # Bytes are looked up as they are. For text Python would load the tables of internationalized names.
        host = where.host.encode() if where.host.isascii() else where.host
        addresses = await _resolve(self._loop, host or None, where.port)
        for tries_left in reversed(range(PORT_TRIES)):
            try:
                listeners = _bound(addresses)
            except OSError as refused:
                if where.port or refused.errno != errno.EADDRINUSE or not tries_left:
                    raise
            else:
                break
        connection = partial(self._new_connection, where)
        limits = self._limits.of(where.name)
        acceptors = [Acceptor(self._loop, listener, connection, limits, secure) for listener in listeners]
        self._acceptors += acceptors
        return acceptors[0].address

    def _new_connection(self, where: Listen, host: str) -> ServerConnection:
        """Return the protocol of an accepted connection."""
        if self.meters is None or where.release.dialect is not Dialect.VERSIONED:
            return ServerConnection(self, self.door, self.broker.clock, where, host)
        from ottla.net.server.measured_connection import MeasuredConnection

        return MeasuredConnection(self, self.door, self.broker.clock, where, host, self.meters)

    def _choose_meters(self) -> None:
        """Measure the requests of new connections if the settings require it, and log slow requests."""
        settings = self.broker.settings
        if self.meters is None and (settings.measures or settings.ottla_slow_request_ms):
            from ottla.net.server.request_meters import RequestMeters

            self.meters = RequestMeters()
        if self.meters is not None:
            self.meters.slow_ns = settings.ottla_slow_request_ms * 1_000_000 or None

    @property
    def is_listening(self) -> bool:
        return bool(self._acceptors) and not self._is_closed and self.door.failure is None

    @property
    def accepted(self) -> int:
        """Return the number of connections since the start."""
        return self._count

    def connections_by_listener(self) -> Iterator[str]:
        """Yield the listener's name of each open connection."""
        return (connection.where.name for connection in tuple(self._connections))

    def _securely(self, where: Listen) -> Secure[ServerConnection]:
        from ottla.net.security.tls import ListenerTls, principal_of
        from ottla.net.server.tls_transport import TlsTransport

        tls = ListenerTls(where.name, self.broker.settings_in_force)
        mapping = rules(self.broker.settings.of_listener(where.name).ssl_principal_mapping_rules)
        who = ANONYMOUS if where.spoken.has_sasl else None  # without SASL, the certificate determines the user
        self._tls.append(tls)

        def begin(peer: socket.socket, host: str, protocol: Callable[[], ServerConnection]) -> None:
            def accept(secure: ssl.SSLSocket) -> None:
                TlsTransport(self._loop, secure, protocol(), who or principal_of(secure, mapping))

            self._handshakes.begin(peer, host, tls.context, accept, partial(self._limits.leave, host, where.name))

        return begin

    def admit(self, connection: ServerConnection, transport: asyncio.Transport) -> Peer:
        """Register a new connection, and return its peer."""
        self._count += 1
        self._connections.add(connection)
        self._size_buffers(transport)
        host, port = (transport.get_extra_info("peername") or NOWHERE)[:2]
        local_host, local_port = (transport.get_extra_info("sockname") or NOWHERE)[:2]
        where = connection.where
        who = transport.get_extra_info("principal") or ANONYMOUS
        local = where.advertised_host or local_host, local_port
        peer = Peer(self._count, host, port, *local, where.name, who, where.release, security_protocol=where.spoken)
        peer.authentication = self.broker.logins.begin(where.name)
        return peer

    def dismiss(self, connection: ServerConnection, owed: Iterable[DelayedReply]) -> None:
        """Remove a closed connection, and cancel its pending replies `owed`."""
        for pending in owed:
            self.broker.forget(pending)
        self.broker.on_disconnect(connection.peer)
        self._connections.discard(connection)
        self.unheard.discard(connection)
        self._limits.leave(connection.host, connection.where.name)
        self.finish_bundle_soon()  # other connections may have waited for its memory

    def close_soon(self, connection: ServerConnection) -> None:
        """Schedule the close of a connection whose peer has left: at most `CLOSED_AT_ONCE` in one iteration of the loop."""
        self._left.append(connection)
        self.finish_bundle_soon()

    @property
    def has_requests(self) -> bool:
        """Return whether requests have arrived whose batch has not ended."""
        return self._turn_is_due or bool(self.turns.queue)

    def later(self, ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function after `ms` milliseconds."""
        return self._loop.call_later(ms / 1000, call)

    def _measure(self) -> None:
        """Measure the time that each connection uses, if quotas limit it."""
        self.turns.meter = self._count_time if self.broker.quotas.counts_time else None

    def _count_time(self, worker: TurnTaker, used_ns: int) -> None:
        if isinstance(worker, ServerConnection) and not worker.peer.is_broker:
            self.broker.quotas.use_time(Client(worker.peer.principal, worker.peer.client_id), used_ns)

    def resume_soon(self, connection: ServerConnection) -> None:
        """Resume a connection after the current batch of requests, because a reply that blocked it is ready."""
        self._released.append(connection)
        self.finish_bundle_soon()

    def finish_bundle_soon(self) -> None:
        """Schedule the end of the current batch of requests, after all connections with input were read.

        The changes of the whole batch are then stored and synced together.
        """
        if not self._turn_is_due and not self._settling:
            self._turn_is_due = True
            self._loop.call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Begin an iteration of the loop: end the previous batch of requests, then run the queued connections."""
        self._turn_is_due = False
        self._finish_bundle()
        if self.unsent.bytes > LARGEST_UNSENT_BYTES:
            self._relieve()
        if self._left:
            self._close_some()
        self.turns.used_ns = 0
        if self.turns.queue and not self._is_closed and self.door.failure is None and self.turns.run_queued():
            self.finish_bundle_soon()

    def _close_some(self) -> None:
        for _ in range(min(len(self._left), CLOSED_AT_ONCE)):
            self._left.popleft().close_if_done()
        if self._left:
            self.finish_bundle_soon()

    def _finish_bundle(self) -> None:
        """End a batch of requests: start syncs, evaluate and send woken replies, and arm the timer for the next deadline.

        Do nothing after the broker has ended or closed, when the disk can still report completions.
        """
        if self._is_closed or self.door.failure is not None:
            return
        now = self.broker.clock.now()
        self._settling = True  # connections resumed during the call need no new batch
        try:
            self.broker.finish_bundle(now)
        finally:
            self._settling = False
        if self._released:
            self._resume()
        self._arm(
            self.broker.clock.now() if self.broker.scheduler.busy else now
        )  # a new reading: the time of a step of background work must not delay the timer

    def _resume(self) -> None:
        released, self._released = self._released, []
        for connection in released:
            connection.resume()

    def complete(self, call: Callable[[], None]) -> None:
        """Handle a completion from the disk's thread. This runs on the broker's thread."""
        if self.door.failure is None:
            with self.door:
                call()
                self._finish_bundle()

    async def close(self) -> bool:
        """Stop listening, close every connection, then close the broker. Return whether its logs were closed cleanly.

        A broker that a bug has ended writes nothing, and its next start checks the logs.
        """
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.close()
        await asyncio.sleep(0)
        await self._write_out()
        self._is_closed = True
        self._stop_timers()  # closing the connections may have armed a timer
        return self.door.failure is None and self.broker.close()

    async def _write_out(self) -> None:
        """Sync the logs in parallel, for at most `WRITE_OUT_S` seconds, because closing them one by one takes far longer."""
        over = asyncio.Event()
        self.broker.scheduler.begin("write out", self.broker.partitions.write_out(), lambda _: over.set(), lambda _: over.set())
        self._finish_bundle()
        for _ in range(WRITE_OUT_S):
            if over.is_set() or self.door.failure is not None:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 1)

    def _stop_listening(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        self._handshakes.close()
        self._stop_timers()

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._sweep, self._next_look):
            if timer is not None:
                timer.cancel()
        self._timer = self._timer_ms = None  # cleared because the stop itself can arm another timer

    def _end(self) -> None:
        """Stop listening, and cut every connection at once."""
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.cut()
        self.failed.set()
        self.ended.set()

    def _on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """End the broker when a callback raises an exception, which asyncio would only log."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self.door.fail(error, f"a callback ({context['message']})")
        else:
            log.error("%s", context["message"], extra={"cause": "asyncio"})

    def _size_buffers(self, transport: asyncio.Transport) -> None:
        peer: socket.socket | None = transport.get_extra_info("socket")
        settings = self.broker.settings
        if peer is not None and settings.socket_send_buffer_bytes > 0:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.socket_send_buffer_bytes)
        if peer is not None and settings.socket_receive_buffer_bytes > 0:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.socket_receive_buffer_bytes)

    def _close_idle(self) -> None:
        """Close connections that are idle for `connections.max.idle.ms`, and connections that do not authenticate in time."""
        self._sweep = self._loop.call_later(SWEEP_S, self._close_idle)
        self._close_some_idle(list(self._connections))

    def _close_some_idle(self, left: list[ServerConnection]) -> None:
        """Check some of these connections now, and the rest after a pause, because there can be ten thousand."""
        now_ms = self.broker.clock.now().mono_ms
        idle_since = now_ms - self.broker.settings.connections_max_idle_ms
        for connection in left[-SWEPT_AT_ONCE:]:
            login = connection.peer.authentication
            if connection not in self._connections:
                continue
            if login is not None and login.is_late(now_ms):
                log.info("closed the connection of %s: it did not authenticate in time", connection, extra={"cause": "no login"})
                connection.cut()
            elif connection.is_left_idle_since(idle_since):
                log.info("closed the idle connection of %s", connection, extra={"cause": "idle connection"})
                (connection.cut if connection.unsent else connection.close)()
        del left[-SWEPT_AT_ONCE:]
        if left and not self._is_closed:
            self._loop.call_later(SWEPT_EVERY_S, self._close_some_idle, left)

    def _make_room(self) -> bool:
        """Close up to `MOST_CLOSED` connections, the longest idle first. Return whether any was closed.

        Do nothing, and return False, within a second after the previous call.
        """
        now_ms = self.broker.clock.now().mono_ms
        if now_ms - self._room_made_ms < LOOK_S * 1000:
            return False
        self._room_made_ms = now_ms
        idle = [one for one in self._connections if one.idle and one.last_ms < now_ms - IDLE_WHEN_FULL_MS]
        for connection in sorted(idle, key=lambda connection: connection.last_ms)[:MOST_CLOSED]:
            sentence = "closed the idle connection of %s to admit a new one, because max.connections are open"
            log.warning(sentence, connection, extra={"cause": "no connection left"})
            connection.close()
        return bool(idle)

    def _check_periodically(self) -> None:
        """Check every second for lost connections, late handshakes, changed certificates and stalled requests."""
        self._next_look = self._loop.call_later(LOOK_S, self._check_periodically)
        with self.door:
            for connection in tuple(self.unheard):  # reading from a connection reveals a cut, too
                connection.check_peer()
            self._handshakes.close_overdue()
            for tls in self._tls:
                tls.reload_if_changed()
            self.pool.cut_stalled(self.broker.clock.now().mono_ms)

    def _relieve(self) -> None:
        """Cut connections whose peers do not read their replies, until the unread replies are below the limit.

        Connections whose peers have read nothing for the longest time come first.
        """
        stale = [connection for connection in self._connections if connection.unsent > STALE_BYTES]
        for connection in sorted(stale, key=lambda connection: connection.moved_ms):
            if self.unsent.bytes <= UNSENT_BYTES:
                break
            sentence = "closed the connection of %s: it does not read its responses, and all unread responses take too much memory"
            log.warning(sentence, connection, extra={"cause": "unread replies"})
            connection.cut()

    def _arm(self, now: Now) -> None:
        """Arm the timer for the next deadline. A timer with an earlier time stays, and arms the next timer when it fires."""
        next_ms = self.broker.scheduler.next_ms()
        if next_ms is None or (self._timer_ms is not None and self._timer_ms <= next_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = next_ms
        self._timer = self._loop.call_later(max(next_ms - now.mono_ms, 0) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ms = None
        self.broker.run_timers(self.broker.clock.now())
        self._resume()
        self._arm(self.broker.clock.now())  # a new reading: the time that the timers took must not delay the next one


async def _resolve(loop: asyncio.AbstractEventLoop, host: bytes | str | None, port: int) -> list[tuple[int, tuple[object, ...]]]:
    """Return the addresses of a host to listen at, each with its family. Another thread resolves names, which can take long."""
    kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
    try:
        found = socket.getaddrinfo(host, port, type=kind, flags=flags | socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await loop.getaddrinfo(host, port, type=kind, flags=flags)
    return list(dict.fromkeys((int(family), tuple[object, ...](address)) for family, _, _, _, address in found))


def _bound(addresses: list[tuple[int, tuple[object, ...]]]) -> list[socket.socket]:
    """Return sockets that listen at all addresses on one port: for port 0, on the free port of the first socket."""
    listeners, port, refused = list[socket.socket](), 0, None
    for family, (host, wanted, *rest) in addresses:
        try:
            listeners.append(listen(family, (host, wanted or port, *rest)))
        except OSError as error:
            if error.errno == errno.EAFNOSUPPORT:  # the system lacks this address family
                refused = error
                continue
            for listener in listeners:
                listener.close()
            raise
        port = listeners[0].getsockname()[1]
    if not listeners:
        raise refused or OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    return listeners
