"""Rooms of the real disk on a running event loop: both ways to write, direct or with syncs."""

from __future__ import annotations

import asyncio
import errno
import logging
import mmap
import os
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.net import kernel_write
from ottla.net.disk.disk import RealDisk
from ottla.net.disk.room_files import NEW, RoomFile
from ottla.net.disk.room_writers import NativeWriter, PostedWriter
from ottla.net.disk.rooms import RealRoom
from ottla.net.startup.loop_calls import Posts
from ottla.ports import Done, StorageFailed, SyncFailed

BLOCK = 4096
SIZE = 16 * BLOCK

needs_kernel = pytest.mark.skipif(not kernel_write.COMPILED, reason="the kernel is not compiled")


class System:
    """The calls of `os`, of which some are replaced."""

    def __init__(self, **replaced: Callable[..., Any]) -> None:
        self._replaced = replaced

    def __getattr__(self, name: str) -> Any:
        return self._replaced.get(name) or getattr(os, name)


def open_buffered(path: str, flags: int, mode: int = 0o777) -> int:
    """As a file system does that knows the page cache only."""
    if flags & os.O_DIRECT:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return os.open(path, flags, mode)


async def outcome(start: Callable[[Done], object]) -> StorageFailed | None:
    done: asyncio.Future[StorageFailed | None] = asyncio.get_running_loop().create_future()
    start(done.set_result)
    return await asyncio.wait_for(done, 20)


async def made(disk: RealDisk, path: str = "journal/0", size: int = SIZE) -> RealRoom:
    rooms: list[RealRoom] = []
    assert await outcome(lambda done: rooms.append(disk.make_room(path, size, done))) is None
    return rooms[0]


def disk_of(path: Path, *, is_native: bool, system: Any = os) -> RealDisk:
    posts = Posts(asyncio.get_running_loop())
    return RealDisk(str(path), posts, system=system, watch=posts.watch if is_native else None)


both = pytest.mark.parametrize("is_native", [pytest.param(True, marks=needs_kernel), False], ids=["native", "posted"])


def test_a_room_of_more_bytes_than_there_is_memory_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        disk = disk_of(tmp_path, is_native=False)
        assert "times its" in str(await outcome(lambda done: disk.make_room("journal/0", 1 << 62, done)))
        disk.close()

    asyncio.run(run())


@both
@pytest.mark.parametrize("is_direct", [True, False])
def test_writes_of_each_size_arrive(tmp_path: Path, is_native: bool, is_direct: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        disk = disk_of(tmp_path, is_native=is_native, system=System() if is_direct else System(open=open_buffered))
        room, other = await made(disk), await made(disk, "journal/1", 4 << 20)
        assert isinstance(room._writer, NativeWriter if is_native else PostedWriter)
        assert is_direct or not room.is_direct
        large = os.urandom((2 << 20) + 1)
        assert await outcome(partial(other.write_soon, 0, [b"x", large])) is None
        assert await outcome(partial(other.write_soon, 3 << 20, [large[:5]])) is None
        for number in range(15):
            assert await outcome(partial(room.write_soon, number * BLOCK, [b"block", bytearray(b"%d" % number)])) is None
        disk.close()
        assert (tmp_path / "journal" / "1").read_bytes()[: len(large) + 1] == b"x" + large
        assert (tmp_path / "journal" / "1").read_bytes()[3 << 20 :] == large[:5].ljust(1 << 20, b"\0")
        blocks = [(b"block%d" % number).ljust(BLOCK, b"\0") for number in range(15)]
        assert (tmp_path / "journal" / "0").read_bytes() == b"".join(blocks) + bytes(BLOCK)

    with caplog.at_level(logging.INFO, "ottla.net"):
        asyncio.run(run())
    if not is_direct:
        assert [record.message for record in caplog.records] == [
            "the file system of journal/0 refuses direct writes: each write is followed by fdatasync instead"
        ]


def test_without_a_compiled_kernel_a_thread_of_python_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        disk = disk_of(tmp_path, is_native=True)
        room = await made(disk)
        assert isinstance(room._writer, PostedWriter)
        assert await outcome(partial(room.write_soon, 0, [b"x"])) is None
        disk.close()

    monkeypatch.setattr(kernel_write, "COMPILED", False)
    asyncio.run(run())
    assert (tmp_path / "journal" / "0").read_bytes() == b"x".ljust(SIZE, b"\0")


@both
def test_a_write_that_the_system_refuses_is_the_last_one(tmp_path: Path, is_native: bool) -> None:
    async def run() -> None:
        disk = disk_of(tmp_path, is_native=is_native)
        room = await made(disk)
        full = os.open("/dev/full", os.O_WRONLY)
        assert room._file is not None
        kept = os.dup(room._file.fd)
        os.dup2(full, room._file.fd)
        for _ in range(2):
            failure = await outcome(partial(room.write_soon, 0, [b"x"]))
            assert isinstance(failure, SyncFailed)
            assert str(failure) == "journal/0: No space left on device"
            os.dup2(kept, room._file.fd)
        os.close(full)
        os.close(kept)
        disk.close()

    asyncio.run(run())


@both
def test_closing_the_disk_ends_a_write_first_and_reports_it(tmp_path: Path, is_native: bool) -> None:
    async def run() -> None:
        before = set(threading.enumerate())
        disk = disk_of(tmp_path, is_native=is_native)
        room, done = await made(disk), asyncio.Event()
        room.write_soon(0, [b"last"], lambda failure: done.set())
        disk.close()
        assert not done.is_set()
        assert (tmp_path / "journal" / "0").read_bytes().startswith(b"last\0")
        await asyncio.wait_for(done.wait(), 20)
        assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("ottla-room")]

    asyncio.run(run())


