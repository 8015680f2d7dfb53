"""The producer on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, Unpack

from ottla.client.consumer.committed_offsets import committable
from ottla.client.errors import KafkaError, TransactionAbortable
from ottla.client.keywords import ProducerKeywords
from ottla.client.producer.accumulator import Headers
from ottla.client.producer.transactions import InGroup, chain_errors, metadata_of
from ottla.client.settings.clients import ProducerSettings, parse
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, Place, TopicPartition
from ottla.net.client.producer.delivery import Delivery, SentRows
from ottla.net.client.producer.produce_driver import ProduceDriver
from ottla.records.batches.rows import Rows


class AsyncProducer:
    """A producer that writes records; a context manager. Keyword arguments are Kafka's producer settings with underscores.

        async with AsyncProducer("localhost:9092", linger_ms=5) as producer:
            delivery = await producer.send("flights", b"...", key=b"JFK")
            written = await delivery  # topic, partition, offset, timestamp

    With `transactional_id`, every record belongs to a transaction; a newer producer with that id fences this one (KIP-98):

        async with producer.transaction():
            await producer.send("flights", b"...")
            await producer.send_offsets(consumer.positions(), consumer)

    With `api_version="0.7"` brokers acknowledge no records. A record counts as written once the broker has answered a later
    request, and its offset is -1.

    Leaving the context waits until every record is written. It raises `DeliveryFailed` if records were not written and no caller
    has read their errors. Raises `SettingError` for a setting that is unknown or has a wrong value.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self._driver = ProduceDriver(parse(ProducerSettings, {**settings, **servers}))

    async def start(self) -> Self:
        """Start the producer without a `with` statement. Connections are opened when first needed."""
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
        """Queue a record, and return a `Delivery`; awaiting it returns the record's `RecordMetadata`.

        Without `partition`, the key selects the partition; records without a key are spread over all (KIP-480). `timestamp_ms` is
        in ms since 1970; None means now. Waits up to `max_block_ms` while `buffer_memory` is full or the topic's metadata is
        missing.

        Raises `TimedOut`, `UnknownTopic`, `BrokerError` (MESSAGE_TOO_LARGE), `Closed`, or another `KafkaError`; `TypeError` for a
        field of a wrong type. With a `transactional_id` also `TransactionAbortable`, `TransactionFailed`, and outside of a
        transaction `TransactionError`.
        """
        driver = self._driver
        accumulator = driver.accumulator
        if accumulator.pending_bytes > driver.settings.buffer_memory:
            await driver.wait_for_memory()
        while (delivery := driver.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            await driver.load_metadata(topic)
        if not delivery.index:
            driver.pump()
            # Without this pause, a caller that sends in a loop without waiting keeps the event loop from writing to sockets.
            await asyncio.sleep(0)
        return delivery

    async def send_rows(
        self, topic: str, rows: Rows, start: int = 0, stop: int | None = None, *, partition: int | None = None
    ) -> list[SentRows]:
        """Queue records in the form of columns, the fastest way: no record becomes a Python object.

        `rows` are made by `ottla.records.batches`: of lines (`lines.split_lines`), of Arrow's columns (`arrow.arrow_rows`), or of
        values. The rows from `start` up to `stop` (None: the last) are sent, in this order in each partition. Without `partition`,
        their keys select it. Return the rows that each batch got. If a row exceeds `max_request_size`, it and those after it are
        not queued. Raises the exceptions of `send`, but for MESSAGE_TOO_LARGE.
        """
        driver = self._driver
        if driver.accumulator.pending_bytes > driver.settings.buffer_memory:
            await driver.wait_for_memory()
        while (sent := driver.extend(topic, rows, start, rows.row_count if stop is None else stop, partition)) is None:
            await driver.load_metadata(topic)
        driver.pump()
        await asyncio.sleep(0)  # as in `send`
        return sent

    async def send_values(self, topic: str, values: Sequence[bytes], *, partition: int | None = None) -> list[tuple[Delivery, int]]:
        """Queue many records that have values alone, several times faster than `send`.

        Return, for each batch that values were added to, the `Delivery` of the first of them and their number. The others of a
        batch have the same outcome, and the offsets that follow. The numbers add up to fewer than all values if one exceeds
        `max_request_size`: it and those after it are not queued. Raises the exceptions of `send`, but for MESSAGE_TOO_LARGE.
        """
        sent = await self.send_rows(topic, self._driver.rows_of(values), partition=partition)
        return [(delivery, len(numbers)) for delivery, numbers in sent]

    async def init_transactions(self) -> None:
        """Fence older producers with the transactional id, and abort their open transaction.

        The first `begin_transaction` does this too. Raises `SettingError` without a `transactional_id`, and `TransactionFailed`.
        After any other `KafkaError`, call again.
        """
        await self._driver.transactions.initialize()

    async def begin_transaction(self) -> None:
        """Begin a transaction: it contains all records sent until it ends.

        Raises `TransactionError`, and the exceptions of `init_transactions`.
        """
        await self._driver.transactions.begin()

    async def commit_transaction(self) -> None:
        """Write all records sent so far, and commit the transaction.

        After `TransactionAbortable`, abort the transaction. After `TransactionFailed`, close the producer. After any other
        `KafkaError`, such as `TimedOut`, it is unknown whether brokers have committed: call again.
        """
        await self._driver.transactions.commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction. Records that are still unsent are never written.

        After `TransactionFailed`, close the producer. After any other `KafkaError`, such as `TimedOut`, call again.
        """
        await self._driver.transactions.abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Return an async context manager that begins a transaction, commits it at the end, and aborts it after an exception.

        Raises the exceptions of `begin_transaction` and `commit_transaction`. A transaction that cannot be committed is aborted
        before the exception is raised.
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
            chain_errors(error, failed)

    async def send_offsets(self, offsets: Mapping[Place, OffsetAndMetadata | int], member: InGroup | ConsumerGroupMetadata) -> None:
        """Commit a group's offsets as part of the transaction (KIP-447). Pass a consumer's `positions()` and the consumer.

        Raises `TransactionAbortable` or `TransactionFailed`. The cause of the former is `CommitFailed` if the group has assigned
        the partitions to other members. Raises `SettingError` for a consumer without a group or with automatic commits.
        """
        await self._driver.transactions.send_offsets(committable(offsets), metadata_of(member))

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Return once every record sent so far is written. Raises `TimedOut` after `timeout_ms`; None waits without limit.

        Raises `DeliveryFailed` if records were not written and no caller has read their errors. In a transaction,
        `commit_transaction` raises this error, not `flush`.
        """
        await self._driver.flush(timeout_ms)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises `KafkaError`."""
        return await self._driver.partitions_for(topic)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. Records not written within `timeout_ms` fail with `Closed`. Raises `TimedOut`.

        Raises `DeliveryFailed` if records were not written and no caller has read their errors. An open transaction is aborted.
        """
        await self._driver.close(timeout_ms)
