"""The count of a registry's commits, in a file beside its two directories. It reveals that both journals lost commits.

A journal that ends before this commit is incomplete. The count is written when its commit is on stable storage, and synced together
with the copy. After a power cut it can be too low, but never too high. This module uses the disk port and the format of journal
lines, and reads no journals.
"""

from __future__ import annotations

import logging

from ottla.ports import Disk, File, StorageFailed
from ottla.registry import lines

log = logging.getLogger("ottla.registry")

COUNT = "registry.commits"
DIGITS = 20

UNKNOWN = -1


def read_count(disk: Disk) -> int:
    """Return the number of the registry's last commit; `UNKNOWN` if the file of this number is missing or damaged.

    Raises `StorageFailed`.
    """
    return _number(disk.read_file(COUNT)) if disk.exists(COUNT) else UNKNOWN


def is_damaged(disk: Disk) -> bool:
    """Return whether the file with the number of commits exists but its contents are damaged. Raises `StorageFailed`."""
    return disk.exists(COUNT) and read_count(disk) == UNKNOWN


def forget(disk: Disk) -> None:
    """Remove the file with the number of commits, durably. Raises `StorageFailed`.

    Do this before journals with fewer commits are restored, because the file would make them invalid.
    """
    if disk.exists(COUNT):
        disk.remove(COUNT)
        disk.sync_dir("")


class CommitCount:
    """The file with the number of the last commit.

    After a failed write the file contains a lower number than it should, which is harmless.
    """

    def __init__(self, disk: Disk) -> None:
        """Open the file with the number of commits, if it exists and is not damaged. Raises `StorageFailed`."""
        self._disk = disk
        self._known = read_count(disk)
        if is_damaged(disk):
            log.warning("%s was damaged: it is rewritten from the journals", COUNT)
        self.file: File | None = None if self._known == UNKNOWN else disk.open(COUNT)

    def contains(self, commits: int) -> bool:
        return self._known == commits

    def note(self, commits: int) -> None:
        """Write the number of commits to the file, after all commits up to number `commits` are on stable storage.

        A failure is only logged.
        """
        try:
            if self.file is None:
                self._disk.write_file(COUNT, _content(commits))
                self.file = self._disk.open(COUNT)
            else:
                self.file.write(0, _content(commits))
            self._known = commits
        except StorageFailed as failure:
            log.warning("the count of the registry's commits could not be written: %s", failure, extra={"cause": "commits"})

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def _content(commits: int) -> bytes:
    """Return 32 bytes for any number. They form a line in the journal's format, and fit in one sector."""
    return lines.write(f"{commits:0{DIGITS}d}", 0)[0]


def _number(data: bytes) -> int:
    """Return the number in these bytes, or `UNKNOWN` if they are damaged."""
    digits = data[lines.DIGITS + 2 : -2]
    number = int(digits) if digits.isdigit() and len(digits) == DIGITS else UNKNOWN
    return number if number != UNKNOWN and data == _content(number) else UNKNOWN
