"""The list of compacted segments: segments that compaction wrote, on this broker or on a leader.

Only these segments may lack offsets. The list is a small file in the partition's directory, written before compaction replaces
segments. An entry applies to a segment with the entry's base offset and size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint
from ottla.log.names import COMPACTED_SEGMENTS
from ottla.log.segments.segment import Segment
from ottla.ports import Disk, File, StorageFailed, Syncable

Compact = tuple[int, int]
"""(base offset, size in bytes); a size of 0 matches any size"""

NEW, NEW_COPIED = ".new", ".copied.new"
"""The temporary suffixes of new lists: compaction's and a follower's, which can exist at the same time."""

ANY_SIZE = 0
"""The size in an entry for a segment that still grows, with batches copied from a leader's compacted log."""


def read_compacted(disk: Disk, path: str) -> set[Compact] | None:
    """Return the entries of a partition's list of compacted segments; None without a valid list. Raises `StorageFailed`."""
    name = f"{path}/{COMPACTED_SEGMENTS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    if lines is None or not all(len(line) == 2 and "".join(line).isdecimal() for line in lines):
        return None
    return {(int(base), int(size)) for base, size in lines}


def note_compacted(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment] = ()) -> None:
    """Add the compacted segments `new` to the list. Without a valid list, also add all sealed ones of the log's `segments`.

    Durable on return. Raises `StorageFailed`.
    """
    known, wanted = _with(disk, path, segments, new)
    if wanted != known:
        _write(disk, path, wanted, sync=True)


class Note(NamedTuple):
    """A new list of compacted segments under a temporary name, until its `file` is synced.

    `before` are the entries of the list that it replaces, or None without a valid list.
    """

    name: str
    file: File
    before: set[Compact] | None


def begin_note(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment]) -> Note:
    """Write the list with the compacted segments `new` added, but under a temporary name. Sync its file, then call `finish_note`.

    Raises `StorageFailed`.
    """
    return _begin(disk, f"{path}/{COMPACTED_SEGMENTS}{NEW}", *_with(disk, path, segments, new))


def begin_copied(disk: Disk, path: str, segments: Sequence[Segment]) -> Note:
    """Write the list that `note_copied` writes, but under a temporary name. Sync its file, then call `finish_note`.

    Raises `StorageFailed`.
    """
    return _begin(disk, f"{path}/{COMPACTED_SEGMENTS}{NEW_COPIED}", *_with_copied(disk, path, segments))


def finish_note(disk: Disk, path: str, note: Note) -> Syncable | None:
    """Give a synced list its final name, and return the directory to sync. Raises `StorageFailed`.

    Return None, with nothing changed, if the list on disk has changed since `begin_note`, because its new entries would be lost.
    Then begin again.
    """
    note.file.close()
    if read_compacted(disk, path) != note.before:
        return None
    disk.rename(note.name, f"{path}/{COMPACTED_SEGMENTS}", sync=False)
    return disk.directory(path)


def drop_note(disk: Disk, path: str, ending: str = NEW) -> None:
    """Remove an unfinished list of compacted segments, because its file cannot be trusted after a failed sync.

    Ignore failures of the disk.
    """
    with suppress(StorageFailed):
        if disk.exists(f"{path}/{COMPACTED_SEGMENTS}{ending}"):
            disk.remove(f"{path}/{COMPACTED_SEGMENTS}{ending}")


def _begin(disk: Disk, name: str, before: set[Compact] | None, wanted: set[Compact]) -> Note:
    file = disk.open(name, create=True)
    file.truncate(0)
    file.append([_format(wanted)])
    return Note(name, file, before)


def _with(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment]) -> tuple[set[Compact] | None, set[Compact]]:
    """Return (the list's present entries or None, the entries to write: those of existing segments, and those of `new`)."""
    known = read_compacted(disk, path)
    there = {(segment.base_offset, segment.size) for segment in segments[:-1]}
    if known is not None:
        there = known & (there | {(segment.base_offset, ANY_SIZE) for segment in segments})
    return known, there | {(segment.base_offset, segment.size) for segment in new}


def note_copied(disk: Disk, path: str, segments: Sequence[Segment]) -> None:
    """Add the newest of these segments, with any size, to the list; durable on return. Raises `StorageFailed`."""
    _write(disk, path, _with_copied(disk, path, segments)[1], sync=True)


def _with_copied(disk: Disk, path: str, segments: Sequence[Segment]) -> tuple[set[Compact] | None, set[Compact]]:
    """Return (the list's entries or None, the entries to write: the present ones, and the newest segment with any size)."""
    known = read_compacted(disk, path)
    sealed = {(segment.base_offset, segment.size) for segment in segments[:-1]}
    return known, (sealed if known is None else known) | {(segments[-1].base_offset, ANY_SIZE)}


def is_compact(known: set[Compact], segment: Segment) -> bool:
    """Return whether the list of compacted segments, `known`, has an entry for this segment, so that it can lack offsets."""
    return (segment.base_offset, segment.size) in known or (segment.base_offset, ANY_SIZE) in known


def may_grow(known: set[Compact], segment: Segment) -> bool:
    """Return whether the list of compacted segments, `known`, has an entry for this segment that matches any size."""
    return (segment.base_offset, ANY_SIZE) in known


def note_sizes(disk: Disk, path: str, sizes: Iterable[Compact]) -> None:
    """Add (base offset, size) entries to the list of compacted segments; durable on return. Raises `StorageFailed`."""
    _write(disk, path, (read_compacted(disk, path) or set()).union(sizes), sync=True)


def note_none(disk: Disk, path: str) -> None:
    """Write an empty list of compacted segments if there is none, when a log's first segment is sealed.

    Ignore failures of the disk.
    """
    with suppress(StorageFailed):
        if not disk.exists(f"{path}/{COMPACTED_SEGMENTS}"):
            _write(disk, path, ())


def _write(disk: Disk, path: str, wanted: Iterable[Compact], *, sync: bool = False) -> None:
    disk.write_file(f"{path}/{COMPACTED_SEGMENTS}", _format(wanted), sync=sync)


def _format(wanted: Iterable[Compact]) -> bytes:
    return format_checkpoint([f"{base} {size}" for base, size in sorted(wanted)])
