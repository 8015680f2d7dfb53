"""The blocking producer: drives the same machines as the asynchronous one, on a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

from ottla.client.accumulator import Headers
from ottla.client.keywords import ProducerKeywords
from ottla.client.settings import ProducerSettings, parse
from ottla.client.types import TopicPartition
from ottla.net.client.background import BackgroundLoop
from ottla.net.client.delivery import Delivery
from ottla.net.client.produce_driver import ProduceDriver


class Producer:
    """Writes records. A context manager; keyword arguments are Kafka's producer settings with underscores.

        with Producer("localhost:9092", linger_ms=5) as producer:
            producer.send("flights", b"...", key=b"JFK")

    Leaving the context waits until every record is written or has failed. Several threads may share a producer. Raises
    `SettingError` for a setting that is unknown or has a wrong value.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self._driver = ProduceDriver(parse(ProducerSettings, {**settings, **servers}))
        self._background = BackgroundLoop.begin("ottla-producer", self._driver.start)
        self._closed = False
        self._accumulator = self._driver.accumulator
        self._buffer_memory = self._driver.settings.buffer_memory

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
        """Queue a record, and return a `Delivery` whose `result()` says where it was written.

        Without `partition`, the key decides; records without a key are spread (KIP-480). `timestamp_ms` (since 1970) is now, unless
        given. Waits up to `max_block_ms` while `buffer_memory` is full or the topic is unknown. Raises `TimedOut`, `UnknownTopic`,
        `BrokerError` (MESSAGE_TOO_LARGE), `Closed`, or another `KafkaError`; `TypeError` for a record of wrong types.
        """
        accumulator = self._accumulator
        if accumulator.pending_bytes > self._buffer_memory:
            self._background.run(self._driver.wait_for_room())
        while (delivery := self._driver.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            self._background.run(self._driver.know(topic))
        if accumulator.needs_pump:
            accumulator.needs_pump = False
            self._background.call(self._driver.pump_soon)
        return delivery

    def flush(self, timeout_ms: int | None = None) -> None:
        """Return once everything sent so far is written or has failed. Raises `TimedOut` after `timeout_ms`."""
        self._background.run(self._driver.flush(timeout_ms))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises `KafkaError`."""
        return self._background.run(self._driver.partitions_for(topic))

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. What is not written within `timeout_ms` fails with `Closed`. Raises `TimedOut`."""
        if self._closed:
            return
        self._closed = True
        try:
            self._background.run(self._driver.close(timeout_ms))
        finally:
            self._background.stop()
