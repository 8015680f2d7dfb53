"""The cursor over a chunk: which records the user has received, and which of them are processed.

A record is "in hand" until the user requests more records, and then counts as processed. Commits and positions depend on these
counts. Records are decoded only when needed, and part by part if all of them would take too much memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.client.consumer.chunk_parts import open_part
from ottla.client.consumer.fetcher import Chunk
from ottla.client.types import ConsumerRecord
from ottla.records.batches.columns import Columns


class Cursor:
    """A chunk whose records are being handed out: `taken` were, and the last `in_hand` of them are not processed yet.

    A chunk is decoded part by part, and all attributes are about the current part. `mark_processed` begins the
    next part. The user of a blocking consumer runs `each` on one thread, while the event loop commits and drops records on another
    thread. Therefore both counts change in one assignment.
    """

    __slots__ = ("_chunk", "_dropped", "_one_by_one", "_rest", "_stop", "_whole", "counts", "records", "where")

    def __init__(self, chunk: Chunk) -> None:
        self.where = chunk.where
        self._dropped = self._one_by_one = False
        self._begin(chunk)

    def _begin(self, chunk: Chunk) -> None:
        self.records: list[ConsumerRecord] | None = None
        self.counts = (0, 0)
        """(records handed out, records of these that are not processed yet)"""
        self._chunk = chunk
        self._rest: Chunk | None = None
        self._stop = chunk.next_offset
        self._whole = False

    @property
    def taken(self) -> int:
        return self.counts[0]

    @property
    def exhausted(self) -> bool:
        return self._dropped or (self._rest is None and self._has_ended())

    def _has_ended(self) -> bool:
        """Return whether all records of the current part were handed out."""
        return self._whole or (self.records is not None and self.taken >= len(self.records))

    def _opened(self) -> list[Columns]:
        part = open_part(self._chunk, one_by_one=self._one_by_one)
        if part.rest is not None and not self._dropped:
            self._rest, self._one_by_one, self._stop = part.rest, True, part.rest.from_offset
        return part.columns

    def open(self) -> list[ConsumerRecord]:
        """Return the records of the current part as objects. Raises `BrokerError` (CORRUPT_MESSAGE) if they cannot be decoded."""
        if self.records is None:
            self.records = [record for columns in self._opened() for record in columns.records(self.where)]
            if self._dropped:  # perhaps another thread called `drop` before the records were decoded
                del self.records[self.taken :]
        return self.records

    def take(self, count: int) -> Sequence[ConsumerRecord]:
        """Return the next `count` records, or fewer at the end of the part, and count them as handed out."""
        taken, in_hand = self.counts
        part = self.open()[taken : taken + count]
        self.counts = (taken + len(part), in_hand + len(part))
        return part

    def take_columns(self) -> list[Columns]:
        """Return all remaining records of the current part as columns, and count them as handed out."""
        if not self._dropped and self.taken:
            self._chunk = self._chunk._replace(from_offset=self.position())
        columns = [] if self._dropped else self._opened()
        self._whole = True
        return columns

    def each(self) -> Iterator[ConsumerRecord]:
        """Yield the remaining records one by one. When the next record is requested, the previous one counts as processed."""
        records = self.open()
        while True:
            taken = self.taken
            try:
                record = records[taken]
            except IndexError:  # the end of the part, or another thread has called `drop`
                break
            self.counts = (taken + 1, 1)
            yield record
        self.counts = (self.taken, 0)

    @property
    def held(self) -> bool:
        """Return whether any record was handed out and is not processed yet."""
        return self.counts[1] > 0 or self._whole

    def mark_processed(self) -> None:
        """Mark all records handed out as processed. If all decoded records are, the next ones are decoded on demand."""
        self.counts = (self.taken, 0)
        if self._rest is not None and self._has_ended():
            self._begin(self._rest)

    def drop(self) -> int:
        """Hand out no more records, because the partition was revoked or its position changed. Return the position."""
        self._stop = self.position()
        self._dropped = True
        self._rest = None
        if self.records is not None:
            del self.records[self.taken :]
        return self._stop

    def position(self) -> int:
        """Return the offset of the next record to hand out."""
        return self._stop if self._whole else self._offset(self.taken)

    def done(self) -> int:
        """Return the offset of the first record that is not processed yet."""
        taken, in_hand = self.counts
        return self._offset(taken - in_hand)

    def _offset(self, index: int) -> int:
        if self.records is None:
            return self._chunk.from_offset
        return self.records[index].offset if index < len(self.records) else self._stop
