"""The producer on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

from ottla.client.accumulator import Headers
from ottla.client.keywords import ProducerKeywords
from ottla.client.settings import ProducerSettings, parse
from ottla.client.types import TopicPartition
from ottla.net.client.delivery import Delivery
from ottla.net.client.produce_driver import ProduceDriver


class AsyncProducer:
    """Writes records. A context manager; keyword arguments are Kafka's producer settings with underscores.

        async with AsyncProducer("localhost:9092", linger_ms=5) as producer:
            delivery = await producer.send("flights", b"...", key=b"JFK")
            written = await delivery  # topic, partition, offset, timestamp

    Leaving the context waits until every record is written or has failed. Raises `SettingError` for a setting that is unknown or
    has a wrong value.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self._driver = ProduceDriver(parse(ProducerSettings, {**settings, **servers}))

    async def start(self) -> Self:
        """Begin, without a `with` statement; connections are opened when first needed."""
        await self._driver.start()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Queue a record, and return a `Delivery` that can be awaited to learn where it was written.

        Without `partition`, the key decides; records without a key are spread (KIP-480). `timestamp_ms` (since 1970) is now, unless
        given. Waits up to `max_block_ms` while `buffer_memory` is full or the topic is unknown. Raises `TimedOut`, `UnknownTopic`,
        `BrokerError` (MESSAGE_TOO_LARGE), `Closed`, or another `KafkaError`; `TypeError` for a record of wrong types.
        """
        driver = self._driver
        accumulator = driver.accumulator
        if accumulator.pending_bytes > driver.settings.buffer_memory:
            await driver.wait_for_room()
        while (delivery := driver.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            await driver.know(topic)
        if accumulator.needs_pump:
            accumulator.needs_pump = False
            driver.pump()
            # A caller that sends in a tight loop would otherwise keep the event loop from writing to sockets.
            await asyncio.sleep(0)
        return delivery

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Return once everything sent so far is written or has failed. Raises `TimedOut` after `timeout_ms`."""
        await self._driver.flush(timeout_ms)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises `KafkaError`."""
        return await self._driver.partitions_for(topic)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. What is not written within `timeout_ms` fails with `Closed`. Raises `TimedOut`."""
        await self._driver.close(timeout_ms)
