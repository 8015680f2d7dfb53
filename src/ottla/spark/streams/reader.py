"""The stream reader of topics. Each call sends a few requests to brokers, and pure modules decide.

Spark keeps one `StreamReader` in a process of its own while a query runs. Tasks get copies, of which they call only `read`.

Spark reports an exception in `streamReader` as `UnboundLocalError`, but an exception of the reader unchanged. Therefore a
reader of its own raises the exception of refused options.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ottla.client.types import TopicPartition
from ottla.spark import read_plan
from ottla.spark.batch_reader import pieces_of, read_piece
from ottla.spark.error_display import hide_tracebacks
from ottla.spark.errors import OptionError
from ottla.spark.options import ReadOptions, named_topics, selects
from ottla.spark.read_plan import PartitionOffsets
from ottla.spark.streams import admission, stream_position
from ottla.spark.streams.stream_position import Position, StoredOffsets, from_json, to_json

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.streams.watch import Watch

logger = logging.getLogger("ottla.spark")

IDLE_WAIT_MS = 100
"""The time, in ms, that a stream waits for records before it returns none. Spark calls it again at once.

The wait delays other sources of the query. Therefore the stream does not wait while another source has records.
"""
SAMPLE_BYTES = 64 * 1024
_NO_LIMIT = (1 << 63) - 1


@hide_tracebacks
class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader that raises the same `OptionError` at every call of Spark."""

    def __init__(self, refusal: OptionError) -> None:
        self._refusal = refusal

    def _refuse(self) -> NoReturn:
        raise self._refusal

    def initialOffset(self) -> StoredOffsets:
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        self._refuse()

    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        self._refuse()

    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:
        self._refuse()


