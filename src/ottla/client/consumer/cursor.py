"""The cursor over a chunk (fetched batches of one partition): which records the user has received, and which are processed.

A record is "in hand" until the user requests more records, and then counts as processed. Commits and positions depend on these
counts. Records are decoded only when needed. If all of them would take too much memory or a batch is damaged, the chunk is decoded
in several parts. The batches of a chunk include control batches only if the user wants them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from ottla.client.consumer.fetcher import UNKNOWN_OFFSET, Chunk, Fetcher
from ottla.client.consumer.uncommitted_partitions import UncommittedPartitions
from ottla.client.errors import BrokerError, SettingError, broker_error
from ottla.client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from ottla.records.batches.columns import Columns, open_batches, record_iterator
from ottla.records.batches.header import BadBatch, BatchHeader, batches
from ottla.records.compression.codecs import CodecFailed
from ottla.wire.errors import CORRUPT_MESSAGE

if TYPE_CHECKING:
    from ottla.records.kernel_record import RecordIterator

TOGETHER_BYTES: Final = 64 * 1024 * 1024
"""The total size to which compressed batches may expand when they are decoded together. A larger batch is decoded alone."""


class OpenedPart(NamedTuple):
    """The result of decoding the beginning of a `Chunk`: the records as columns, and the undecoded rest of the chunk or None."""

    columns: list[Columns]
    rest: Chunk | None


def open_part(chunk: Chunk, *, one_by_one: bool, joined: bool) -> OpenedPart:
    """Return the first records of a chunk as columns, and the rest of the chunk.

    All records are returned if they fit in memory and are undamaged. `one_by_one` skips the attempt to decode them together.
    `joined` joins the runs of batches, as `open_batches` does. Raises `BrokerError` (CORRUPT_MESSAGE) if the first batch cannot be
    decoded. A damaged batch after it stays in the rest.
    """
    if chunk.opened:
        return OpenedPart([left for columns in chunk.opened if len(left := _from_offset(columns, chunk.from_offset))], None)
    if not one_by_one:
        left_bytes, opened = TOGETHER_BYTES, []
        try:
            for piece in chunk.pieces:
                columns = open_batches(piece, from_offset=chunk.from_offset, limit_bytes=left_bytes, control=True, joined=joined)
                left_bytes -= _new_bytes(columns)
                opened.append(columns)
        except (BadBatch, CodecFailed):
            pass  # too large together, or one batch is damaged: decode one by one below
        else:
            return OpenedPart([columns for columns in opened if columns.record_count], None)
    return _first_batches(chunk)


def _first_batches(chunk: Chunk) -> OpenedPart:
    """Decode the first batches, at least one, up to the memory limit or a damaged batch."""
    opened: list[Columns] = []
    sum_bytes = 0
    for index, piece in enumerate(chunk.pieces):
        for position, header in batches(piece):
            if sum_bytes >= TOGETHER_BYTES:
                return OpenedPart(opened, _from(chunk, index, position, header))
            try:
                columns = open_batches(piece[position : position + header.size], from_offset=chunk.from_offset, control=True)
            except (BadBatch, CodecFailed) as error:
                if not opened:
                    raise _unreadable(chunk.where, header, error) from error
                return OpenedPart(opened, _from(chunk, index, position, header))
            sum_bytes += _new_bytes(columns)
            if columns.record_count:
                opened.append(columns)
    return OpenedPart(opened, None)


def _from(chunk: Chunk, index: int, position: int, header: BatchHeader) -> Chunk:
    """Return the rest of `chunk`, which begins with the batch at byte `position` of `chunk.pieces[index]`."""
    pieces = [chunk.pieces[index][position:], *chunk.pieces[index + 1 :]]
    return chunk._replace(pieces=pieces, from_offset=max(chunk.from_offset, header.base_offset))


def _new_bytes(columns: Columns) -> int:
    """Return the number of decompressed bytes in `columns`, without uncompressed batches, which are views of fetched bytes."""
    return sum(len(run.data) for run in columns.runs if run.header.codec)


def _from_offset(columns: Columns, start: int) -> Columns:
    return columns.slice(bisect_left(columns.offsets, start), len(columns))


def _before(columns: Columns, end: int) -> Columns:
    """Return the records of `columns` before offset `end`: a chunk can end within its last batch."""
    return columns if columns.offsets[-1] < end else columns.slice(0, bisect_left(columns.offsets, end))


def _unreadable(where: TopicPartition, header: BatchHeader, error: BadBatch | CodecFailed) -> BrokerError:
    which = f"The batch of offsets {header.base_offset} to {header.last_offset} cannot be opened"
    return broker_error(
        CORRUPT_MESSAGE,
        f"Opening {where.topic}-{where.partition}",
        f"{which} ({str(error).rstrip('.')}): seek to offset {header.next_offset} to read on.",
    )


class Cursor:
    """The records of one chunk of fetched batches, which the consumer returns to its user step by step.

    `taken` counts the records that were returned. A chunk that is too large for
    memory is decoded in several parts; all attributes are about the part that is decoded now. The user of a blocking consumer runs
    `each` on one thread, while the event loop commits and drops records on another thread. Therefore a request for a record changes
    each count of the iterator once, and the removal of one list item decides whether columns were handed out before a drop.
    """

    __slots__ = ("_chunk", "_dropped", "_finished", "_iterator", "_one_by_one", "_rest", "_stop", "_unclaimed", "_whole", "where")

    calls_user: ClassVar = False
    """Whether it calls functions of the user's, which may take long."""

    def __init__(self, chunk: Chunk) -> None:
        self.where = chunk.where
        self._dropped = self._one_by_one = False
        self._begin(chunk)

    def _begin(self, chunk: Chunk) -> None:
        self._iterator: RecordIterator[ConsumerRecord[Any, Any]] | None = None
        self._chunk = chunk
        self._rest: Chunk | None = None
        self._stop = chunk.next_offset
        self._whole = self._finished = False
        self._unclaimed = [True]

    @property
    def taken(self) -> int:
        return 0 if self._iterator is None else self._iterator.taken

    @property
    def exhausted(self) -> bool:
        return self._dropped or (self._rest is None and self._has_ended())

    def _has_ended(self) -> bool:
        """Return whether all records of the decoded part of the chunk were returned to the user."""
        return self._whole or (self._iterator is not None and self._iterator.taken >= self._iterator.end)

    def _open_columns(self, *, joined: bool) -> list[Columns]:
        part = open_part(self._chunk, one_by_one=self._one_by_one, joined=joined)
        if part.rest is not None and not self._dropped:
            self._rest, self._one_by_one, self._stop = part.rest, True, part.rest.from_offset
        return part.columns

    def open(self) -> RecordIterator[ConsumerRecord[Any, Any]]:
        """Return the records of the decoded part of the chunk: an iterator, which counts them as returned.

        Raises `BrokerError` (CORRUPT_MESSAGE) for damaged records.
        """
        if self._iterator is None:
            end = self._chunk.next_offset
            self._iterator = record_iterator([_before(columns, end) for columns in self._open_columns(joined=True)], self.where)
            if self._dropped:  # perhaps another thread called `drop` before the records were decoded
                self._iterator.cut()
        return self._iterator

    def next_records(self, count: int) -> Sequence[ConsumerRecord[Any, Any]]:
        """Return the next `count` records, or fewer at the end of the decoded part of the chunk. Count them as returned."""
        return self.open().next_records(count)

    def remaining_columns(self, *, joined: bool = True) -> list[Columns]:
        """Return all remaining records of the decoded part of the chunk as columns, and count them as returned.

        Unless `joined`, each batch is a run of its columns.
        """
        columns = self.peek_columns(joined=joined)
        return columns if self.claim_columns() else []

    def peek_columns(self, *, joined: bool = True) -> list[Columns]:
        """Return the columns of `remaining_columns`, without counting them as returned."""
        if not self._dropped and self.taken:
            self._chunk = self._chunk._replace(from_offset=self.position())
        return [] if self._dropped else [_before(part, self._chunk.next_offset) for part in self._open_columns(joined=joined)]

    def claim_columns(self, end: int | None = None) -> bool:
        """Count the records of `peek_columns` as returned, and return True. Records from offset `end` on are left for later.

        Return False if another thread has called `drop` meanwhile: the user may not get them.
        """
        if end is not None:
            self._stop, self._rest = end, None if self._dropped else self._chunk._replace(from_offset=end)
        if not self._claim():
            return False
        self._whole = True
        return True

    def finish(self) -> None:
        """Mark the records of claimed columns as processed. Any thread may call this, which has an effect after `claim_columns`."""
        self._finished = True

    def _claim(self) -> bool:
        """Return whether this is the first call for the decoded batches.

        Only the first caller may return or drop them as a whole.
        """
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        return True

    def each(self) -> Iterator[ConsumerRecord[Any, Any]]:
        """Return an iterator over the remaining records. A request for the next record marks the record before it as processed."""
        return self.open()

    @property
    def held(self) -> bool:
        """Return whether the user got any record that is not processed yet."""
        if self._whole:
            return not self._finished
        return self._iterator is not None and self._iterator.taken > self._iterator.processed

    @property
    def is_begun(self) -> bool:
        """Return whether the user got any record of the decoded part of the chunk."""
        return self._whole or self.taken > 0

    def mark_processed(self) -> None:
        """Mark all records that the user got as processed.

        If these were the last of the decoded batches, continue with the rest of the chunk, which is decoded when it is needed.
        """
        if self._iterator is not None:
            self._iterator.settle()
        if self._rest is not None and self._has_ended():
            self._begin(self._rest)

    def pass_over(self) -> None:
        """Skip the next record: count it as processed, although the user does not get it."""
        records = self.open()
        records.skip()
        records.settle()

    def put_back(self) -> None:
        """Take back the records that are not processed yet, because the user did not get them."""
        if self._iterator is not None:
            self._iterator.put_back()
        if self._whole and not self._finished and not self._dropped:
            self._begin(self._chunk)

    def drop(self) -> int:
        """Return no more records to the user, because the partition was revoked or its position changed.

        Return the offset of the next record that the user did not get.
        """
        records = self._iterator
        end = 0 if records is None else records.end
        if records is not None:
            records.cut()  # first, because another thread can get records until then
        if self._claim():  # otherwise the user got all columns, up to `_stop`
            if records is None:
                self._stop = self._chunk.from_offset
            elif records.taken < end:
                self._stop = records.offset(records.taken)
        self._dropped = True
        self._rest = None
        if records is None and self._iterator is not None:  # opened meanwhile
            self._iterator.cut()
        return self._stop

    def position(self) -> int:
        """Return the offset of the next record for the user."""
        return self._stop if self._whole else self._offset(self.taken)

    def first_unprocessed(self) -> int:
        """Return the offset of the first record that is not processed yet."""
        if self._whole and self._finished:
            return self._stop
        return self._offset(0 if self._iterator is None else self._iterator.processed)

    def _offset(self, index: int) -> int:
        if self._iterator is None:
            return self._chunk.from_offset
        return self._iterator.offset(index) if index < self._iterator.end else self._stop


