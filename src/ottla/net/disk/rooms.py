"""Rooms of the real disk: preallocated files that are written in whole blocks, past the page cache where the file system allows it.

A write with O_DIRECT and O_DSYNC into blocks that exist and were written before is one request to the disk: the file system has
nothing to allocate, to convert or to put into its own journal. Where O_DIRECT is refused, as on tmpfs, a write is followed by
fdatasync. A room is filled with zeros by a thread of its own, in slices with pauses, so that syncs of other files do not wait.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from ottla.log.name_places import parent
from ottla.net.disk.sync_workers import QueueWorker
from ottla.net.disk.system_calls import System, failure_of
from ottla.ports import Buffer, Disk, Done, Post, StorageFailed, SyncFailed

log = logging.getLogger("ottla.net")

NEW = ".new"
"""The suffix of a room that is not completely filled with zeros yet."""

SLICE_BYTES = 1 << 20
"""The number of zeros, in bytes, that are written at once. Each slice is followed by a pause as long as its write."""

FREE_SHARE = 8
"""A new room is made if FREE_SHARE times its size is free, so that it does not fill a disk that records need."""

LEAST_ALIGNMENT = 4096
"""The smallest alignment in bytes. Most disks have physical sectors of this size. To write less, a disk rewrites a whole sector,
and a power cut during that would endanger the sector's other contents, which were acknowledged before."""

MOST_ALIGNMENT = 1 << 16
NOT_DIRECT = frozenset((errno.EINVAL, errno.EOPNOTSUPP))
"""The errors of a file system without direct writes, or with another alignment."""


class RoomWorker(QueueWorker):
    """A thread that makes rooms, or that writes into them."""

    def __init__(self, name: str, post: Post) -> None:
        super().__init__(name, post)
        self.is_ending = threading.Event()

    def submit(self, call: Callable[[], object]) -> None:
        self._enqueue(call)

    def stop(self) -> None:
        """Finish all requested work, then end the thread. A room that is not ready is given up."""
        self.is_ending.set()
        super().stop()


class RealRoom:
    """A room of a `RealDisk`. Its buffer is a memory map, because direct writes need aligned memory."""

    def __init__(self, system: System, path: str, real_path: str, size: int, post: Post, writer: RoomWorker) -> None:
        self.path = path
        self.real_path = real_path
        self.size = size
        self.alignment = LEAST_ALIGNMENT
        self.is_direct = False
        self._system = system
        self._post = post
        self._writer = writer
        self._fd = -1
        self._is_ready = False
        self._is_closed = False
        self._failure: str | None = None
        self._is_writing = False
        self._buffer = mmap.mmap(-1, LEAST_ALIGNMENT)

    def write_soon(self, position: int, buffers: Sequence[Buffer], done: Done) -> None:
        assert self._is_ready, "a room is used once it is made"
        assert not self._is_closed, "a closed room is not written to"
        assert not self._is_writing, "one write at a time"
        assert position % self.alignment == 0, "a position is a multiple of the alignment"
        padded = self._fill(buffers)
        assert 0 <= position <= self.size - padded, "a write is within its room"
        self._is_writing = True
        self._writer.submit(partial(self._write, position, padded, done))

    def _fill(self, buffers: Sequence[Buffer]) -> int:
        """Copy the buffers into the room's own one, with zeros behind. Return the number of bytes to write."""
        size = sum(map(len, buffers))
        padded = size + -size % self.alignment
        if padded > len(self._buffer):
            self._buffer.close()
            self._buffer = mmap.mmap(-1, 1 << (padded - 1).bit_length())
        at = 0
        for buffer in buffers:
            self._buffer[at : at + len(buffer)] = buffer
            at += len(buffer)
        self._buffer[at:padded] = bytes(padded - at)
        return padded

    def _write(self, position: int, size: int, done: Done) -> None:
        if self._failure is None:
            try:
                self._write_whole(position, size)
            except OSError as failure:
                self._failure = failure.strerror or str(failure)
        outcome = None if self._failure is None else SyncFailed(self.real_path, self._failure)
        self._post(partial(self._finish, outcome, done))

    def _write_whole(self, position: int, size: int) -> None:
        with memoryview(self._buffer) as buffer:
            at = 0
            while at < size:
                with buffer[at:size] as rest:
                    written = self._system.pwrite(self._fd, rest, position + at)
                if written <= 0:
                    raise OSError(errno.EIO, "a write ended without an error and without effect")
                at += written
                if at < size:
                    at -= at % self.alignment  # the part that was cut off cannot begin anywhere else
        if not self.is_direct:
            self._system.fdatasync(self._fd)

    def _finish(self, outcome: StorageFailed | None, done: Done) -> None:
        self._is_writing = False
        done(outcome)

    def close(self) -> None:
        self._is_closed = True
        if self._is_writing:
            is_idle = threading.Event()
            self._writer.submit(is_idle.set)
            is_idle.wait()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._system.close(fd)

    def use(self, making: Making) -> None:
        """Use the handle of the finished file from now on."""
        self._fd, self.alignment, self.is_direct, self._is_ready = making.fd, making.alignment, making.is_direct, True
        if self._is_closed:
            self.close()


