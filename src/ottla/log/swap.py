"""Putting a compacted segment in the place of those it was made from, so that a crash leaves either the old ones or the new one.

The new file is complete and synced as `.cleaned`; renaming it to `.swap` decides. From then on whoever finds it, now or at the next
start, takes the old files away and gives it its name. Knows names and headers; knows nothing of what was left out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from ottla.log import retention
from ottla.log.names import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, TRANSACTION_INDEX, file_name, parse_file_name
from ottla.log.scan import headers
from ottla.log.segment import Segment
from ottla.ports import Disk, File, StorageFailed

log = logging.getLogger("ottla.log")

OF_A_SEGMENT = (INDEX, TIME_INDEX, TRANSACTION_INDEX)


class Swap(NamedTuple):
    """A segment that has taken the place of `old` ones for good, though the files may not have their names yet."""

    segment: Segment
    old: list[Segment]

    def finish(self, disk: Disk, deadline_mono_ms: int) -> list[retention.Doomed]:
        """Take the old files away, last first, and name the new ones. Raises `StorageFailed`; call it again then."""
        doomed = []
        while self.old:
            doomed.append(retention.doom(disk, self.old[-1], deadline_mono_ms))
            self.old.pop()
        segment = self.segment
        segment.index.close()
        segment.times.close()
        if segment.ending:
            for suffix in (INDEX, TIME_INDEX):
                _rename(disk, segment, suffix, CLEANED)
            _rename(disk, segment, LOG, SWAP)
            segment.renamed()
        return doomed


def decide(disk: Disk, segment: Segment) -> None:
    """Let a `.cleaned` segment, which is complete and synced, be the one that counts. Raises `StorageFailed`: the old ones do."""
    path = f"{segment.directory}/{file_name(segment.base_offset, LOG)}"
    try:
        disk.rename(path + CLEANED, path + SWAP)
    except StorageFailed:
        if disk.exists(path + CLEANED):
            raise
        log.warning("%s: it is not certain that a compacted segment outlives a power cut; the old ones would count then", path)


def remove_cleaned(disk: Disk, segment: Segment) -> None:
    """Remove what was written of a segment that is not wanted after all."""
    segment.close()
    for suffix in (LOG, *OF_A_SEGMENT):
        path = f"{segment.directory}/{file_name(segment.base_offset, suffix)}{CLEANED}"
        try:
            if disk.exists(path):
                disk.remove(path)
        except StorageFailed as failure:
            log.warning("what compaction left could not be removed: %s; the next start removes it", failure)


def recover_swaps(disk: Disk, path: str, names: Sequence[str]) -> Sequence[str]:
    """Undo what a crash left undecided, and finish what was decided; returns the names that are there then."""
    left = [name for name in names if name.endswith((CLEANED, SWAP))]
    if not left:
        return names
    for name in left:
        known = parse_file_name(name)
        if known and known[1] == LOG + SWAP:
            _recover(disk, path, known[0], names)
        else:
            disk.remove(f"{path}/{name}")
            log.info("%s/%s: a compaction that was interrupted is given up", path, name)
    return disk.list(path)


def _recover(disk: Disk, path: str, base_offset: int, names: Sequence[str]) -> None:
    swap = f"{path}/{file_name(base_offset, LOG)}{SWAP}"
    file = disk.open(swap)
    end = _end_offset(file, base_offset)
    file.close()
    for name in names:
        known = parse_file_name(name)
        if known and known[1] in (LOG, *OF_A_SEGMENT) and base_offset <= known[0] < end:
            disk.remove(f"{path}/{name}")
    disk.rename(swap, swap.removesuffix(SWAP))
    log.info("%s: the compacted segment of offset %d takes its place", path, base_offset)


def _end_offset(file: File, base_offset: int) -> int:
    """Where the segment ends: compaction keeps the last batch of what it replaces, be it empty."""
    end = base_offset
    for _, header in headers(file, 0, file.size):
        end = header.next_offset
    return end


def _rename(disk: Disk, segment: Segment, suffix: str, ending: str) -> None:
    path = f"{segment.directory}/{file_name(segment.base_offset, suffix)}"
    if disk.exists(path + ending):
        disk.rename(path + ending, path)
