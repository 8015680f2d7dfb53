"""The cursor of a consumer with interceptors, which get the records that the user is about to get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ottla.client.consumer.deserializing_cursor import DeserializingCursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.interceptors import ConsumerInterceptors
from ottla.client.serializers import RecordDeserializer
from ottla.client.types import ConsumerRecord


class InterceptingCursor(DeserializingCursor):
    """A cursor whose records pass interceptors after they were deserialized. Records that an interceptor removes count as read."""

    __slots__ = ("_interceptors",)

    def __init__(self, chunk: Chunk, deserializer: RecordDeserializer, interceptors: ConsumerInterceptors) -> None:
        super().__init__(chunk, deserializer)
        self._interceptors = interceptors

    def next_records(self, count: int) -> Sequence[ConsumerRecord[Any, Any]]:
        records = super().next_records(count)
        return self._interceptors.on_consume(list(records)) if records else records

    def each(self) -> Iterator[ConsumerRecord[Any, Any]]:
        for record in super().each():
            yield from self._interceptors.on_consume([record])
