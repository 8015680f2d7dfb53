"""Acquired records on their way to the user: opened batches, records in the user's hands, and the acknowledgements of these.

A `ShareDelivery` is about acquired offsets of one partition with one delivery count. The event loop and the user's thread share it:
the user's thread takes records from its cursor and stores acknowledgements, each by one operation that Python executes at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ottla.client.consumer.cursor import Cursor, open_part
from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import BrokerError, broker_error
from ottla.client.share.acknowledgements import GAP, AcknowledgementRun, AcknowledgeType, join_runs, runs_of
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import Columns
from ottla.records.batches.header import BadBatch, BatchHeader, batches, crc_is_valid
from ottla.wire.api.share_fetch import ShareFetchResponse
from ottla.wire.errors import CORRUPT_MESSAGE


class SharePlace(TopicPartition):
    """The partition of delivered records, with their delivery count. Comparisons ignore the latter."""

    delivery_count: int

    @classmethod
    def of(cls, where: TopicPartition, delivery_count: int) -> SharePlace:
        made = cls(*where)
        made.delivery_count = delivery_count
        return made


class Source(NamedTuple):
    """The share session in which records were acquired: its leader, and the number of the session's connection.

    `deadline_ms` is the time at which the acquisition locks end.
    """

    where: TopicPartition
    topic_id: bytes
    node_id: int
    session_number: int
    deadline_ms: int


class DeliveredRange(NamedTuple):
    """Successive acquired offsets with one delivery count."""

    first: int
    last: int
    delivery_count: int


def acquired_ranges(acquired: Sequence[ShareFetchResponse.AcquiredRecords]) -> list[DeliveredRange]:
    """Return the acquired offsets of a partition, with adjacent ones of the same delivery count as one range."""
    ranges: list[DeliveredRange] = []
    for each in sorted((each.first_offset, each.last_offset, each.delivery_count) for each in acquired):
        found = DeliveredRange(*each)
        before = ranges[-1] if ranges else None
        if before is not None and before.last + 1 == found.first and before.delivery_count == found.delivery_count:
            ranges[-1] = before._replace(last=found.last)
        else:
            ranges.append(found)
    return ranges


class ShareDelivery:
    """Acquired records of one partition in one delivery. The user gets them by `cursor`.

    `decisions` are acknowledgements that are not sent yet, by offset. Any thread may add some.
    """

    __slots__ = ("_accepted_to", "_columns", "_decided", "_renewed", "cursor", "decisions", "first", "last", "source")

    def __init__(self, source: Source, acquired: DeliveredRange, columns: list[Columns], cursor: Cursor) -> None:
        self.source = source
        self.first, self.last = acquired.first, acquired.last
        self.cursor = cursor
        self.decisions: dict[int, AcknowledgeType] = {}
        self._columns = columns
        self._accepted_to = acquired.first
        self._decided: set[int] = set()
        """The offsets whose final acknowledgement was sent."""
        self._renewed: set[int] = set()

    def is_in_hand(self, offset: int) -> bool:
        """Return whether the user got the record at this offset, and its final acknowledgement was not sent yet."""
        if not self._accepted_to <= offset <= self.last or offset in self._decided or offset >= self.cursor.position():
            return False
        return any(_row_of(columns, offset) is not None for columns in self._columns)

    def decide(self, offset: int, kind: AcknowledgeType) -> None:
        """Store the acknowledgement of a record in the user's hands. It replaces one that is not sent yet."""
        self.decisions[offset] = kind

    def pop_decisions(self) -> list[AcknowledgementRun]:
        """Return the acknowledgements that the user has stored since the last call."""
        found: dict[int, int] = {}
        while self.decisions:  # another thread may add some meanwhile
            offset, kind = self.decisions.popitem()
            found[offset] = kind
            if kind == AcknowledgeType.RENEW:
                self._renewed.add(offset)
            else:
                self._decided.add(offset)
        return runs_of(found)

    def pop_renewals(self) -> list[AcknowledgementRun]:
        """Return the renewals that the user has stored since the last call, and leave the other acknowledgements."""
        found: dict[int, int] = {}
        for offset, kind in list(self.decisions.items()):
            if kind != AcknowledgeType.RENEW:
                continue
            popped = self.decisions.pop(offset, kind)
            if popped == AcknowledgeType.RENEW:
                found[offset] = popped
                self._renewed.add(offset)
            else:  # another thread has replaced it meanwhile
                self.decisions.setdefault(offset, popped)
        return runs_of(found)

    def pop_processed(self) -> list[AcknowledgementRun]:
        """Return acknowledgements that accept the records that were processed since the last call, and stored ones."""
        start, end = self._accepted_to, self.cursor.first_unprocessed()
        decided = self.pop_decisions()
        if end <= start:
            return decided
        self._accepted_to = end
        accepted = (
            AcknowledgementRun(*span, AcknowledgeType.ACCEPT) for columns in self._columns for span in _spans(columns, start, end)
        )
        return join_runs([*decided, *_without(accepted, self._decided)])

    def find_undecided(self) -> list[int]:
        """Return the offsets of records that the user got and has neither acknowledged nor renewed."""
        end, done = self.cursor.position(), self._decided | self._renewed | self.decisions.keys()
        return [
            offset
            for columns in self._columns
            for offset in columns.offsets[: bisect_left(columns.offsets, end)]
            if offset not in done
        ]

    @property
    def is_finished(self) -> bool:
        """Return whether the user gets no more records, and all those that it got have their final acknowledgement."""
        if not self.cursor.exhausted or self.decisions:
            return False
        end = self.cursor.position()
        if self._accepted_to >= end:
            return True
        return len(self._decided) >= sum(bisect_left(columns.offsets, end) for columns in self._columns)


