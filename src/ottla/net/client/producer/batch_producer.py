"""An idempotent producer of encoded batches, for Spark tasks. It does not decode records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Self

from ottla.client.errors import KafkaError
from ottla.client.producer.partition_queue import Outgoing
from ottla.client.settings.clients import ProducerSettings
from ottla.client.types import RecordMetadata, TopicPartition
from ottla.net.client.cluster import ClusterLinks, now_ms
from ottla.net.client.producer.batch_sender import BatchSender
from ottla.net.client.tasks import Tasks
from ottla.records.batches.header import read_header

MAX_WAITING = 16
"""The number of unanswered batches at which `send` waits."""


class BatchProducer:
    """A producer of whole v2 batches (base offset 0, no producer id). Batches of a partition are written in the order of `send`.

    The next `send` or `flush` raises the first error of any batch.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._waiting = 0
        self._asked_ms: dict[str, int] = {}
        self._error: KafkaError | None = None
        self._written: list[RecordMetadata] = []

    async def start(self) -> Self:
        """Start the producer. Connections are opened when first needed."""
        self._tasks = Tasks(self._fail)
        self._cluster = ClusterLinks(self._settings, self._tasks, whole_tries=True)
        self._sender = BatchSender(self._cluster, self._settings, self._tasks, self._pump)
        self._settled = asyncio.Event()
        return self

    async def close(self) -> None:
        """Close all connections, and drop unacknowledged batches. Call `flush` first."""
        self._sender.stop()
        await self._tasks.cancel()
        await self._cluster.close()

    async def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic. A missing topic is created if brokers create topics automatically.

        Metadata is requested again after `metadata_max_age_ms`, because the number can grow.
        """
        await self._cluster.ensure([topic], create=True)
        asked_ms = self._asked_ms.setdefault(topic, now_ms())
        if now_ms() - asked_ms >= self._settings.metadata_max_age_ms:
            await self._cluster.retry(lambda: self._cluster.refresh([topic]))
            self._asked_ms[topic] = now_ms()
        return self._cluster.metadata.partition_count(topic)

    async def send(self, batches: Iterable[tuple[TopicPartition, bytearray]]) -> None:
        """Queue batches. Wait while `MAX_WAITING` batches are unanswered. Raises the `KafkaError` of an earlier batch."""
        for where, data in batches:
            if not self._cluster.metadata.partition_count(where.topic):
                await self.partition_count(where.topic)
            deadline_ms = now_ms() + self._settings.delivery_timeout_ms
            self._waiting += 1
            self._sender.machine.add(Outgoing(where, data, read_header(data).record_count, deadline_ms, self._on_done))
            self._pump()
            while self._waiting >= MAX_WAITING:
                await self._progress()
        self._raise_error()

    async def flush(self) -> list[RecordMetadata]:
        """Wait until every batch is acknowledged, and return the positions of all since the last flush. Raises the first error."""
        while not self._sender.machine.idle:
            await self._progress()
        self._raise_error()
        written, self._written = self._written, []
        return written

    async def _progress(self) -> None:
        """Wait until one more batch is done."""
        self._settled.clear()
        await self._settled.wait()
        self._tasks.check()

    def _pump(self) -> None:
        self._sender.send_ready(now_ms())

    def _on_done(self, batch: Outgoing) -> None:
        self._waiting -= 1
        self._error = self._error or batch.error
        if batch.error is None:
            self._written.append(RecordMetadata(*batch.where, batch.base_offset, batch.log_append_time_ms))
        self._settled.set()

    def _fail(self, error: KafkaError) -> None:
        """Wake waiting calls, so that they raise the error of a background task."""
        self._settled.set()

    def _raise_error(self) -> None:
        self._tasks.check()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
