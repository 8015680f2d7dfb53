"""The replacement of segments by a compacted one, so that a crash leaves either the old ones or the new one.

The new file is complete and synced as `.cleaned`. The swap is decided when its renaming to `.swap` is durable. From then on, the
old files are removed and the new file gets its final name, at the next start if necessary. The directory must be synced between
these steps. A sync takes long, so a caller can do other work meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.log.names import CLEANED, INDEX, LOG, OF_A_SEGMENT, SWAP, TIME_INDEX, file_name, parse_file_name
from ottla.log.segments import retention
from ottla.log.segments.scan import headers
from ottla.log.segments.segment import Segment
from ottla.ports import Disk, File, StorageFailed

log = logging.getLogger("ottla.log")


@dataclass(slots=True)
class Swap:
    """A compacted segment that has replaced the `old` segments, but whose files do not have their final names yet.

    The old segments are moved to `removed`, and stay on disk until `deadline_mono_ms`.
    """

    segment: Segment
    old: list[Segment]
    deadline_mono_ms: int
    removed: list[retention.RemovedSegment] = field(default_factory=list)

    def step(self, disk: Disk) -> bool:
        """Mark the old files as deleted, the last one first; in the next call, rename the new files. Return True when done.

        Sync the directory before each call. Raises `StorageFailed`, after which another call continues.
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
        segment.use_final_names()
        return True


def decide(disk: Disk, segment: Segment) -> None:
    """Rename a complete and synced segment from `.cleaned` to `.swap`. Raises `StorageFailed`, and the old segments then stay.

    After a sync of the directory the segment replaces the old segments, even after a crash.
    """
    path = f"{segment.directory}/{file_name(segment.base_offset, LOG)}"
    disk.rename(path + CLEANED, path + SWAP, sync=False)


def remove_cleaned(disk: Disk, segment: Segment) -> None:
    """Remove the `.cleaned` files of a segment that replaces nothing. Log failures of the disk."""
    segment.close()
    for suffix in (LOG, *OF_A_SEGMENT):
        path = f"{segment.directory}/{file_name(segment.base_offset, suffix)}{CLEANED}"
        try:
            if disk.exists(path):
                disk.remove(path)
        except StorageFailed as failure:
            log.warning("files of a compaction could not be removed: %s; the next start removes them", failure)


def recover_swaps(disk: Disk, path: str, names: Sequence[str]) -> Sequence[str]:
    """Finish interrupted compactions that have a `.swap` file, and remove other unfinished files. Return the remaining names."""
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
        # An older swap's segment is contained in this one. Its `.swap` name can be back after the same power cut.
        is_older = known[1] == LOG + SWAP and known[0] > base_offset
        if known[1] in (LOG, *OF_A_SEGMENT) or is_older:
            disk.remove(f"{path}/{name}")
    disk.sync_dir(path)  # otherwise a power cut could bring the old files back beside the new one
    disk.rename(swap, swap.removesuffix(SWAP))
    log.info("%s: the compacted segment of offset %d takes its place", path, base_offset)


def _end_offset(file: File, base_offset: int) -> int:
    """Return the offset after the segment's last batch, which compaction keeps even if it is empty."""
    end = base_offset
    for _, header in headers(file, 0, file.size):
        end = header.next_offset
    return end


def _rename(disk: Disk, segment: Segment, suffix: str, ending: str) -> None:
    path = f"{segment.directory}/{file_name(segment.base_offset, suffix)}"
    if disk.exists(path + ending):
        disk.rename(path + ending, path, sync=False)
