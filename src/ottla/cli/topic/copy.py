"""The copy of a topic's records into another topic: `ottla topic copy`.

Records are copied in transactions, each of which also commits the positions in the source, as offsets of a group of the target's
cluster: a copy that was killed continues, and a copy that is run again copies what is new. The offsets belong to the partitions of
the target, so that they go with it. Brokers before Kafka 0.11 have no transactions: there, the target must be empty.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.command import connection
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines, show
from ottla.cli.command.progress_line import ProgressLine
from ottla.cli.command.signals import Interruption
from ottla.cli.topic.offsets import PartitionOffsets, ranges
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin
    from ottla.net.client.consumer.consumer import Consumer
    from ottla.net.client.producer.producer import Producer

READING: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
"""Consumer settings that -X can override: by default, records of aborted transactions are not copied."""
SLICE_S = 1.0
"""The time for which records are copied before a transaction ends."""
POLL_MS = 500
MAX_RECORDS = 10_000
"""The records that are read before the ends of partitions are checked."""


class CopyPlan(NamedTuple):
    """The plan of a copy: the offsets to copy, by partition of the source.

    `progress` has the group that stores the positions, and the transactional id; None without transactions.
    """

    topic_id: str
    partition_count: int
    is_new: bool
    parts: dict[TopicPartition, PartitionOffsets]
    progress: str | None

    @property
    def offsets(self) -> int:
        return sum(part.end - part.start for part in self.parts.values())


def run(options: argparse.Namespace) -> int:
    """Copy the records up to the current end of the source."""
    from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings
    from ottla.net.client.admin.admin import Admin

    others = (AdminSettings, ConsumerSettings, ProducerSettings)
    if options.to is None and options.source == options.target:
        return fail("FROM and INTO are one topic: name another one, or another cluster with --to.", MISUSED)
    into = options if options.to is None else connection.options_of_profile(options.to)
    with ExitStack() as stack:
        source = stack.enter_context(Admin(**connection.settings(options, AdminSettings, *others)))
        target = stack.enter_context(Admin(**connection.settings(into, AdminSettings, *others)))
        plan = _plan(source, target, options)
        if options.dry_run:
            rows = [(where.partition, part.start, part.end, part.end - part.start) for where, part in plan.parts.items()]
            show(("partition", "from", "to", "would copy"), rows, as_json=options.json)
            return 0
        consumer, producer = _clients(stack, source, plan, options, into)
        _prepare(source, target, plan, options)  # after all settings are known to be right
        with Interruption() as interruption:
            return TopicCopy(plan, consumer, producer, interruption, options).execute()


def _clients(
    stack: ExitStack, source: Admin, plan: CopyPlan, options: argparse.Namespace, into: argparse.Namespace
) -> tuple[Consumer, Producer]:
    """Open a consumer of the source's cluster and a producer of the target's."""
    from ottla.client.connection.versions import INIT_PRODUCER_ID
    from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings
    from ottla.net.client.consumer.consumer import Consumer
    from ottla.net.client.producer.producer import Producer

    others = (AdminSettings, ConsumerSettings, ProducerSettings)
    reading = {**READING, **connection.settings(options, ConsumerSettings, *others), "group_id": None}
    if not source.supports_api(INIT_PRODUCER_ID):  # before Kafka 0.11, requests have no isolation level
        reading["isolation_level"] = "read_uncommitted"
    writing = {**connection.WRITING, **connection.settings(into, ProducerSettings, *others)}
    if plan.progress is None:
        writing = {"enable_idempotence": False, **writing}
    else:
        writing["transactional_id"] = plan.progress
    return stack.enter_context(Consumer(**reading)), stack.enter_context(Producer(**writing))


def _plan(source: Admin, target: Admin, options: argparse.Namespace) -> CopyPlan:
    """Compare source and target, and return the plan. Raises `KafkaError` if the target cannot take the records, or has others."""
    from ottla.client.connection.versions import INIT_PRODUCER_ID
    from ottla.client.types import TopicPartition

    found = source.describe_topics(options.source)[options.source]
    count, topic_id = len(found.partitions), found.topic_id.hex()
    parts = ranges(source, [TopicPartition(options.source, index) for index in sorted(found.partitions)])
    progress = f"ottla-topic-copy.{options.source}.{options.target}" if target.supports_api(INIT_PRODUCER_ID) else None
    if options.target not in target.list_topics(internal=True) and not options.no_create:
        return CopyPlan(topic_id, count, is_new=True, parts=parts, progress=progress)
    there = len(target.describe_topics(options.target)[options.target].partitions)
    if there < count:
        raise KafkaError(
            f"Topic {options.target} has {there} partitions, {options.source} has {count}: "
            f"add some with `ottla topic alter {options.target} -p {count}`."
        )
    if not options.append:
        copied = _copied(target, progress, topic_id, options)
        if copied is None:
            written = ranges(target, [TopicPartition(options.target, index) for index in range(there)])
            if any(part.end > part.start for part in written.values()):
                raise KafkaError(
                    f"Topic {options.target} has records, of which none are of a copy that can continue: add --append."
                )
        for where, part in parts.items():
            start = (copied or {}).get(where.partition, part.start)
            if start > part.end:
                raise KafkaError(f"{options.source}-{where.partition} ends before what was copied of it: add --append to copy all.")
            parts[where] = PartitionOffsets(max(start, part.start), part.end)
    return CopyPlan(topic_id, count, is_new=False, parts=parts, progress=progress)


def _copied(target: Admin, progress: str | None, topic_id: str, options: argparse.Namespace) -> dict[int, int] | None:
    """Return the positions of an earlier copy by partition; None if there was none. Raises `KafkaError` for another topic's."""
    if progress is None:
        return None
    committed = {where: at for where, at in target.list_group_offsets(progress).items() if where.topic == options.target}
    if any(at.metadata != topic_id for at in committed.values()):
        raise KafkaError(f"Topic {options.source} is another one than what was copied before: add --append to copy all of it.")
    return {where.partition: at.offset for where, at in committed.items()} or None