class Progress:
    """The cursors over all chunks that the user has not finished.

    The `Fetcher` has the positions of partitions without a cursor.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        open_cursor: Callable[[Chunk], Cursor] = Cursor,
        *,
        only_stored: bool = False,
        uncommitted: UncommittedPartitions | None = None,
    ) -> None:
        self._fetcher = fetcher
        self._stored: dict[TopicPartition, OffsetAndMetadata] | None = {} if only_stored else None
        """The offsets to commit, if the user stores them; None if the records handed out decide."""
        self._open_cursor = open_cursor
        self._cursors: list[Cursor] = []
        self._uncommitted = uncommitted
        """The partitions whose offsets must not be left out of a transaction; None for a consumer that commits by itself."""

    def begin(self, chunk: Chunk) -> Cursor:
        """Return the cursor of the next records of the chunk's partition.

        While the partition was paused, its cursor may have been left unfinished: then this is the older one.
        """
        cursor = self._open_cursor(chunk)
        self._cursors.append(cursor)
        return next((each for each in self._cursors if each.where == cursor.where and not each.exhausted), cursor)

    def mark_processed(self) -> None:
        """Mark all records that the user got so far as processed."""
        self._note_handed_out()
        for cursor in self._cursors:
            cursor.mark_processed()
        self._cursors = [cursor for cursor in self._cursors if not cursor.exhausted]

    def pass_over(self, where: TopicPartition, offset: int) -> None:
        """Move the position of a partition past the record at `offset`. Do nothing if the position has changed meanwhile."""
        for cursor in self._cursors:
            if cursor.where == where and not cursor.exhausted and cursor.position() == offset:
                cursor.pass_over()

    def put_back(self) -> None:
        """Take back all records that are not processed yet, because an interrupt kept them from the user."""
        for cursor in self._cursors:
            cursor.put_back()

    def left_over(self) -> list[Cursor]:
        """Return the cursors that have more records for the user: the oldest one of each partition that is not paused."""
        paused = self._fetcher.paused_partitions()
        oldest: dict[TopicPartition, Cursor] = {}
        for cursor in self._cursors:
            if not cursor.exhausted and cursor.where not in paused:
                oldest.setdefault(cursor.where, cursor)
        return list(oldest.values())

    def handed_out(self) -> frozenset[object]:
        """Return the position of the user in each chunk: a set with further items once the user got further records."""
        return frozenset((id(cursor), cursor.position()) for cursor in self._cursors)

    def holds(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether the user still processes records of these partitions."""
        asked = set(partitions)
        return any(cursor.held for cursor in self._cursors if cursor.where in asked)

    def cut_short(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of partitions that are about to be revoked. Their positions stay the same."""
        for where in partitions:
            left = [cursor.drop() for cursor in self._cursors if cursor.where == where and not cursor.exhausted]
            position = min(left, default=self._fetcher.state_of(where).position)
            self._fetcher.retire(where).position = position

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove the cursors of partitions that are not read any more."""
        gone = set(partitions)
        self.drop(gone)
        if self._uncommitted is not None:
            self._uncommitted.remove(gone)

    def confirm(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that these offsets are committed, or part of a transaction."""
        self._note_handed_out()
        if self._uncommitted is not None:
            self._uncommitted.confirm(offsets)

    def _note_handed_out(self) -> None:
        if self._uncommitted is not None:
            for cursor in self._cursors:
                if cursor.is_begun:
                    self._uncommitted.hand_out(cursor.where, cursor.position())

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove the cursors of these partitions, so that the user gets none of their remaining records."""
        gone = set(partitions)
        for cursor in self._cursors:
            if cursor.where in gone:
                cursor.drop()
        self._note_handed_out()  # only now, because another thread can get records until then
        if self._uncommitted is not None:
            self._uncommitted.reposition(gone)
        self._cursors = [cursor for cursor in self._cursors if cursor.where not in gone]

    def store(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Replace the offsets to commit of these partitions. Raises `SettingError` if processed records decide on them."""
        if self._stored is None:
            raise SettingError("store_offsets() is for consumers with enable_auto_offset_store=False: give it, or call commit().")
        for where in offsets:
            self._fetcher.state_of(where)  # raises unless it is assigned
        self._stored.update(offsets)

    def forget_stored(self, partitions: Iterable[TopicPartition]) -> None:
        for where in partitions:
            if self._stored is not None:
                self._stored.pop(where, None)

    def position(self, where: TopicPartition) -> int:
        """Return the offset of the next record of the partition for the user, or -1 if the offset is still unknown."""
        going = [cursor.position() for cursor in self._cursors if cursor.where == where and not cursor.exhausted]
        return min(going, default=self._fetcher.state_of(where).position)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after all records that the user got."""
        return self._with_offsets((where, self.position(where)) for where in self._fetcher.partitions)

    def processed_offsets(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit if only processed records count, or the stored ones. `partitions` None means all."""
        wanted = list(self._fetcher.partitions if partitions is None else partitions)
        if self._stored is not None:
            return {where: self._stored[where] for where in wanted if where in self._stored}
        return self._with_offsets((where, self._first_unprocessed(where)) for where in wanted if where in self._fetcher.partitions)

    def offsets_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that `commit()` commits: after all records that the user got, or the stored ones."""
        return self.positions() if self._stored is None else self.processed_offsets()

    def _first_unprocessed(self, where: TopicPartition) -> int:
        open_ends = [cursor.first_unprocessed() for cursor in self._cursors if cursor.where == where]
        return min(open_ends, default=self._fetcher.state_of(where).position)

    def _with_offsets(self, found: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {where: OffsetAndMetadata(offset) for where, offset in found if offset != UNKNOWN_OFFSET}
