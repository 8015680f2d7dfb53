"""`ottla bench produce`: it sends records of random letters, and measures the time until each is acknowledged."""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ottla.cli.bench.latencies import LatencyHistogram, LoadReport
from ottla.cli.bench.progress import LoadProgress
from ottla.cli.command import connection
from ottla.cli.command.exits import COULD_NOT, MISUSED, fail
from ottla.cli.command.signals import Interruption
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.net.client.admin.admin import Admin
    from ottla.net.client.producer.delivery import Delivery
    from ottla.net.client.producer.producer import Producer

DEFAULTS: dict[str, Any] = {"request_timeout_ms": 15_000, "delivery_timeout_ms": 30_000, "max_block_ms": 30_000}
"""Producer settings that -X can override: a person waits half a minute for a broker that does not answer."""
LETTERS = bytes(ord("A") + byte % 26 for byte in range(256))
POOL_BYTES, MOST_PAYLOADS = 16 * 1024 * 1024, 10_000
"""The limits of the payloads, which are sent in turn."""
CHUNK_BYTES, MOST_AT_ONCE = 64 * 1024, 1000
"""The limits of the values that are sent by one call."""
RECORD_OVERHEAD = 16
WAIT_S = 0.05
"""The longest sleep, after which signals and the time of the next line are checked."""


def produce(options: argparse.Namespace) -> int:
    """Run the load. Return 1 if a record was not written, and 130 after Ctrl-C."""
    from ottla.client.connection.versions import INIT_PRODUCER_ID
    from ottla.client.settings.clients import AdminSettings, ProducerSettings, parse
    from ottla.net.client.admin.admin import Admin

    if options.partitions and not options.create:
        return fail("--partitions is of a topic to create: add --create, or leave it out.", MISUSED)
    given = connection.settings(options, ProducerSettings, AdminSettings, ProducerSettings)
    settings = {**DEFAULTS, **given, **_own(options)}
    buffer_bytes = parse(ProducerSettings, settings).buffer_memory
    with Admin(**connection.settings(options, AdminSettings, AdminSettings, ProducerSettings)) as admin:
        if not admin.supports_api(INIT_PRODUCER_ID):
            settings.setdefault("enable_idempotence", False)
        is_missing = options.topic not in admin.list_topics(internal=True)
        if is_missing and not options.create:
            advice = f"create it with `ottla topic create {options.topic}`, or add --create for this run alone."
            return fail(f"There is no topic {options.topic} that this user may describe: {advice}")
        with Interruption() as interruption, _created(admin, options, is_missing=is_missing):
            return _run(options, settings, buffer_bytes, interruption)


def _own(options: argparse.Namespace) -> dict[str, Any]:
    """Return the producer settings that the options of this command set."""
    own = {
        "acks": options.acks,
        "compression_type": options.compression,
        "linger_ms": options.linger_ms,
        "batch_size": options.batch_size,
    }
    return {name: value for name, value in own.items() if value is not None}


@contextmanager
def _created(admin: Admin, options: argparse.Namespace, *, is_missing: bool) -> Iterator[None]:
    """Create a missing topic, and delete it at the end. One that another client has created meanwhile is left alone."""
    from ottla.client.admin.topics import BROKER_DEFAULT
    from ottla.client.errors import BrokerError
    from ottla.wire.errors import TOPIC_ALREADY_EXISTS

    is_ours = is_missing
    if is_missing:
        try:
            admin.create_topic(options.topic, options.partitions or BROKER_DEFAULT)
        except BrokerError as error:
            if error.code != TOPIC_ALREADY_EXISTS:
                raise
            is_ours = False
    try:
        yield
    finally:
        if is_ours:
            try:
                admin.delete_topics(options.topic)
            except KafkaError as error:
                raise KafkaError(f"Topic {options.topic}, created for this run, is not deleted: {error}") from error


def _run(options: argparse.Namespace, settings: dict[str, Any], buffer_bytes: int, interruption: Interruption) -> int:
    from ottla.net.client.producer.producer import Producer

    producer = Producer(**settings)
    load = ProduceLoad(producer, options, buffer_bytes, interruption)
    try:
        load.run()
    finally:
        with suppress(KafkaError):
            producer.close(0)
    load.report()
    if interruption.stop.is_set():
        return fail(f"Interrupted: {load.written:,} records were written.", interruption.exit_code)
    if load.error is not None:
        return fail(f"{load.written:,} of {options.count:,} records were written, and the run has ended: {load.error}", COULD_NOT)
    return 0


