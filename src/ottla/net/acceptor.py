"""Takes in the connections of one listening socket, a few each turn of the loop. Knows sockets, nothing of what is said on them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

log = logging.getLogger("ottla.net")

WAITING = 512
"""Connections that the system keeps until they are taken in."""

AT_ONCE = 8
"""Connections taken in during one turn: others are to be served meanwhile."""

RETRY_S = 0.1
MOST_HELD = 256
"""Connections that are kept waiting at a time before they are closed; each takes a file."""

SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Limits(Protocol):
    """Who may come in."""

    def enter(self, host: str) -> bool:
        """Whether one more connection of this address is taken in; it counts from now on."""

    def leave(self, host: str) -> None:
        """One connection of this address is gone."""

    def wait_ms(self) -> int:
        """How long nobody is to be taken in; 0 if anybody is."""

    def held_ms(self, host: str) -> int:
        """How long a connection of this address that was not taken in is kept waiting before it is closed."""


def listening(family: int, address: tuple[object, ...]) -> socket.socket:
    """A socket that listens at this address. Raises OSError."""
    # With the protocol named, or asyncio does not set TCP_NODELAY: replies would wait for acknowledgements.
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
"""What makes a connection of an address secure, before it is given a protocol."""


class Acceptor(Generic[P]):
    """Makes a protocol of each connection, given its address. Whoever is not taken in is closed at once: nobody waits in vain.

    A spare descriptor is kept to do so even where the process may open no more files.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        protocol: Callable[[str], P],
        limits: Limits,
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
        """Take in nobody any more."""
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
            self._let_go(peer)

    def _listen(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            wait_ms = self._limits.wait_ms()
            if wait_ms:
                self._rest(wait_ms / 1000)
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
                self._turn_away(peer, address[0])
            elif self._secure is not None:
                self._secure(peer, address[0], partial(self._protocol, address[0]))
            else:
                task = self._loop.create_task(self._enter(peer, address[0]))
                self._entering[task] = peer
                task.add_done_callback(self._entered)

    def _turn_away(self, peer: socket.socket, host: str) -> None:
        """Close a connection, at once or after a while."""
        held_ms = self._limits.held_ms(host)
        if not held_ms or len(self._held) >= MOST_HELD:
            peer.close()
        else:
            self._held.add(peer)
            self._loop.call_later(held_ms / 1000, self._let_go, peer)

    def _let_go(self, peer: socket.socket) -> None:
        self._held.discard(peer)
        peer.close()

    async def _enter(self, peer: socket.socket, host: str) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._protocol(host), peer)
        except OSError as error:
            peer.close()
            self._limits.leave(host)
            log.info("a connection of %s was gone before it was taken in: %s", host, error, extra={"cause": "accept"})

    def _entered(self, task: asyncio.Task[None]) -> None:
        peer = self._entering.pop(task)
        if task.cancelled():
            peer.close()

    def _rest(self, for_s: float) -> None:
        """Take in nobody for a while."""
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(for_s, self._listen)

    def _refuse(self, error: OSError) -> None:
        """Close who comes next, if the system is only short of something; otherwise, and without a spare, rest for a moment."""
        sentence = "a connection could not be taken: %s; allow more open files, or fewer max.connections"
        log.warning(sentence, error.strerror, extra={"cause": "accept"})
        if error.errno in SHORT_OF and self._spare is not None:
            os.close(self._spare)
            with contextlib.suppress(OSError):
                self._listener.accept()[0].close()
            self._spare = _open_spare()
        else:
            self._rest(RETRY_S)
            self._spare = _open_spare() if self._spare is None else self._spare


def _open_spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
