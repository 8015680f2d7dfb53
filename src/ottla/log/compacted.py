"""Which segments compaction wrote, here or at a leader: offsets may be missing within these, and within no others.

Knows one small file in a partition's directory, which compaction writes before its segment takes its place; decides nothing. A
segment of another size is not the one that is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint
from ottla.log.names import COMPACTED_SEGMENTS
from ottla.log.segment import Segment
from ottla.ports import Disk, File, StorageFailed, Syncable

Compact = tuple[int, int]
"""(base offset, size in bytes); a size of 0 stands for any"""

NEW = ".new"
"""What the next note is called until it is on stable storage."""

ANY_SIZE = 0
"""The size of a segment to which batches were copied that a leader had compacted: it grows on."""


def read_compacted(disk: Disk, path: str) -> set[Compact] | None:
    """Return those of the partition in `path`; None if nothing is known. Raises `StorageFailed`."""
    name = f"{path}/{COMPACTED_SEGMENTS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    if lines is None or not all(len(line) == 2 and "".join(line).isdecimal() for line in lines):
        return None
    return {(int(base), int(size)) for base, size in lines}


def note_compacted(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment] = ()) -> None:
    """Add `new` ones that are about to be among `segments`; where nothing is known, any of these may be compacted.

    Durable on return. Raises `StorageFailed`.
    """
    known, wanted = _with(disk, path, segments, new)
    if wanted != known:
        _write(disk, path, wanted, sync=True)


def begin_note(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment]) -> File:
    """Write the note without waiting: once the returned file is synced, call `finish_note`. Raises `StorageFailed`.

    A power cut must leave the old note or the new one: without any, gaps would be damage.
    """
    _, wanted = _with(disk, path, segments, new)
    file = disk.open(f"{path}/{COMPACTED_SEGMENTS}{NEW}", create=True)
    file.truncate(0)
    file.append([_formatted(wanted)])
    return file


def finish_note(disk: Disk, path: str) -> Syncable:
    """Have a note count that is on stable storage; returns the directory, to be synced. Raises `StorageFailed`."""
    disk.rename(f"{path}/{COMPACTED_SEGMENTS}{NEW}", f"{path}/{COMPACTED_SEGMENTS}", sync=False)
    return disk.directory(path)


def drop_note(disk: Disk, path: str) -> None:
    """Remove a note that does not count: a file that could not be synced never can be."""
    with suppress(StorageFailed):
        if disk.exists(f"{path}/{COMPACTED_SEGMENTS}{NEW}"):
            disk.remove(f"{path}/{COMPACTED_SEGMENTS}{NEW}")


def _with(disk: Disk, path: str, segments: Sequence[Segment], new: Iterable[Segment]) -> tuple[set[Compact] | None, set[Compact]]:
    """Return (what is known, what will be)."""
    known = read_compacted(disk, path)
    there = {(segment.base_offset, segment.size) for segment in segments[:-1]}
    if known is not None:
        there = known & (there | {(segment.base_offset, ANY_SIZE) for segment in segments})
    return known, there | {(segment.base_offset, segment.size) for segment in new}


def note_copied(disk: Disk, path: str, segments: Sequence[Segment]) -> None:
    """Note that offsets are missing within the newest of these segments; durable on return. Raises `StorageFailed`."""
    known = read_compacted(disk, path)
    if known is None:
        known = {(segment.base_offset, segment.size) for segment in segments[:-1]}
    _write(disk, path, known | {(segments[-1].base_offset, ANY_SIZE)}, sync=True)


def is_compact(known: set[Compact], segment: Segment) -> bool:
    """Whether offsets may be missing within a segment."""
    return (segment.base_offset, segment.size) in known or (segment.base_offset, ANY_SIZE) in known


def may_grow(known: set[Compact], segment: Segment) -> bool:
    """Return whether offsets may be missing within a segment of any size."""
    return (segment.base_offset, ANY_SIZE) in known


def note_sizes(disk: Disk, path: str, sizes: Iterable[Compact]) -> None:
    """Take these for compacted segments, too; durable on return. Raises `StorageFailed`."""
    _write(disk, path, (read_compacted(disk, path) or set()).union(sizes), sync=True)


def note_none(disk: Disk, path: str) -> None:
    """Note that no segment was compacted, in a log whose first segment is sealed; on a full disk nothing is known."""
    with suppress(StorageFailed):
        if not disk.exists(f"{path}/{COMPACTED_SEGMENTS}"):
            _write(disk, path, ())


def _write(disk: Disk, path: str, wanted: Iterable[Compact], *, sync: bool = False) -> None:
    disk.write_file(f"{path}/{COMPACTED_SEGMENTS}", _formatted(wanted), sync=sync)


def _formatted(wanted: Iterable[Compact]) -> bytes:
    return format_checkpoint([f"{base} {size}" for base, size in sorted(wanted)])
