"""The check of segment boundaries when a log is opened: each segment must begin where the one before it ends.

The first segment must begin where the log begins. Only a few headers at the end of each segment are read. Missing offsets are
damage, unless the gap is known.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import pairwise

from ottla.log.errors import Damaged
from ottla.log.names import LOG, file_name
from ottla.log.recovery.gaps import Gap, Joined, are_known, note_holed, note_joined, read_gaps, read_joined
from ottla.log.segments.compacted_note import read_compacted
from ottla.log.segments.scan import headers
from ottla.log.segments.segment import Segment
from ottla.log.segments.soundness import GONE, DamagedRange, Unproven
from ottla.log.slice_reader import LogReader
from ottla.ports import Disk, File, StorageFailed

log = logging.getLogger("ottla.log")

FEW = 3
"""The number of segments up to which no list of joined segments is written, because checks are as fast."""

TAIL_BYTES = 4096 + 1024
"""Bytes read at once to find the end of a segment: one interval of the index and a little more."""


def check_boundaries(
    disk: Disk,
    path: str,
    reader: LogReader,
    log_start_offset: int,
    log_end_offset: int,
    holed: set[int],
    assumed: list[Gap] | None,
) -> None:
    """Record and log missing offsets before and between segments. Raises `StorageFailed`.

    `holed` are the base offsets of the segments that lacked batches at their last check. If another broker's
    compaction wrote the segments, gaps between them are accepted and added to `assumed`; otherwise it is None.
    """
    segments = reader.segments
    if segments[0].base_offset > log_start_offset:
        _record_hole(path, reader, segments[0], 0, log_start_offset, segments[0].base_offset, "the log begins before this segment")
    missing = _check_ends(disk, path, reader, log_end_offset, holed)
    if not missing:
        return
    known = read_gaps(disk, path)
    new = [(segment, end, to) for segment, end, to in missing if end < to and not are_known(known, end, to)]
    if new and assumed is not None:
        log.warning(
            "%s: %d gaps between segments are attributed to compaction before this broker had the directory", path, len(new)
        )
        assumed += [(end, to) for _, end, to in new]
        return
    for segment, end, to in new:
        _record_hole(
            path, reader, segment, segment.size, end, to, f"the segment ends here, and the next one begins with offset {to}"
        )


def _check_ends(disk: Disk, path: str, reader: LogReader, log_end_offset: int, holed: set[int]) -> list[tuple[Segment, int, int]]:
    """Return the sealed segments whose last offset does not lead to the next segment.

    Each is (segment, its end offset, base offset of the next segment). Missing offsets within a segment are recorded and logged.
    """
    missing: list[tuple[Segment, int, int]] = []
    joined: list[Joined] = []
    known = read_joined(disk, path) if len(reader.segments) > FEW else set()
    read_count = 0
    for segment in reader.segments:
        segment.has_jumps |= segment.base_offset in holed
    for segment, after in pairwise(reader.segments):
        join = segment.base_offset, segment.size, after.base_offset
        if join not in known or segment.has_jumps:
            read_count += 1
            end = _find_end(reader, segment, log_end_offset)
            if segment.has_jumps and not segment.may_have_gaps and _check_within(disk, path, segment, after.base_offset):
                continue
            if end != after.base_offset:
                if end is not None:
                    missing.append((segment, end, after.base_offset))
                continue
        joined.append(join)
    last = reader.segments[-1]
    if last.has_jumps and not last.may_have_gaps:
        _check_within(disk, path, last, log_end_offset)
    now_holed = {segment.base_offset for segment in reader.segments if segment.unproven is not None and segment.unproven.damage}
    if now_holed != holed:
        with suppress(StorageFailed):  # it was logged
            note_holed(disk, path, now_holed)
    if read_count > FEW:
        with suppress(StorageFailed):  # the next start checks again
            note_joined(disk, path, joined)
    return missing


def _check_within(disk: Disk, path: str, segment: Segment, end_offset: int) -> bool:
    """Record and log missing offsets between the batches of a segment that ends at `end_offset`. Return False if none are missing.

    Overlapping batches are not reported: readers find them.
    """
    gaps = gaps_within(segment.file, segment.size, segment.base_offset, end_offset)
    compacted = read_compacted(disk, path) or ()
    if gaps and any(base == segment.base_offset for base, _ in compacted):
        sentence = "the segment is not as large as compaction wrote it, and which of its records are missing is not known."
        _record_damage(path, segment, DamagedRange(segment.base_offset, end_offset, 0, segment.size, sentence), sentence)
        return True
    known = read_gaps(disk, path)
    new = [gap for gap in gaps if (gap.first_offset, gap.end_offset) not in known]
    for gap in new:
        _record_damage(path, segment, gap, f"batches are gone: offsets {gap.first_offset} to {gap.end_offset - 1} are missing.")
    return bool(new)


def _record_damage(path: str, segment: Segment, found: DamagedRange, sentence: str) -> None:
    if segment.unproven is None:
        segment.unproven = Unproven(segment.size)
    segment.unproven.add_damage(found)
    log.error("%s", Damaged(path, file_name(segment.base_offset, LOG), found.position, sentence))


def gaps_within(file: File, size: int, base_offset: int, end_offset: int) -> list[DamagedRange]:
    """Return the missing offsets between the batches of a segment. Return an empty list if the headers do not lead to its end."""
    position, next_offset = 0, base_offset
    gaps: list[DamagedRange] = []
    for at, header in headers(file, 0, size):
        if header.base_offset < next_offset:
            return []
        if header.base_offset > next_offset:
            gaps.append(DamagedRange(next_offset, header.base_offset, at, at, GONE))
        position, next_offset = at + header.size, header.next_offset
    return gaps if position == size and next_offset <= end_offset else []


def _record_hole(path: str, reader: LogReader, segment: Segment, position: int, first: int, end: int, sentence: str) -> None:
    found = Damaged(path, file_name(segment.base_offset, LOG), position, f"{sentence}: offsets {first} to {end - 1} are missing.")
    reader.holes.append((DamagedRange(first, end, position, position, sentence), found))
    log.error("%s", found)


def _find_end(reader: LogReader, segment: Segment, log_end_offset: int) -> int | None:
    """Return the offset after a sealed segment's last batch. If the segment's end is damaged, record that and return None.

    If the last index entry points to no batch, read from the segment's beginning, because missing batches move later ones.
    """
    if not segment.size:
        return segment.base_offset
    entry = segment.index.last()
    for position, first in ((entry[1], -1) if entry else (0, segment.base_offset), (0, segment.base_offset)):
        end, next_offset, has_jumps = -1, first, False
        for at, header in headers(segment.file, position, segment.size, chunk_bytes=TAIL_BYTES):
            is_astray = next_offset < 0 and entry is not None and header.last_offset != segment.base_offset + entry[0]
            if header.base_offset < next_offset or not segment.fits(header) or is_astray:
                break
            has_jumps |= 0 <= next_offset < header.base_offset
            end, next_offset = at + header.size, header.next_offset
        if end == segment.size and next_offset <= reader.end_offset(segment, log_end_offset):
            segment.has_jumps |= has_jumps
            return next_offset
    return next_offset if reader.is_sound_at_end(segment, log_end_offset) else None
