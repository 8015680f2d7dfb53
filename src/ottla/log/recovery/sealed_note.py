"""The list of sealed segments that end where the next segment begins, which saves a start from reading their ends.

The module uses one small file in a partition's directory. An entry matches a segment of the same base offset and size. Readers find
damage within a segment.
"""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint
from ottla.log.names import JOINED_SEGMENTS
from ottla.ports import Disk

Joined = tuple[int, int, int]
"""(base offset, size in bytes, base offset of the next segment)"""


def read_joined(disk: Disk, path: str) -> set[Joined]:
    """Return the list's entries for the partition in `path`; lines with a wrong checksum are ignored. Raises `StorageFailed`."""
    name = f"{path}/{JOINED_SEGMENTS}"
    lines = parse_checkpoint(disk.read_file(name)) if disk.exists(name) else None
    lines = [line for line in lines or () if len(line) == 4 and "".join(line).isdecimal()]
    found = ((int(base), int(size), int(end), int(checksum)) for base, size, end, checksum in lines)
    return {(base, size, end) for base, size, end, checksum in found if checksum == _sum((base, size, end))}


def note_joined(disk: Disk, path: str, joined: Iterable[Joined]) -> None:
    """Write the list with the entries `joined`, without a sync. Raises `StorageFailed`."""
    lines = [f"{each[0]} {each[1]} {each[2]} {_sum(each)}" for each in sorted(joined)]
    disk.write_file(f"{path}/{JOINED_SEGMENTS}", format_checkpoint(lines), sync=False)


def _sum(joined: Joined) -> int:
    return int(crc32c(b"%d %d %d" % joined))
