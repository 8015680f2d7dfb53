"""One asyncio connection to one broker. It uses sockets and `client.connection`, and does not interpret requests."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ottla.client.connection.connection import ADDRESSED_HELLO_VERSION, AnswerBody, ClientConnection, IntendedBroker
from ottla.client.errors import ConnectionFailed, KafkaError, TimedOut
from ottla.client.metrics.connections import LinkMeter
from ottla.client.settings.security import SecureSettings
from ottla.net.client.failures import PERHAPS_SASL, ended_early, no_connection, not_secured, perhaps_old
from ottla.net.client.session import Session
from ottla.net.server.garbage_collector import release
from ottla.net.server.outbox import Outbox
from ottla.ports import Buffer, Part
from ottla.wire.apis import API
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.net.client.security import Security

log = logging.getLogger("ottla.client")

OnAnswer: TypeAlias = Callable[[AnswerBody, BaseException | None], None]
"""A callback that gets the answer to a request, or None and an error."""

EARLY_S = 0.001
"""The time, in seconds, by which a loop may call a timer too early, because its clock has a resolution."""
WAKE_BYTES = 1024 * 1024
"""The number of bytes of a large answer that must arrive before the system wakes the event loop for them."""


class BulkReceiver:
    """A receiver of large answers that reads from the socket directly, without its transport.

    It makes the system wake the event loop for large parts only. Where that is impossible (TLS, systems other than Linux), it does
    nothing, and the transport reads everything.
    """

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        possible = sys.platform == "linux" and transport.get_extra_info("ssl_object") is None
        self._socket: socket.socket | None = transport.get_extra_info("socket") if possible else None
        self._wakes_at = 1

    def read(self, buffer: memoryview) -> int:
        """Receive into `buffer` without blocking, and return the number of bytes; 0 also if the transport must read them."""
        if self._socket is None:
            return 0
        try:
            return os.readv(self._socket.fileno(), [buffer])
        except OSError:
            return 0

    def wake_at(self, missing_bytes: int) -> None:
        """Do not wake the loop until `WAKE_BYTES`, or all `missing_bytes` of an answer, have arrived. With 0, any byte wakes it."""
        count = max(1, min(missing_bytes, WAKE_BYTES))
        if count != self._wakes_at and self._socket is not None:
            self._wakes_at = count
            with suppress(OSError):
                # Linux limits this to less than the receive buffer holds, so that the loop is always woken.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


def security_of(settings: SecureSettings) -> Security | None:
    """Return the TLS context and the logins that these settings require, or None for plain connections without SASL.

    Raises `SettingError`.
    """
    if not (settings.uses_tls or settings.uses_sasl):
        return None
    from ottla.net.client.security import Security

    return Security(settings)


class AnswerCallback:
    """The receiver of an answer for which no task waits. `then(answer, error)` is called as soon as the answer is read.

    One of its arguments is None. A future stands in its place for other requests; their tasks run an iteration of the loop later.
    """

    __slots__ = ("_loop", "_then", "allowed_s", "sent_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, then: OnAnswer, sent_s: float, allowed_s: float) -> None:
        self._loop = loop
        self._then: OnAnswer | None = then
        self.sent_s = sent_s
        self.allowed_s = allowed_s

    def done(self) -> bool:
        return self._then is None

    def set_result(self, answer: AnswerBody) -> None:
        if (then := self._then) is not None:
            self._then = None
            then(answer, None)

    def set_exception(self, error: BaseException) -> None:
        """Call the callback with an error, in the next iteration of the loop, because a link can fail while others use it."""
        if (then := self._then) is not None:
            self._then = None
            self._loop.call_soon(then, None, error)

    def exception(self) -> None:
        """Do nothing: `set_exception` has passed the error on. A future must be asked, or asyncio logs its error."""


class Link(asyncio.BufferedProtocol):
    """One connection to a broker, with many requests in flight. An answer resolves the future of its request.

    A broken link is never reused, and fails every future with the reason.
    """

    def __init__(self, where: str, connection: ClientConnection) -> None:
        self.where = where
        self.closed = False
        self.when_broken: Callable[[BaseException], None] | None = None
        """A callback that gets the reason when an open link breaks. It is not called when the client closes the link."""
        self.when_ended: Callable[[], None] | None = None
        """A callback without arguments that is called once the link is closed, by either side."""
        self.when_renewed: Callable[[float | None], None] | None = None
        """A callback that gets the duration of a renewed login, in ms, or None if it failed."""
        self._connection = connection
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._writable = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._security: Security | None = None
        self._session: Session | None = None
        self._is_closing = False
        self._rested_s = 0.0
        """The loop's time up to which a quota keeps the broker from reading this connection (KIP-219)."""
        self._meter: LinkMeter | None = None
        self._limits: dict[asyncio.Timeout, float] = {}
        """The timeouts of awaited answers, with their durations in seconds."""
        self._deadline_timer: asyncio.TimerHandle | None = None
        """The timer for the answers that go to callbacks: set for a time at which the oldest of them can be late."""

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str | None,
        timeout_ms: int,
        release: str | None = None,
        security: Security | None = None,
        connection: ClientConnection | None = None,
        meter: LinkMeter | None = None,
        intended: IntendedBroker | None = None,
    ) -> Link:
        """Connect, request the broker's versions unless its `release` is given, and log in if `security` uses SASL.

        `connection` is the state machine to use, for Kafka 0.7; by default a `ClientConnection`. A broker of Kafka 4.4 or newer
        checks whether it is the `intended` one. Raises `ConnectionFailed`, `TimedOut`, `AuthenticationFailed`, `BrokerError`.
        """
        link = cls(f"{host}:{port}", connection or ClientConnection(client_id, release))
        link._security, link._meter = security, meter
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await link._connect(host, port)
                if not release:
                    await link._begin(intended)
                if security is not None and security.uses_sasl:
                    session = Session(security, host, link.where, link._send_now, link._fail, link._note_renewal)
                    await session.begin()
                    link._session = session
        except TimeoutError as error:
            link.close()
            if isinstance(error, KafkaError):
                raise
            hint = perhaps_old(is_secure=security is not None)
            raise TimedOut(f"{link.where} did not answer within request_timeout_ms={timeout_ms}. {hint}") from None
        except BaseException as error:
            link.close()
            if isinstance(error, OSError) and not isinstance(error, KafkaError):
                raise link._broken(error) from error
            raise
        return link

    def _note_renewal(self, latency_ms: float | None) -> None:
        if self.when_renewed is not None:
            self.when_renewed(latency_ms)

    async def _connect(self, host: str, port: int) -> None:
        context = self._security.context if self._security is not None else None
        name = host if context is not None else None
        await self._loop.create_connection(lambda: self, host, port, ssl=context, server_hostname=name)

    def _broken(self, error: OSError) -> KafkaError:
        """Return the error for a failed connection."""
        if isinstance(error, ssl.SSLError):
            return not_secured(self.where, error)
        if (
            self._security is not None
            and self._security.context is not None
            and isinstance(error, ConnectionError)
            and not error.errno
        ):
            return ended_early(self.where)
        return no_connection(self.where, error)

    async def _begin(self, intended: IntendedBroker | None) -> None:
        hellos: list[dict[str, Any]] = [{}, {"version": 0}]
        if intended is not None:
            hellos.insert(0, {"version": ADDRESSED_HELLO_VERSION, "intended": intended})
        for hello in hellos:
            answer: asyncio.Future[AnswerBody] = self._loop.create_future()
            self._write(self._connection.hello(answer, **hello), answer)
            try:
                greeted = self._connection.receive_versions(await answer)
            except ConnectionFailed as error:
                raise ConnectionFailed(f"{error} {perhaps_old(is_secure=self._security is not None)}") from error
            if greeted:
                return

    def size_receive_buffer(self, size_bytes: int) -> None:
        """Limit the socket's receive buffer to about `size_bytes`, instead of the system's automatic size."""
        peer: socket.socket | None = None if self._transport is None else self._transport.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)

    def version(self, api_key: int) -> int:
        """Return the version in which requests with `api_key` are sent, or -1 if client and broker share no version."""
        return self._connection.versions.get(api_key, -1)

    def feature(self, name: str) -> int:
        """Return the level of a finalized feature of the cluster, 0 if it is not finalized (KIP-584)."""
        return self._connection.features.get(name, 0)

    def send(self, body: Message, most: int | None = None) -> asyncio.Future[AnswerBody]:
        """Write a request in at most version `most`, and return the future of its answer.

        Raises `ConnectionFailed`, `NotSupported`.
        """
        self._check_open()
        if self._session is not None:
            answer: asyncio.Future[AnswerBody] = self._loop.create_future()
            if self._session.hold_if_due(lambda: self._send_later(body, answer, most), answer):
                return answer
        return self._send_now(body, most)

    @property
    def is_ready(self) -> bool:
        """Return whether `call_back` may be used now: the link is open, and no renewal of its login holds requests back."""
        return not self.closed and (self._session is None or not self._session.is_due)

    def call_back(self, body: Message, timeout_ms: int, then: OnAnswer, most: int | None = None) -> None:
        """Write a request in at most version `most`. Later call `then(answer, None)`, or `then(None, error)` without an answer.

        This costs less than `request`, and needs `is_ready`. The errors are those of `answer`. Timeouts are checked in the order of
        requests, so a shorter one can end late. Raises the exceptions of `send`.
        """
        self._check_open()
        now_s = self._loop.time()
        if log.isEnabledFor(logging.DEBUG):
            then = self._add_logging(body.WIRE.key, then)
        waiting = AnswerCallback(self._loop, then, now_s, timeout_ms / 1000)
        self._write(self._connection.send(body, waiting, most=most), waiting)
        if self._deadline_timer is None:
            self._deadline_timer = self._loop.call_at(self._deadline_s(waiting), self._check_deadline)

    def _add_logging(self, api_key: int, then: OnAnswer) -> OnAnswer:
        """Return a callback that logs the outcome of a request, and calls `then`."""
        log_answer = self._log_request(api_key)

        def log_and_call(answer: AnswerBody, error: BaseException | None) -> None:
            log_answer("was answered" if error is None else "failed")
            then(answer, error)

        return log_and_call

    def _deadline_s(self, waiting: AnswerCallback) -> float:
        return max(waiting.sent_s, self._rested_s) + waiting.allowed_s

    def _check_deadline(self) -> None:
        """Fail the link if the oldest answer for a callback is late. Otherwise set the timer for the oldest one now."""
        self._deadline_timer = None
        tokens = (sent.token for sent in self._connection.unanswered)
        oldest = next((token for token in tokens if isinstance(token, AnswerCallback)), None)
        if oldest is None:
            return
        deadline_s = self._deadline_s(oldest)
        if self._loop.time() < deadline_s - EARLY_S:
            self._deadline_timer = self._loop.call_at(deadline_s, self._check_deadline)
        else:
            self._fail(self._late(round(oldest.allowed_s * 1000)))

    def _late(self, timeout_ms: int) -> TimedOut:
        return TimedOut(f"{self.where} did not answer within {timeout_ms} ms.")

    def pass_on(self, frame: Sequence[Part]) -> asyncio.Future[AnswerBody]:
        """Write a whole frame, its size included. Return the future of the answer, a frame without its size.

        Raises `ConnectionFailed`.
        """
        self._check_open()
        answer: asyncio.Future[AnswerBody] = self._loop.create_future()

        def send() -> None:
            self._connection.pass_on(answer)
            self._write(frame, answer)

        if self._session is None or not self._session.hold_if_due(send, answer):
            send()
        return answer

    def _send_now(self, body: Message, most: int | None = None) -> asyncio.Future[AnswerBody]:
        answer: asyncio.Future[AnswerBody] = self._loop.create_future()
        self._write(self._connection.send(body, answer, most=most), answer)
        if log.isEnabledFor(logging.DEBUG):
            log_answer = self._log_request(body.WIRE.key)
            answer.add_done_callback(
                lambda done: log_answer("was given up" if done.cancelled() else "failed" if done.exception() else "was answered")
            )
        return answer

    def _log_request(self, api_key: int) -> Callable[[str], None]:
        """Log a request, but never its contents. Return a function that logs its outcome, and the time until then."""
        name, version, asked = API[api_key].name, self.version(api_key), self._loop.time()
        log.debug("%s: %s v%d", self.where, name, version)

        def log_answer(how: str) -> None:
            took_ms = (self._loop.time() - asked) * 1000
            log.debug("%s: %s v%d %s after %.1f ms", self.where, name, version, how, took_ms)

        return log_answer

    def _send_later(self, body: Message, answer: asyncio.Future[AnswerBody], most: int | None) -> None:
        """Send a request that waited for a renewed login."""
        try:
            self._write(self._connection.send(body, answer, most=most), answer)
        except KafkaError as error:
            answer.set_exception(error)

    async def send_unanswered(self, body: Message) -> None:
        """Write a request that has no answer (acks=0), and wait until the socket accepts it. Raises the exceptions of `send`."""
        self._check_open()
        if self._session is not None:
            renewed: asyncio.Future[AnswerBody] = self._loop.create_future()
            if self._session.hold_if_due(lambda: renewed.set_result(None), renewed):
                await renewed
                self._check_open()
        self._write(self._connection.send(body, None, expect=False), None)
        await self._writable.wait()
        self._check_open()

    async def request(self, body: Message, timeout_ms: int, most: int | None = None) -> AnswerBody:
        """Return the answer to a request. Raises the exceptions of `send` and `answer`."""
        return await self.answer(self.send(body, most), timeout_ms)

    async def answer(self, sent: asyncio.Future[AnswerBody], timeout_ms: int) -> AnswerBody:
        """Return the answer from a future of `send`.

        Raises `TimedOut`, and then closes the connection, because brokers answer in order and all other answers would be late too.
        The timeout does not begin while the broker throttles this client and does not read.
        """
        allowed_s = timeout_ms / 1000
        try:
            async with asyncio.timeout_at(max(self._loop.time(), self._rested_s) + allowed_s) as limit:
                self._limits[limit] = allowed_s
                try:
                    return await sent
                finally:
                    del self._limits[limit]
        except TimeoutError as error:
            if isinstance(error, KafkaError):  # the timeout of another request, which closed the connection
                raise
            late = self._late(timeout_ms)
            asked = next((each for each in self._connection.unanswered if each.token is sent), None)
            self._fail(late)
            raise (late if asked is None else self._connection.failure(asked, late)) from None

    @property
    def rest_ms(self) -> int:
        """Return for how many more ms the broker does not read this connection, because of a quota. Return 0 without a throttle."""
        return max(0, ceil((self._rested_s - self._loop.time()) * 1000))

    def _throttle(self, rest_ms: int) -> None:
        """Record that the broker does not read this connection for `rest_ms`.

        Extend the timeouts of requests in flight by that time.
        """
        self._rested_s = max(self._rested_s, self._loop.time() + rest_ms / 1000)
        for limit, allowed_s in self._limits.items():
            if not limit.expired():
                limit.reschedule(self._rested_s + allowed_s)

    def _check_open(self) -> None:
        if self.closed:
            raise ConnectionFailed(f"The connection to {self.where} is closed.")

    def _write(self, parts: Sequence[Part], answer: asyncio.Future[AnswerBody] | AnswerCallback | None) -> None:
        """Send the parts of a request, whose answer resolves `answer`; None if it has none."""
        if self._outbox is None:
            return
        began_ms = self._loop.time() * 1000
        size = self._outbox.put(parts)
        self._outbox.flush()
        if self._meter is not None:  # after the write, because the broker works meanwhile
            self._meter.on_request(size, answer, began_ms)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # asyncio pauses writing above this size on plain connections, and at or above this size with TLS.
        self._transport.set_write_buffer_limits(high=0 if transport.get_extra_info("ssl_object") is None else 1)
        self._outbox = Outbox(self._transport)
        self._writable.set()
        self._bulk = BulkReceiver(transport)

    def pause_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.writable = False
            self._writable.clear()

    def resume_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.writable = True
            self._outbox.flush()
            if self._outbox.is_empty and self._outbox.writable:
                self._writable.set()

    def get_buffer(self, sizehint: int) -> Buffer:
        return self._connection.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            answers = self._connection.receive(nbytes)
            while self._connection.missing_bytes and (count := self._bulk.read(self._connection.buffer())):
                nbytes += count
                answers += self._connection.receive(count)
        except ConnectionFailed as error:
            self._fail(error)
            return
        self._bulk.wake_at(self._connection.missing_bytes)
        now = self._loop.time() * 1000
        for token, body in answers:
            if rest_ms := getattr(body, "throttle_time_ms", 0):
                self._throttle(rest_ms)
            answer = cast("asyncio.Future[AnswerBody] | AnswerCallback", token)
            if self._meter is not None:
                self._meter.on_response(answer, now)
            # A caller that gave up (timeout, cancellation) has already cancelled or failed its future.
            if not answer.done():
                answer.set_result(body)
        if self._meter is not None:
            self._meter.on_bytes(nbytes, now)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests in flight. An exception that is not the network's is a bug, so callers get it unchanged."""
        if isinstance(exc, ssl.SSLError):
            self._fail(not_secured(self.where, exc))
        elif exc is None or isinstance(exc, OSError):
            perhaps_sasl = self._security is None and self._connection.has_only_negotiated
            hint = PERHAPS_SASL if perhaps_sasl else self._connection.why_closed
            self._fail(ConnectionFailed(f"The connection to {self.where} broke: {exc or 'the other end closed it'}.{hint}"))
        else:
            self._fail(exc)
        if self._transport is not None:
            release(self._transport)

    def _fail(self, error: BaseException) -> None:
        if self.closed:
            return
        self.closed = True
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._writable.set()
        if self.when_ended is not None:
            self.when_ended()
        if self.when_broken is not None and not self._is_closing:
            self.when_broken(error)
        for sent in self._connection.unanswered:
            answer = cast("asyncio.Future[AnswerBody] | AnswerCallback", sent.token)
            if not answer.done():
                answer.set_exception(self._connection.failure(sent, error))
                answer.exception()  # keeps asyncio from logging it if no caller waits any more
        if self._session is not None:
            self._session.end(error)
        self.close()

    def close(self, error: KafkaError | None = None) -> None:
        """Close the connection at once. Requests in flight raise `error`, or without one `ConnectionFailed`."""
        self._is_closing = True
        self._fail(error or ConnectionFailed(f"The connection to {self.where} was closed here."))
        if self._transport is not None:
            with suppress(RuntimeError):
                self._transport.abort()