def test_a_room_that_is_not_complete_when_the_disk_is_closed_leaves_nothing(tmp_path: Path) -> None:
    is_ending = threading.Event()
    is_ending.set()
    file = RoomFile(os, str(tmp_path / "0"), "0", 4 << 20, is_ending)
    with pytest.raises(StorageFailed, match="is closed before"):
        file.make()
    assert os.listdir(tmp_path) == ["0" + NEW]
    file.abandon()
    assert os.listdir(tmp_path) == []


def test_a_room_needs_more_space_than_it_takes(tmp_path: Path) -> None:
    def statvfs(path: str) -> os.statvfs_result:
        found = list(os.statvfs(path))
        found[4] = 7 * SIZE // os.statvfs(path).f_frsize
        return os.statvfs_result(found)

    file = RoomFile(System(statvfs=statvfs), str(tmp_path / "0"), "0", SIZE, threading.Event())
    with pytest.raises(StorageFailed, match="less than 8 times its 65,536 bytes are free"):
        file.make()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("accepted", "is_direct", "alignment"), [(8192, True, 8192), (1 << 20, False, 4096)])
def test_the_alignment_is_the_one_that_the_file_system_accepts(
    tmp_path: Path, accepted: int, is_direct: bool, alignment: int
) -> None:
    direct: set[int] = set()

    def open_(path: str, flags: int, mode: int = 0o777) -> int:
        fd = os.open(path, flags & ~os.O_DIRECT, mode)
        if flags & os.O_DIRECT:
            direct.add(fd)
        return fd

    def close(fd: int) -> None:
        direct.discard(fd)
        os.close(fd)

    def pwrite(fd: int, data: Any, position: int) -> int:
        if fd in direct and (len(data) % accepted or position % accepted):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return os.pwrite(fd, data, position)

    file = RoomFile(System(open=open_, close=close, pwrite=pwrite), str(tmp_path / "0"), "0", SIZE, threading.Event())
    file.make()
    assert (file.is_direct, file.alignment) == (is_direct, alignment)
    assert (tmp_path / ("0" + NEW)).read_bytes() == bytes(SIZE)
    file.close()


@pytest.mark.parametrize(
    ("written", "code", "calls"),
    [
        ([6000, 4096], 0, [(0, 8192), (4096, 4096)]),
        ([4096, 100], errno.EIO, [(0, 8192), (4096, 4096)]),
        ([0], errno.EIO, [(0, 8192)]),
    ],
)
def test_a_short_write_goes_on_at_the_beginning_of_a_block(
    tmp_path: Path, written: list[int], code: int, calls: list[tuple[int, int]]
) -> None:
    made, done = list[tuple[int, int]](), list[int]()

    def pwrite(fd: int, data: memoryview, position: int) -> int:
        made.append((position, len(data)))
        return written[len(made) - 1]

    file = RoomFile(os, str(tmp_path / "0"), "0", SIZE, threading.Event())
    file.make()
    writer = PostedWriter(file, System(pwrite=pwrite), mmap.mmap(-1, SIZE), done.append, lambda call: call())
    writer.write(0, 8192)
    writer.close()
    assert (made, done) == (calls, [code])
    file.close()


SHORT_WRITES = """
import mmap, os, resource, signal, sys
from array import array
from ottla.net.kernel_write import serve_writes
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
wakes, wake = os.pipe()
answers, answer = os.pipe()
resource.setrlimit(resource.RLIMIT_FSIZE, (6144, 6144))
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
buffer, request = mmap.mmap(-1, 8192), array("q", (0, 8192, 0))
buffer[:] = bytes(range(256)) * 32
os.write(wake, b"w\\0")
serve_writes(wakes, answer, fd, int(sys.argv[2]), False, buffer, request)
print(len(os.read(answers, 9)), os.strerror(request[2]))
"""


@needs_kernel
@pytest.mark.parametrize(("alignment", "failure"), [(4096, "Input/output error"), (512, "File too large")])
def test_a_native_write_that_gets_no_further_ends(tmp_path: Path, alignment: int, failure: str) -> None:
    """A limit of the file's size cuts the write off within a block, or at the end of one."""
    command = [sys.executable, "-c", SHORT_WRITES, str(tmp_path / "file"), str(alignment)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == f"1 {failure}"
    assert (tmp_path / "file").read_bytes() == (bytes(range(256)) * 32)[:6144]


@needs_kernel
def test_a_native_thread_writes_while_python_is_busy(tmp_path: Path) -> None:
    """It needs nothing of the interpreter: the write has ended although no other thread came to its turn."""
    file = RoomFile(os, str(tmp_path / "0"), "0", SIZE, threading.Event())
    file.make()
    buffer, request = mmap.mmap(-1, SIZE), array("q", (BLOCK, BLOCK, -1))
    buffer[:5] = b"block"
    wakes, wake = os.pipe()
    answers, answer = os.pipe()
    arguments = (wakes, answer, file.fd, BLOCK, file.is_direct, buffer, request)
    thread = threading.Thread(target=kernel_write.serve_writes, args=arguments)
    thread.start()
    os.write(wake, b"w")
    os.read(answers, 1)  # from here on, the thread is in its loop
    request[2] = -1
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        os.write(wake, b"w")
        while request[2] < 0:
            pass
    finally:
        sys.setswitchinterval(before)
        os.write(wake, b"\0")
        thread.join()
    assert (request[2], (tmp_path / ("0" + NEW)).read_bytes()[BLOCK : BLOCK + 5]) == (0, b"block")
    for handle in (wakes, wake, answers, answer):
        os.close(handle)
    file.close()
