"""Forwarding ports between brokers, whose traffic can be cut. All ports are served by one thread.

The module uses TCP and, of Kafka, only the start of a request: the client id of a broker's request contains the broker's id ("1",
"broker-1-fetcher-0"). While traffic is cut, no bytes arrive and no connection is refused, as when packets are lost. Bytes that are
sent during a cut arrive when the cut ends.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, Self

from ottla.net.client.background import BackgroundLoop

LOCALHOST: Final = "127.0.0.1"
REGISTRY: Final = 0
"""The registry's id among the broker ids."""
UNKNOWN: Final = -1
"""The source of a connection that is not from a broker, but from a client."""

_HEAD: Final = struct.Struct(">ihhih")
_SPEAKERS: Final = re.compile(r"(\d+)|broker-(\d+)-.*|AddPartitionsManager-client-(\d+)", re.ASCII)
_CHUNK_BYTES: Final = 1 << 16
_MOST_HEAD_BYTES: Final = 512


def speaker(begin: bytes) -> int | None:
    """Return the id of the broker that sent these first bytes of a connection, or `UNKNOWN` for a client.

    Return None if more bytes are needed.
    """
    if len(begin) < _HEAD.size:
        return None
    length = _HEAD.unpack_from(begin)[-1]
    end = _HEAD.size + length
    if not 0 < length <= _MOST_HEAD_BYTES:
        return UNKNOWN
    if len(begin) < end:
        return None
    found = _SPEAKERS.fullmatch(begin[_HEAD.size : end].decode(errors="replace"))
    return int(next(number for number in found.groups() if number)) if found else UNKNOWN


class Ways(Protocol):
    """The forwarding ports of a cluster: one for each pair of brokers, and one to the registry for each broker."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def host(self, node_id: int) -> str:
        """Return the host on which broker `node_id` must listen.

        For `REGISTRY`, return the host at which brokers reach the registry.
        """

    def prepare(self, node_id: int) -> Callable[[], None] | None:
        """Return a function that a broker's process must call before any other work, or None."""

    def lead(self, target: int, host: str, port: int, *, source: int | None = None) -> int:
        """Return a port that forwards to `host`:`port`, the address of broker `target`.

        Only broker `source` connects to the port; None means any broker.
        """

    def cut(self, source: int, target: int) -> None:
        """Stop all traffic from `source` to `target`. Traffic in the other direction continues."""

    def mend(self, source: int, target: int) -> None:
        """Restore the traffic from `source` to `target`."""


class Wiring:
    """All forwarding ports of a cluster, on this host.

    A context manager: entering starts the thread, leaving closes every connection.
    """

    def __init__(self) -> None:
        self._background: BackgroundLoop
        self._servers: list[asyncio.Server] = []
        self._open: dict[tuple[int, int], asyncio.Event] = {}

    def __enter__(self) -> Self:
        self._background = BackgroundLoop("ottla-wiring")
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            self._background.call(server.close)
        self._background.stop()

    def host(self, node_id: int) -> str:
        """Return the loopback address, for every broker."""
        return LOCALHOST

    def prepare(self, node_id: int) -> None:
        """Return None, because a process has nothing to prepare."""

    def lead(self, target: int, host: str, port: int, *, source: int | None = None) -> int:
        """Open and return a port that forwards to `host`:`port`, the address of broker `target` or of the registry.

        `source` is the broker that connects to the port. Without `source`, the client id of a connection's first request names the
        broker.
        """
        return self._background.run(self._listen(target, host, port, source))

    def cut(self, source: int, target: int) -> None:
        """Stop all traffic from `source` to `target`. Traffic in the other direction continues."""
        self._background.do(self._way((source, target)).clear)

    def mend(self, source: int, target: int) -> None:
        """Restore the traffic from `source` to `target`."""
        self._background.do(self._way((source, target)).set)

    def _way(self, direction: tuple[int, int]) -> asyncio.Event:
        if direction not in self._open:
            self._open[direction] = asyncio.Event()
            self._open[direction].set()
        return self._open[direction]

    async def _listen(self, target: int, host: str, port: int, source: int | None) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.CancelledError):
                await self._join(reader, writer, target, host, port, source)
            writer.close()

        server = await asyncio.start_server(accept, LOCALHOST, 0)
        self._servers.append(server)
        opened: int = server.sockets[0].getsockname()[1]
        return opened

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int, host: str, port: int, source: int | None
    ) -> None:
        """Forward the bytes of both sides until one side ends its connection."""
        begin = b""
        while source is None:
            begin += (chunk := await reader.read(_CHUNK_BYTES))
            source = speaker(begin) if chunk else UNKNOWN
        await self._way((source, target)).wait()
        there, back = await asyncio.open_connection(host, port)
        back.write(begin)
        sides = [
            asyncio.ensure_future(self._pass(reader, back, (source, target))),
            asyncio.ensure_future(self._pass(there, writer, (target, source))),
        ]
        try:
            await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)
            back.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: tuple[int, int]) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._way(direction).wait()
            writer.write(data)
            await writer.drain()
