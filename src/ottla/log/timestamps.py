"""From times to offsets (ListOffsets). Knows segments and, in the one batch that matches, the records' timestamps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.log.segment import NO_TIMESTAMP, Segment
from ottla.records.batch import HEADER_BYTES, LOG_APPEND_TIME, read_header
from ottla.records.columns import open_batches
from ottla.records.verify import first_at

Found = tuple[int, int]
"""(timestamp, offset)"""


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start_offset: int) -> Found | None:
    """Return the first record, from `start_offset` on, at or after `timestamp`."""
    for segment in _timed(segments):
        if segment.max_timestamp < timestamp:
            continue
        position = segment.locate_timestamp(timestamp, start_offset)
        while position < segment.size:
            found = _in_batch(segment, position, timestamp, start_offset)
            if found is not None:
                return found
            position += segment.batch_size(position)
    return None


def _timed(segments: Sequence[Segment]) -> Iterator[Segment]:
    """Those that hold batches, with time indexes that can be believed."""
    for segment in segments:
        if segment.size:
            segment.check_times()
            yield segment


def largest(segments: Sequence[Segment], start_offset: int) -> Found | None:
    """Return the first record, from `start_offset` on, with the largest timestamp."""
    timestamp = max((segment.max_timestamp for segment in _timed(segments)), default=NO_TIMESTAMP)
    return first_at_or_after(segments, timestamp, start_offset) if timestamp > NO_TIMESTAMP else None


def _in_batch(segment: Segment, position: int, timestamp: int, start_offset: int) -> Found | None:
    header = read_header(segment.file.read(position, HEADER_BYTES))
    if header.max_timestamp < timestamp:
        return None
    whole_batch = header.max_timestamp, max(header.base_offset, start_offset)
    if header.timestamp_type == LOG_APPEND_TIME:
        return whole_batch
    batch = segment.file.read(position, header.size)
    try:
        if header.record_count == header.last_offset_delta + 1 and header.base_offset >= start_offset:
            return first_at(memoryview(batch), header, timestamp)
        columns = open_batches(batch, from_offset=start_offset)
    except ValueError:  # records that cannot be opened are their writer's fault: the batch is as near as we get
        return whole_batch
    return next((found for found in zip(columns.timestamps, columns.offsets, strict=True) if found[0] >= timestamp), None)
