"""The replacement of segments by a compacted one, so that a crash leaves either the old ones or the new one.

The new file is complete and synced as `.cleaned`; renaming it to `.swap` decides, when that is durable. From then on, now or at
the next start, the old files are removed and it gets its final name. Between these steps the directory is synced, which takes
long: a caller may wait, or have it synced and come back. The module uses names and headers only.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.log.names import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, TRANSACTION_INDEX, file_name, parse_file_name
from ottla.log.segments import retention
from ottla.log.segments.scan import headers
from ottla.log.segments.segment import Segment
from ottla.ports import Disk, File, StorageFailed

log = logging.getLogger("ottla.log")

OF_A_SEGMENT = (INDEX, TIME_INDEX, TRANSACTION_INDEX)


@dataclass(slots=True)
class Swap:
    """A segment that has replaced the `old` ones, before its files have their final names.

    The old ones go to `removed`, and stay on disk until `deadline_mono_ms`.
    """

    segment: Segment
    old: list[Segment]
    deadline_mono_ms: int
    removed: list[retention.RemovedSegment] = field(default_factory=list)

    def go_on(self, disk: Disk) -> bool:
        """Remove the old files, last first; in the next call, rename the new ones. Return True when done.

        Call it when the directory was synced since `decide` and since the last call. After `StorageFailed`, call it again.
        """
        if self.old:
            while self.old:
                self.removed.append(retention.mark_removed(disk, self.old[-1], self.deadline_mono_ms))
                self.old.pop()
            return False
        segment = self.segment
        segment.index.close()
        segment.times.close()
        for suffix in (INDEX, TIME_INDEX):
            _rename(disk, segment, suffix, CLEANED)
        _rename(disk, segment, LOG, SWAP)
        segment.renamed()
        return True


def decide(disk: Disk, segment: Segment) -> None:
    """Let a complete and synced `.cleaned` segment replace the old ones, when the directory is synced.

    Raises `StorageFailed`: the old ones then stay.
    """
    path = f"{segment.directory}/{file_name(segment.base_offset, LOG)}"
    disk.rename(path + CLEANED, path + SWAP, sync=False)


def remove_cleaned(disk: Disk, segment: Segment) -> None:
    """Remove the files of a segment that was not used."""
    segment.close()
    for suffix in (LOG, *OF_A_SEGMENT):
        path = f"{segment.directory}/{file_name(segment.base_offset, suffix)}{CLEANED}"
        try:
            if disk.exists(path):
                disk.remove(path)
        except StorageFailed as failure:
            log.warning("files of a compaction could not be removed: %s; the next start removes them", failure)


def recover_swaps(disk: Disk, path: str, names: Sequence[str]) -> Sequence[str]:
    """Undo interrupted compactions that were not decided, finish those that were; return the names that remain."""
    left = [name for name in names if name.endswith((CLEANED, SWAP))]
    if not left:
        return names
    for name in left:
        known = parse_file_name(name)
        if not disk.exists(f"{path}/{name}"):
            continue
        if known and known[1] == LOG + SWAP:
            _recover(disk, path, known[0], names)
        else:
            disk.remove(f"{path}/{name}")
            log.info("%s/%s: an interrupted compaction is dropped", path, name)
    return disk.list(path)


def _recover(disk: Disk, path: str, base_offset: int, names: Sequence[str]) -> None:
    swap = f"{path}/{file_name(base_offset, LOG)}{SWAP}"
    file = disk.open(swap)
    end = _end_offset(file, base_offset)
    file.close()
    for name in names:
        known = parse_file_name(name)
        if known is None or not base_offset <= known[0] < end:
            continue
        # A segment that became part of this one may have lost its new name by the same power cut.
        is_older = known[1] == LOG + SWAP and known[0] > base_offset
        if known[1] in (LOG, *OF_A_SEGMENT) or is_older:
            disk.remove(f"{path}/{name}")
    disk.sync_dir(path)  # or a power cut could bring them back beside the one that replaced them
    disk.rename(swap, swap.removesuffix(SWAP))
    log.info("%s: the compacted segment of offset %d takes its place", path, base_offset)


def _end_offset(file: File, base_offset: int) -> int:
    """Return the offset at which the segment ends: compaction keeps the last batch of the segments it replaces, even if empty."""
    end = base_offset
    for _, header in headers(file, 0, file.size):
        end = header.next_offset
    return end


def _rename(disk: Disk, segment: Segment, suffix: str, ending: str) -> None:
    path = f"{segment.directory}/{file_name(segment.base_offset, suffix)}"
    if disk.exists(path + ending):
        disk.rename(path + ending, path, sync=False)
