"""The division of batches that a follower copies into runs that are appended together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.log.segments.segment import LARGEST_RELATIVE
from ottla.records.batches.header import BatchHeader


def runs(headers: Sequence[BatchHeader]) -> Iterator[Sequence[BatchHeader]]:
    """Yield groups of batches without missing offsets. Each group has one leader epoch, and fits into the index of one segment."""
    begin = 0
    for number in range(1, len(headers)):
        before, header = headers[number - 1], headers[number]
        is_too_far = header.last_offset - headers[begin].base_offset > LARGEST_RELATIVE
        if header.base_offset != before.next_offset or header.leader_epoch != before.leader_epoch or is_too_far:
            yield headers[begin:number]
            begin = number
    if headers:
        yield headers[begin:]


def of_producers(run: Sequence[BatchHeader]) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (byte position in the run, header) of each batch that has a producer id."""
    position = 0
    for header in run:
        if header.producer_id >= 0:
            yield position, header
        position += header.size
