"""Rows of a producer with interceptors: each becomes a record, which interceptors can replace, and the results become rows again.

This makes several Python objects for each record, which only producers with interceptors pay.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ottla.client.arguments import topic_name
from ottla.client.interceptors import ProducerRecord
from ottla.client.producer.accumulator import checked_record
from ottla.records import kernel
from ottla.records.batches.builder import NO_ROWS, encode_headers
from ottla.records.batches.columns import open_batches
from ottla.records.batches.rows import Rows, batches_of


class RowGroup(NamedTuple):
    """Successive records of one topic, and of one partition unless it is None, as rows. `first` is the number of the first row."""

    topic: str
    partition: int | None
    records: list[ProducerRecord]
    first: int
    rows: Rows


def records_of(topic: str, rows: Rows, start: int, stop: int, partition: int | None) -> Iterator[ProducerRecord]:
    """Yield the rows from `start` up to `stop` as records, in their order."""
    for batch in batches_of(rows, NO_ROWS, start, stop):
        for record in open_batches(memoryview(batch)).records():
            yield ProducerRecord(topic, record.value, record.key, partition, list(record.headers), record.timestamp)


def group_records(records: Sequence[ProducerRecord], first: int, now_ms: int) -> list[RowGroup]:
    """Return records as rows. `first` is the number of the first record. Raises the exceptions of `send` for a wrong field."""
    made: list[RowGroup] = []
    for (topic, partition), some in groupby(records, lambda record: (topic_name(record.topic), record.partition)):
        together = list(some)
        made.append(RowGroup(topic, partition, together, first, _rows_of(together, now_ms)))
        first += len(together)
    return made


def _rows_of(records: Sequence[ProducerRecord], now_ms: int) -> Rows:
    fields = [checked_record(each.key, each.value, each.headers, each.timestamp_ms) for each in records]
    times = array("q", (now_ms if each.timestamp_ms is None else each.timestamp_ms for each in fields))
    rows = Rows(len(records), memoryview(times))
    rows.key_data = _fill(rows, kernel.KEY_AT, (each.key for each in fields))
    rows.value_data = _fill(rows, kernel.VALUE_AT, (each.value for each in fields))
    rows.header_data = _fill(rows, kernel.HEADERS_AT, (encode_headers(each.headers) if each.headers else b"" for each in fields))
    return rows


def _fill(rows: Rows, column: int, items: Iterable[bytes | None]) -> bytes:
    """Write the position and the size of each item to two columns of spans. Return the items' bytes."""
    at, sizes = rows.column(column), rows.column(column + 1)
    out = bytearray()
    for row, item in enumerate(items):
        at[row], sizes[row] = len(out), -1 if item is None else len(item)
        out += item or b""
    return bytes(out)
