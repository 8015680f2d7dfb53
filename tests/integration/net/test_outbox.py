"""What a connection sends: order and content survive any split between joined writes, sendfile and a peer that reads slowly."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.net.disk.disk import RealDisk
from ottla.net.server import outbox as module
from ottla.net.server.outbox import Outbox
from ottla.ports import FileSlice, Part


class Protocol(asyncio.Protocol):
    """What `ottla.net.server.connection` does for its outbox, and no more."""

    outbox: Outbox

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=0)
        self.outbox = Outbox(self.transport)

    def pause_writing(self) -> None:
        self.outbox.writable = False

    def resume_writing(self) -> None:
        self.outbox.writable = True
        self.outbox.flush()
        if not self.outbox.writable:
            return
        self.done.set()

    done: asyncio.Event


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    disk = RealDisk(str(tmp_path), lambda call: None)
    file = disk.open("data", create=True)
    file.append([bytes(range(256)) * 8192])
    yield file
    file.close()


def pieces(file: Any) -> list[Part]:
    return [
        b"head",
        FileSlice(file, 10, 100),
        memoryview(b"x" * 300_000),
        FileSlice(file, 3, 1_900_000),
        b"",
        b"tail",
        FileSlice(file, 0, module.JOIN_BYTES + 1),
        b"end",
    ]


@pytest.mark.parametrize("sendfile", [True, False])
def test_all_parts_arrive_whole_and_in_order_at_a_slow_reader(stored: Any, sendfile: bool) -> None:
    async def run() -> bytes:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(Protocol, sock=ours)
        protocol.done = asyncio.Event()
        if not sendfile:
            protocol.outbox._socket = None
        protocol.outbox.put(pieces(stored))
        protocol.outbox.flush()
        received = bytearray()
        expected = sum(len(part) for part in pieces(stored))
        while len(received) < expected:
            received += await loop.sock_recv(theirs, 50_000)
        transport.close()
        theirs.close()
        await asyncio.sleep(0)
        return bytes(received)

    expected = b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in pieces(stored))
    assert asyncio.run(run()) == expected


def test_a_peer_that_never_reads_fills_the_outbox_and_asyncio_holds_one_chunk_only(stored: Any) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        transport, protocol = await asyncio.get_running_loop().create_connection(Protocol, sock=ours)
        protocol.done = asyncio.Event()
        for _ in range(20):
            protocol.outbox.put([FileSlice(stored, 0, 2_000_000), b"y" * 100_000])
            protocol.outbox.flush()
        assert protocol.outbox.full
        assert transport.get_write_buffer_size() <= module.CHUNK_BYTES
        transport.abort()
        theirs.close()
        await asyncio.sleep(0)

    asyncio.run(run())


def test_a_fast_reader_is_sent_a_bounded_part_at_one_go(stored: Any) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        transport, protocol = await asyncio.get_running_loop().create_connection(Protocol, sock=ours)
        protocol.done = asyncio.Event()
        slices = [FileSlice(stored, 0, 100_000) for _ in range(4)]
        protocol.outbox.put(slices)
        for left in (3, 2):
            assert protocol.outbox.flush(100_000), "it would take more"
            assert sum(len(part) for part in protocol.outbox._parts) == left * 100_000
        transport.abort()
        theirs.close()
        await asyncio.sleep(0)

    asyncio.run(run())


def test_slices_that_nobody_reads_keep_the_next_request_from_being_begun(stored: Any) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        transport, protocol = await asyncio.get_running_loop().create_connection(Protocol, sock=ours)
        protocol.done = asyncio.Event()
        for _ in range(10):
            protocol.outbox.put([FileSlice(stored, 0, 2_000_000)])
            protocol.outbox.flush()
            if protocol.outbox.full:
                break
        assert len(protocol.outbox._parts) <= 3
        transport.abort()
        theirs.close()
        await asyncio.sleep(0)

    asyncio.run(run())


def test_a_frame_of_many_buffers_is_written_by_one_call_without_a_copy(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = memoryview(b"x" * 70_000)
    frame: list[Part] = [b"head", batch, b"between", FileSlice(stored, 10, 100), batch, b"tail"]
    written: list[list[Any]] = []
    writev = os.writev

    def noted(descriptor: int, buffers: list[Any]) -> int:
        written.append(list(buffers))
        return writev(descriptor, buffers)

    monkeypatch.setattr(os, "writev", noted)

    async def run() -> bytes:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(Protocol, sock=ours)
        protocol.outbox.put(frame)
        assert not protocol.outbox.flush(), "all is sent"
        received = bytearray()
        while len(received) < sum(map(len, frame)):
            received += await loop.sock_recv(theirs, 700_000)
        transport.abort()
        theirs.close()
        await asyncio.sleep(0)
        return bytes(received)

    assert asyncio.run(run()) == b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in frame)
    assert len(written) == 1
    assert written[0][1] is batch


def test_a_connection_that_the_peer_has_reset_ends_when_it_is_written_to(stored: Any) -> None:
    class Noted(Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            self.lost.set_result(exc)

        lost: asyncio.Future[Exception | None]

    async def run() -> Exception | None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(Noted, sock=ours)
        protocol.lost = loop.create_future()
        theirs.close()
        protocol.outbox.put(pieces(stored))
        protocol.outbox.flush()
        return await protocol.lost

    assert isinstance(asyncio.run(run()), ConnectionError | None)
