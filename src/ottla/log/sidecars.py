"""The port of sidecars: files beside a log's segments that follow from its batches, and whose contents the log does not know.

A log calls the hooks of its `Sidecars` on each sync, truncation, compaction, deletion of segments and close. `SidecarFormat` finds,
recovers, opens, checks and renews one kind of them. A log that is opened without a format leaves files with unknown names alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from ottla.log.reads import ReadableLog
from ottla.ports import Disk, File


class Sidecars(Protocol):
    """The sidecars of one open log."""

    def dirty_files(self) -> list[File]:
        """Return the files to sync together with the log's own; files with failed writes are left out."""
        ...

    def mark_synced(self) -> None:
        """Record that the files that `dirty_files` returned last were synced, and the log's with them."""
        ...

    def compacted(self, until_offset: int) -> None:
        """Prepare for the compaction of batches before an offset, which are replaced next. Raises `StorageFailed`."""
        ...

    def truncated(self) -> None:
        """Adjust to the log's new end. Raises `StorageFailed`: the truncation is then repeated later."""
        ...

    def give_up(self, offset: int) -> None:
        """Invalidate everything: the log begins anew at `offset`. Raises `StorageFailed`."""
        ...

    def drop_before(self, offset: int) -> None:
        """Remove sidecars of segments that were deleted, all before `offset`. Failures of the disk are logged."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


class SidecarFault(NamedTuple):
    """A fault of a file, at a byte or -1. `is_torn`: the end was never synced, and the next start cuts it off."""

    path: str
    position: int
    sentence: str
    is_torn: bool = False


class SidecarFormat(Protocol):
    """One kind of sidecar. Each has a name by its base offset. `names` are all names of the partition's directory."""

    @property
    def unserved(self) -> str:
        """Return the sentence about the clients that damaged sidecars do not serve."""
        ...

    def bases(self, names: Iterable[str]) -> list[int]:
        """Return the base offsets of the sidecars among the names."""
        ...

    def leftovers(self, names: Iterable[str]) -> list[str]:
        """Return the names of files that belong to no sidecar any more: the start removes them."""
        ...

    def recover(self, disk: Disk, path: str, bases: Sequence[int], log_end_offset: int) -> list[int]:
        """Cut off, after a crash, what describes lost batches. Return the base offsets that remain. Raises `StorageFailed`."""
        ...

    def open(self, disk: Disk, path: str, readable: ReadableLog, bases: Sequence[int], *, is_whole: bool) -> Sidecars:
        """Open the sidecars with these base offsets. `is_whole`: the last process was stopped in order."""
        ...

    def check(self, disk: Disk, path: str, names: Sequence[str]) -> Iterator[SidecarFault]:
        """Compare the sidecars of a log at rest with its batches, and yield the faults."""
        ...

    def renew(self, disk: Disk, path: str, names: Sequence[str]) -> str:
        """Replace unusable sidecars by new ones; return a sentence about it. Raises `StorageFailed`."""
        ...


class NoSidecars:
    """The hooks of a log without sidecars: nothing has to be done."""

    __slots__ = ()

    def dirty_files(self) -> list[File]:
        return []

    def mark_synced(self) -> None:
        pass

    def compacted(self, until_offset: int) -> None:
        pass

    def truncated(self) -> None:
        pass

    def give_up(self, offset: int) -> None:
        pass

    def drop_before(self, offset: int) -> None:
        pass

    def close(self) -> None:
        pass


NO_SIDECARS: Final = NoSidecars()
