"""The mirror of Kafka 0.7 topics into a cluster of today, each message once, as Kafka's migration tool did. Needs no Spark.

Messages are written in transactions, together with the source positions up to which they were read (`places`). A starting mirror
aborts the open transaction of a killed one, and continues from the committed positions. Positions are always after whole messages,
so that messages compressed together are written together or not at all.

A 0.7 partition belongs to a broker ("1-0"), but the target's partitions are numbered from 0. Each source partition gets its own
target partition permanently, so that its order is kept. The group's committed offset of the target partition records this: the
offset is the byte of the 0.7 log up to which it is copied, and the metadata names the source partition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ottla.client.errors import BrokerError, KafkaError, OffsetOutOfRange, ProducerFenced, TransactionAbortable
from ottla.client.types import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, TopicPartition
from ottla.kafka07.client.partitions import BrokerPartition
from ottla.net.client.admin.admin import Admin
from ottla.net.client.consumer.consumer import Consumer
from ottla.net.client.producer.producer import Producer
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.topics import make_missing
from ottla.wire.errors import CORRUPT_MESSAGE

logger = logging.getLogger("ottla.pipelines")

GROUP: Final = "mirror-of-kafka-0.7"
ALL: Final = 1 << 30
"""A number of records that no poll reaches, so that messages compressed together are returned together."""
WAIT_MS: Final = 500
LOOK_EVERY_S: Final = 30.0
"""The interval, in s, of lookups for new topics and partitions."""
TELL_EVERY_S: Final = 1.0
GAP_TRIES: Final = 3
"""The number of refusals of the same positions, within a log, after which they count as a gap."""

MARK: Final = "kafka-0.7 "
"""The prefix of a mirror's commit metadata; the name of a source partition follows."""


