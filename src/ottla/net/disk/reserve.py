"""Disk space that is reserved for a full disk, so that records can be deleted and the broker can shut down cleanly.

A file of zeros holds the space. On a full disk, a write that must succeed gets a part of the space. The reserve takes back unused
space at once. Writes of records get no space from the reserve, because they would soon use up all of it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os

log = logging.getLogger("ottla.net")

RESERVE = ".reserve"
LOAN_BYTES = 1 << 20
"""The number of bytes released at once. A small write needs less, a large one requests more than once."""

LARGEST_SHARE = 16
"""The reserve takes at most 1/LARGEST_SHARE of the file system."""

PLENTY = 256
"""The reserve is not filled while the free space exceeds PLENTY times its wanted size, because the disk then cannot fill soon."""

FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""The errors that mean a full disk or an exceeded disk quota of the user."""


class Reserve:
    """The disk space that is kept in reserve for a full disk, in the directory `root`. Use it on one thread only.

    `size` is the present size of the reserve, and `wanted` the size to which `refill` fills it, both in bytes.
    """

    def __init__(self, root: str) -> None:
        self.wanted = 0
        self._root = root
        self._path = os.path.join(root, RESERVE)
        self.size = _size(self._path)

    def keep(self, size_bytes: int) -> None:
        """Set the wanted size. On a small disk the wanted size is at most 1/LARGEST_SHARE of the disk."""
        with contextlib.suppress(OSError):
            room = os.statvfs(self._root)
            self.wanted = min(size_bytes, room.f_blocks * room.f_frsize // LARGEST_SHARE)
        if self.size > self.wanted:
            self._shrink(self.wanted)

    def refill(self, most: int = LOAN_BYTES) -> None:
        """Reserve up to `most` more bytes if they are free. Call this from time to time.

        Nothing is reserved while the free space is more than PLENTY times the wanted size.
        """
        missing = min(self.wanted - self.size, most)
        if missing <= 0 or self._free_bytes() > PLENTY * self.wanted:
            return
        while missing:
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError:
                return
            try:
                os.posix_fallocate(fd, self.size, missing)
                self.size += missing
                return
            except OSError:
                missing //= 2
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, self.size)  # the call may have allocated a part
            finally:
                os.close(fd)

    def lends(self, path: str, failure: OSError) -> bool:
        """Release reserved space after a failed write to `path`. Return whether the caller should retry the write.

        `path` is relative to the directory. Files in subdirectories get only the first half of the reserve. The other half is kept
        for the checkpoint files. Files elsewhere, with an absolute path, get nothing.
        """
        if failure.errno not in FULL or not self.size or path.startswith("/") or _is_of_records(path):
            return False
        least = self.wanted // 2 if "/" in path else 0
        if self.size <= least:
            return False
        log.warning("the disk is full: %s is written into the reserve", path, extra={"cause": "reserve"})
        before = self.size
        self._shrink(max(least, before - LOAN_BYTES))
        return self.size < before

    def make_room(self) -> None:
        """Release the whole reserve if less space than its size is left on the disk. Call this before a start and before a stop."""
        if self.size and self._free_bytes() < max(self.size, self.wanted):
            self._shrink(0)

    @property
    def is_disk_full(self) -> bool:
        """Return whether the disk is full and the reserve is used up."""
        return self._free_bytes() < LOAN_BYTES // 16

    def _free_bytes(self) -> int:
        try:
            room = os.statvfs(self._root)
        except OSError:
            return 0
        return room.f_bavail * room.f_frsize

    def _shrink(self, size: int) -> None:
        with contextlib.suppress(OSError):
            os.truncate(self._path, size)
        self.size = _size(self._path)


def is_full(failure: BaseException | None) -> bool:
    """Return whether a call failed for lack of disk space."""
    return isinstance(failure, OSError) and failure.errno in FULL


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_of_records(path: str) -> bool:
    """Return whether `path` is a segment of a partition (topic-0/00000000000000000000.log), or a file of its compaction."""
    directory, _, name = path.rpartition("/")
    return directory.rpartition("-")[2].isdecimal() and ".log" in name
