"""The batch reader of topics, which yields Arrow record batches. Tasks of a stream use its `read` method, too.

Planning runs on Spark's driver, and `read` in tasks. Spark pickles readers and ranges for the tasks. Therefore a reader opens
connections only when they are used, and a task needs only its range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ottla.client.types import TopicPartition
from ottla.spark import read_plan
from ottla.spark.error_display import hide_tracebacks
from ottla.spark.options import ReadOptions
from ottla.spark.read_plan import PartitionOffsets, Range
from ottla.spark.workers import set_modules_aside

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.brokers import Brokers
    from ottla.spark.filters import Narrowing


class Piece(InputPartition):
    """The range of offsets that one Spark task reads."""

    def __init__(self, value: Range) -> None:
        super().__init__(value)


def pieces_of(options: ReadOptions, wholes: Sequence[Range]) -> list[Piece]:
    cut = read_plan.split(wholes, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    return [Piece(each) for each in cut]


def _brokers(options: ReadOptions) -> Brokers:
    from ottla.spark.brokers import Brokers  # importing asyncio takes long, and not all processes with readers need it

    return Brokers(options.client)


def _bounds(options: ReadOptions, brokers: Brokers) -> tuple[PartitionOffsets, PartitionOffsets]:
    """Return the starting and the ending offset of a batch in every partition."""
    partitions = brokers.partitions(options.selection)
    latest_otherwise = options.latest_where_time_is_not_reached
    start = read_plan.resolve(options.start, partitions, brokers, edge="starting", latest_otherwise=latest_otherwise)
    return start, read_plan.resolve(options.end, partitions, brokers, edge="ending", latest_otherwise=True)


def _without_losses(options: ReadOptions, brokers: Brokers, wholes: Sequence[Range]) -> list[Range]:
    """Return the ranges, without the parts whose records are deleted.

    Raises `DataLoss` for deleted records, unless the query accepts losses.
    """
    if not wholes:
        return []
    asked = {TopicPartition(each.topic, each.partition): each.start for each in wholes}
    there = asked.keys() & set(brokers.partitions(options.selection))
    earliest, latest = brokers.earliest(there), brokers.latest(there)
    clauses = read_plan.find_lost(asked, earliest, latest) + read_plan.lost_ends(wholes, latest)
    read_plan.accept_losses(clauses, fail=options.fail_on_data_loss)
    return read_plan.trim(wholes, earliest, latest)


def read_piece(options: ReadOptions, schema: StructType, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
    from ottla.spark.rows import rows_of  # imported when needed: planning runs in other processes, and needs no Arrow

    set_modules_aside()
    if partition.value is None:  # Spark gives this partition to the only task of an empty plan
        return iter(())
    return rows_of(options, schema, partition.value)


@hide_tracebacks
class BatchReader(DataSourceReader):
    """The reader of a batch query. The starting and ending offsets become numbers when Spark plans the query."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        with _brokers(self._options) as brokers:
            start, end = _bounds(self._options, brokers)
            wholes = self._narrow(read_plan.ranges(start, end), brokers)
            wholes = _without_losses(self._options, brokers, wholes)
        return pieces_of(self._options, wholes)

    def _narrow(self, wholes: list[Range], brokers: Brokers) -> list[Range]:
        return wholes

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_piece(self._options, self._schema, partition)


@hide_tracebacks
class FilteringReader(BatchReader, DataSourceReader):
    """A reader that narrows its ranges by the query's filters.

    Spark passes the filters if spark.sql.python.filterPushdown.enabled is true.
    """

    _narrowing: Narrowing | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Store the filters that narrow the ranges. Return the filters that Spark must apply itself."""
        from ottla.spark.filters import narrowing_of

        self._narrowing, rest = narrowing_of(filters)
        return rest

    def _narrow(self, wholes: list[Range], brokers: Brokers) -> list[Range]:
        return self._narrowing.apply(wholes, brokers.at_times) if self._narrowing is not None else wholes

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_narrowing": None}  # imported when needed: only planning needs it
