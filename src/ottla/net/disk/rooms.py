"""Rooms of the real disk: preallocated files that are written in whole blocks, past the page cache where the file system allows it.

A write with O_DIRECT and O_DSYNC into blocks that exist and were written before is one request to the disk: the file system has
nothing to allocate, to convert or to put into its own journal. Where O_DIRECT is refused, as on tmpfs, a write is followed by
fdatasync. Nothing here depends on logs or on the contents of rooms.
"""

from __future__ import annotations

import logging
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial

from ottla.log.name_places import parent
from ottla.net.disk.room_files import LEAST_ALIGNMENT, NEW, RoomFile
from ottla.net.disk.room_writers import RoomWriter, Watch, open_writer
from ottla.net.disk.sync_workers import QueueWorker
from ottla.net.disk.system_calls import System, failure_of
from ottla.ports import Buffer, Disk, Done, Post, StorageFailed, SyncFailed

log = logging.getLogger("ottla.net")

KEPT_BYTES = 1 << 20
"""The number of bytes of a room's buffer that stay in memory between writes. A larger write releases the rest."""


class RealRoom:
    """A room of a `RealDisk`. Its buffer is a memory map, because direct writes need aligned memory."""

    _buffer: mmap.mmap

    def __init__(self, path: str, real_path: str, size: int) -> None:
        self.path = path
        self.size = size
        self.alignment = LEAST_ALIGNMENT
        self.is_direct = False
        self._real_path = real_path
        self._padded = 0
        self._done: Done | None = None
        self._failure: str | None = None
        self._file: RoomFile | None = None
        self._writer: RoomWriter | None = None
        self.is_closed = False

    def write_soon(self, position: int, buffers: Sequence[Buffer], done: Done) -> None:
        size = sum(map(len, buffers))
        padded = size + -size % self.alignment
        assert self._writer is not None, "a room is used once it is made, and not after it was closed"
        assert self._done is None, "one write at a time"
        assert position % self.alignment == 0, "a position is a multiple of the alignment"
        assert 0 <= position <= self.size - padded, "a write is within its room"
        at = 0
        for buffer in buffers:
            self._buffer[at : at + len(buffer)] = buffer
            at += len(buffer)
        self._buffer[at:padded] = bytes(padded - at)
        self._done, self._padded = done, padded
        self._writer.write(position, padded if self._failure is None else 0)

    def _finish(self, code: int) -> None:
        done, self._done = self._done, None
        assert done is not None, "one callback ends one write"
        if self._padded > KEPT_BYTES:
            self._buffer.madvise(mmap.MADV_DONTNEED, KEPT_BYTES)
        if code and self._failure is None:
            self._failure = os.strerror(code)
        done(None if self._failure is None else SyncFailed(self._real_path, self._failure))

    def close(self) -> None:
        self.is_closed = True
        writer, self._writer = self._writer, None
        file, self._file = self._file, None
        if writer is not None:
            writer.close()
        if file is not None:
            file.close()

    def use(self, file: RoomFile, system: System, post: Post, watch: Watch | None) -> None:
        """Use the finished file from now on. Raises OSError if there are no handles for the writer, or no memory for the buffer."""
        self._buffer = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._writer = open_writer(file, system, self._buffer, self._finish, post, watch)
        self._file, self.alignment, self.is_direct = file, file.alignment, file.is_direct


class RoomMaker(QueueWorker):
    """The thread that makes the files of rooms."""

    def __init__(self, post: Post) -> None:
        super().__init__("ottla-rooms", post)
        self.is_ending = threading.Event()

    def submit(self, call: Callable[[], object]) -> None:
        self._enqueue(call)

    def stop(self) -> None:
        """Stop the thread. Files that are not complete are removed."""
        self.is_ending.set()
        super().stop()


class Rooms:
    """The rooms of one disk. `watch` lets the broker's thread wait for the end of writes."""

    def __init__(self, disk: Disk, system: System, post: Post, watch: Watch | None) -> None:
        self._disk = disk
        self._system = system
        self._post = post
        self._watch = watch
        self._maker = RoomMaker(post)
        self._rooms: list[RealRoom] = []
        self._has_logged = False

    def make(self, path: str, real_path: str, full_path: str, size: int, done: Done) -> RealRoom:
        """Start to make a room of `size` bytes, and return it. `done` is called when it is usable, or with the failure.

        `real_path` is the path for messages, with the log directory, and `full_path` the one for system calls.
        """
        assert size % LEAST_ALIGNMENT == 0 < size, "the size of a room is a multiple of the alignment"
        room = RealRoom(path, real_path, size)
        self._rooms = [*(each for each in self._rooms if not each.is_closed), room]
        file = RoomFile(self._system, full_path, real_path, size, self._maker.is_ending)
        try:
            if not self._disk.exists(parent(path)):
                self._disk.make_dir(parent(path))
        except StorageFailed as failure:
            self._post(partial(self._use, room, file, done, failure.with_traceback(None)))
        else:
            self._maker.submit(partial(self._make, room, file, done))
        return room

    def close(self) -> None:
        """Finish all writes and stop the threads. Rooms that are not ready are removed."""
        self._maker.stop()
        for room in self._rooms:
            room.close()

    def _make(self, room: RealRoom, file: RoomFile, done: Done) -> None:
        failure: StorageFailed | None = None
        try:
            file.make()
        except OSError as error:
            failure = failure_of(file.real_path, error)
        except StorageFailed as error:
            failure = error.with_traceback(None)
        self._post(partial(self._name, room, file, done, failure))

    def _name(self, room: RealRoom, file: RoomFile, done: Done, failure: StorageFailed | None) -> None:
        """Give a new file its name, and make the name durable."""
        if failure is None and not room.is_closed:
            try:
                if file.is_new:
                    self._disk.rename(room.path + NEW, room.path, sync=False)
                    file.is_new = False  # from now on, it is not removed again
                self._disk.sync_soon([self._disk.directory(parent(room.path))], partial(self._use, room, file, done))
                return
            except StorageFailed as error:
                failure = error.with_traceback(None)
        self._use(room, file, done, failure)

    def _use(self, room: RealRoom, file: RoomFile, done: Done, failure: StorageFailed | None) -> None:
        if failure is None and room.is_closed:
            failure = StorageFailed(file.real_path, "the room was closed before it was ready")
        if failure is None:
            try:
                room.use(file, self._system, self._post, self._watch)
                self._log_fallback(file)
            except OSError as error:
                failure = failure_of(file.real_path, error)
        if failure is not None:
            file.abandon()
            room.close()
        done(failure)

    def _log_fallback(self, file: RoomFile) -> None:
        if not file.is_direct and not self._has_logged:
            self._has_logged = True
            log.info("the file system of %s refuses direct writes: each write is followed by fdatasync instead", file.real_path)
