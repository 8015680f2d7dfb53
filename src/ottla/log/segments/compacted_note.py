"""The note about segments that compaction wrote, here or at a leader: offsets may be missing within these and no others.

The module uses one small file in a partition's directory, which compaction writes before it replaces segments. An entry matches
a segment of the same base offset and size.
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
"""The suffixes of the next note until it is on stable storage: compaction's and a follower's, which may exist at the same time."""

ANY_SIZE = 0
"""The size for a segment with batches copied from a leader's compacted log: it still grows."""


def read_compacted(disk: Disk, path: str) -> set[Compact] | None:
    """Return the entries of the partition in `path`; None if there is no valid note. Raises `StorageFailed`."""
    name = f"{path}/{COMPACTED_SEGMENTS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    if lines is None or not all(len(line) == 2 and "".join(line).isdecimal() for line in lines):
        return None
    return {(int(base), int(size)) for base, size in lines}


def note_compacted(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment] = ()) -> None:
    """Add `new` segments that are about to be among `segments`. Without a valid note, add all sealed segments, too.

    Durable on return. Raises `StorageFailed`.
    """
    known, wanted = _with(disk, path, segments, new)
    if wanted != known:
        _write(disk, path, wanted, sync=True)


class Note(NamedTuple):
    """A note that is not in place yet: its `file` is to be synced. `before` is what was noted when it was written."""

    name: str
    file: File
    before: set[Compact] | None


def begin_note(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment]) -> Note:
    """Write the note without waiting: when its file is synced, call `finish_note`. Raises `StorageFailed`."""
    return _begin(disk, f"{path}/{COMPACTED_SEGMENTS}{NEW}", *_with(disk, path, segments, new))


def begin_copied(disk: Disk, path: str, segments: Sequence[Segment]) -> Note:
    """Write the note of `note_copied` without waiting: when its file is synced, call `finish_note`. Raises `StorageFailed`."""
    return _begin(disk, f"{path}/{COMPACTED_SEGMENTS}{NEW_COPIED}", *_with_copied(disk, path, segments))


def finish_note(disk: Disk, path: str, note: Note) -> Syncable | None:
    """Put a synced note in place; return the directory to sync. Raises `StorageFailed`.

    Return None, with nothing changed, if another note was put in place since: begin again, or its content would be lost.
    """
    note.file.close()
    if read_compacted(disk, path) != note.before:
        return None
    disk.rename(note.name, f"{path}/{COMPACTED_SEGMENTS}", sync=False)
    return disk.directory(path)


def drop_note(disk: Disk, path: str, ending: str = NEW) -> None:
    """Remove an unfinished note: a file that could not be synced never can be."""
    with suppress(StorageFailed):
        if disk.exists(f"{path}/{COMPACTED_SEGMENTS}{ending}"):
            disk.remove(f"{path}/{COMPACTED_SEGMENTS}{ending}")


def _begin(disk: Disk, name: str, before: set[Compact] | None, wanted: set[Compact]) -> Note:
    file = disk.open(name, create=True)
    file.truncate(0)
    file.append([_formatted(wanted)])
    return Note(name, file, before)


def _with(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment]) -> tuple[set[Compact] | None, set[Compact]]:
    """Return (present entries or None, new entries)."""
    known = read_compacted(disk, path)
    there = {(segment.base_offset, segment.size) for segment in segments[:-1]}
    if known is not None:
        there = known & (there | {(segment.base_offset, ANY_SIZE) for segment in segments})
    return known, there | {(segment.base_offset, segment.size) for segment in new}


def note_copied(disk: Disk, path: str, segments: Sequence[Segment]) -> None:
    """Note that offsets are missing within the newest of these segments; durable on return. Raises `StorageFailed`."""
    _write(disk, path, _with_copied(disk, path, segments)[1], sync=True)


def _with_copied(disk: Disk, path: str, segments: Sequence[Segment]) -> tuple[set[Compact] | None, set[Compact]]:
    """Return (present entries or None, new entries)."""
    known = read_compacted(disk, path)
    sealed = {(segment.base_offset, segment.size) for segment in segments[:-1]}
    return known, (sealed if known is None else known) | {(segments[-1].base_offset, ANY_SIZE)}


def is_compact(known: set[Compact], segment: Segment) -> bool:
    """Return whether offsets may be missing within a segment."""
    return (segment.base_offset, segment.size) in known or (segment.base_offset, ANY_SIZE) in known


def may_grow(known: set[Compact], segment: Segment) -> bool:
    """Return whether offsets may be missing within a segment of any size."""
    return (segment.base_offset, ANY_SIZE) in known


def note_sizes(disk: Disk, path: str, sizes: Iterable[Compact]) -> None:
    """Add these to the compacted segments; durable on return. Raises `StorageFailed`."""
    _write(disk, path, (read_compacted(disk, path) or set()).union(sizes), sync=True)


def note_none(disk: Disk, path: str) -> None:
    """Write an empty note for a log whose first segment is sealed; ignore a full disk."""
    with suppress(StorageFailed):
        if not disk.exists(f"{path}/{COMPACTED_SEGMENTS}"):
            _write(disk, path, ())


def _write(disk: Disk, path: str, wanted: Iterable[Compact], *, sync: bool = False) -> None:
    disk.write_file(f"{path}/{COMPACTED_SEGMENTS}", _formatted(wanted), sync=sync)


def _formatted(wanted: Iterable[Compact]) -> bytes:
    return format_checkpoint([f"{base} {size}" for base, size in sorted(wanted)])
