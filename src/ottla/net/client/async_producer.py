"""The producer on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, Unpack

from ottla.client.accumulator import Headers
from ottla.client.errors import KafkaError, TransactionAbortable
from ottla.client.keywords import ProducerKeywords
from ottla.client.offsets import committable
from ottla.client.settings import ProducerSettings, parse
from ottla.client.transactions import InGroup, metadata_of, tell_both
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, Place, TopicPartition
from ottla.net.client.delivery import Delivery
from ottla.net.client.produce_driver import ProduceDriver


class AsyncProducer:
    """Writes records. A context manager; keyword arguments are Kafka's producer settings with underscores.

        async with AsyncProducer("localhost:9092", linger_ms=5) as producer:
            delivery = await producer.send("flights", b"...", key=b"JFK")
            written = await delivery  # topic, partition, offset, timestamp

    With `transactional_id`, records belong into transactions, which other producers of that name cannot disturb (KIP-98):

        async with producer.transaction():
            await producer.send("flights", b"...")
            await producer.send_offsets(consumer.positions(), consumer)

    With `api_version="0.7"` a record is written once the broker has answered a question behind it, and its offset is -1.
    Leaving the context waits until every record is written, and raises `DeliveryFailed` if one was not and nobody has asked for its
    result. Raises `SettingError` for a setting that is unknown or has a wrong value.
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
        try:
            await self.close()
        except KafkaError as failed:
            if error is None:
                raise
            error.add_note(f"Closing the producer failed as well: {failed}")

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
        `BrokerError` (MESSAGE_TOO_LARGE), `Closed`, or another `KafkaError`; `TypeError` for a record of wrong types. With a
        `transactional_id` also `TransactionAbortable`, `TransactionFailed`, and `TransactionError` outside of a transaction.
        """
        driver = self._driver
        accumulator = driver.accumulator
        if accumulator.pending_bytes > driver.settings.buffer_memory:
            await driver.wait_for_room()
        while (delivery := driver.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            await driver.know(topic)
        if not delivery.index:
            driver.pump()
            # A caller that sends in a tight loop would otherwise keep the event loop from writing to sockets.
            await asyncio.sleep(0)
        return delivery

    async def init_transactions(self) -> None:
        """Fence older producers with the transactional id, and abort what they left open. The first transaction does so by itself.

        Raises `TransactionFailed`, `SettingError` without a `transactional_id`, or another `KafkaError`: call again then.
        """
        await self._driver.transactions.initialize()

    async def begin_transaction(self) -> None:
        """Open a transaction, for all that is sent until its end. Raises `TransactionError`, or as `init_transactions`."""
        await self._driver.transactions.begin()

    async def commit_transaction(self) -> None:
        """Write what was sent, and commit it. Raises `TransactionAbortable`: then abort, or `TransactionFailed`: then close.

        After any other `KafkaError`, such as `TimedOut`, nobody knows whether brokers have committed it: call again.
        """
        await self._driver.transactions.commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction; what was not written yet never will be.

        Raises `TransactionFailed`: then close. After any other `KafkaError`, such as `TimedOut`, call again.
        """
        await self._driver.transactions.abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction for a `with` statement: committed at its end, aborted if it is left by an exception.

        Raises as `begin_transaction` and `commit_transaction` do; what cannot be committed is aborted before that is raised.
        """
        await self.begin_transaction()
        try:
            yield
        except BaseException as error:
            await self._abort_after(error)
            raise
        try:
            await self.commit_transaction()
        except TransactionAbortable as error:
            await self._abort_after(error)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        try:
            await self.abort_transaction()
        except KafkaError as failed:
            tell_both(error, failed)

    async def send_offsets(self, offsets: Mapping[Place, OffsetAndMetadata | int], member: InGroup | ConsumerGroupMetadata) -> None:
        """Commit a group's offsets with the transaction (KIP-447): for a consumer, what its `positions()` are, and the consumer.

        Raises `TransactionAbortable`, with `CommitFailed` as its cause if the group has moved on, or `TransactionFailed`;
        `SettingError` for a consumer without a group or with automatic commits.
        """
        await self._driver.transactions.send_offsets(committable(offsets), metadata_of(member))

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Return once everything sent so far is written. Raises `TimedOut` after `timeout_ms`.

        Raises `DeliveryFailed` if records were not written and nobody has asked for their results. In a transaction, committing
        raises what failed.
        """
        await self._driver.flush(timeout_ms)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises `KafkaError`."""
        return await self._driver.partitions_for(topic)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. What is not written within `timeout_ms` fails with `Closed`. Raises `TimedOut`.

        Raises `DeliveryFailed` if records were not written and nobody has asked for their results. A transaction that is open is
        aborted.
        """
        await self._driver.close(timeout_ms)
