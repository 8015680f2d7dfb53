"""The last write of each segment, by which ListOffsets version 0 finds offsets."""

from __future__ import annotations

from ottla.log.log import Log
from ottla.log.names import LOG
from ottla.ports import Disk


def segment_times(disk: Disk, log: Log, wall_ms: int) -> list[tuple[int, int]]:
    """Return (first offset, time of the last write in ms) of each segment, oldest first.

    If the newest segment is not empty, (log's end, `wall_ms`) follows. For a segment without a file the time is `wall_ms`. Raises
    `StorageFailed`.
    """
    found = []
    for segment in log.segments:
        path = segment.path(LOG)
        time = disk.modified_ms(path) if segment.size or disk.exists(path) else wall_ms
        found.append((max(segment.base_offset, log.log_start_offset), time))
    if log.segments[-1].size:
        found.append((log.log_end_offset, wall_ms))
    return found
