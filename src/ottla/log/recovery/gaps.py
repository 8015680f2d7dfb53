"""The lists of missing offsets in a partition's directory, one small file each.

Known gaps were left by a repair, or by Apache Kafka's compaction before the directory was moved to Ottla. All other missing offsets
are damage. Holed segments lacked batches when a broker started; they are listed because a rebuilt index hides the damage from the
next start. Joined segments end where the next segment begins; they are listed so that a start need not read their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint
from ottla.log.names import HOLED_SEGMENTS, JOINED_SEGMENTS, KNOWN_GAPS
from ottla.log.segments.compacted_note import Compact, is_compact, may_grow, note_compacted, note_copied
from ottla.log.segments.segment import Segment
from ottla.ports import Disk
from ottla.records.checksum import crc32c

Gap = tuple[int, int]
"""(first missing offset, offset at which the log continues)"""
Joined = tuple[int, int, int]
"""(base offset, size in bytes, base offset of the next segment). It matches a segment of the same base offset and size."""


@dataclass(slots=True)
class AssumedGaps:
    """A start's assumptions about missing offsets. They are stored before the log is written, or the next start would see losses.

    `known` are the entries of the list of compacted segments. A log `is_foreign` if another program wrote it, so that there was no
    list: then the segments that may have gaps are listed, and the `gaps` between segments are known from now on.
    """

    known: set[Compact] = field(default_factory=set)
    is_foreign: bool = False
    gaps: list[Gap] = field(default_factory=list)

    def finish(self, disk: Disk, path: str, segments: Sequence[Segment], _snapshots: object = None) -> None:
        """Store the assumptions, durably. Raises `StorageFailed`, after which another call continues."""
        if self.gaps:
            note_gaps(disk, path, self.gaps)  # first: a log with a list has no gaps between segments but these
        if self.is_foreign and any(segment.may_have_gaps for segment in segments):
            note_compacted(disk, path, segments)
        last = segments[-1]
        if last.may_have_gaps:  # it was sealed until a cut removed the segments behind it
            last.is_complete = is_compact(self.known, last) and not may_grow(self.known, last)
            if not is_compact(self.known, last):
                note_copied(disk, path, segments)


def read_gaps(disk: Disk, path: str) -> set[Gap]:
    """Return the known ranges of missing offsets in the partition at `path`. Lines with a wrong checksum are ignored."""
    return _read(disk, f"{path}/{KNOWN_GAPS}", 2)


def note_gaps(disk: Disk, path: str, gaps: Iterable[Gap]) -> None:
    """Add ranges of missing offsets to the partition's file of known gaps; durable on return. Raises `StorageFailed`."""
    known = read_gaps(disk, path)
    wanted = known.union(gaps)
    if len(wanted) > len(known):
        disk.write_file(f"{path}/{KNOWN_GAPS}", _format(wanted))


def are_known(known: Iterable[Gap], first: int, end: int) -> bool:
    """Return whether the offsets from `first` to before `end` are missing by known gaps.

    A gap can consist of several known ones, because an empty segment between two gaps can be removed.
    """
    for start, to in sorted(known):
        if start <= first < to:
            first = to
    return first >= end


def read_joined(disk: Disk, path: str) -> set[Joined]:
    """Return the segments that end where the next segment begins. Lines with a wrong checksum are ignored.

    Raises `StorageFailed`.
    """
    return _read(disk, f"{path}/{JOINED_SEGMENTS}", 3)


def note_joined(disk: Disk, path: str, joined: Iterable[Joined]) -> None:
    """Write the list of segments that end where the next segment begins, without a sync. Raises `StorageFailed`.

    The file is in `path`, the partition's directory.
    """
    disk.write_file(f"{path}/{JOINED_SEGMENTS}", _format(joined), sync=False)


def read_holed(disk: Disk, path: str) -> set[int]:
    """Return the base offsets of the segments in which batches were missing at the last check. Raises `StorageFailed`."""
    name = f"{path}/{HOLED_SEGMENTS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    return {int(line[0]) for line in lines or () if len(line) == 2 and line[0].isdecimal()}


def note_holed(disk: Disk, path: str, bases: Iterable[int]) -> None:
    """Write `bases`, the base offsets of the segments in which batches are missing; durable on return. Raises `StorageFailed`."""
    disk.write_file(f"{path}/{HOLED_SEGMENTS}", format_checkpoint([f"{base} 1" for base in sorted(bases)]))


def _read(disk: Disk, name: str, width: int) -> set[Any]:
    """Return the entries of a file, each a tuple of `width` numbers. Skip lines whose last number is not the right checksum."""
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    lines = [line for line in lines or () if len(line) == width + 1 and "".join(line).isdecimal()]
    return {tuple(map(int, entry)) for *entry, checksum in lines if int(checksum) == _sum(" ".join(entry))}


def _format(entries: Iterable[tuple[int, ...]]) -> bytes:
    lines = (" ".join(map(str, entry)) for entry in sorted(entries))
    return format_checkpoint([f"{line} {_sum(line)}" for line in lines])


def _sum(line: str) -> int:
    return int(crc32c(line.encode()))
