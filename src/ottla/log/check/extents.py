"""The reading of a partition's segments by a check: the extent of the valid batches, and the offsets that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.log.check.changed_epochs import ChangedEpoch, find_changed_epochs
from ottla.log.check.findings import Known
from ottla.log.names import LOG, file_name, parse_file_name
from ottla.log.recovery.gaps import read_gaps
from ottla.log.recovery.segment_bounds import gaps_within
from ottla.log.segments.compacted_note import read_compacted
from ottla.log.segments.scan import headers
from ottla.log.segments.soundness import ANY_EPOCH, ENDLESS, SEARCHED_BYTES, Bounds, DamagedRange, Place, Walked, find_sound, walk
from ottla.ports import Disk, File
from ottla.records.batches.header import HEADER_BYTES


class Scanned(NamedTuple):
    """The extent of a partition's valid batches; if `bad`, the first bad byte is at `position` of the segment `base_offset`.

    `resume` is the position of the next valid batch in that segment, or -1.
    """

    end_offset: int
    base_offset: int
    position: int
    bad: bool
    resume: int = -1


class MisplacedBatch(NamedTuple):
    """A batch with a wrong base offset: the log expects `next_offset` there, but the header has `base_offset`."""

    segment_offset: int
    position: int
    size: int
    next_offset: int
    base_offset: int
    last_offset_delta: int


def key_of(path: str) -> tuple[str, int] | None:
    """Return the topic and the partition in a directory's name; None if it is not the name of a partition's directory."""
    topic, _, index = path.rpartition("/")[2].rpartition("-")
    return (topic, int(index)) if topic and index.isdecimal() else None


def base_offsets(names: Sequence[str]) -> list[int]:
    """Return the base offsets of the segments among these file names."""
    return [parsed[0] for parsed in map(parse_file_name, names) if parsed and parsed[1] == LOG]


def scan_batches(disk: Disk, path: str, bases: Sequence[int]) -> Scanned:
    """Read every batch, up to the first bad one."""
    scanned = Scanned(bases[0] if bases else 0, bases[0] if bases else 0, 0, False)
    for base_offset, after in pairwise([*bases, ENDLESS]):
        scanned = scan_segment(disk, path, base_offset, after)
        if scanned.bad:
            return scanned
    return scanned


def scan_segment(disk: Disk, path: str, base_offset: int, until_offset: int) -> Scanned:
    """Read the batches of one segment, up to the first bad one. `until_offset` is where the next segment begins."""
    file = disk.open(f"{path}/{file_name(base_offset, LOG)}")
    bounds = Bounds(until_offset, ANY_EPOCH)
    walked = Walked(0, base_offset)
    while walked.bad is None and walked.position < file.size:
        walked = walk(file, Place(walked.position, walked.next_offset), file.size, file.size, bounds)
    resume = _find_behind(file, walked, bounds) if walked.bad is not None else -1
    file.close()
    return Scanned(walked.next_offset, base_offset, walked.position, walked.bad is not None, resume)


def _find_behind(file: File, walked: Walked, bounds: Bounds) -> int:
    """Return the byte position of the next valid batch after the bad batch in `walked`, or -1 if there is none."""
    for position in range(walked.position, file.size, SEARCHED_BYTES - HEADER_BYTES):
        found = find_sound(file, position, file.size, walked.next_offset, bounds)
        if found is not None:
            return found.position
    return -1


def log_end(disk: Disk, path: str, known: Known) -> int:
    """Return the offset after the last valid batch of a partition's own files, at least the start of its log."""
    return max(scan_batches(disk, path, base_offsets(disk.list(path))[-1:]).end_offset, known.log_start_offset)


def epochs_to_restore(disk: Disk, path: str, known: Known) -> list[ChangedEpoch]:
    """Return the batches whose leader epoch is not the one of the epoch checkpoint."""
    return find_changed_epochs(disk, path, base_offsets(disk.list(path)), known.recovery_point, was_killed=known.was_killed)


def segment_path(path: str, changed: ChangedEpoch) -> str:
    """Return the path of the segment that contains a batch with a wrong epoch."""
    return f"{path}/{file_name(changed.segment_offset, LOG)}"


def gaps_between(disk: Disk, path: str, bases: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (base offset, first missing offset, base offset of the next segment) of each gap between segments."""
    known = read_gaps(disk, path)
    for base_offset, after in pairwise(bases):
        scanned = scan_segment(disk, path, base_offset, after)
        if not scanned.bad and scanned.end_offset < after and (scanned.end_offset, after) not in known:
            yield base_offset, scanned.end_offset, after


def find_misplaced(disk: Disk, path: str, bases: Sequence[int], known: Known) -> MisplacedBatch | None:
    """Find the first batch after the recovery point in the newest segment. Return it if offsets before it are missing, else None.

    No CRC covers a base offset, and compaction leaves no gaps in the newest segment. A known gap does not count as missing offsets.
    """
    if not bases:
        return None
    next_offset = bases[-1]
    file = disk.open(f"{path}/{file_name(next_offset, LOG)}")
    for position, header in headers(file, 0, file.size):
        if next_offset < known.recovery_point <= header.base_offset:
            gap = next_offset, header.base_offset
            if gap in read_gaps(disk, path):
                return None
            return MisplacedBatch(bases[-1], position, header.size, *gap, header.last_offset_delta)
        next_offset = header.next_offset
    return None


def missing_within(disk: Disk, path: str, bases: Sequence[int], known: Known) -> Iterator[tuple[int, int, DamagedRange, bool]]:
    """Yield (base offset, size, missing range, whether compaction wrote the segment) for each range that a segment lacks."""
    compacted, gaps = read_compacted(disk, path), read_gaps(disk, path)
    if compacted is None and not known.recovery_point:
        return  # another tool may have compacted it
    for base_offset, after in pairwise([*bases, ENDLESS]):
        file = disk.open(f"{path}/{file_name(base_offset, LOG)}")
        is_compacted = any(base == base_offset for base, _ in compacted or ())
        if (base_offset, file.size) not in (compacted or ()):
            for found in gaps_within(file, file.size, base_offset, after):
                is_last = base_offset == bases[-1]
                # Not missing: only the next batch's base offset is wrong.
                is_misplaced = is_last and found.first_offset < known.recovery_point <= found.end_offset
                if not is_misplaced and (found.first_offset, found.end_offset) not in gaps:
                    yield base_offset, file.size, found, is_compacted
        file.close()
