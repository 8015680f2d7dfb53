"""Whether the name of a log's newest segment is on stable storage. Knows the disk port and one directory.

The next segment may not be made before: a power cut that took the older name alone would leave a log that starts with the newer
one. It is seen to while the segment fills, so that no append has to wait for it.
"""

from __future__ import annotations

from ottla.ports import Disk, StorageFailed

ENOUGH_BYTES = 1 << 20
NEVER_BYTES = 1 << 63


class NewestName:
    """One for each segment that becomes the newest. Once it holds more than `due_bytes`, call `keep`."""

    __slots__ = ("_disk", "_path", "due_bytes", "is_stable")

    def __init__(self, disk: Disk, path: str, segment_bytes: int) -> None:
        self.due_bytes = min(ENOUGH_BYTES, segment_bytes // 2)
        self.is_stable = False
        self._disk = disk
        self._path = path

    def keep(self) -> None:
        """Have it made stable."""
        self.due_bytes = NEVER_BYTES
        self._disk.sync_soon([self._disk.directory(self._path)], self._synced)

    def _synced(self, failure: StorageFailed | None) -> None:
        self.is_stable = failure is None
