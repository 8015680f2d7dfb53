"""Disk space reserved for a full disk: it allows the deletion of records and an orderly stop.

A file of zeros holds the space. A write that must succeed on a full disk gets a part of it; unused space is taken back at once.
Records never get any: they would fill it like the rest. Written data is unknown here.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os

log = logging.getLogger("ottla.net")

RESERVE = ".reserve"
LOAN_BYTES = 1 << 20
"""The bytes released at once: small writes have some to spare, and large ones request more."""

LARGEST_SHARE = 16
"""The reserve is at most 1/LARGEST_SHARE of the whole disk."""

PLENTY = 256
"""With free space of PLENTY reserves, the disk does not fill before the next check, so the reserve is not filled yet."""

FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""The errors of a full disk, and of a user's exceeded quota."""


class Reserve:
    """The reserve in the directory `root`: `size` bytes now, `wanted` once `take` has found them. For one thread."""

    def __init__(self, root: str) -> None:
        self.wanted = 0
        self._root = root
        self._path = os.path.join(root, RESERVE)
        self.size = _size(self._path)

    def keep(self, size_bytes: int) -> None:
        """Set the wanted size, less on a small disk."""
        with contextlib.suppress(OSError):
            room = os.statvfs(self._root)
            self.wanted = min(size_bytes, room.f_blocks * room.f_frsize // LARGEST_SHARE)
        if self.size > self.wanted:
            self._shrink(self.wanted)

    def take(self, most: int = LOAN_BYTES) -> None:
        """Reserve up to `most` more bytes, if they are free and the disk is not nearly empty. Call this now and then."""
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
                    os.ftruncate(fd, self.size)  # the call may have allocated a part
            finally:
                os.close(fd)

    def lends(self, path: str, failure: OSError) -> bool:
        """Release space after a failed write to `path`, relative to the directory; return whether to retry.

        Files in subdirectories get only the first half: the rest is kept for the checkpoints.
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
        """Release the whole reserve if less than its size is free: before a start and before a stop."""
        if self.size and self._left() < max(self.size, self.wanted):
            self._shrink(0)

    @property
    def is_disk_full(self) -> bool:
        """Return whether next to nothing can be written, with no reserve left."""
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
    """Return whether a call failed for lack of disk space."""
    return isinstance(failure, OSError) and failure.errno in FULL


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_of_records(path: str) -> bool:
    """Return whether `path` is a segment of a partition, such as topic-0/00000000000000000000.log, or a file of its compaction."""
    directory, _, name = path.rpartition("/")
    return directory.rpartition("-")[2].isdecimal() and ".log" in name
