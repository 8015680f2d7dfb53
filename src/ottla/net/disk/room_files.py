"""The files of rooms: allocated, filled with zeros and opened for direct writes, on a thread of their own.

A room is filled in slices with pauses, so that syncs of other files do not wait for the disk. A file of another size is replaced
only when the new one is complete.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from contextlib import suppress

from ottla.net.disk.system_calls import System
from ottla.ports import StorageFailed

NEW = ".new"
"""The suffix of a room that is not completely filled with zeros yet."""

SLICE_BYTES = 1 << 18
"""The number of zeros, in bytes, that are written and synced at once. Each slice is followed by a pause as long as its write."""

FREE_SHARE = 8
"""A new room is made if FREE_SHARE times its size is free, so that it does not fill a disk that records need."""

LEAST_ALIGNMENT = 4096
"""The smallest alignment in bytes. Most disks have physical sectors of this size. To write less, a disk rewrites a whole sector,
and a power cut during that would endanger the sector's other contents, which were acknowledged before."""

MOST_ALIGNMENT = 1 << 16
"""The largest alignment in bytes that is tried. Without one that the file system accepts, writes are not direct."""

NOT_DIRECT = frozenset((errno.EINVAL, errno.EOPNOTSUPP))
"""The errors of a file system without direct writes, or with another alignment."""


class RoomFile:
    """The file of one room, of `size` bytes. `make` leaves `fd` open; the name of a new file then still ends with `NEW`.

    `path` is for system calls, and `real_path` for messages. `is_ending` is set when the disk is closed, and ends `make`.
    """

    def __init__(self, system: System, path: str, real_path: str, size: int, is_ending: threading.Event) -> None:
        self.fd = -1
        self.alignment = LEAST_ALIGNMENT
        self.is_direct = False
        self.is_new = False
        self._system = system
        self._path = path
        self.real_path = real_path
        self._size = size
        self._is_ending = is_ending

    def make(self) -> None:
        """Open the file, or make it with its zeros, and sync its contents. Raises OSError and `StorageFailed`."""
        self.is_new = not self._has_size()
        if self.is_new:
            self._allocate()
        else:
            self._remove_new()
        self._open_direct()
        if self.is_new:
            self._fill()
        self._system.fdatasync(self.fd)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self._system.close(fd)

    def abandon(self) -> None:
        """Close the file, and remove it if it is new."""
        self.close()
        if self.is_new:
            self._remove_new()

    def _remove_new(self) -> None:
        """Remove an incomplete new file, which a killed process may have left."""
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
            raise StorageFailed(self.real_path, f"less than {FREE_SHARE} times its {self._size:,} bytes are free")
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
                    raise StorageFailed(self.real_path, "the disk is closed before it is filled with zeros")
