"""The cursor of a consumer with interceptors, which get the records that the user is about to get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from ottla.client.consumer.deserializing_cursor import DeserializingCursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import KafkaError
from ottla.client.interceptors import ConsumerInterceptors
from ottla.client.serializers import RecordDeserializer
from ottla.client.types import ConsumerRecord
from ottla.records.batches.columns import Columns

REPLACED = (
    "An interceptor replaced records of batches() or columns(), which can only leave records out: read by records() or poll()."
)


class InterceptingCursor(DeserializingCursor):
    """A cursor whose records pass interceptors after they were deserialized. Records that an interceptor removes count as read.

    Columns pass them too, as records of bytes. Interceptors can leave out some of these, and replace none.
    """

    __slots__ = ("_interceptors", "_kept", "_passed_offset")

    def __init__(self, chunk: Chunk, deserializer: RecordDeserializer, interceptors: ConsumerInterceptors) -> None:
        super().__init__(chunk, deserializer)
        self._interceptors = interceptors
        self._kept: set[int] = set()
        self._passed_offset = chunk.from_offset
        """The offset up to which the records of columns have passed: they can be opened again, if one cannot be decoded."""

    def next_records(self, count: int) -> Sequence[ConsumerRecord[Any, Any]]:
        records = super().next_records(count)
        return self._interceptors.on_consume(list(records)) if records else records

    def each(self) -> Iterator[ConsumerRecord[Any, Any]]:
        for record in super().each():
            yield from self._interceptors.on_consume([record])

    def peek_columns(self, *, joined: bool = True) -> list[Columns]:
        """Return the columns of the records that interceptors keep. Raises `KafkaError` if they have replaced one."""
        return [kept for columns in super().peek_columns(joined=joined) for kept in self._select(columns)]

    def _select(self, columns: Columns) -> Iterator[Columns]:
        records: list[ConsumerRecord] = columns.records(self.where)
        fresh = [record for record in records if record.offset >= self._passed_offset]
        if fresh:
            kept = self._interceptors.on_consume(list(fresh))
            if not {*map(id, kept)} <= {*map(id, fresh)}:
                raise KafkaError(REPLACED)
            self._kept.update(record.offset for record in kept)
            self._passed_offset = fresh[-1].offset + 1
        for start, stop in _runs(row for row, record in enumerate(records) if record.offset in self._kept):
            yield columns.slice(start, stop)


def _runs(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of each run of successive rows."""
    for _, run in groupby(enumerate(rows), lambda pair: pair[1] - pair[0]):
        found = [row for _, row in run]
        yield found[0], found[-1] + 1
