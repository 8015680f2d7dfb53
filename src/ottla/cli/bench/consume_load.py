"""`ottla bench consume`: it reads a topic from the start, and measures the time that fetches take."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from ottla.cli.bench.latencies import LatencyHistogram, LoadReport
from ottla.cli.bench.progress import LoadProgress
from ottla.cli.command import connection
from ottla.cli.command.exits import fail
from ottla.cli.command.signals import Interruption

if TYPE_CHECKING:
    from ottla.client.consumer.fetched_columns import FetchedColumns
    from ottla.client.types import TopicPartition
    from ottla.net.client.consumer.consumer import Consumer
    from ottla.records.batches.columns import Columns

IDLE_MS = 200
"""The longest wait for records, after which signals and the time of the next line are checked."""


def consume(options: argparse.Namespace) -> int:
    """Run the load. Return 1 if fewer records arrived than requested, and 130 after Ctrl-C."""
    from ottla.client.settings.clients import AdminSettings, ConsumerSettings
    from ottla.net.client.admin.admin import Admin
    from ottla.net.client.consumer.consumer import Consumer

    decided = {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": "earliest", "allow_auto_create_topics": False}
    given = connection.settings(options, ConsumerSettings, AdminSettings, ConsumerSettings)
    with Admin(**connection.settings(options, AdminSettings, AdminSettings, ConsumerSettings)) as admin:
        if options.topic not in admin.list_topics(internal=True):
            advice = f"`ottla bench produce {options.topic}` fills one that exists."
            return fail(f"There is no topic {options.topic} that this user may describe: {advice}")
    with Interruption() as interruption, Consumer(**{**given, **decided}) as consumer:
        return ConsumeLoad(consumer, options, interruption).run()


class ConsumeLoad:
    """One run of `ottla bench consume`, with an open consumer."""

    def __init__(self, consumer: Consumer, options: argparse.Namespace, interruption: Interruption) -> None:
        self._consumer, self._options, self._interruption = consumer, options, interruption
        self._records = self._bytes = 0
        self._unread: dict[TopicPartition, int] = {}
        """The offsets at which partitions ended when the run began, without those that are read up to there."""
        self._waits = LatencyHistogram()
        self._progress = LoadProgress(is_shown=not options.json)
        self._began = time.monotonic()
        self._first_s = 0.0

    def run(self) -> int:
        """Read records, and print the report. Return the exit code."""
        options = self._options
        self._interruption.attempt(self._place)
        self._began = last_s = time.monotonic()
        while not self._is_complete() and not self._interruption.stop.is_set():
            asked = time.monotonic()
            found = next(self._consumer.columns(IDLE_MS), None)
            if found is not None:
                last_s = time.monotonic()
                self._count(found, last_s - asked)
            self._progress.show_if_due()
            if time.monotonic() - last_s > options.timeout:
                break
        seconds = (last_s if self._records else time.monotonic()) - self._began
        others = {"first record after": round(self._first_s * 1000, 3)}
        LoadReport(options.topic, self._records, self._bytes, seconds).show(self._waits, "fetch", others, as_json=options.json)
        if self._interruption.stop.is_set():
            return fail(f"Interrupted: {self._records:,} records were read.", self._interruption.exit_code)
        return 0 if self._is_complete() else self._fail_incomplete()

    def _place(self) -> None:
        """Assign all partitions of the topic to the consumer, and seek to their starts."""
        partitions = self._consumer.partitions_for(self._options.topic)
        self._consumer.assign(partitions)
        starts, ends = self._consumer.beginning_offsets(partitions), self._consumer.end_offsets(partitions)
        self._unread = {where: end for where, end in ends.items() if starts[where] < end}

    def _is_complete(self) -> bool:
        return not self._unread if self._options.count is None else self._records >= self._options.count

    def _count(self, found: FetchedColumns, wait_s: float) -> None:
        """Add fetched records to the figures: at most as many as option -n still allows."""
        before, bytes_before = self._records, self._bytes
        for columns in found.columns:
            left = len(columns) if self._options.count is None else self._options.count - self._records
            kept = columns.slice(0, left) if left < len(columns) else columns
            self._records += len(kept)
            self._bytes += bytes_of(kept)
        if found.next_offset >= self._unread.get(found.where, found.next_offset):
            self._unread.pop(found.where, None)
        self._first_s = self._first_s or time.monotonic() - self._began
        self._waits.add(wait_s)
        self._progress.add(self._records - before, self._bytes - bytes_before, wait_s)

    def _fail_incomplete(self) -> int:
        """Print why the run has ended early. Raises `KafkaError` if no broker answers."""
        self._consumer.end_offsets(self._consumer.partitions_for(self._options.topic))
        wanted = "not all" if self._options.count is None else f"{self._records:,} of {self._options.count:,}"
        advice = "write more, or give a smaller -n or a longer --timeout."
        return fail(f"No record came for {self._options.timeout:g} s: {wanted} were read; {advice}")


def bytes_of(columns: Columns) -> int:
    """Return the size of all keys and values together, in bytes."""
    from ottla.records import kernel

    total = 0
    for column in (kernel.KEY_SIZE, kernel.VALUE_SIZE):
        sizes = columns.span_column(column).tolist()
        total += sum(sizes) + sizes.count(-1)  # -1 is null
    return total
