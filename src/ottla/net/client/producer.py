"""The blocking producer: a thin face of the asynchronous one, which runs on a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

from ottla.client.accumulator import Headers
from ottla.client.keywords import ProducerKeywords
from ottla.client.types import TopicPartition
from ottla.net.client.async_producer import AsyncProducer
from ottla.net.client.background import BackgroundLoop
from ottla.net.client.delivery import Delivery


class Producer:
    """Writes records. A context manager; keyword arguments are Kafka's producer settings with underscores.

        with Producer("localhost:9092", linger_ms=5) as producer:
            producer.send("flights", b"...", key=b"JFK")

    Leaving the context waits until everything is written or given up. Threads may share one. Raises `SettingError`.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        self._async = AsyncProducer(bootstrap_servers, **settings)
        self._background = BackgroundLoop.begin("ottla-producer", self._async.start)
        self._closed = False
        self._drafts = self._async.drafts
        self._buffer_memory = self._async.settings.buffer_memory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Queue one record; `result()` of what is returned says where it landed.

        Waits up to `max_block_ms` while `buffer_memory` is full or the topic is not known yet. Raises `KafkaError`, and
        `TypeError` for a record that cannot be.
        """
        drafts = self._drafts
        if drafts.pending_bytes > self._buffer_memory:
            self._background.run(self._async.wait_for_room())
        while (delivery := self._async.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            self._background.run(self._async.know(topic))
        if drafts.news:
            drafts.news = False
            self._background.call(self._async.pump_soon)
        return delivery

    def flush(self, timeout_ms: int | None = None) -> None:
        """Return once everything sent so far is written or given up. Raises `TimedOut` after `timeout_ms`."""
        self._background.run(self._async.flush(timeout_ms))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        return self._background.run(self._async.partitions_for(topic))

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. What is still not written after `timeout_ms` is given up with `Closed`."""
        if self._closed:
            return
        self._closed = True
        try:
            self._background.run(self._async.close(timeout_ms))
        finally:
            self._background.stop()
