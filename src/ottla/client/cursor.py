"""Which records of a chunk were handed out, and which of those are processed: what commits and positions rest on.

A record in hand (the one that a loop works on, or those that a poll returned) counts as processed once more records are asked for.
Records are opened only when needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.client.errors import broker_error
from ottla.client.fetcher import Chunk
from ottla.client.types import ConsumerRecord
from ottla.records.batch import BadBatch
from ottla.records.codecs import CodecFailed
from ottla.records.columns import Columns, open_batches
from ottla.wire.errors import CORRUPT_MESSAGE


def open_chunk(chunk: Chunk, from_offset: int = 0) -> list[Columns]:
    """The chunk's records as columns. Raises `BrokerError` (CORRUPT_MESSAGE) for batches that cannot be opened."""
    try:
        opened = [open_batches(piece, from_offset=max(from_offset, chunk.from_offset)) for piece in chunk.pieces]
    except (BadBatch, CodecFailed) as error:
        raise broker_error(CORRUPT_MESSAGE, f"Opening {chunk.where.topic}-{chunk.where.partition}", str(error)) from error
    return [columns for columns in opened if columns.record_count]


def open_records(chunk: Chunk) -> list[ConsumerRecord]:
    """The chunk's records as objects."""
    records: list[ConsumerRecord] = []
    for columns in open_chunk(chunk):
        records += columns.records(chunk.where)
    return records


class Cursor:
    """A chunk being handed out. `taken` records were handed out; the last `in_hand` of them are not processed yet."""

    __slots__ = ("_chunk", "_dropped", "_stop", "_whole", "in_hand", "records", "taken", "where")

    def __init__(self, chunk: Chunk) -> None:
        self.where = chunk.where
        self.records: list[ConsumerRecord] | None = None
        self.taken = self.in_hand = 0
        self._chunk = chunk
        self._stop = chunk.next_offset
        self._whole = self._dropped = False

    @property
    def exhausted(self) -> bool:
        opened = self.records is not None and self.taken >= len(self.records)
        return self._whole or self._dropped or opened

    def open(self) -> list[ConsumerRecord]:
        """The records, as objects. Raises `BrokerError` (CORRUPT_MESSAGE)."""
        if self.records is None:
            opened = open_records(self._chunk)
            self.records = [] if self._dropped else opened
        return self.records

    def take(self, count: int) -> Sequence[ConsumerRecord]:
        """Hand out the next `count` records at once."""
        part = self.open()[self.taken : self.taken + count]
        self.taken += len(part)
        self.in_hand += len(part)
        return part

    def take_columns(self) -> list[Columns]:
        """Hand out the rest at once, as columns."""
        columns = [] if self._dropped else open_chunk(self._chunk, self.position())
        self._whole = True
        return columns

    def each(self) -> Iterator[ConsumerRecord]:
        """Hand out the rest one by one; asking for the next marks the one before as processed."""
        records = self.open()
        while True:
            try:
                record = records[self.taken]
            except IndexError:  # the end, or another thread dropped what was left
                break
            self.taken += 1
            self.in_hand = 1
            yield record
        self.in_hand = 0

    @property
    def held(self) -> bool:
        """Whether something that was handed out is not processed yet."""
        return self.in_hand > 0 or self._whole

    def settle(self) -> None:
        """Everything handed out is processed."""
        self.in_hand = 0

    def drop(self) -> int:
        """Hand out nothing more; return the offset where this ends. The partition has moved, or is read from elsewhere."""
        self._stop = self.position()
        self._dropped = True
        if self.records is not None:
            del self.records[self.taken :]
        return self._stop

    def position(self) -> int:
        """The offset of the next record to hand out."""
        return self._stop if self._whole else self._offset(self.taken)

    def done(self) -> int:
        """The offset of the first record that is not processed yet."""
        return self._offset(self.taken - self.in_hand)

    def _offset(self, index: int) -> int:
        if self.records is None:
            return self._chunk.from_offset
        return self.records[index].offset if index < len(self.records) else self._stop
