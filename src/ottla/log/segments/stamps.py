"""The fields that a log writes into batches, in place. It uses only their headers."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.log.segments.scan import LENGTH_FROM
from ottla.records.batches.header import BatchHeader, set_log_append_time, stamp

NO_TIMESTAMP = -1


def stamp_all(
    view: bytearray | memoryview, headers: Sequence[BatchHeader], next_offset: int, leader_epoch: int
) -> tuple[int, int, int]:
    """Set the offsets of batches; return (their size, the offset after them, their largest timestamp)."""
    position, newest = 0, NO_TIMESTAMP
    for header in headers:
        stamp(view, position, next_offset, leader_epoch)
        position += header.batch_length + LENGTH_FROM
        next_offset += header.last_offset_delta + 1
        if header.max_timestamp > newest:
            newest = header.max_timestamp
    return position, next_offset, newest


def set_times(view: bytearray | memoryview, headers: Sequence[BatchHeader], now_ms: int) -> list[BatchHeader]:
    """Set the timestamps of batches to the time of their append; return their new headers."""
    stamped, position = [], 0
    for header in headers:
        set_log_append_time(view, position, header.size, now_ms)
        stamped.append(header._replace(max_timestamp=now_ms))
        position += header.size
    return stamped