def _prepare(source: Admin, target: Admin, plan: CopyPlan, options: argparse.Namespace) -> None:
    """Create the target topic if it is missing, and commit the positions at which the copy begins. Raises `KafkaError`."""
    from ottla.client.admin.topics import BROKER_DEFAULT, DYNAMIC_TOPIC_SOURCE
    from ottla.client.errors import NotSupported

    if plan.is_new:
        try:
            configs = source.describe_topic_configs(options.source)
        except NotSupported:  # before Kafka 0.11, ZooKeeper alone has the settings of topics
            configs = {}
        own = {entry.name: entry.value or "" for entry in configs.values() if entry.source == DYNAMIC_TOPIC_SOURCE}
        try:
            target.create_topic(options.target, plan.partition_count, BROKER_DEFAULT, own)
        except NotSupported:  # before Kafka 2.4, brokers have no default for the number of replicas
            partitions = source.describe_topics(options.source)[options.source].partitions.values()
            target.create_topic(options.target, plan.partition_count, max(len(each.replicas) for each in partitions), own)
    if plan.progress is not None:
        target.alter_group_offsets(plan.progress, positions(plan, options.target, {}))


def positions(plan: CopyPlan, target: str, reached: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    """Return the offsets to commit for a copy that has reached some positions in partitions of the source."""
    from ottla.client.types import OffsetAndMetadata, TopicPartition

    return {
        TopicPartition(target, where.partition): OffsetAndMetadata(reached.get(where, part.start), plan.topic_id)
        for where, part in plan.parts.items()
    }


class TopicCopy:
    """One run of a copy. It shows its progress on a terminal, and finally prints a sentence or a JSON object."""

    def __init__(
        self, plan: CopyPlan, consumer: Consumer, producer: Producer, interruption: Interruption, options: argparse.Namespace
    ) -> None:
        self._plan, self._consumer, self._producer = plan, consumer, producer
        self._interruption, self._options = interruption, options
        self._ends = {where: part.end for where, part in plan.parts.items() if part.end > part.start}
        self._reached: dict[TopicPartition, int] = {}
        self._began = time.monotonic()
        self._records = self._bytes = 0

    def execute(self) -> int:
        """Copy until the ends of all partitions, or a signal. Return the exit code. Raises `KafkaError`."""
        self._consumer.assign(self._ends)
        for where in self._ends:
            self._consumer.seek(where, self._plan.parts[where].start)
        with ProgressLine() as progress:
            while self._ends and not self._interruption.stop.is_set():
                with self._transaction():
                    self._copy_slice(progress)
            self._producer.flush()
        return self._report()

    def _transaction(self) -> AbstractContextManager[None]:
        return nullcontext() if self._plan.progress is None else self._producer.transaction()

    def _copy_slice(self, progress: ProgressLine) -> None:
        """Copy records for a while, and commit the positions reached."""
        from ottla.client.types import ConsumerGroupMetadata

        end = time.monotonic() + SLICE_S
        while self._ends and time.monotonic() < end and not self._interruption.stop.is_set():
            self._copy_some()
            progress.show_if_due(self._progress)
        if self._plan.progress is not None:
            offsets = positions(self._plan, self._options.target, self._reached)
            self._producer.send_offsets(offsets, ConsumerGroupMetadata(self._plan.progress))

    def _copy_some(self) -> None:
        ends: dict[Any, int] = self._ends
        records = self._consumer.poll(POLL_MS, MAX_RECORDS)
        if not records:
            self._consumer.end_offsets([min(self._ends)])  # raises an error if no broker answers
        for record in records:
            if record.offset >= ends[record.where]:
                continue
            self._producer.send(
                self._options.target,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=record.headers,
                timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
            )
            self._records += 1
            self._bytes += len(record.key or b"") + len(record.value or b"")
        # Markers of transactions move the position without a record.
        self._reached |= {where: min(self._consumer.position(where), end) for where, end in self._ends.items()}
        finished = [where for where, end in self._ends.items() if self._reached[where] >= end]
        for where in finished:
            del self._ends[where]
        if finished and self._ends:
            self._consumer.assign(self._ends)

    def _progress(self) -> str:
        passed = sum(offset - self._plan.parts[where].start for where, offset in self._reached.items())
        return f"{self._records:,} records, {100 * passed // max(self._plan.offsets, 1)} %"

    def _report(self) -> int:
        seconds = time.monotonic() - self._began
        if self._interruption.stop.is_set():
            advice = (
                "the same command continues" if self._plan.progress is not None else f"delete {self._options.target} to begin anew"
            )
            return fail(f"Interrupted: {self._records:,} records were copied; {advice}.", self._interruption.exit_code)
        row = {"from": self._options.source, "into": self._options.target, "records": self._records, "bytes": self._bytes}
        sentence = f"Copied {self._records} records ({self._bytes} bytes) in {seconds:.1f} s."
        print(*as_lines([{**row, "seconds": round(seconds, 3)}]) if self._options.json else (sentence,))
        return 0
