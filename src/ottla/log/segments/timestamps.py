"""The search of offsets by timestamp (ListOffsets). It uses segments and, in the matching batch, the records' timestamps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from ottla.log.segments.scan import base_offset, max_timestamps
from ottla.log.segments.segment import NO_TIMESTAMP, Segment
from ottla.records.batches.columns import ROW_BYTES, open_batches
from ottla.records.batches.header import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, read_header
from ottla.records.batches.verification import MOST_OPENED_BYTES, first_at
from ottla.records.compression.decompression import may_be_large
from ottla.records.compression.limits import PAUSE_BYTES
from ottla.records.pauses import finish

Found = tuple[int, int]
"""(timestamp, offset)"""

MOST_AT_ONCE = PAUSE_BYTES // 16
"""The most records of a batch that are searched in one step without pauses."""


PASSED_AT_ONCE = 2000
"""Batches skipped between two pauses: about a millisecond's work."""


class Sought(NamedTuple):
    """A large batch that possibly contains the record of a search by timestamp. If not, the search continues at `next_offset`.

    With `is_largest`, search for the record with the largest timestamp, else for the first one at or after `timestamp`.
    """

    batch: memoryview
    header: BatchHeader
    timestamp: int
    start_offset: int
    is_largest: bool = False

    @property
    def next_offset(self) -> int:
        return self.header.next_offset

    def search(self) -> Generator[int, None, Found | None]:
        """Search the batch; yield, at each pause, the bytes of memory that the remaining work needs. Return the record or None."""
        header = self.header
        try:
            if header.record_count == header.last_offset_delta + 1 and header.base_offset >= self.start_offset:
                return (yield from first_at(self.batch, header, self.timestamp))
            if header.codec:
                yield MOST_OPENED_BYTES
            if header.record_count * ROW_BYTES > MOST_OPENED_BYTES:
                return self.whole
            columns = open_batches(self.batch, from_offset=self.start_offset, limit_bytes=MOST_OPENED_BYTES)
        except ValueError:  # the producer wrote records that cannot be opened: the batch itself is the closest result
            return self.whole
        least = max(self.timestamp, max(columns.timestamps, default=NO_TIMESTAMP)) if self.is_largest else self.timestamp
        return next((found for found in zip(columns.timestamps, columns.offsets, strict=True) if found[0] >= least), None)

    @property
    def whole(self) -> Found:
        """Return (largest timestamp, first offset) of the batch, for a batch whose records cannot be read."""
        return self.header.max_timestamp, max(self.header.base_offset, self.start_offset)


class Further(NamedTuple):
    """The state of a search by timestamp that paused and continues at `next_offset`.

    `timestamp` is the searched timestamp. With `is_largest`, it is the largest timestamp so far.
    """

    next_offset: int
    timestamp: int
    is_largest: bool = False


Answer = Found | Sought | Further | None


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start_offset: int, *, is_largest: bool = False) -> Answer:
    """Return the first record, from `start_offset` on, at or after `timestamp`; or the batch in which to search for it.

    `is_largest`: search for the largest timestamp, which is at most `timestamp` in all batches from `start_offset` on.
    """
    for segment in _with_checked_times(segments, start_offset):
        if segment.max_timestamp < timestamp:
            continue
        position = segment.locate_timestamp(timestamp, start_offset)
        for passed, (at, max_timestamp) in enumerate(max_timestamps(segment.file, position, segment.size)):
            if passed == PASSED_AT_ONCE:
                return Further(base_offset(segment.file, at), timestamp)
            found = _in_batch(segment, at, timestamp, start_offset, is_largest) if max_timestamp >= timestamp else None
            if found is not None:
                return found
    return None


def _with_checked_times(segments: Sequence[Segment], start_offset: int) -> Iterator[Segment]:
    """Yield the segments with batches from `start_offset` on, after a check of their time indexes."""
    first = max(0, bisect_right(segments, start_offset, key=lambda segment: segment.base_offset) - 1)
    for segment in segments[first:]:
        if segment.size:
            segment.check_times()
            yield segment


def largest(segments: Sequence[Segment], start_offset: int, so_far: Further | None = None) -> Answer:
    """Return the first record, from `start_offset` on, with the largest timestamp; or the batch in which to search for it.

    `so_far` is the state of a search that paused.
    """
    timestamp, from_offset = (so_far.timestamp, so_far.next_offset) if so_far else (NO_TIMESTAMP, start_offset)
    for segment in _with_checked_times(segments, from_offset):
        if segment.max_timestamp <= timestamp:
            continue
        whole = _first_whole(segment, from_offset)
        if segment.max_timestamp_offset >= whole:
            timestamp = segment.max_timestamp
            continue
        for passed, (at, max_timestamp) in enumerate(max_timestamps(segment.file, segment.locate(whole), segment.size)):
            if passed == PASSED_AT_ONCE:
                return Further(base_offset(segment.file, at), timestamp, True)
            timestamp = max(timestamp, max_timestamp)
    return first_at_or_after(segments, max(timestamp, 0), start_offset, is_largest=True)


def _first_whole(segment: Segment, from_offset: int) -> int:
    """Return the base offset of the first batch without records before `from_offset`.

    Timestamps are right only from this batch on, because indexes and headers include the timestamps of deleted records.
    """
    if segment.base_offset >= from_offset:
        return segment.base_offset
    position = segment.locate(from_offset)
    if position >= segment.size:
        return from_offset
    header = read_header(segment.file.read(position, HEADER_BYTES))
    return header.base_offset if header.base_offset >= from_offset else header.next_offset


def _in_batch(segment: Segment, position: int, timestamp: int, start_offset: int, is_largest: bool) -> Found | Sought | None:
    header = read_header(segment.file.read(position, HEADER_BYTES))
    if header.max_timestamp < timestamp:
        return None
    if header.timestamp_type == LOG_APPEND_TIME:
        return header.max_timestamp, max(header.base_offset, start_offset)
    batch = memoryview(segment.file.read(position, header.size))
    # In a batch whose first records were deleted, the first record at or after `timestamp` need not be the newest.
    sought = Sought(batch, header, timestamp, start_offset, is_largest and header.base_offset < start_offset)
    if header.record_count > MOST_AT_ONCE or (header.codec and may_be_large(header.codec, batch[HEADER_BYTES:])):
        return sought
    return finish(sought.search())
