"""The mirror of topics into another cluster: each record in its partition, with key, headers and timestamp, and group offsets.

After each micro-batch, the end offsets at source and target are stored as a sync (`syncs`). Offsets that a group has committed at
the source are translated by syncs, and committed at the target. The group's consumers can then move to the target: they read no
record twice and miss none.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.client.admin.topics import DYNAMIC_TOPIC_SOURCE
from ottla.client.errors import BrokerError, OffsetOutOfRange
from ottla.client.settings.clients import ConsumerSettings, parse
from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.errors import KafkaError
from ottla.net.client.admin.admin import Admin
from ottla.net.client.consumer.range_reader import RangeReader
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.query_runner import Tell, follow, lock
from ottla.pipelines.state import PipelineState, default_directory
from ottla.pipelines.syncs import OffsetSync, OffsetSyncs
from ottla.pipelines.topics import make_missing
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import batches
from ottla.spark.brokers import Brokers
from ottla.spark.kafka_options import security_settings
from ottla.spark.read_plan import PartitionOffsets
from ottla.spark.streams.stream_position import Position, from_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("ottla.pipelines")

GROUPS_EVERY_S = 5.0
REFUSED = {
    "minpartitions": "it would break the order of records",
    "maxrecordsperpartition": "it would break the order of records",
    "subscribepattern": "name its topics",
    "assign": "name its topics",
}
"""Options of the source that a mirror does not accept, each with the reason."""


def _rows_between(settings: ConsumerSettings, where: TopicPartition, start: int, end: int) -> int:
    """Return the number of visible records from `start` up to, not including, `end`. Raises the client's exceptions."""
    return sum(len(offsets) for offsets in _offsets(settings, where, start, end))


def _offset_after(settings: ConsumerSettings, where: TopicPartition, start: int, end: int, rows: int) -> int:
    """Return the offset after `rows` records from `start` on; `end` if there are fewer records. Raises the client's exceptions."""
    if rows == 0:
        return start
    for offsets in _offsets(settings, where, start, end):
        if rows <= len(offsets):
            return offsets[rows - 1] + 1
        rows -= len(offsets)
    return end


def _offsets(settings: ConsumerSettings, where: TopicPartition, start: int, end: int) -> Iterator[range | memoryview[int]]:
    """Yield the record offsets of each batch in the range."""
    reader = RangeReader(settings, where, start, end)
    with asyncio.Runner() as runner:
        try:
            while (found := runner.run(reader.next_batches())) is not None:
                for records in found:
                    yield from _of_batches(records, start, end)
        finally:
            runner.run(reader.close())


def _of_batches(records: memoryview, start: int, end: int) -> Iterator[range | memoryview[int]]:
    for position, header in batches(records):
        whole = start <= header.base_offset and header.next_offset <= end
        if whole and header.record_count == header.next_offset - header.base_offset:
            yield range(header.base_offset, header.next_offset)
        else:
            yield open_batches(records[position : position + header.size], from_offset=start, until_offset=end).offsets


@dataclass(frozen=True, slots=True)
class MirrorPipeline:
    """A mirror of topics from one cluster to another. At the target, `prefix` is put before the names of topics.

    `groups` are the groups whose committed offsets are translated; None means all groups. `options` are further options of the
    source.
    """

    topics: Sequence[str]
    source: str
    target: str
    prefix: str = ""
    groups: Sequence[str] | None = ()
    once: bool = False
    every_s: float = 0.0
    state_directory: Path | None = None
    options: dict[str, str] = field(default_factory=dict)
    target_options: dict[str, str] = field(default_factory=dict)

    def clients(self) -> Iterator[dict[str, Any]]:
        """Yield the client settings for the source, then the ones for the target."""
        for servers, options in ((self.source, self.options), (self.target, self.target_options)):
            yield {"bootstrap_servers": servers, **security_settings(options)}

    @property
    def state(self) -> PipelineState:
        clusters = {"source": self.source, "target": self.target}
        about = {"pipeline": "mirror", "topics": sorted(self.topics), "prefix": self.prefix, **clusters}
        return PipelineState(self.state_directory or default_directory(about), about)

    def run(self, spark: SparkSession, tell: Tell, stop: threading.Event) -> None:
        """Run until everything is mirrored, or until `stop` is set. Raises `PipelineError` and Spark's exceptions."""
        if wrong := [name for name in self.options if name.lower() in REFUSED]:
            raise PipelineError(f"A mirror takes no option {wrong[0]}: {REFUSED[wrong[0].lower()]}; leave it out.")
        state = self.state
        state.open()
        from_there, to_there = self.clients()
        with lock(spark, state), Admin(**from_there) as source, Admin(**to_there) as target:
            if not self.prefix and source.describe_cluster().cluster_id == target.describe_cluster().cluster_id:
                raise PipelineError(
                    "Source and target are the same cluster: give --prefix, or topics would be written into themselves."
                )
            copying = Copying(self, state, source, target)
            groups = GroupsAlong(self, copying, source, target)
            follow(_start(spark, self, copying, state), "mirror", tell, stop, between=groups.translate_now_and_then)
            groups.translate()


