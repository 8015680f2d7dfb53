"""From times to offsets (ListOffsets). Knows segments and, in the one batch that matches, the records' timestamps."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from ottla.log.segment import NO_TIMESTAMP, Segment
from ottla.records.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, read_header
from ottla.records.columns import ROW_BYTES, open_batches
from ottla.records.limits import PAUSE_BYTES
from ottla.records.opening import may_be_large
from ottla.records.steps import finish
from ottla.records.verify import MOST_OPENED_BYTES, first_at

Found = tuple[int, int]
"""(timestamp, offset)"""

MOST_AT_ONCE = PAUSE_BYTES // 16
"""Records that are looked at while others wait."""


class Sought(NamedTuple):
    """A batch that takes long to open, in which the record may be. If it is not, it is looked for from `next_offset` on."""

    batch: memoryview
    header: BatchHeader
    timestamp: int
    start_offset: int

    @property
    def next_offset(self) -> int:
        return self.header.next_offset

    def look(self) -> Generator[int, None, Found | None]:
        """Look for it, and tell at each pause how many bytes of memory that takes from there on."""
        header = self.header
        try:
            if header.record_count == header.last_offset_delta + 1 and header.base_offset >= self.start_offset:
                return (yield from first_at(self.batch, header, self.timestamp))
            if header.codec:
                yield MOST_OPENED_BYTES
            if header.record_count * ROW_BYTES > MOST_OPENED_BYTES:
                return self.whole
            columns = open_batches(self.batch, from_offset=self.start_offset, limit_bytes=MOST_OPENED_BYTES)
        except ValueError:  # records that cannot be opened are their writer's fault: the batch is as near as we get
            return self.whole
        return next((found for found in zip(columns.timestamps, columns.offsets, strict=True) if found[0] >= self.timestamp), None)

    @property
    def whole(self) -> Found:
        """The batch, where no record of it can be told from another."""
        return self.header.max_timestamp, max(self.header.base_offset, self.start_offset)


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start_offset: int) -> Found | Sought | None:
    """Return the first record, from `start_offset` on, at or after `timestamp`; or a batch that takes long to be searched."""
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


def largest(segments: Sequence[Segment], start_offset: int) -> Found | Sought | None:
    """Return the first record, from `start_offset` on, with the largest timestamp; or the batch in which it is, as above."""
    timestamp = max((segment.max_timestamp for segment in _timed(segments)), default=NO_TIMESTAMP)
    return first_at_or_after(segments, timestamp, start_offset) if timestamp > NO_TIMESTAMP else None


def _in_batch(segment: Segment, position: int, timestamp: int, start_offset: int) -> Found | Sought | None:
    header = read_header(segment.file.read(position, HEADER_BYTES))
    if header.max_timestamp < timestamp:
        return None
    if header.timestamp_type == LOG_APPEND_TIME:
        return header.max_timestamp, max(header.base_offset, start_offset)
    batch = memoryview(segment.file.read(position, header.size))
    sought = Sought(batch, header, timestamp, start_offset)
    if header.record_count > MOST_AT_ONCE or (header.codec and may_be_large(header.codec, batch[HEADER_BYTES:])):
        return sought
    return finish(sought.look())