class Places:
    """The assignment of source partitions, by their numbers (`BrokerPartition.number`), to target partitions.

    `committed` are the offsets of the mirror's group at the target. Raises `PipelineError` if anything but a mirror has committed
    an offset of the group.
    """

    def __init__(self, group: str, prefix: str, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._prefix = prefix
        self._there: dict[TopicPartition, TopicPartition] = {}
        self._positions: dict[TopicPartition, int] = {}
        for there, found in committed.items():
            partition = _parse(found.metadata)
            if partition is None:
                raise PipelineError(
                    f"Group {group} has committed {found.offset} for {there.topic}-{there.partition} at the target, which no "
                    "mirror did: name another one with --group."
                )
            if there.topic.startswith(prefix):
                source = TopicPartition(there.topic[len(prefix) :], partition.number)
                self._there[source] = there
                self._positions[source] = found.offset

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign the first free target partition to each new source partition, in order."""
        taken = set(self._there.values())
        for source in sorted(partitions):
            if source in self._there:
                continue
            there = TopicPartition(self._prefix + source.topic, 0)
            while there in taken:
                there = there._replace(partition=there.partition + 1)
            self._there[source] = there
            taken.add(there)

    def there(self, source: TopicPartition) -> TopicPartition:
        """Return the target partition that a source partition is copied to."""
        return self._there[source]

    def position(self, source: TopicPartition) -> int | None:
        """Return the byte up to which a source partition is copied; None if nothing is copied yet."""
        return self._positions.get(source)

    def advance(self, source: TopicPartition, position: int) -> None:
        """Record that a source partition is copied and committed up to `position`."""
        self._positions[source] = position

    def counts(self) -> dict[str, int]:
        """Return the number of partitions that each target topic needs."""
        counts: dict[str, int] = {}
        for topic, partition in self._there.values():
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        return counts

    def commits(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit at the target; `positions` are those of source partitions."""
        return {
            self._there[source]: OffsetAndMetadata(position, f"{MARK}{_partition_of(source)}")
            for source, position in positions.items()
        }


def _parse(metadata: str) -> BrokerPartition | None:
    broker_id, _, partition = metadata.removeprefix(MARK).rpartition("-")
    is_one = metadata.startswith(MARK) and broker_id.isdecimal() and partition.isdecimal()
    return BrokerPartition(int(broker_id), int(partition)) if is_one else None


def _partition_of(source: TopicPartition) -> BrokerPartition:
    """Return the partition as 0.7 names it."""
    return BrokerPartition.of(source.partition)


@dataclass(frozen=True, slots=True)
class MirrorStep:
    """The progress since the last report. `lag_bytes` is the number of unread bytes in the source's logs, or None if unknown."""

    messages: int
    total_messages: int
    messages_per_second: float
    bytes_per_second: float
    lag_bytes: int | None

    def as_row(self) -> dict[str, object]:
        return asdict(self)


Tell = Callable[[MirrorStep], None]


@dataclass(frozen=True, slots=True)
class Mirror07:
    """A mirror from Kafka 0.7. `source` are consumer settings that find the brokers, without `api_version`.

    `group` is the target's group that stores the positions; a second mirror of the group fences the first. `prefix` precedes the
    names of target topics. With `once` the run ends at the source's log ends as of its start. `skip_lost`: if the next position was
    deleted at the source, continue at the start of that log.
    """

    topics: Sequence[str]
    source: Mapping[str, Any]
    target: str
    group: str = GROUP
    prefix: str = ""
    once: bool = False
    skip_lost: bool = False
    target_settings: Mapping[str, Any] = field(default_factory=dict)

    def run(self, tell: Tell, stop: threading.Event) -> None:
        """Copy until all is copied (only with `once`) or `stop` is set. Raises `PipelineError` or `KafkaError`."""
        given: dict[str, Any] = {"client_id": self.group, **self.target_settings}
        with (
            Consumer(api_version="0.7", auto_offset_reset="none", **self.source) as source,
            Admin(self.target, **given) as admin,
            Producer(self.target, transactional_id=self.group, **given) as writer,
        ):
            writer.init_transactions()  # from now on no other mirror commits for the group
            places = Places(self.group, self.prefix, admin.list_group_offsets(self.group))
            Copying07(self, places, source, admin, writer).run(Rate(tell), stop)


class Copying07:
    """A running mirror: one thread reads, writes and commits in turns, while the client reads ahead."""

    def __init__(self, wanted: Mirror07, places: Places, source: Consumer, admin: Admin, writer: Producer) -> None:
        self._wanted, self._places = wanted, places
        self._source, self._admin, self._writer = source, admin, writer
        self._ends: dict[TopicPartition, int] = {}
        self._look_at_s = 0.0
        self._refused, self._refused_at = 0, dict[TopicPartition, int]()

    def run(self, rate: Rate, stop: threading.Event) -> None:
        self._find_partitions()
        self._ends = self._source.end_offsets(self._source.assignment())
        while not stop.is_set() and not (self._wanted.once and self._is_done()):
            if not self._wanted.once and time.monotonic() >= self._look_at_s:
                self._find_again()
            if records := self._read():
                self._copy(records)
                rate.add(records)
            rate.report_if_due(self._lag)
        rate.record(self._lag())

    def _find_partitions(self) -> None:
        """Find all source partitions and read the new ones, from the position stored at the target or from the start of their
        logs.
        """
        there = {where for topic in self._wanted.topics for where in self._source.partitions_for(topic)}
        known = self._source.assignment()
        self._look_at_s = time.monotonic() + LOOK_EVERY_S
        if there <= known:
            return
        self._places.assign(there)
        make_missing(self._admin, self._places.counts(), grow=True)
        positions = {where: self._position(where) for where in known}
        self._source.assign(sorted(there | known))
        self._seek({**positions, **{where: self._places.position(where) for where in there - known}})
        self._check()

    def _find_again(self) -> None:
        try:
            self._find_partitions()
        except KafkaError as error:
            if not error.retriable:
                raise
            logger.warning("new partitions could not be listed; it is retried: %s", error)

    def _seek(self, positions: Mapping[TopicPartition, int | None]) -> None:
        unknown = [where for where, position in positions.items() if position is None]
        starts = self._source.beginning_offsets(unknown) if unknown else {}
        for where, position in positions.items():
            self._source.seek(where, starts[where] if position is None else position)

    def _position(self, where: TopicPartition) -> int:
        return self._source.position(where)

    def _copy(self, records: Sequence[ConsumerRecord]) -> None:
        read = {TopicPartition(record.topic, record.partition) for record in records}
        positions = {where: self._position(where) for where in read}
        before = {where: self._places.position(where) for where in read}
        try:
            with self._writer.transaction():
                for record in records:
                    topic, partition = self._places.there(TopicPartition(record.topic, record.partition))
                    self._writer.send(topic, record.value, partition=partition)
                self._writer.send_offsets(self._places.commits(positions), ConsumerGroupMetadata(self._wanted.group))
        except TransactionAbortable as error:
            logger.warning("what was read is read again: %s", error)
            self._seek(before)
            return
        except ProducerFenced as error:
            raise PipelineError(
                f"Another mirror has begun with group {self._wanted.group}, and goes on in this one's place: give each a "
                "--group of its own."
            ) from error
        for where, position in positions.items():
            self._places.advance(where, position)

    def _read(self) -> list[ConsumerRecord]:
        """Return the available records. Raises `PipelineError` for a position that cannot be read."""
        try:
            return self._source.poll(WAIT_MS, ALL)
        except OffsetOutOfRange:
            if not self._check():
                self._wait_for_gap()
            return []
        except BrokerError as error:
            if error.code != CORRUPT_MESSAGE:
                raise
            raise PipelineError(
                f"{error} All before it is copied. To go on behind it, commit a later position for group {self._wanted.group}."
            ) from error

    def _wait_for_gap(self) -> None:
        """Pause after a refusal of positions that are within their logs. Raises `PipelineError` after `GAP_TRIES` refusals.

        There is a gap at one of the positions; Ottla brokers do not report gaps to clients of 0.7.
        """
        positions = {where: self._position(where) for where in self._source.assignment()}
        self._refused = self._refused + 1 if positions == self._refused_at else 1
        self._refused_at = positions
        if self._refused < GAP_TRIES:
            time.sleep(WAIT_MS / 1000)
            return
        ends = self._ends | self._source.end_offsets(positions)
        within = {where: at for where, at in positions.items() if at < ends[where]} or positions
        gaps = [f"{_about(where)} at byte {at:,}" for where, at in sorted(within.items())]
        raise PipelineError(
            f"The source refuses to read on: {', '.join(gaps)}. What was there could not be read or was compacted away: commit a "
            f"later position for group {self._wanted.group}, or copy from a broker of Ottla without --from 0.7."
        )

    def _check(self) -> bool:
        """Seek to the start of each log whose next position was deleted at the source. Return whether there was one.

        Raises `PipelineError` for a deleted position without `skip_lost`, and for a position beyond the log's end.
        """
        moved = False
        assigned = self._source.assignment()
        starts, ends = self._source.beginning_offsets(assigned), self._source.end_offsets(assigned)
        for where in sorted(assigned):
            position = self._position(where)
            if position > ends[where]:
                raise PipelineError(
                    f"{_about(where)} is copied up to byte {position:,}, and ends at {ends[where]:,} at the source: it is "
                    f"another log now; name another group than {self._wanted.group} with --group to copy it from its start."
                )
            if position >= starts[where]:
                continue
            if not self._wanted.skip_lost:
                raise PipelineError(
                    f"{_about(where)} is copied up to byte {position:,}, and begins at {starts[where]:,} at the source: what was "
                    "between is deleted there; --skip-lost goes on without it."
                )
            logger.warning("%s: bytes %d to %d are deleted at the source, and left out", _about(where), position, starts[where])
            self._source.seek(where, starts[where])
            moved = True
        return moved

    def _is_done(self) -> bool:
        return all(self._position(where) >= end for where, end in self._ends.items())

    def _lag(self) -> int | None:
        try:
            ends = self._source.end_offsets(self._source.assignment())
        except KafkaError:  # temporary, or the next request fails for the same reason
            return None
        return sum(max(0, end - self._position(where)) for where, end in ends.items())


def _about(where: TopicPartition) -> str:
    return f"Partition {_partition_of(where)} of {where.topic}"


class Rate:
    """The number of copied messages since the last report, which is made every second."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._messages = self._bytes = self._total = 0
        self._since_s = time.monotonic()

    def add(self, records: Sequence[ConsumerRecord]) -> None:
        self._messages += len(records)
        self._total += len(records)
        self._bytes += sum(len(record.value or b"") for record in records)

    def report_if_due(self, lag: Callable[[], int | None]) -> None:
        """Report if messages were copied, and the last report was at least a second ago."""
        if self._messages and time.monotonic() - self._since_s >= TELL_EVERY_S:
            self.record(lag())

    def record(self, lag_bytes: int | None) -> None:
        now_s = time.monotonic()
        took_s = max(now_s - self._since_s, 0.001)
        rates = round(self._messages / took_s, 1), round(self._bytes / took_s, 1)
        self._tell(MirrorStep(self._messages, self._total, *rates, lag_bytes))
        self._messages = self._bytes = 0
        self._since_s = now_s
