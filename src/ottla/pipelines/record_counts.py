"""Counts of records: how many are between two offsets, and at which offset a number of them ends. Blocking; decodes few batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.consumer.range_reader import RangeReader
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import batches


def rows_between(settings: ConsumerSettings, where: TopicPartition, start: int, end: int) -> int:
    """Return the number of visible records from `start` up to, not including, `end`. Raises the client's exceptions."""
    return sum(len(offsets) for offsets in _offsets(settings, where, start, end))


def offset_after(settings: ConsumerSettings, where: TopicPartition, start: int, end: int, rows: int) -> int:
    """Return the offset after `rows` records from `start` on; `end` if there are fewer records. Raises the client's exceptions."""
    if rows == 0:
        return start
    for offsets in _offsets(settings, where, start, end):
        if rows <= len(offsets):
            return offsets[rows - 1] + 1
        rows -= len(offsets)
    return end


def _offsets(settings: ConsumerSettings, where: TopicPartition, start: int, end: int) -> Iterator[range | memoryview[int]]:
    """Yield the record offsets of each batch in the range."""
    reader = RangeReader(settings, where, start, end)
    with asyncio.Runner() as runner:
        try:
            while (found := runner.run(reader.next_batches())) is not None:
                for records in found:
                    yield from _of_batches(records, start, end)
        finally:
            runner.run(reader.close())


def _of_batches(records: memoryview, start: int, end: int) -> Iterator[range | memoryview[int]]:
    for position, header in batches(records):
        whole = start <= header.base_offset and header.next_offset <= end
        if whole and header.record_count == header.next_offset - header.base_offset:
            yield range(header.base_offset, header.next_offset)
        else:
            yield open_batches(records[position : position + header.size], from_offset=start, until_offset=end).offsets
