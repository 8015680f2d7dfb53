"""The cursor of a consumer with deserializers, which read a record at the moment at which it is handed out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import KafkaError
from ottla.client.serializers import RecordDeserializer
from ottla.client.types import ConsumerRecord


class DeserializingCursor(Cursor):
    """A cursor whose records are deserialized. The exception of a deserializer leaves the position at the record.

    Columns stay bytes.
    """

    __slots__ = ("_deserializer",)

    calls_user = True

    def __init__(self, chunk: Chunk, deserializer: RecordDeserializer) -> None:
        super().__init__(chunk)
        self._deserializer = deserializer

    def next_records(self, count: int) -> Sequence[ConsumerRecord[Any, Any]]:
        """Return the next `count` records, or fewer at the end of the decoded part, or before a record that cannot be read.

        If the first record cannot be read, raise its exception.
        """
        found: list[ConsumerRecord[Any, Any]] = []
        records = self.open()
        while len(found) < count and (record := records.peek()) is not None:
            try:
                read = self._deserializer.deserialize(record)
            except KafkaError:
                if not found:
                    raise
                break  # the next call raises it
            if self._dropped:  # by another thread, while the record was deserialized
                break
            found.append(read)
            records.skip()
        return found

    def each(self) -> Iterator[ConsumerRecord[Any, Any]]:
        records = self.open()
        while True:
            records.settle()
            record = records.peek()
            if record is None:  # the end of the part, or another thread has called `drop`
                break
            found = self._deserializer.deserialize(record)
            if self._dropped:  # by another thread, while the record was deserialized
                break
            records.skip()
            yield found