@hide_tracebacks
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader that continues from the query's checkpoint. Its offsets have the form of `streams.stream_position`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._opened: Watch | None = None
        self._target: Position | None = None
        self._latest: Position | None = None
        self._idle_at: PartitionOffsets | None = None
        self._others_read = False
        self._record_bytes: dict[TopicPartition, float] = {}
        self._initial: StoredOffsets | None = None
        self._planned: StoredOffsets | None = None
        self._told: set[str] = set()
        self._last_batch_s = time.monotonic()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}

    def _watch(self) -> Watch:
        if self._opened is None:
            from ottla.spark.streams.watch import Watch  # imported when needed: importing asyncio takes long, and tasks use none

            self._opened = Watch(self._options.client, self._options.selection)
        return self._opened

    def initialOffset(self) -> StoredOffsets:
        """Return the start of a query without a checkpoint.

        Spark calls this method several times, and needs the same result each time.
        """
        if self._initial is None:
            self._initial = self._start()
        return self._initial

    def _start(self) -> StoredOffsets:
        options, watch = self._options, self._watch()
        partitions = watch.partitions(options.selection)
        latest_otherwise = options.latest_where_time_is_not_reached
        start = read_plan.resolve(options.start, partitions, watch, edge="starting", latest_otherwise=latest_otherwise)
        return to_json(Position(start, watch.topic_ids(start)))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to `latestOffset`. A trigger that reads everything passes `ReadAllAvailable`."""
        return ReadMaxRows(_NO_LIMIT) if admission.is_limited(self._options) else ReadAllAvailable()

    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:
        """Return the end of the next micro-batch, or `start` if there are too few records for one. Raises `DataLoss`.

        Spark calls this method after the micro-batch that ended at `start`.
        """
        begin = from_json(start)
        self._watch().commit(begin.offsets, wait=self._target is not None)
        if self._is_idle(begin.offsets):
            return start
        latest = self._target or self._watch().ends(begin.offsets)
        self._latest = latest
        offsets = self._readable_from(begin, latest)
        held = sum(admission.count_offsets(offsets, latest.offsets).values())
        everything = self._target is not None
        if not everything and not admission.enough(held, self._since_last_batch_ms(), self._options):
            self._idle_at = latest.offsets
            return start
        starting = begin.offsets if start == self._initial else None
        end = to_json(Position(self._admit(offsets, latest.offsets, limit), latest.topic_ids, starting))
        if latest.offsets == begin.offsets and not begin.anew(latest.topic_ids):
            self._idle_at = None if everything else latest.offsets
            return start
        self._idle_at, self._planned, self._last_batch_s = None, end, time.monotonic()
        return end

    def _is_idle(self, begin: PartitionOffsets) -> bool:
        """Return whether there are still too few records for a micro-batch, after a short wait for records.

        Return False if the last call of `latestOffset` found enough.
        """
        if self._idle_at is None:
            return False
        others_read, self._others_read = self._others_read, False
        wait_ms = 0.0 if others_read else float(IDLE_WAIT_MS)
        if self._idle_at == begin:
            return not self._watch().wait_for_records(begin, wait_ms)
        # Some records have arrived. Brokers are not queried for each further record of a slow stream.
        left_ms = max(0.0, self._options.max_trigger_delay_ms - self._since_last_batch_ms())
        until = time.monotonic() + min(wait_ms, left_ms) / 1000
        has_come = self._watch().wait_for_records(self._idle_at, min(wait_ms, left_ms))
        if has_come:
            time.sleep(max(0.0, until - time.monotonic()))
        return not has_come and left_ms > wait_ms

    def _since_last_batch_ms(self) -> float:
        return (time.monotonic() - self._last_batch_s) * 1000

    def _readable_from(self, begin: Position, latest: Position) -> PartitionOffsets:
        """Return the offset from which each partition of `latest` is read. Raises `DataLoss`."""
        selection = self._options.selection
        selected = {where for where in begin.offsets if selects(selection, where)}
        clauses, left = stream_position.drop_lost(begin, latest, selected)
        ahead = {where: offset for where, offset in left.offsets.items() if offset > latest.offsets[where]}
        clauses += read_plan.find_lost(ahead, dict.fromkeys(ahead, 0), latest.offsets)
        clauses += [
            f"topic {topic}, which option subscribe names, does not exist"
            for topic in stream_position.unknown_topics(named_topics(selection), begin, latest)
        ]
        self._accept(clauses)
        return left.offsets | self._starts_of_new(left.offsets, latest.offsets)

    def _accept(self, clauses: Sequence[str]) -> None:
        """Raise `DataLoss` for clauses about lost records. If the query accepts losses, log each clause once instead."""
        news = [clause for clause in clauses if clause not in self._told or self._options.fail_on_data_loss]
        self._told.update(news)
        read_plan.accept_losses(news, fail=self._options.fail_on_data_loss)

    def _starts_of_new(self, begin: PartitionOffsets, end: PartitionOffsets) -> PartitionOffsets:
        """Return the start offsets of partitions that were created after the query began.

        They are 0. Raises `DataLoss` if a partition's first records are deleted.
        """
        new = dict.fromkeys((where for where in end if where not in begin), 0)
        if not new:
            return {}
        found = {where: offset for where, offset in self._watch().begins(new).offsets.items() if where in new}
        self._accept(read_plan.find_lost(dict.fromkeys(found, 0), found, end))
        return found | {where: end[where] for where in new.keys() - found.keys()}

    def _admit(self, begin: PartitionOffsets, end: PartitionOffsets, limit: ReadLimit) -> PartitionOffsets:
        if isinstance(limit, ReadAllAvailable):
            return end
        most = self._options.max_bytes_per_trigger
        if most is not None:
            self._measure(begin, end, most)
        return admission.admit(begin, end, self._options, self._record_bytes)

    def _measure(self, begin: PartitionOffsets, end: PartitionOffsets, max_bytes: int) -> None:
        """Measure record sizes, unless the sizes measured before show that the micro-batch is far below its limit."""
        sizes = admission.count_offsets(begin, end)
        expected = sum(count * self._record_bytes.get(where, max_bytes) for where, count in sizes.items())
        if 2 * expected < max_bytes:
            return
        bytes_each = max(1, min(SAMPLE_BYTES, max_bytes // (4 * max(1, len(sizes)))))
        self._record_bytes |= self._watch().record_bytes({where: begin[where] for where in sizes}, bytes_each)

    def prepareForTriggerAvailableNow(self) -> None:
        self._latest = self._target = self._watch().ends(fresh=True)

    def reportLatestOffset(self) -> StoredOffsets | None:
        return to_json(self._latest) if self._latest is not None else None

    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch. Raises `DataLoss` for deleted records, unless the query accepts losses."""
        begin, finish = from_json(start), from_json(end)
        now = self._watch().begins(finish.offsets)
        clauses, left = stream_position.drop_lost(
            finish, now, {where for where in finish.offsets if selects(self._options.selection, where)}
        )
        if finish.starting_offsets is not None:
            begin = Position(finish.starting_offsets, finish.topic_ids)
        begin = begin.without(begin.anew(finish.topic_ids))
        offsets = begin.offsets | self._starts_of_new(begin.offsets, left.offsets)
        wholes = read_plan.ranges(offsets, left.offsets)
        starts = {where: offsets[where] for where in (TopicPartition(each.topic, each.partition) for each in wholes)}
        latest = left.offsets
        if end != self._planned:  # an earlier run planned this micro-batch, so its records may be deleted by now
            ends = self._watch().ends(finish.offsets).offsets
            latest = {where: ends[where] for where in left.offsets if where in ends}
        clauses += read_plan.find_lost(starts, now.offsets, latest) + read_plan.lost_ends(wholes, latest)
        self._accept(clauses)
        return pieces_of(self._options, read_plan.trim(wholes, now.offsets, latest))

    def commit(self, end: StoredOffsets) -> None:
        """Commit the group's offsets. Spark calls this method of all sources when it plans the query's next micro-batch."""
        self._others_read = self._idle_at is not None

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_piece(self._options, self._schema, partition)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
