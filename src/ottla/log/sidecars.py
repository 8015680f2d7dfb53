"""The port of sidecars: files beside a log's segments that are derived from its batches by another package.

A log calls the hooks of its `Sidecars` on each sync, truncation, compaction, deletion of segments and close. `SidecarFormat` finds,
recovers, opens, checks and renews one kind of them. A log that is opened without a format leaves files with unknown names alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from ottla.log.reads import ReadableLog
from ottla.ports import Disk, File


class Sidecars(Protocol):
    """The interface of a log's sidecars: files beside the segments with data derived from the batches."""

    def dirty_files(self) -> list[File]:
        """Return the files to sync together with the log's own; files with failed writes are left out."""
        ...

    def mark_synced(self) -> None:
        """Record a sync of the files that the last call of `dirty_files` returned, together with the log's files."""
        ...

    def on_compaction(self, until_offset: int) -> None:
        """Prepare for a compaction: the log next replaces batches before `until_offset`. Raises `StorageFailed`."""
        ...

    def on_truncation(self) -> None:
        """Adjust the sidecars to the log's new end after a truncation.

        Raises `StorageFailed`, and the log then repeats the call later.
        """
        ...

    def invalidate(self, offset: int) -> None:
        """Invalidate the contents of all sidecars, because the log was emptied and begins again at `offset`.

        Raises `StorageFailed`.
        """
        ...

    def drop_before(self, offset: int) -> None:
        """Remove sidecars of segments that were deleted, all before `offset`. Failures of the disk are logged."""
        ...

    def close(self) -> None: ...


class SidecarFault(NamedTuple):
    """A fault in a sidecar's file, with its byte position or -1.

    `is_torn`: the bad end was never synced, and the next start cuts it off.
    """

    path: str
    position: int
    sentence: str
    is_torn: bool = False


class SidecarFormat(Protocol):
    """A format of sidecars. Each file is named by its base offset. `names` are all names in the partition's directory."""

    @property
    def unserved(self) -> str:
        """Return the message that says which clients the broker cannot serve while sidecars are damaged."""
        ...

    def bases(self, names: Iterable[str]) -> list[int]:
        """Return the base offsets of the sidecars among the names."""
        ...

    def leftovers(self, names: Iterable[str]) -> list[str]:
        """Return the names of the format's files that belong to no sidecar. A start removes these files."""
        ...

    def recover(self, disk: Disk, path: str, bases: Sequence[int], log_end_offset: int) -> list[int]:
        """Cut off the parts that describe batches lost in a crash. Return the base offsets of the remaining sidecars.

        Raises `StorageFailed`.
        """
        ...

    def open(self, disk: Disk, path: str, readable: ReadableLog, bases: Sequence[int], *, is_whole: bool) -> Sidecars:
        """Open the sidecars with these base offsets. `is_whole`: the last shutdown was clean, so that no sidecar can be torn."""
        ...

    def check(self, disk: Disk, path: str, names: Sequence[str]) -> Iterator[SidecarFault]:
        """Compare the sidecars of a log at rest with its batches, and yield the faults."""
        ...

    def renew(self, disk: Disk, path: str, names: Sequence[str]) -> str:
        """Replace unusable sidecars by new ones. Return a message that says what was done. Raises `StorageFailed`."""
        ...


class NoSidecars:
    """The hooks of a log without sidecars, which do nothing."""

    __slots__ = ()

    def dirty_files(self) -> list[File]:
        return []

    def mark_synced(self) -> None:
        pass

    def on_compaction(self, until_offset: int) -> None:
        pass

    def on_truncation(self) -> None:
        pass

    def invalidate(self, offset: int) -> None:
        pass

    def drop_before(self, offset: int) -> None:
        pass

    def close(self) -> None:
        pass


NO_SIDECARS: Final = NoSidecars()