def payloads(count: int, size: int) -> list[bytes]:
    """Return up to `count` values of random letters. Every call returns the same ones."""
    number = max(1, min(count, MOST_PAYLOADS, POOL_BYTES // size))
    letters = random.Random(0).randbytes(number * size).translate(LETTERS)
    return [letters[at : at + size] for at in range(0, number * size, size)]


class ProduceLoad:
    """One run of `ottla bench produce`. The client's thread counts deliveries, and the caller's thread reads the counts."""

    def __init__(self, producer: Producer, options: argparse.Namespace, buffer_bytes: int, interruption: Interruption) -> None:
        self.written = 0
        self.error: KafkaError | None = None
        """The first error, which ends the run."""
        self._producer, self._options, self._interruption = producer, options, interruption
        self._count: int = options.count
        self._payloads = payloads(options.count, options.size)
        self._chunk: int = max(1, min(CHUNK_BYTES // options.size, MOST_AT_ONCE, len(self._payloads)))
        self._most_waiting = max(1, buffer_bytes // (options.size + RECORD_OVERHEAD) - self._chunk)
        self._sent = self._done = 0
        self._room = threading.Event()
        self._latencies = LatencyHistogram()
        self._progress = LoadProgress(is_shown=not options.json)
        self._began = self._ended = time.monotonic()

    def run(self) -> None:
        """Send all records and wait until they are written. Stop at the first error, or at a signal."""
        self._interruption.attempt(lambda: self._producer.partitions_for(self._options.topic))
        self._began = self._ended = time.monotonic()
        while self._sent < self._count and self._may_go_on():
            count = min(self._due(), self._count - self._sent)
            if count and self._sent - self._done <= self._most_waiting:
                self._send(count)
            else:
                self._rest()
        while self._done < self._sent and self._may_go_on():
            self._rest()

    def report(self) -> None:
        """Print the figures of what was written."""
        report = LoadReport(self._options.topic, self.written, self.written * self._options.size, self._ended - self._began)
        report.show(self._latencies, "latency", {}, as_json=self._options.json)

    def _may_go_on(self) -> bool:
        self._progress.show_if_due()
        return self.error is None and not self._interruption.stop.is_set()

    def _due(self) -> int:
        """Return how many records the next call must send."""
        if self._options.rate is None:
            return self._chunk
        elapsed = time.monotonic() - self._began
        due: float = elapsed * self._options.rate
        return min(self._chunk, max(0, int(due) + 1 - self._sent))

    def _rest(self) -> None:
        """Wait until a delivery is done, or until the next record is due."""
        self._room.clear()
        if self._options.rate is None or self._sent == self._count:
            if self._done < self._sent:
                self._room.wait(WAIT_S)
            return
        due_s = self._began + self._sent / self._options.rate - time.monotonic()
        time.sleep(min(WAIT_S, max(due_s, 0.0005)))

    def _send(self, count: int) -> None:
        first = self._sent % len(self._payloads)
        values = self._payloads[first : first + count]
        topic, began = self._options.topic, time.monotonic()
        try:
            deliveries = self._producer.send_values(topic, values)
            if not deliveries:  # the value is too large, which `send` raises an error about
                self._producer.send(topic, values[0]).result()
        except KafkaError as error:
            self.error = error
            return
        self._sent += sum(number for _, number in deliveries)
        for delivery, number in deliveries:
            self._watch(delivery, number, began)

    def _watch(self, delivery: Delivery, count: int, began: float) -> None:
        def done(delivery: Delivery) -> None:
            now = time.monotonic()
            try:
                delivery.result()
            except KafkaError as error:
                self.error = self.error or error
            else:
                self.written += count
                self._ended = now
                self._latencies.add(now - began, count)
                self._progress.add(count, count * self._options.size, now - began)
            self._done += count
            self._room.set()

        delivery.add_done_callback(done)
