"""A consumer's progress: the records handed out to the user, and which of them are processed."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetcher import UNKNOWN_OFFSET, Chunk, Fetcher
from ottla.client.types import OffsetAndMetadata, TopicPartition


class Progress:
    """The cursors over a fetcher's chunks. A partition without a cursor has the position of the fetcher."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._cursors: list[Cursor] = []

    def begin(self, chunk: Chunk) -> Cursor:
        cursor = Cursor(chunk)
        self._cursors.append(cursor)
        return cursor

    def mark_processed(self) -> None:
        """Mark all records handed out so far as processed."""
        for cursor in self._cursors:
            cursor.mark_processed()
        self._cursors = [cursor for cursor in self._cursors if not cursor.exhausted]

    def left_over(self) -> Cursor | None:
        """Return a cursor with more records to hand out, of a partition that is not paused; None if there is no cursor."""
        paused = self._fetcher.paused()
        return next((cursor for cursor in self._cursors if not cursor.exhausted and cursor.where not in paused), None)

    def holds(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether the user still processes records of these partitions."""
        asked = set(partitions)
        return any(cursor.held for cursor in self._cursors if cursor.where in asked)

    def cut_short(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out no more records of partitions that are about to be revoked. Their positions stay."""
        for where in partitions:
            # This comes before the cursors are dropped, because the position depends on them.
            position = self.position(where)
            self._fetcher.retire(where).position = position
        going = set(partitions)
        for cursor in self._cursors:
            if cursor.where in going:
                cursor.drop()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out no more records of these partitions."""
        gone = set(partitions)
        for cursor in self._cursors:
            if cursor.where in gone:
                cursor.drop()
        self._cursors = [cursor for cursor in self._cursors if cursor.where not in gone]

    def position(self, where: TopicPartition) -> int:
        """Return the offset of the next record to hand out; -1 if still unknown."""
        going = [cursor.position() for cursor in self._cursors if cursor.where == where and not cursor.exhausted]
        return min(going, default=self._fetcher.reading(where).position)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit if all records handed out are to count as processed."""
        return self._known((where, self.position(where)) for where in self._fetcher.partitions)

    def done(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit if only processed records count; of all partitions if `partitions` is None."""
        wanted = list(self._fetcher.partitions if partitions is None else partitions)
        return self._known((where, self._done(where)) for where in wanted if where in self._fetcher.partitions)

    def _done(self, where: TopicPartition) -> int:
        open_ends = [cursor.done() for cursor in self._cursors if cursor.where == where]
        return min(open_ends, default=self._fetcher.reading(where).position)

    def _known(self, found: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {where: OffsetAndMetadata(offset) for where, offset in found if offset != UNKNOWN_OFFSET}
