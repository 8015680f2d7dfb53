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

    `records` has the records as they were fetched, and columns stay bytes.
    """

    __slots__ = ("_deserializer",)

    def __init__(self, chunk: Chunk, deserializer: RecordDeserializer) -> None:
        super().__init__(chunk)
        self._deserializer = deserializer

    def next_records(self, count: int) -> Sequence[ConsumerRecord[Any, Any]]:
        """Return the next `count` records, or fewer at the end of the decoded part, or before a record that cannot be read.

        If the first record cannot be read, raise its exception.
        """
        found: list[ConsumerRecord[Any, Any]] = []
        taken, in_hand = self.counts
        for record in self.open()[taken : taken + count]:
            try:
                found.append(self._deserializer.deserialize(record))
            except KafkaError:
                if not found:
                    raise
                break  # the next call raises it
        self.counts = (taken + len(found), in_hand + len(found))
        return found

    def each(self) -> Iterator[ConsumerRecord[Any, Any]]:
        records = self.open()
        while True:
            taken = self.taken
            self.counts = (taken, 0)
            try:
                record = self._deserializer.deserialize(records[taken])
            except IndexError:  # the end of the part, or another thread has called `drop`
                break
            if self._dropped:  # by another thread, while the record was deserialized
                break
            self.counts = (taken + 1, 1)
            yield record
