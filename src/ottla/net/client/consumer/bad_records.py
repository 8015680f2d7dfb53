"""The effect of `on_bad_record`: a record that a deserializer cannot read is raised, skipped, or copied to a dead-letter topic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from ottla.client.consumer.cursor import Progress
from ottla.client.errors import DeserializationFailed, KafkaError
from ottla.client.producer.unreported_failures import count_text
from ottla.client.settings.clients import RAISE, SKIP, ConsumerSettings, DiscoverySettings, ProducerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import now_ms
from ottla.net.client.producer.produce_driver import ProduceDriver
from ottla.schemas.registry_values import SchemaMissing

LOG_PAUSE_MS = 10_000
"""The time, in ms, for which bad records are counted before they are logged together."""
CLOSE_TIMEOUT_MS = 5_000
LARGEST_RECORD_BYTES = 1 << 30
"""The limit of a dead letter: the broker has its own."""

log = logging.getLogger("ottla.client")


class BadRecords:
    """The records of one consumer that its deserializers cannot read. Use it only on the consumer's event loop."""

    def __init__(self, settings: ConsumerSettings, progress: Progress) -> None:
        self._settings, self._progress = settings, progress
        self._topic = None if settings.on_bad_record in (RAISE, SKIP) else settings.on_bad_record
        self._producer: ProduceDriver | None = None
        self._counts: dict[str, int] = {}
        self._next_log_ms = 0

    async def pass_over(self, error: KafkaError) -> None:
        """Load a missing schema, or move the position past the record of `error`.

        A dead-letter topic gets its copy before. Raise `error` if it is not about one record, or if records are neither skipped nor
        copied. Raises the `KafkaError` of a registry, or of a copy that was not written; the position then stays.
        """
        if isinstance(error, SchemaMissing):
            await asyncio.to_thread(error.load)
            return
        if not isinstance(error, DeserializationFailed):
            raise error
        if self.are_raised(error.topic):
            raise self.explain(error)
        if self._topic is not None:
            await self._copy([error], self._topic)
        self._progress.pass_over(TopicPartition(error.topic, error.partition), error.offset)
        self._count(error)
        await asyncio.sleep(0)  # a run of bad records leaves time to heartbeats and fetches

    def are_raised(self, topic: str) -> bool:
        """Return whether bad records of a topic raise. In the dead-letter topic, they always do."""
        return self._settings.on_bad_record == RAISE or topic == self._topic

    def explain(self, error: DeserializationFailed) -> DeserializationFailed:
        """Return the error to raise for a record: in the dead-letter topic, it does not advise to set `on_bad_record`."""
        return error.of_dead_letter() if error.topic == self._topic else error

    async def pass_over_all(self, errors: Sequence[DeserializationFailed]) -> None:
        """Copy the records of `errors` to the dead-letter topic, if there is one, and count them. The caller moves the position.

        Raises the `KafkaError` of a copy that was not written.
        """
        if self._topic is not None:
            await self._copy(errors, self._topic)
        for error in errors:
            self._count(error)

    async def _copy(self, errors: Sequence[DeserializationFailed], topic: str) -> None:
        """Write bad records to a topic, with headers that name their places and errors."""
        if self._producer is None:
            producer = ProduceDriver(_producer_settings(self._settings))
            await producer.start()
            self._producer = producer
        driver, deliveries = self._producer, []
        for error in errors:
            record = error.record
            headers = [*record.headers, *_headers(error)]
            timestamp_ms = record.timestamp if record.timestamp >= 0 else None
            while (delivery := driver.append(topic, record.value, record.key, None, headers, timestamp_ms)) is None:
                await driver.load_metadata(topic)
            deliveries.append(delivery)
        driver.pump()
        for delivery in deliveries:
            await delivery

    def _count(self, error: DeserializationFailed) -> None:
        """Count a record, and log the counts at most every `LOG_PAUSE_MS`."""
        self._counts[error.topic] = self._counts.get(error.topic, 0) + 1
        if now_ms() >= self._next_log_ms:
            self._next_log_ms = now_ms() + LOG_PAUSE_MS
            self._log(f"; the last is offset {error.offset} of {error.topic}-{error.partition}: {error.__cause__}")

    def _log(self, last: str = "") -> None:
        done = "skipped" if self._topic is None else f"copied to topic {self._topic} and skipped"
        log.warning("records that cannot be read were %s: %s%s", done, count_text(self._counts), last)
        self._counts = {}

    async def close(self) -> None:
        """Log the records that are not logged yet, and close the producer of copies."""
        if self._counts:
            self._log()
        if self._producer is not None:
            with suppress(KafkaError):
                await self._producer.settle(CLOSE_TIMEOUT_MS)
                await self._producer.end()


def _producer_settings(settings: ConsumerSettings) -> ProducerSettings:
    """Return the settings of a producer that connects as the consumer does."""
    given: dict[str, Any] = {each.name: getattr(settings, each.name) for each in fields(DiscoverySettings)}
    given["on_statistics"], given["enable_metrics_push"] = None, False
    given["delivery_timeout_ms"] = given["max_block_ms"] = settings.default_api_timeout_ms
    return ProducerSettings(**given, linger_ms=0, max_request_size=LARGEST_RECORD_BYTES).consistent(())


def _headers(error: DeserializationFailed) -> list[tuple[str, bytes | None]]:
    place = {"topic": error.topic, "partition": error.partition, "offset": error.offset, "field": error.field}
    cause = error.__cause__
    named = {**place, "exception": type(cause).__name__, "message": cause}
    return [(f"__ottla.errors.{name}", str(value).encode(errors="replace")) for name, value in named.items()]
