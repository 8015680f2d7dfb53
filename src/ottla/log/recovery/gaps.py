"""Known gaps between offsets: left by a repair, or by Apache Kafka's compaction before the directory was moved here.

All other missing offsets are damage. A second file lists the segments in which a start found missing offsets, because a rebuilt
index hides the damage from the next start. The module reads and writes these two small files of a partition's directory.
"""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint
from ottla.log.names import HOLED_SEGMENTS, KNOWN_GAPS
from ottla.ports import Disk

Gap = tuple[int, int]
"""(first missing offset, offset at which the log continues)"""


def read_gaps(disk: Disk, path: str) -> set[Gap]:
    """Return the known gaps of the partition in `path`; lines with a wrong checksum are ignored."""
    name = f"{path}/{KNOWN_GAPS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    lines = [line for line in lines or () if len(line) == 3]
    gaps = ((int(first), int(end), checksum) for first, end, checksum in lines if first.isdecimal())
    return {(first, end) for first, end, checksum in gaps if checksum == str(_sum((first, end)))}


def note_gaps(disk: Disk, path: str, gaps: Iterable[Gap]) -> None:
    """Add `gaps` to the file of known gaps; durable on return. Raises `StorageFailed`."""
    known = read_gaps(disk, path)
    wanted = sorted(known.union(gaps))
    if len(wanted) > len(known):
        lines = [f"{first} {end} {_sum((first, end))}" for first, end in wanted]
        disk.write_file(f"{path}/{KNOWN_GAPS}", format_checkpoint(lines))


def read_holed(disk: Disk, path: str) -> set[int]:
    """Return the base offsets of the segments that lacked batches at their last check. Raises `StorageFailed`."""
    name = f"{path}/{HOLED_SEGMENTS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    return {int(line[0]) for line in lines or () if len(line) == 2 and line[0].isdecimal()}


def note_holed(disk: Disk, path: str, bases: Iterable[int]) -> None:
    """Write the list of segments that lack batches: their base offsets; durable on return. Raises `StorageFailed`."""
    disk.write_file(f"{path}/{HOLED_SEGMENTS}", format_checkpoint([f"{base} 1" for base in sorted(bases)]))


def _sum(gap: Gap) -> int:
    return int(crc32c(b"%d %d" % gap))
