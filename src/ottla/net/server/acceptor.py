"""The acceptor of connections at one listening socket. It accepts a few in each iteration of the loop, and reads none of them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from ottla.net.server.connection_limits import ListenerLimits

log = logging.getLogger("ottla.net")

WAITING = 512
"""The length of the operating system's queue of connections that are not accepted yet."""

AT_ONCE = 8
"""The most connections accepted in one iteration of the loop, so that open connections are served in between."""

RETRY_S = 0.1
MOST_HELD = 256
"""The most refused connections that stay open for a time before they are closed. Each uses a file descriptor."""

SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def listen(family: int, address: tuple[object, ...]) -> socket.socket:
    """Return a socket that listens at this address. Raises OSError."""
    # asyncio sets TCP_NODELAY only with a named protocol; without it replies wait for acknowledgements.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(WAITING)
    except BaseException:
        listener.close()
        raise
    return listener


P = TypeVar("P", bound=asyncio.BaseProtocol)
Secure = Callable[[socket.socket, str, Callable[[], P]], None]
"""A function that secures an accepted connection, and then calls the function that creates the connection's protocol."""


class Acceptor(Generic[P]):
    """Accepts connections, and creates a protocol for each from the peer's address.

    A refused connection is closed, so that its client does not wait in vain. A spare file descriptor allows to accept and close a
    connection even if the process may open no more files.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        protocol: Callable[[str], P],
        limits: ListenerLimits,
        secure: Secure[P] | None = None,
    ) -> None:
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._loop = loop
        self._listener = listener
        self._protocol = protocol
        self._limits = limits
        self._secure = secure
        self._spare: int | None = _open_spare()
        self._retry: asyncio.TimerHandle | None = None
        self._held: set[socket.socket] = set()
        self._entering: dict[asyncio.Task[None], socket.socket] = {}
        self._listen()

    def close(self) -> None:
        """Stop accepting connections."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        for task in tuple(self._entering):
            task.cancel()
        for peer in tuple(self._held):
            self._close(peer)

    def _listen(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            wait_ms = self._limits.wait_ms()
            if wait_ms:
                self._pause(wait_ms / 1000)
                return
            try:
                peer, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._refuse(error)
                return
            peer.setblocking(False)
            if not self._limits.enter(address[0]):
                self._close_refused(peer, address[0])
            elif self._secure is not None:
                self._secure(peer, address[0], partial(self._protocol, address[0]))
            else:
                task = self._loop.create_task(self._enter(peer, address[0]))
                self._entering[task] = peer
                task.add_done_callback(self._on_accept)

    def _close_refused(self, peer: socket.socket, host: str) -> None:
        """Close a refused connection, at once or after `held_ms`."""
        held_ms = self._limits.held_ms(host)
        if not held_ms or len(self._held) >= MOST_HELD:
            peer.close()
        else:
            self._held.add(peer)
            self._loop.call_later(held_ms / 1000, self._close, peer)

    def _close(self, peer: socket.socket) -> None:
        self._held.discard(peer)
        peer.close()

    async def _enter(self, peer: socket.socket, host: str) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._protocol(host), peer)
        except OSError as error:
            peer.close()
            self._limits.leave(host)
            log.info("the connection of %s was closed before it was accepted: %s", host, error, extra={"cause": "accept"})

    def _on_accept(self, task: asyncio.Task[None]) -> None:
        peer = self._entering.pop(task)
        if task.cancelled():
            peer.close()

    def _pause(self, for_s: float) -> None:
        """Accept no connection for `for_s` seconds."""
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(for_s, self._listen)

    def _refuse(self, error: OSError) -> None:
        """Log a failed accept, and close the next connection by means of the spare descriptor if file descriptors are short.

        In other cases, or without the spare descriptor, accept no connection for `RETRY_S` seconds.
        """
        sentence = "a connection could not be accepted: %s; allow more open files, or lower max.connections"
        log.warning(sentence, error.strerror, extra={"cause": "accept"})
        if error.errno in SHORT_OF and self._spare is not None:
            os.close(self._spare)
            with contextlib.suppress(OSError):
                self._listener.accept()[0].close()
            self._spare = _open_spare()
        else:
            self._pause(RETRY_S)
            self._spare = _open_spare() if self._spare is None else self._spare


def _open_spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
