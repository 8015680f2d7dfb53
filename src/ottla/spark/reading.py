"""Readers: a batch or a stream of one or more topics as Arrow record batches.

Planning runs on Spark's driver, `read` in its tasks: what travels between them is pickled, so a reader opens no connection before
it is used, and a task needs nothing but its range.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ottla.client.types import TopicPartition
from ottla.spark import planning
from ottla.spark.options import ReadOptions
from ottla.spark.planning import PartitionOffsets, Range, StoredOffsets, from_json, to_json
from ottla.spark.telling import telling

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.brokers import Brokers

IDLE_WAIT_MS = 100
"""How long an idle stream waits for records before it tells Spark that there are none; Spark asks again at once."""
_PARTITIONS_KEPT_S = 5.0


class Piece(InputPartition):
    """The work of one task."""

    def __init__(self, value: Range) -> None:
        super().__init__(value)


def _pieces(options: ReadOptions, wholes: Sequence[Range]) -> list[Piece]:
    cut = planning.split(wholes, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    return [Piece(each) for each in cut]


def _brokers(options: ReadOptions, *, partitions_kept_s: float = 0.0) -> Brokers:
    from ottla.spark.brokers import Brokers  # asyncio takes long to import, and Spark makes readers in processes that need none

    return Brokers(options.client, partitions_kept_s=partitions_kept_s)


def _bounds(options: ReadOptions, brokers: Brokers) -> tuple[PartitionOffsets, PartitionOffsets]:
    """Where a batch starts and ends in every partition."""
    partitions = brokers.partitions(options.selection)
    latest_otherwise = options.latest_where_time_is_not_reached
    start = planning.resolve(options.start, partitions, brokers, edge="starting", latest_otherwise=latest_otherwise)
    return start, planning.resolve(options.end, partitions, brokers, edge="ending", latest_otherwise=True)


def _without_losses(options: ReadOptions, brokers: Brokers, wholes: Sequence[Range]) -> list[Range]:
    """The ranges whose records are there. Raises `DataLoss` where some are not, unless the query reads on all the same."""
    if not wholes:
        return []
    asked = {TopicPartition(each.topic, each.partition): each.start for each in wholes}
    there = asked.keys() & set(brokers.partitions(options.selection, fresh=True))
    earliest, latest = brokers.earliest(there), brokers.latest(there)
    clauses = planning.lost(asked, earliest, latest) + planning.lost_ends(wholes, latest)
    planning.accept_losses(clauses, fail=options.fail_on_data_loss)
    return planning.trimmed(wholes, earliest, latest)


def _read(options: ReadOptions, schema: StructType, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
    from ottla.spark.rows import rows_of  # planning, which runs in other processes, needs no Arrow

    if partition.value is None:  # what Spark makes of a plan without partitions
        return iter(())
    return rows_of(options, schema, partition.value)


@telling
class BatchReader(DataSourceReader):
    """Reads from the starting to the ending offsets, as they are when the query is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        with _brokers(self._options) as brokers:
            start, end = _bounds(self._options, brokers)
            wholes = _without_losses(self._options, brokers, planning.ranges(start, end))
        return _pieces(self._options, wholes)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return _read(self._options, self._schema, partition)


@telling
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from where the query's checkpoint stands. Offsets are kept in the JVM connector's form."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._opened: Brokers | None = None
        self._target: PartitionOffsets | None = None
        self._seen: PartitionOffsets = {}
        self._idle = False
        self._last_batch_s = 0.0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}

    def _brokers(self) -> Brokers:
        if self._opened is None:
            self._opened = _brokers(self._options, partitions_kept_s=_PARTITIONS_KEPT_S)
        return self._opened

    def initialOffset(self) -> StoredOffsets:
        """Where a query without a checkpoint starts."""
        brokers = self._brokers()
        partitions = brokers.partitions(self._options.selection)
        latest_otherwise = self._options.latest_where_time_is_not_reached
        start = planning.resolve(self._options.start, partitions, brokers, edge="starting", latest_otherwise=latest_otherwise)
        self._last_batch_s = time.monotonic()
        return to_json(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:
        """Where the next micro-batch ends; `start` where there is nothing to read, or not yet enough of it."""
        begin = from_json(start)
        end = self._wait_for_rows(begin)
        begin |= self._starts_of_new(begin, end)
        held = sum(max(0, end[each] - begin[each]) for each in end)
        if not self._enough(held):
            return start
        self._last_batch_s = time.monotonic()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else max(held, 1)
        return to_json(planning.limited(begin, end, most))

    def _wait_for_rows(self, begin: Mapping[TopicPartition, int]) -> PartitionOffsets:
        """The end of every partition, asked for once; when there was nothing to read before, the brokers say when there is."""
        if self._idle:
            self._brokers().wait_for_records(dict(begin), IDLE_WAIT_MS)
        end = self._ends(begin)
        self._idle = self._target is None and end == begin
        return end

    def _ends(self, begin: Mapping[TopicPartition, int]) -> PartitionOffsets:
        """The end of every partition: now, or when an AvailableNow run began. Raises `DataLoss`."""
        latest = self._target
        if latest is None:
            brokers = self._brokers()
            self._seen = latest = brokers.latest(brokers.partitions(self._options.selection))
        ahead = {each: offset for each, offset in begin.items() if offset > latest.get(each, -1)}
        if ahead and self._options.fail_on_data_loss:
            raise planning.data_loss(planning.lost(ahead, dict.fromkeys(ahead, 0), latest))
        return latest

    def _starts_of_new(self, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> PartitionOffsets:
        """Partitions that came after the query began are read from their first record on. Raises `DataLoss` if that is gone."""
        new = dict.fromkeys((each for each in end if each not in begin), 0)
        found = self._brokers().earliest(new) if new else {}
        planning.accept_losses(planning.lost(new, found, end), fail=self._options.fail_on_data_loss)
        return found

    def _enough(self, held: int) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or held >= least or held == 0 or self._target is not None:
            return True
        return (time.monotonic() - self._last_batch_s) * 1000 >= self._options.max_trigger_delay_ms

    def prepareForTriggerAvailableNow(self) -> None:
        brokers = self._brokers()
        self._seen = self._target = brokers.latest(brokers.partitions(self._options.selection, fresh=True))

    def reportLatestOffset(self) -> StoredOffsets | None:
        return to_json(self._seen) if self._seen else None

    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> Sequence[InputPartition]:
        begin, finish = from_json(start), from_json(end)
        begin |= self._starts_of_new(begin, finish)
        wholes = _without_losses(self._options, self._brokers(), planning.ranges(begin, finish))
        return _pieces(self._options, wholes)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return _read(self._options, self._schema, partition)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
