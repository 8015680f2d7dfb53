"""Holds segments against one another when a log is opened: each begins where the one before ends, and the first where the log does.

Knows segments and a few headers at the end of each; knows nothing of what is inside. What is missing is damage, unless it is known.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from ottla.log.damaged import Damaged
from ottla.log.gaps import note_gaps, read_gaps
from ottla.log.joined import Joined, note_joined, read_joined
from ottla.log.names import LOG, file_name
from ottla.log.reading import LogReader
from ottla.log.scan import headers
from ottla.log.segment import Segment
from ottla.log.soundness import DamagedRange
from ottla.ports import Disk, StorageFailed

log = logging.getLogger("ottla.log")

FEW = 3
"""So many segments are looked at as quickly as it is noted that they were."""

TAIL_BYTES = 4096 + 1024
"""Read at once when the end of a segment is looked for: one interval of the index and a little more."""


def check_joints(
    disk: Disk, path: str, reader: LogReader, log_start_offset: int, log_end_offset: int, *, may_have_gaps: bool
) -> None:
    """Note and tell where offsets are missing. `may_have_gaps`: what is missing between segments was compacted elsewhere.

    Raises `StorageFailed`.
    """
    segments = reader.segments
    if segments[0].base_offset > log_start_offset:
        _add(path, reader, segments[0], 0, log_start_offset, segments[0].base_offset, "the log begins before this segment")
    missing = _look_at_ends(disk, path, reader, log_end_offset)
    if not missing:
        return
    known = read_gaps(disk, path)
    new = [(segment, end, to) for segment, end, to in missing if (end, to) not in known and end < to]
    if new and may_have_gaps:
        _accept(disk, path, [(end, to) for _, end, to in new])
        return
    for segment, end, to in new:
        _add(path, reader, segment, segment.size, end, to, f"the segment ends here, and the next one begins with offset {to}")


def _look_at_ends(disk: Disk, path: str, reader: LogReader, log_end_offset: int) -> list[tuple[Segment, int, int]]:
    """Sealed segments that do not end where the next one begins: (segment, its end, where the next one begins)."""
    missing: list[tuple[Segment, int, int]] = []
    joined: list[Joined] = []
    known = read_joined(disk, path) if len(reader.segments) > FEW else set()
    looked_at = 0
    for segment, after in pairwise(reader.segments):
        join = segment.base_offset, segment.size, after.base_offset
        if join not in known:
            looked_at += 1
            end = _end(reader, segment, log_end_offset)
            if end != after.base_offset:
                if end is not None:
                    missing.append((segment, end, after.base_offset))
                continue
        joined.append(join)
    if looked_at > FEW:
        with suppress(StorageFailed):  # the next start looks again
            note_joined(disk, path, joined)
    return missing


def _accept(disk: Disk, path: str, gaps: Sequence[tuple[int, int]]) -> None:
    log.warning("%s: %d gaps between segments are taken for what compaction left before the directory came here", path, len(gaps))
    try:
        note_gaps(disk, path, gaps)
    except StorageFailed as failure:
        log.warning("%s: its gaps could not be noted: %s; the next start does it", path, failure)


def _add(path: str, reader: LogReader, segment: Segment, position: int, first: int, end: int, sentence: str) -> None:
    found = Damaged(path, file_name(segment.base_offset, LOG), position, f"{sentence}: offsets {first} to {end - 1} are missing.")
    reader.holes.append((DamagedRange(first, end, position, position, sentence), found))
    log.error("%s", found)


def _end(reader: LogReader, segment: Segment, log_end_offset: int) -> int | None:
    """The offset that follows a sealed segment's last batch; None if its end is damaged, which is noted then."""
    if not segment.size:
        return segment.base_offset
    entry = segment.index.last()
    for position in (entry[1] if entry else 0, 0):
        end = next_offset = -1
        for at, header in headers(segment.file, position, segment.size, chunk_bytes=TAIL_BYTES):
            if header.base_offset < next_offset or not segment.fits(header):
                break
            end, next_offset = at + header.size, header.next_offset
        if end == segment.size and next_offset <= reader.end_offset(segment, log_end_offset):
            return next_offset
    return next_offset if reader.is_sound_at_end(segment, log_end_offset) else None
