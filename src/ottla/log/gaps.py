"""Gaps between offsets that are known: a repair left them, or Apache Kafka's compaction before the directory came here.

Everything else that is missing is damage; the segments in which a start met some are known, too, as an index that is built anew
hides it from the next one. Knows two small files in a partition's directory; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint
from ottla.log.names import HOLED_SEGMENTS, KNOWN_GAPS
from ottla.ports import Disk

Gap = tuple[int, int]
"""(first offset that is missing, offset where the log goes on)"""


def read_gaps(disk: Disk, path: str) -> set[Gap]:
    """Return the known gaps of the partition in `path`; a line that is not as it was written counts for nothing."""
    name = f"{path}/{KNOWN_GAPS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    lines = [line for line in lines or () if len(line) == 3]
    gaps = ((int(first), int(end), checksum) for first, end, checksum in lines if first.isdecimal())
    return {(first, end) for first, end, checksum in gaps if checksum == str(_sum((first, end)))}


def note_gaps(disk: Disk, path: str, gaps: Iterable[Gap]) -> None:
    """Add these to the known gaps; durable on return. Raises `StorageFailed`."""
    known = read_gaps(disk, path)
    wanted = sorted(known.union(gaps))
    if len(wanted) > len(known):
        lines = [f"{first} {end} {_sum((first, end))}" for first, end in wanted]
        disk.write_file(f"{path}/{KNOWN_GAPS}", format_checkpoint(lines))


def read_holed(disk: Disk, path: str) -> set[int]:
    """Return the base offsets of the segments of which batches were gone when they were looked at last. Raises `StorageFailed`."""
    name = f"{path}/{HOLED_SEGMENTS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    return {int(line[0]) for line in lines or () if len(line) == 2 and line[0].isdecimal()}


def note_holed(disk: Disk, path: str, bases: Iterable[int]) -> None:
    """Write these down, and no others; durable on return. Raises `StorageFailed`."""
    disk.write_file(f"{path}/{HOLED_SEGMENTS}", format_checkpoint([f"{base} 1" for base in sorted(bases)]))


def _sum(gap: Gap) -> int:
    return int(crc32c(b"%d %d" % gap))