class Making:
    """The file of one room, opened or made on the thread for that. Afterwards `fd` is open, and new names are not durable yet."""

    def __init__(self, system: System, path: str, real_path: str, size: int, is_ending: threading.Event) -> None:
        self.fd = -1
        self.alignment = LEAST_ALIGNMENT
        self.is_direct = False
        self.is_new = False
        self._system = system
        self._path = path
        self._real_path = real_path
        self._size = size
        self._is_ending = is_ending

    def run(self) -> None:
        """Open the file, or make it with its zeros. Raises OSError and `StorageFailed`; call `abandon` then."""
        self.is_new = not self._has_size()
        if self.is_new:
            self._allocate()
        self._open_direct()
        if self.is_new:
            self._fill()
        self._system.fdatasync(self.fd)

    def abandon(self) -> None:
        """Close the file, and remove it if it is new."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self._system.close(fd)
        if self.is_new:
            with suppress(OSError):
                self._system.unlink(self._path + NEW)

    def _has_size(self) -> bool:
        try:
            return self._system.stat(self._path).st_size == self._size
        except FileNotFoundError:
            return False

    def _allocate(self) -> None:
        """Make the new file with its blocks, so that a full disk is noticed before it is filled."""
        found = self._system.statvfs(os.path.dirname(self._path))
        if found.f_bavail * found.f_frsize < FREE_SHARE * self._size:
            raise StorageFailed(self._real_path, f"less than {FREE_SHARE} times its {self._size:,} bytes are free on the disk")
        self.fd = self._system.open(self._path + NEW, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with suppress(AttributeError):  # a system without it
            try:
                os.posix_fallocate(self.fd, 0, self._size)
            except OSError as failure:
                if failure.errno not in NOT_DIRECT:
                    raise
        self._system.ftruncate(self.fd, self._size)

    def _open_direct(self) -> None:
        """Open the file for direct writes with the alignment that the file system accepts, else for writes with syncs."""
        path = self._path + NEW if self.is_new else self._path
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            direct = self._system.open(path, flags | os.O_DIRECT | os.O_DSYNC, 0o644)
        except (AttributeError, OSError) as failure:  # no O_DIRECT in this system, or not in this file system
            if isinstance(failure, OSError) and failure.errno not in NOT_DIRECT:
                raise
        else:
            before, self.fd = self.fd, direct
            if self._find_alignment():
                self.is_direct = True
                if before >= 0:
                    self._system.close(before)
                return
            self._system.close(direct)
            self.fd = before
        if self.fd < 0:
            self.fd = self._system.open(path, flags, 0o644)

    def _find_alignment(self) -> bool:
        """Find the smallest alignment with which the end of the file can be read and written again as it is."""
        alignment = LEAST_ALIGNMENT
        while alignment <= min(MOST_ALIGNMENT, self._size):
            with mmap.mmap(-1, alignment) as block:
                try:
                    self._system.preadv(self.fd, [block], self._size - alignment)
                    self._system.pwrite(self.fd, block, self._size - alignment)
                except OSError as failure:
                    if failure.errno not in NOT_DIRECT:
                        raise
                else:
                    self.alignment = alignment
                    return not self._size % alignment
            alignment *= 2
        return False

    def _fill(self) -> None:
        with mmap.mmap(-1, min(SLICE_BYTES, self._size)) as zeros, memoryview(zeros) as view:
            at = 0
            while at < self._size:
                began = time.perf_counter()
                with view[: self._size - at] as rest:
                    at += self._system.pwrite(self.fd, rest, at) // self.alignment * self.alignment
                if not self.is_direct:
                    self._system.fdatasync(self.fd)
                if self._is_ending.wait(time.perf_counter() - began):
                    raise StorageFailed(self._real_path, "the disk is closed before it is filled with zeros")


class Rooms:
    """The maker of a disk's rooms, with its two threads: one fills new rooms with zeros, the other writes into rooms."""

    def __init__(self, disk: Disk, system: System, post: Post) -> None:
        self._disk = disk
        self._system = system
        self._post = post
        self._maker = RoomWorker("ottla-rooms", post)
        self._writer = RoomWorker("ottla-room-writes", post)
        self._has_logged = False

    def make(self, path: str, real_path: str, full_path: str, size: int, done: Done) -> RealRoom:
        """Start to make a room.

        The real path is the path for messages, with the log directory, and the full path is the one for the system.
        """
        assert size % LEAST_ALIGNMENT == 0 < size, "the size of a room is a multiple of the alignment"
        disk = self._disk
        room = RealRoom(self._system, path, real_path, size, self._post, self._writer)
        making = Making(self._system, full_path, room.real_path, size, self._maker.is_ending)
        try:
            if not disk.exists(parent(path)):
                disk.make_dir(parent(path))
        except StorageFailed as failure:
            self._post(partial(done, failure.with_traceback(None)))
        else:
            self._maker.submit(partial(self._run, room, making, done))
        return room

    def stop(self) -> None:
        """Give up rooms that are not ready, finish all writes, and end the threads."""
        self._maker.stop()
        self._writer.stop()

    def _run(self, room: RealRoom, making: Making, done: Done) -> None:
        failure: StorageFailed | None = None
        try:
            making.run()
        except OSError as error:
            failure = failure_of(room.real_path, error)
        except StorageFailed as error:
            failure = error.with_traceback(None)
        self._post(partial(self._name, room, making, done, failure))

    def _name(self, room: RealRoom, making: Making, done: Done, failure: StorageFailed | None) -> None:
        """Give a new file its name, and make the name durable."""
        if failure is None:
            try:
                if making.is_new:
                    self._disk.rename(room.path + NEW, room.path, sync=False)
                self._disk.sync_soon([self._disk.directory(parent(room.path))], partial(self._use, room, making, done))
                return
            except StorageFailed as error:
                failure = error.with_traceback(None)
        self._use(room, making, done, failure)

    def _use(self, room: RealRoom, making: Making, done: Done, failure: StorageFailed | None) -> None:
        if failure is not None:
            making.abandon()
        else:
            room.use(making)
            self._log_fallback(making, room.real_path)
        done(failure)

    def _log_fallback(self, making: Making, path: str) -> None:
        if not making.is_direct and not self._has_logged:
            self._has_logged = True
            log.info("the file system of %s refuses direct writes: the journal is written with fdatasync instead", path)
