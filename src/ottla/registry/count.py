"""How many commits a registry has had, kept beside its two directories: journals that end before that have lost some.

The number is written when its commit is on stable storage, and synced with the copy. So what a power cut leaves may be older, and
is never too high. Knows the disk port and lines; knows no journals.
"""

from __future__ import annotations

import logging

from ottla.ports import Disk, File, StorageFailed
from ottla.registry import lines

log = logging.getLogger("ottla.registry")

COUNT = "registry.commits"
DIGITS = 20

UNKNOWN = -1


def counted(disk: Disk) -> int:
    """The number of the last commit; `UNKNOWN` if there is no such file or it is damaged. Raises `StorageFailed`."""
    return _number(disk.read_file(COUNT)) if disk.exists(COUNT) else UNKNOWN


def is_damaged(disk: Disk) -> bool:
    """Whether the file is there and is not as it was written. Raises `StorageFailed`."""
    return disk.exists(COUNT) and counted(disk) == UNKNOWN


def forget(disk: Disk) -> None:
    """Have nothing known, on stable storage: before journals with fewer commits are put back. Raises `StorageFailed`."""
    if disk.exists(COUNT):
        disk.remove(COUNT)
        disk.sync_dir("")


class CommitCount:
    """The number of the last commit, in its file. One that can't be written stays older, which is true as well."""

    def __init__(self, disk: Disk) -> None:
        """Raises `StorageFailed`."""
        self._disk = disk
        self._known = counted(disk)
        if is_damaged(disk):
            log.warning("%s was damaged: it is written anew from what the journals have", COUNT)
        self.file: File | None = None if self._known == UNKNOWN else disk.open(COUNT)

    def says(self, commits: int) -> bool:
        return self._known == commits

    def note(self, commits: int) -> None:
        """So many commits are on stable storage."""
        try:
            if self.file is None:
                self._disk.write_file(COUNT, _content(commits))
                self.file = self._disk.open(COUNT)
            else:
                self.file.write(0, _content(commits))
            self._known = commits
        except StorageFailed as failure:
            log.warning("the number of the registry's commits could not be noted: %s", failure, extra={"cause": "commits"})

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def _content(commits: int) -> bytes:
    """32 bytes, whatever the number: a line as of a journal, in one sector."""
    return lines.write(f"{commits:0{DIGITS}d}", 0)[0]


def _number(data: bytes) -> int:
    """Raises nothing: what is not as it was written is `UNKNOWN`."""
    digits = data[lines.DIGITS + 2 : -2]
    number = int(digits) if digits.isdigit() and len(digits) == DIGITS else UNKNOWN
    return number if number != UNKNOWN and data == _content(number) else UNKNOWN
