"""The handler of kazoo's events. It runs callbacks at once on the connection's thread, in the server's order.

Kazoo's own handler has two more threads, for watches and for answers. They lose the server's order, and each answer needs a lock.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

Ready = tuple[list[Any], list[Any], list[Any]]


class ZooKeeperAnswer:
    """The answer to one request: `value`, or `error`. `asked_ms` is a monotonic time before the request was sent.

    `told` is called with this object on the broker's thread. The sender must set it before other code runs on that thread.
    """

    __slots__ = ("_hand_over", "asked_ms", "error", "told", "value")

    def __init__(self, hand_over: Callable[[ZooKeeperAnswer], None]) -> None:
        self.asked_ms = monotonic_ns() // 1_000_000
        self.value: Any = None
        self.error: Exception | None = None
        self.told: Callable[[ZooKeeperAnswer], None] | None = None
        self._hand_over = hand_over

    def set(self, value: object = None) -> None:
        """Store the value of a successful request. Kazoo calls either this or `set_exception`, once."""
        self.value = value
        self._hand_over(self)

    def set_exception(self, error: Exception) -> None:
        """Store the error of a failed request. Kazoo calls either this or `set`, once."""
        self.error = error
        self._hand_over(self)


class InOrder(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Implements kazoo's IHandler without threads of its own. `answered` is called with each answer, on kazoo's thread."""

    def __init__(
        self, answered: Callable[[ZooKeeperAnswer], None], secure: Callable[[], ssl.SSLContext] | None, timeout_s: float
    ) -> None:
        super().__init__()
        self._answered = answered
        self._secure = secure
        self._timeout_s = timeout_s

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def select(self, readers: Sequence[Any], writers: Sequence[Any], _: object, timeout: float | None = None) -> Ready:
        """Return (the readable sockets, the writable sockets, an empty list) after at most `timeout` seconds."""
        poll = select.poll()
        for one in readers:
            poll.register(one, select.POLLIN)
        for one in writers:
            poll.register(one, select.POLLOUT)
        ready = {number for number, _ in poll.poll(None if timeout is None else max(0.0, timeout) * 1000)}
        return [one for one in readers if one.fileno() in ready], [one for one in writers if one.fileno() in ready], []

    def async_result(self) -> ZooKeeperAnswer:
        return ZooKeeperAnswer(self._answered)

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def create_connection(self, address: tuple[str, int], hostname: str, **options: Any) -> socket.socket:
        """Return a connection, with TLS if it is configured. If OSError is raised, kazoo tries the next server."""
        plain = socket.create_connection(address, self._timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._secure is None:
            return plain
        try:
            return self._secure().wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise
