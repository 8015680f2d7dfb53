"""The copy of a topic's records into another topic: `ottla topic copy`."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ottla.cli.command import connection
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines
from ottla.cli.topic.offsets import ranges
from ottla.errors import KafkaError, SettingError

if TYPE_CHECKING:
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin
    from ottla.net.client.consumer.consumer import Consumer
    from ottla.net.client.producer.producer import Producer

READING: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
"""Consumer settings that -X can override: by default, records of aborted transactions are not copied."""
REPORT_EVERY_S = 1.0
POLL_MS = 500
MAX_RECORDS = 10_000
"""The records that are read before the ends of partitions are checked."""


def run(options: argparse.Namespace) -> int:
    """Copy the records from the current start to the current end of the source."""
    from ottla.client.connection.versions import INIT_PRODUCER_ID
    from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings
    from ottla.net.client.admin.admin import Admin
    from ottla.net.client.consumer.consumer import Consumer
    from ottla.net.client.producer.producer import Producer

    others = (AdminSettings, ConsumerSettings, ProducerSettings)
    if options.to is None and options.source == options.target:
        return fail("FROM and INTO are one topic: name another one, or another cluster with --to.", MISUSED)
    target_options = argparse.Namespace(**vars(options))
    if options.to is not None:
        target_options = argparse.Namespace(profile=options.to, bootstrap_server=None, command_config=None, command_property=[])
    try:
        with ExitStack() as stack:
            source_admin = stack.enter_context(Admin(**connection.settings(options, AdminSettings, *others)))
            target_admin = stack.enter_context(Admin(**connection.settings(target_options, AdminSettings, *others)))
            _prepare(source_admin, target_admin, options)
            reading = {**READING, **connection.settings(options, ConsumerSettings, *others), "group_id": None}
            if not source_admin.supports_api(INIT_PRODUCER_ID):  # before Kafka 0.11, requests have no isolation level
                reading["isolation_level"] = "read_uncommitted"
            consumer = stack.enter_context(Consumer(**reading))
            writing = connection.settings(target_options, ProducerSettings, *others)
            if not target_admin.supports_api(INIT_PRODUCER_ID):
                writing = {"enable_idempotence": False, **writing}
            producer = stack.enter_context(Producer(**writing))
            return _copy(source_admin, consumer, producer, options)
    except SettingError as error:
        return fail(str(error), MISUSED)
    except KafkaError as error:
        return fail(str(error))


def _prepare(source: Admin, target: Admin, options: argparse.Namespace) -> None:
    """Create the target topic if it is missing. Raises `KafkaError`, also for a target with fewer partitions than the source."""
    from ottla.client.admin.topics import BROKER_DEFAULT, DYNAMIC_TOPIC_SOURCE
    from ottla.client.errors import NotSupported

    count = len(source.describe_topics(options.source)[options.source].partitions)
    if options.target not in target.list_topics(internal=True) and not options.no_create:
        try:
            configs = source.describe_topic_configs(options.source)
        except NotSupported:  # before Kafka 0.11, ZooKeeper alone has the settings of topics
            configs = {}
        own = {entry.name: entry.value or "" for entry in configs.values() if entry.source == DYNAMIC_TOPIC_SOURCE}
        target.create_topic(options.target, count, BROKER_DEFAULT, own)
    there = len(target.describe_topics(options.target)[options.target].partitions)
    if there < count:
        raise KafkaError(
            f"Topic {options.target} has {there} partitions, {options.source} has {count}: "
            f"add some with `ottla topic alter {options.target} -p {count}`."
        )


def _copy(admin: Admin, consumer: Consumer, producer: Producer, options: argparse.Namespace) -> int:
    from ottla.client.types import TopicPartition

    partitions = [
        TopicPartition(options.source, index) for index in admin.describe_topics(options.source)[options.source].partitions
    ]
    open_ends = {where: found for where, found in ranges(admin, partitions).items() if found.end > found.start}
    ends = {where: found.end for where, found in open_ends.items()}
    consumer.assign(ends)
    for where, found in open_ends.items():
        consumer.seek(where, found.start)
    report = Report(options)
    while ends:
        for record in consumer.poll(POLL_MS, MAX_RECORDS):
            if record.offset >= ends[TopicPartition(record.topic, record.partition)]:
                continue
            producer.send(
                options.target,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=record.headers,
                timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
            )
            report.count(record.key, record.value)
        _drop_finished(consumer, ends)
    producer.flush()
    report.end()
    return 0


def _drop_finished(consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
    """Stop reading partitions whose position has reached their end. Transaction markers move the position without a record."""
    finished = [where for where, end in ends.items() if consumer.position(where) >= end]
    for where in finished:
        del ends[where]
    if finished and ends:
        consumer.assign(ends)


class Report:
    """The report of a copy: its progress on a terminal, in a line that is rewritten, and at the end a sentence or a JSON object."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._began = self._reported = time.monotonic()
        self._records = self._bytes = 0

    def count(self, key: bytes | None, value: bytes | None) -> None:
        self._records += 1
        self._bytes += len(key or b"") + len(value or b"")
        if self._records % 1000 == 0 and sys.stderr.isatty() and time.monotonic() - self._reported > REPORT_EVERY_S:
            self._reported = time.monotonic()
            print(f"\r{self._records} records", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        seconds = time.monotonic() - self._began
        row = {"from": self._options.source, "into": self._options.target, "records": self._records, "bytes": self._bytes}
        sentence = f"Copied {self._records} records ({self._bytes} bytes) in {seconds:.1f} s."
        print(*as_lines([{**row, "seconds": round(seconds, 3)}]) if self._options.json else (sentence,))
