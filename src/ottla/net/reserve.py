"""Room on the disk that is kept for when there is no other: a full disk can be emptied then, and a broker stopped in order.

A file of zeros holds the room. Whoever must write though the disk is full is lent a part of it, and what was not used is taken back
at once. Records never get any, or they would fill it like the rest. Knows one directory; knows nothing of what is written.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os

log = logging.getLogger("ottla.net")

RESERVE = ".reserve"
LOAN_BYTES = 1 << 20
"""Lent at once: what is small comes with some to spare, and what is large asks again."""

LARGEST_SHARE = 16
"""No more than one part in so many of the whole disk is kept."""

PLENTY = 256
"""With so many times as much left, the disk will not be full before somebody looks again: nothing is taken yet."""

FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""A disk without room, and a user who may not have more of it."""


class Reserve:
    """The room kept in the directory `root`: `size` bytes now, `wanted` once `take` has found them. For one thread."""

    def __init__(self, root: str) -> None:
        self.wanted = 0
        self._root = root
        self._path = os.path.join(root, RESERVE)
        self.size = _size(self._path)

    def keep(self, size_bytes: int) -> None:
        """Have so much kept, or less on a small disk."""
        with contextlib.suppress(OSError):
            room = os.statvfs(self._root)
            self.wanted = min(size_bytes, room.f_blocks * room.f_frsize // LARGEST_SHARE)
        if self.size > self.wanted:
            self._shrink(self.wanted)

    def take(self, most: int = LOAN_BYTES) -> None:
        """Take up to `most` bytes more, if they are there and the disk is not all but empty. To be called now and then."""
        missing = min(self.wanted - self.size, most)
        if missing <= 0 or self._left() > PLENTY * self.wanted:
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
                    os.ftruncate(fd, self.size)  # a part of it may have been allocated
            finally:
                os.close(fd)

    def lends(self, path: str, failure: OSError) -> bool:
        """Whether there is more room now for writing `path`, relative to the directory, which has just failed: try again.

        What is in a directory gets the first half only: something must be left for the checkpoints, whatever others write.
        """
        if failure.errno not in FULL or not self.size or _is_of_records(path):
            return False
        least = self.wanted // 2 if "/" in path else 0
        if self.size <= least:
            return False
        log.warning("the disk is full: %s is written into the reserve", path, extra={"cause": "reserve"})
        before = self.size
        self._shrink(max(least, before - LOAN_BYTES))
        return self.size < before

    def make_room(self) -> None:
        """Give all of it up if the disk has less than that to spare: before a start and before a stop."""
        if self.size and self._left() < max(self.size, self.wanted):
            self._shrink(0)

    @property
    def is_disk_full(self) -> bool:
        """Whether next to nothing can be written, with nothing left to give up."""
        return self._left() < LOAN_BYTES // 16

    def _left(self) -> int:
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
    """Whether a call was refused because there is no room."""
    return isinstance(failure, OSError) and failure.errno in FULL


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_of_records(path: str) -> bool:
    """Whether it is a segment of a partition, such as topic-0/00000000000000000000.log, or what compaction makes of one."""
    directory, _, name = path.rpartition("/")
    return directory.rpartition("-")[2].isdecimal() and ".log" in name
