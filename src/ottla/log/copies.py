"""Batches that a follower copies from its leader. Knows their headers, and how far a segment reaches; knows no segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.log.segment import LARGEST_RELATIVE
from ottla.records.batch import BatchHeader


def runs(headers: Sequence[BatchHeader]) -> Iterator[Sequence[BatchHeader]]:
    """Divide batches where offsets are missing, another leader epoch begins, or a segment's index could not reach."""
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
    """(position, header) of those batches that say who wrote them."""
    position = 0
    for header in run:
        if header.producer_id >= 0:
            yield position, header
        position += header.size
