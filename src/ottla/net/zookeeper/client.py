"""A kazoo client for brokers. It uses no threads for callbacks, and the timeout to which the server agreed.

The client sends all waiting requests in one write, and reads all available answers at once. Kazoo itself makes some thirty system
calls per request.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from time import monotonic
from typing import Any, NamedTuple, Protocol

from kazoo.client import CLOSED_STATES, KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    ZookeeperError,
)
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL, Connect, GetData
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from ottla.net.zookeeper.address import ZooKeeperAddress
from ottla.net.zookeeper.batch import ReadMany
from ottla.net.zookeeper.handler import InOrder, ZooKeeperAnswer
from ottla.sasl.mechanism import SaslFailed

FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 1.0
CONNECT_S = 3.0
"""The time, in s, within which a server must begin a session. After it, the next server is tried."""

MOST_STEPS = 8
"""The limit on the steps of one login."""

HEAD, LENGTH = Struct("!iii"), Struct("!i")
"""The headers of messages: HEAD is a request's length, number and type, LENGTH an answer's length."""

MOST_XID = 0x7FFFFFFF
PROBE_XID = 1
"""The number of the probe request. Other requests can have it too, because answers are assigned in order."""

WAKINGS = 64
SENT_AT_ONCE = RECEIVED_AT_ONCE = 1 << 16
"""The approximate limits, in bytes, of one system call."""


class ZooKeeperLogin(Protocol):
    """The client's side of one SASL login."""

    def step(self, challenge: bytes) -> bytes | None:
        """Return the answer to the server's challenge, or None when the login is complete.

        The first challenge is empty. This runs on kazoo's thread, and can block. Raises `ValueError`, `LookupError` and
        `SaslFailed`.
        """


class Access(NamedTuple):
    """The parameters of connections to ZooKeeper. `login(host)` creates a new login for each connection."""

    address: ZooKeeperAddress
    timeout_ms: int
    secure: Callable[[], ssl.SSLContext] | None = None
    login: Callable[[str], ZooKeeperLogin] | None = None


class AgreedConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's connection, extended by the session timeout of the server, and by logins that need no other library."""

    agreed_timeout_ms = 0
    reads_many = False
    """Whether the server supports `ReadMany`."""
    _xid: int
    _is_woken = False
    _received = b""
    """The received bytes. The first `_taken` of them are processed."""
    _taken = 0
    _heard_s = 0.0
    """The time, in s, of the last input; without an awaited answer, of the last sent request."""

    def __init__(self, *of: Any, **options: Any) -> None:
        super().__init__(*of, **options)
        self._unasked: set[tuple[Any, ...]] = set()
        """The servers that closed the last connection at the probe for `ReadMany`."""

    def _connect(self, *where: Any) -> tuple[int, int]:
        self._received, self._taken = b"", 0
        timeouts: tuple[int, int] = super()._connect(*where)
        self.reads_many = self._learn(where, timeouts[0] / 1000)
        return timeouts

    def _learn(self, server: tuple[Any, ...], timeout: float) -> bool:
        """Return whether this server supports `ReadMany`, after a test request.

        A server before 3.6 closes the connection at the test request, so the next connection to it skips the test. The test is the
        first request on the connection, so no other request is lost with it.
        """
        if server in self._unasked:
            self._unasked.remove(server)
            return False
        self._unasked.add(server)
        try:
            super()._invoke(timeout, ReadMany(GetData.type, ()), PROBE_XID)
        except ZookeeperError as error:
            raise ConnectionDropped("the server does not support reading many entries in one request") from error
        self._unasked.remove(server)
        return True

    def wake(self) -> None:
        """Wake kazoo's thread, so that it sends the waiting requests. Any thread may call this after it has queued a request."""
        if not self._is_woken:
            self._is_woken = True
            self._write_sock.send(b"\0")

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Send waiting requests in one write. Kazoo calls this after a wake-up.

        Raises ConnectionDropped if the server has been silent for too long. Kazoo detects a silent server by an unanswered ping,
        but sends no pings while requests are sent without a break.
        """
        self._read_sock.recv(WAKINGS)
        self._is_woken = False  # reset before the queue is read, so that requests queued later wake the thread again
        waiting, pending, frames = self.client._queue, self.client._pending, bytearray()
        if not pending:
            self._heard_s = monotonic()
        elif monotonic() - self._heard_s > read_timeout:
            raise ConnectionDropped("the server does not answer")
        while waiting and len(frames) < SENT_AT_ONCE:
            request, answer = waiting.popleft()
            self._xid = self._xid % MOST_XID + 1
            body = request.serialize()
            frames += HEAD.pack(len(body) + 8, self._xid, request.type) + body
            pending.append((request, answer, self._xid))
        if waiting:
            self.wake()
        self._write(frames, connect_timeout)

    def _read_socket(self, timeout: float) -> Any:
        """Process all complete messages that have arrived. Kazoo calls this when the socket is readable."""
        said = super()._read_socket(timeout)
        while said is None and self._has_more():
            said = super()._read_socket(timeout)
        return said

    def _has_more(self) -> bool:
        """Return whether the next message has arrived. For TLS data that is not decrypted yet, its beginning is enough."""
        left = len(self._received) - self._taken
        if left >= LENGTH.size and left >= LENGTH.size + LENGTH.unpack_from(self._received, self._taken)[0]:
            return True
        return self._has_pending()

    def _has_pending(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _read(self, length: int, timeout: float) -> bytes:
        """Return the next `length` bytes from the server. They are received in large blocks."""
        while (missing := length - len(self._received) + self._taken) > 0:
            more = self._receive(max(missing, RECEIVED_AT_ONCE), timeout)
            self._received, self._taken = self._received[self._taken :] + more, 0
        begin, self._taken = self._taken, self._taken + length
        return self._received[begin : self._taken]

    def _receive(self, most: int, timeout: float) -> bytes:
        with self._socket_error_handling():
            while True:
                if not self._has_pending() and not self.handler.select([self._socket], [], [], timeout)[0]:
                    raise self.handler.timeout_exception("the server sends nothing")
                with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    received: bytes = self._socket.recv(most)
                    if received:
                        self._heard_s = monotonic()
                        return received
                    raise ConnectionDropped("the server has closed the connection")

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        result = super()._invoke(min(timeout, CONNECT_S), request, xid)
        if isinstance(request, Connect):
            self.agreed_timeout_ms = result[0].time_out
        return result

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Log in. Kazoo calls this on each new connection of a client that has a login."""
        login: ZooKeeperLogin = self.sasl_options["login"](host)
        challenge: bytes | None = b""
        for number in range(1, MOST_STEPS):
            try:
                answer = login.step(challenge or b"")
            except (ValueError, LookupError, SaslFailed) as error:
                logging.getLogger("ottla.net").warning("the login to ZooKeeper failed: %s", error)
                raise AuthFailedError(str(error)) from error
            if answer is None:
                return
            self._submit(SASL(answer), timeout, number)
            try:
                header, buffer, offset = self._read_header(timeout)
            except ConnectionDropped as error:  # ZooKeeper refuses a login by closing the connection
                raise AuthFailedError("the server closed the connection") from error
            if header.err:
                raise EXCEPTIONS[header.err]()
            challenge, _ = SASL.deserialize(buffer, offset)
        raise AuthFailedError("the exchange with the server does not end")


class ZooKeeperClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A ZooKeeper client with one session at a time. `answered` and the listeners are called on kazoo's thread."""

    def __init__(self, access: Access, answered: Callable[[ZooKeeperAnswer], None]) -> None:
        seconds = access.timeout_ms / 1000
        retry = KazooRetry(max_tries=-1, delay=FIRST_RETRY_S, max_delay=LONGEST_RETRY_S)
        hosts, _, _ = str(access.address._replace(chroot="")).removeprefix("zookeeper://").partition("/")
        super().__init__(
            hosts=hosts,
            timeout=seconds,
            handler=InOrder(answered, access.secure, min(seconds, CONNECT_S)),
            connection_retry=retry,
            logger=_logger(),
        )
        options = None if access.login is None else {"login": access.login}
        self._connection = AgreedConnection(self, self._conn_retry.copy(), logger=self.logger, sasl_options=options)

    def send(self, request: Any) -> ZooKeeperAnswer:
        """Send a request in kazoo's form. Its paths are not changed."""
        answer: ZooKeeperAnswer = self.handler.async_result()
        self._call(request, answer)
        return answer

    def _call(self, request: Any, answer: ZooKeeperAnswer) -> None:
        """Queue a request. Kazoo's own method wakes its thread for each request."""
        if self._state in CLOSED_STATES:
            super()._call(request, answer)  # sets the exception for a closed client
            return
        if self._state == KeeperState.CONNECTING:  # kazoo's own method waits without limit for a server
            answer.set_exception(ConnectionLoss())
            return
        self._queue.append((request, answer))
        try:
            self._connection.wake()
        except (OSError, AttributeError):  # the connection is being closed
            answer.set_exception(ConnectionClosedError())

    @property
    def agreed_timeout_ms(self) -> int:
        timeout_ms: int = self._connection.agreed_timeout_ms
        return timeout_ms

    @property
    def reads_many(self) -> bool:
        """Return whether the connected server supports `ReadMany`."""
        return bool(self._connection.reads_many)


def _logger() -> logging.Logger:
    """Return kazoo's logger. It is for debugging only, because the broker logs the events of a session."""
    logger = logging.getLogger("ottla.zookeeper")
    logger.setLevel(logging.DEBUG if logging.getLogger("ottla").isEnabledFor(logging.DEBUG) else logging.CRITICAL)
    return logger