def _row_of(columns: Columns, offset: int) -> int | None:
    row = bisect_left(columns.offsets, offset)
    return row if row < len(columns) and columns.offsets[row] == offset else None


def _spans(columns: Columns, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last offset of each run of records from offset `start` and before `end`."""
    offsets = columns.offsets
    row, stop = bisect_left(offsets, start), bisect_left(offsets, end)
    while row < stop:
        following = _end_of_run(offsets, row, stop)
        yield offsets[row], offsets[following - 1]
        row = following


def _end_of_run(offsets: memoryview[int], row: int, stop: int) -> int:
    """Return the row after the last one whose offset follows those from `row` without a gap, by bisection."""
    first = offsets[row] - row
    low, high = row + 1, stop
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] - middle == first:
            low = middle + 1
        else:
            high = middle
    return low


def _without(runs: Iterator[AcknowledgementRun], offsets: set[int]) -> Iterator[AcknowledgementRun]:
    """Yield runs without some single offsets."""
    for run in runs:
        first = run.first
        for offset in sorted(offset for offset in offsets if run.first <= offset <= run.last) if offsets else ():
            if first < offset:
                yield run._replace(first=first, last=offset - 1)
            first = offset + 1
        if first <= run.last:
            yield run._replace(first=first)


class OpenedDeliveries(NamedTuple):
    """Deliveries of opened batches, and acknowledgements that need no user: gaps, and batches that cannot be read.

    `error` is the exception of the first batch that cannot be read.
    """

    deliveries: list[ShareDelivery]
    runs: list[AcknowledgementRun]
    error: BrokerError | None


class AcquiredBatches:
    """The fetched batches of one partition, and the acquired ranges of offsets in them. They are opened part by part."""

    def __init__(
        self,
        source: Source,
        records: memoryview,
        ranges: list[DeliveredRange],
        *,
        check_crcs: bool,
        open_cursor: Callable[[Chunk], Cursor],
    ) -> None:
        self.source = source
        self._ranges = ranges
        self._open_cursor = open_cursor
        self._bad: list[AcknowledgementRun] = []
        self._error: BrokerError | None = None
        pieces = self._readable(records, check_crcs=check_crcs)
        first, end = (ranges[0].first, ranges[-1].last + 1) if ranges else (0, 0)
        self._rest: Chunk | None = Chunk(source.where, pieces, first, end)

    @property
    def is_opened(self) -> bool:
        """Return whether `open` has returned everything."""
        return self._rest is None

    def _readable(self, records: memoryview, *, check_crcs: bool) -> list[memoryview]:
        """Return the batches with records. Reject those whose checksum is wrong, and leave out control batches."""
        pieces: list[memoryview] = []
        start = end = 0
        try:
            for position, header in batches(records):
                batch_end = position + header.size
                is_bad = check_crcs and not crc_is_valid(records[position:batch_end])
                if is_bad:
                    self._reject(header, "the checksum does not match")
                if is_bad or header.is_control:
                    if end > start:
                        pieces.append(records[start:end])
                    start = batch_end
                end = batch_end
        except BadBatch as error:
            self._error = self._error or broker_error(CORRUPT_MESSAGE, _fetch_context(self.source.where), str(error))
        if end > start:
            pieces.append(records[start:end])
        return pieces

    def _reject(self, header: BatchHeader, why: str) -> None:
        """Reject the acquired records of a batch, since no consumer can read them."""
        spans = (
            (max(each.first, header.base_offset), min(each.last, header.last_offset), each.delivery_count) for each in self._ranges
        )
        self._bad += [AcknowledgementRun(first, last, AcknowledgeType.REJECT) for first, last, _ in spans if first <= last]
        which = f"The batch of offsets {header.base_offset} to {header.last_offset} cannot be opened ({why.rstrip('.')})"
        sentence = f"{which}: its records were rejected, and the group delivers them to nobody."
        self._error = self._error or broker_error(CORRUPT_MESSAGE, _fetch_context(self.source.where), sentence)

    def open(self) -> OpenedDeliveries:
        """Return the deliveries of the next batches: of all, unless they would take too much memory together."""
        chunk, self._rest = self._rest, None
        assert chunk is not None, "the caller stops at the end"
        columns: list[Columns] = []
        try:
            part = open_part(chunk, one_by_one=False, joined=True)
        except BrokerError as error:
            self._rest = self._after_first_batch(chunk, error)
        else:
            columns, self._rest = part.columns, part.rest
        end = chunk.next_offset if self._rest is None else self._rest.from_offset
        deliveries, gaps = self._deliver(columns, chunk.from_offset, end)
        bad, first_error = self._bad, self._error
        self._bad, self._error = [], None
        return OpenedDeliveries(deliveries, join_runs([*_not_in(gaps, bad), *bad]), first_error)

    def _after_first_batch(self, chunk: Chunk, error: BrokerError) -> Chunk | None:
        """Reject the first batch of a chunk, which cannot be opened, and return the rest."""
        position, header = next(batches(chunk.pieces[0]))
        self._reject(header, str(error.__cause__ or error))
        pieces = [piece for piece in (chunk.pieces[0][position + header.size :], *chunk.pieces[1:]) if len(piece)]
        from_offset = max(chunk.from_offset, header.next_offset)
        return chunk._replace(pieces=pieces, from_offset=from_offset) if from_offset < chunk.next_offset else None

    def _deliver(self, columns: list[Columns], start: int, end: int) -> tuple[list[ShareDelivery], list[AcknowledgementRun]]:
        """Return the deliveries of the acquired offsets from `start` and before `end`, and the gaps in them."""
        deliveries: list[ShareDelivery] = []
        gaps: list[AcknowledgementRun] = []
        for each in self._ranges:
            wanted = each._replace(first=max(each.first, start), last=min(each.last, end - 1))
            if wanted.first > wanted.last:
                continue
            inside = [found for part in columns if len(found := _between(part, wanted.first, wanted.last))]
            gaps += _gaps(inside, wanted)
            if inside:
                place = SharePlace.of(self.source.where, each.delivery_count)
                chunk = Chunk(place, [], wanted.first, wanted.last + 1, sum(map(len, inside)), tuple(inside))
                deliveries.append(ShareDelivery(self.source, wanted, inside, self._open_cursor(chunk)))
        return deliveries, gaps


def _fetch_context(where: TopicPartition) -> str:
    return f"Fetching {where.topic}-{where.partition}"


def _between(columns: Columns, first: int, last: int) -> Columns:
    return columns.slice(bisect_left(columns.offsets, first), bisect_right(columns.offsets, last))


def _gaps(columns: Sequence[Columns], acquired: DeliveredRange) -> list[AcknowledgementRun]:
    """Return the acquired offsets without a record."""
    gaps: list[AcknowledgementRun] = []
    following = acquired.first
    for part in columns:
        for first, last in _spans(part, acquired.first, acquired.last + 1):
            if following < first:
                gaps.append(AcknowledgementRun(following, first - 1, GAP))
            following = last + 1
    if following <= acquired.last:
        gaps.append(AcknowledgementRun(following, acquired.last, GAP))
    return gaps


def _not_in(gaps: Sequence[AcknowledgementRun], bad: Sequence[AcknowledgementRun]) -> list[AcknowledgementRun]:
    """Return gaps without the offsets of batches that were rejected."""
    left = list(gaps)
    for run in bad:
        left = [
            part
            for gap in left
            for part in (gap._replace(last=min(gap.last, run.first - 1)), gap._replace(first=max(gap.first, run.last + 1)))
            if part.first <= part.last
        ]
    return left


def handed_out(deliveries: Sequence[ShareDelivery]) -> frozenset[Any]:
    """Return the position of the user in each delivery: a set with further items once the user got further records."""
    return frozenset((id(each), each.cursor.position()) for each in deliveries)