def _start(spark: SparkSession, wanted: MirrorPipeline, copying: Copying, state: PipelineState) -> StreamingQuery:
    reader = spark.readStream.format("ottla").options(
        **{"startingOffsets": "earliest", "kafka.isolation.level": "read_committed", **wanted.options}
    )
    rows = reader.options(
        **{"kafka.bootstrap.servers": wanted.source}, subscribe=",".join(wanted.topics), includeHeaders="true"
    ).load()
    writer = rows.writeStream.foreachBatch(copying.write).option("checkpointLocation", str(state.checkpoint))
    trigger = {"availableNow": True} if wanted.once else {"processingTime": f"{wanted.every_s:g} seconds"}
    return writer.queryName("mirror").trigger(**trigger).start()


class Copying:
    """The writer of a mirror's micro-batches. After each micro-batch it stores which offsets at source and target correspond."""

    def __init__(self, wanted: MirrorPipeline, state: PipelineState, source: Admin, target: Admin) -> None:
        self.wanted = wanted
        self._state = state
        self._source, self._target = source, target
        self._partitions_made: dict[str, int] = {}
        self._lock = threading.Lock()
        self._syncs = OffsetSyncs.from_json(state.read("syncs"))

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write one micro-batch, and store the end offsets of source and target after it."""
        position = self._position(batch_id)
        ends, starts = position.offsets, position.starting_offsets or {}
        self._make_topics(ends)
        self._note({where: starts.get(where, 0) for where in ends if self.place(where, 0) is None})
        self._write(rows, batch_id)
        self._note(ends)

    def place(self, where: TopicPartition, source: int) -> tuple[OffsetSync, OffsetSync] | None:
        """Return (the last sync at or before the offset `source`, the partition's last sync), or None if the partition has no
        syncs.
        """
        with self._lock:
            sync, last = self._syncs.before(where, source), self._syncs.last(where)
        return None if sync is None or last is None else (sync, last)

    def there(self, where: TopicPartition) -> TopicPartition:
        """Return the target partition to which the source partition `where` is mirrored."""
        return TopicPartition(self.wanted.prefix + where.topic, where.partition)

    def _position(self, batch_id: int) -> Position:
        """Return the source offsets at the end of a micro-batch. Spark stores these offsets before the micro-batch begins."""
        lines = (self._state.checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
        return from_json(json.loads(lines[2]))

    def _make_topics(self, ends: PartitionOffsets) -> None:
        counts: dict[str, int] = {}
        for topic, partition in ends:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        if counts == self._partitions_made:
            return
        new = counts.keys() - self._partitions_made.keys()
        configs = {self.wanted.prefix + topic: topic_settings(self._source, topic) for topic in sorted(new)}
        make_missing(self._target, {self.wanted.prefix + topic: count for topic, count in counts.items()}, configs, grow=True)
        self._partitions_made = counts

    def _write(self, rows: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as f

        from ottla.spark import write_once

        named = rows.withColumn("topic", f.concat(f.lit(self.wanted.prefix), "topic"))
        given = {"kafka.bootstrap.servers": self.wanted.target, "includeHeaders": "true", "includeTimestamp": "true"}
        given |= self.wanted.target_options
        columns = named.select("key", "value", "headers", "timestamp", "topic", "partition")
        write_once(columns, batch_id, name="mirror", **given)

    def _note(self, source: PartitionOffsets) -> None:
        """Store a sync for each partition: the current end of the target's partition corresponds to the offset in `source`."""
        if not source:
            return
        there = {where: self.there(where) for where in source}
        # Not read_committed: the last batch's transaction markers may not be written yet, and records before them count.
        _, to_there = self.wanted.clients()
        with Brokers(parse(ConsumerSettings, to_there)) as brokers:
            ends = brokers.latest(there.values())
        with self._lock:
            for where, offset in source.items():
                self._syncs.add(where, OffsetSync(offset, ends[there[where]]))
            self._state.write("syncs", self._syncs.as_json())


def topic_settings(admin: Admin, topic: str) -> dict[str, str]:
    """Return the settings of a topic that were set for this topic, without defaults."""
    found = admin.describe_topic_configs(topic).values()
    return {each.name: each.value for each in found if each.source == DYNAMIC_TOPIC_SOURCE and each.value is not None}


class GroupsAlong:
    """The translation of groups' committed offsets from source to target. A committed offset at the target never decreases."""

    def __init__(self, wanted: MirrorPipeline, copying: Copying, source: Admin, target: Admin) -> None:
        self._wanted, self._copying = wanted, copying
        self._source, self._target = source, target
        self._clients = [parse(ConsumerSettings, {**given, "isolation_level": "read_committed"}) for given in wanted.clients()]
        self._translated: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self._complained: set[str] = set()
        self._next_s = 0.0

    def translate_now_and_then(self) -> None:
        """Translate committed offsets if enough time has passed since the last translation. Errors are logged; the next call tries
        again.
        """
        if time.monotonic() < self._next_s:
            return
        try:
            self.translate()
        except KafkaError as error:
            logger.warning("groups could not go along: %s", error)
        self._next_s = time.monotonic() + GROUPS_EVERY_S

    def translate(self) -> None:
        """Translate the committed offsets of all groups. Raises the first `KafkaError`, after all groups were tried."""
        names = self._wanted.groups
        failed: KafkaError | None = None
        for group in [each.group_id for each in self._source.list_groups()] if names is None else names:
            try:
                self._translate(group)
            except KafkaError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _translate(self, group: str) -> None:
        wanted = {
            self._copying.there(where): committed._replace(offset=offset)
            for where, committed in self._source.list_group_offsets(group).items()
            if where.topic in self._wanted.topics and (offset := self._offset_there(group, where, committed.offset)) is not None
        }
        self._commit(group, wanted)

    def _commit(self, group: str, wanted: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        there = self._target.list_group_offsets(group) if wanted else {}
        ahead = {where: to for where, to in wanted.items() if where not in there or there[where].offset < to.offset}
        if not ahead:
            return
        try:
            self._target.alter_group_offsets(group, ahead)
        except BrokerError as error:
            if group not in self._complained:
                logger.warning("group %s stays where it is at the target while it has members there: %s", group, error)
            self._complained.add(group)

    def _offset_there(self, group: str, where: TopicPartition, offset: int) -> int | None:
        """Return the target offset that corresponds to a source offset, or None if the partition has no syncs."""
        found = self._copying.place(where, offset)
        if found is None:
            return None
        sync, last = found
        if offset >= last.source or offset <= sync.source:
            return sync.target
        known = self._translated.get((group, where))
        if known is None or known[0] != offset:
            known = self._translated[group, where] = offset, self._count_from(where, offset, sync, last)
        return known[1]

    def _count_from(self, where: TopicPartition, offset: int, sync: OffsetSync, last: OffsetSync) -> int:
        source, target = self._clients
        there = self._copying.there(where)
        try:
            rows = _rows_between(source, where, sync.source, offset)
            return _offset_after(target, there, sync.target, last.target, rows)
        except OffsetOutOfRange:  # the records to count are deleted: rather a few records twice than one missed
            with Brokers(target) as brokers:
                return max(sync.target, brokers.earliest([there])[there])
