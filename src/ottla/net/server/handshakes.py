"""The TLS handshakes of new connections, limited in number and time. Their computations run on a separate thread.

A signature takes longer than a hundred requests, so it is not computed on the broker's thread. A stalled handshake costs only its
socket. At the limit, the oldest handshake is closed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

log = logging.getLogger("ottla.net")

HANDSHAKE_S = 30
"""The longest duration of a handshake, in s. Kafka has no setting for it."""

MOST = 1000
"""The limit on simultaneous handshakes."""

Secured = Callable[[ssl.SSLSocket], None]
Gone = Callable[[], None]


@dataclass(slots=True, eq=False)
class Handshake:
    """A TLS handshake of one accepted connection.

    After a success, `secured(socket)` is called: it takes over the socket, or raises ValueError. After a failure, `gone()` is
    called.
    """

    socket: ssl.SSLSocket
    host: str
    began_s: float
    secured: Secured
    gone: Gone
    busy: bool = False
    """Whether the thread uses the socket, which no other code may use then."""
    closed: bool = False


class Handshakes:
    """The TLS handshakes of all listeners of a broker, which run on one thread of their own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._under_way: dict[Handshake, None] = {}
        self._thread: ThreadPoolExecutor | None = None

    def begin(self, peer: socket.socket, host: str, context: ssl.SSLContext, secured: Secured, gone: Gone) -> None:
        """Begin the TLS handshake of an accepted connection."""
        try:
            secure = context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError):  # the peer had left already
            peer.close()
            gone()
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "ottla-tls")
        one = Handshake(secure, host, self._loop.time(), secured, gone)
        self._under_way[one] = None
        self._loop.add_reader(secure, self._step, one)
        if len(self._under_way) > MOST:
            oldest = next(each for each in self._under_way if not each.busy)
            self._on_failure(oldest, "too many TLS handshakes are in progress")

    def close_overdue(self) -> None:
        """Close handshakes that take longer than `HANDSHAKE_S`. This must be called about every second."""
        late_s = self._loop.time() - HANDSHAKE_S
        for one in [each for each in self._under_way if each.began_s < late_s]:
            self._on_failure(one, f"it took longer than {HANDSHAKE_S} s")

    def close(self) -> None:
        """Close all handshakes, and wait for the end of the thread."""
        for one in tuple(self._under_way):
            self._end(one)
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _step(self, one: Handshake) -> None:
        """Continue a handshake on the handshake thread, because its socket has become readable or writable."""
        assert self._thread is not None
        self._loop.remove_reader(one.socket)
        self._loop.remove_writer(one.socket)
        one.busy = True
        self._thread.submit(self._work, one)

    def _work(self, one: Handshake) -> None:
        """Continue a handshake as far as the received bytes allow. This runs on the thread."""
        error: OSError | None = None
        try:
            one.socket.do_handshake()
        except OSError as refused:
            error = refused
        with suppress(RuntimeError):  # the loop is closed, so no code waits for the result
            self._loop.call_soon_threadsafe(self._on_step, one, error)

    def _on_step(self, one: Handshake, error: OSError | None) -> None:
        one.busy = False
        if one.closed:
            one.socket.close()
        elif error is None:
            self._on_success(one)
        elif isinstance(error, ssl.SSLWantReadError):
            self._loop.add_reader(one.socket, self._step, one)
        elif isinstance(error, ssl.SSLWantWriteError):
            self._loop.add_writer(one.socket, self._step, one)
        else:
            self._on_failure(one, why(error))

    def _on_success(self, one: Handshake) -> None:
        del self._under_way[one]
        try:
            one.secured(one.socket)
        except ValueError as refused:
            self._under_way[one] = None
            self._on_failure(one, str(refused))

    def _on_failure(self, one: Handshake, reason: str) -> None:
        sentence = "refused a connection of %s: its TLS handshake failed (%s)"
        log.info(sentence, one.host, reason, extra={"cause": "tls handshake"})
        self._end(one)

    def _end(self, one: Handshake) -> None:
        del self._under_way[one]
        one.closed = True
        one.gone()
        if not one.busy:
            self._loop.remove_reader(one.socket)
            self._loop.remove_writer(one.socket)
            one.socket.close()


def why(error: OSError) -> str:
    """Return why a handshake failed, in a few words."""
    if isinstance(error, ssl.SSLError) and error.reason:
        told = getattr(error, "verify_message", "") or error.reason.replace("_", " ").lower()
        return "it does not speak TLS" if error.reason in ("HTTP_REQUEST", "WRONG_VERSION_NUMBER") else told
    return error.strerror or "it closed the connection"
