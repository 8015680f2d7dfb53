"""Sealed segments that are known to end where the next one begins, so that a start need not look at the end of each again.

Knows one small file in a partition's directory; decides nothing. A segment of another size is not the one that is meant. What is
wrong within it is met by whoever reads it.
"""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint
from ottla.log.names import JOINED_SEGMENTS
from ottla.ports import Disk

Joined = tuple[int, int, int]
"""(base offset, size in bytes, offset that follows)"""


def read_joined(disk: Disk, path: str) -> set[Joined]:
    """Return those of the partition in `path`; a line that is not as it was written counts for nothing. Raises `StorageFailed`."""
    name = f"{path}/{JOINED_SEGMENTS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    lines = [line for line in lines or () if len(line) == 4 and "".join(line).isdecimal()]
    found = ((int(base), int(size), int(end), int(checksum)) for base, size, end, checksum in lines)
    return {(base, size, end) for base, size, end, checksum in found if checksum == _sum((base, size, end))}


def note_joined(disk: Disk, path: str, joined: Iterable[Joined]) -> None:
    """Write these down, and no others. Raises `StorageFailed`."""
    lines = [f"{each[0]} {each[1]} {each[2]} {_sum(each)}" for each in sorted(joined)]
    disk.write_file(f"{path}/{JOINED_SEGMENTS}", format_checkpoint(lines), sync=False)


def _sum(joined: Joined) -> int:
    return int(crc32c(b"%d %d %d" % joined))
