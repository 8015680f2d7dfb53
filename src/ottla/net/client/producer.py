"""The blocking producer: it calls the asynchronous machines, which run on a background thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self, Unpack

from ottla.client.accumulator import Headers
from ottla.client.arguments import timeout
from ottla.client.errors import KafkaError, TransactionAbortable
from ottla.client.keywords import ProducerKeywords
from ottla.client.offsets import committable
from ottla.client.settings import ProducerSettings, parse
from ottla.client.transactions import InGroup, metadata_of, tell_both
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, Place, TopicPartition
from ottla.net.client.background import BackgroundLoop
from ottla.net.client.delivery import Delivery
from ottla.net.client.produce_driver import ProduceDriver


class Producer:
    """A producer that writes records; a context manager. Keyword arguments are Kafka's producer settings with underscores.

        with Producer("localhost:9092", linger_ms=5) as producer:
            producer.send("flights", b"...", key=b"JFK")

    With `transactional_id`, every record belongs to a transaction; a newer producer with that id fences this one (KIP-98):

        with producer.transaction():
            producer.send("flights", b"...")
            producer.send_offsets(consumer.positions(), consumer)

    With `api_version="0.7"` brokers acknowledge no records. A record counts as written once the broker has answered a later
    request, and its offset is -1.

    Leaving the context waits until every record is written. It raises `DeliveryFailed` if records were not written and no caller
    has read their errors. Several threads may share a producer. Raises `SettingError` for a setting that is unknown or has a wrong
    value.
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
        try:
            self.close()
        except KafkaError as failed:
            if error is None:
                raise
            error.add_note(f"Closing the producer failed as well: {failed}")

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
        """Queue a record, and return a `Delivery` whose `result()` is the record's `RecordMetadata`.

        Without `partition`, the key selects the partition; records without a key are spread over all (KIP-480). `timestamp_ms` is
        in ms since 1970; None means now. Waits up to `max_block_ms` while `buffer_memory` is full or the topic's metadata is
        missing.

        Raises `TimedOut`, `UnknownTopic`, `BrokerError` (MESSAGE_TOO_LARGE), `Closed`, or another `KafkaError`; `TypeError` for a
        field of a wrong type. With a `transactional_id` also `TransactionAbortable`, `TransactionFailed`, and outside of a
        transaction `TransactionError`.
        """
        accumulator = self._accumulator
        self._background.check_process()
        if accumulator.pending_bytes > self._buffer_memory:
            self._background.run(self._driver.wait_for_room())
        while (delivery := self._driver.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            self._background.run(self._driver.know(topic))
        if not delivery.index:
            self._background.call(self._driver.pump_soon)
        return delivery

    def init_transactions(self) -> None:
        """Fence older producers with the transactional id and abort their open transaction. The first transaction does this itself.

        Raises `SettingError` without a `transactional_id`, and `TransactionFailed`. After any other `KafkaError`, call again.
        """
        self._background.run(self._driver.transactions.initialize())

    def begin_transaction(self) -> None:
        """Begin a transaction for all records sent until it ends. Raises `TransactionError`, and as `init_transactions`."""
        self._background.run(self._driver.transactions.begin())

    def commit_transaction(self) -> None:
        """Write all records sent so far, and commit the transaction.

        Raises `TransactionAbortable`: then abort; or `TransactionFailed`: then close. Any other `KafkaError`, such as `TimedOut`,
        leaves it open whether brokers have committed: call again.
        """
        self._background.run(self._driver.transactions.commit())

    def abort_transaction(self) -> None:
        """Abort the transaction. Records that are still unsent are never written.

        Raises `TransactionFailed`: then close. After any other `KafkaError`, such as `TimedOut`, call again.
        """
        self._background.run(self._driver.transactions.abort())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a context manager that begins a transaction, commits it at the end, and aborts it after an exception.

        Raises as `begin_transaction` and `commit_transaction` do. A transaction that cannot be committed is aborted before the
        exception is raised.
        """
        self.begin_transaction()
        try:
            yield
        except BaseException as error:
            self._abort_after(error)
            raise
        try:
            self.commit_transaction()
        except TransactionAbortable as error:
            self._abort_after(error)
            raise

    def _abort_after(self, error: BaseException) -> None:
        try:
            self.abort_transaction()
        except KafkaError as failed:
            tell_both(error, failed)

    def send_offsets(self, offsets: Mapping[Place, OffsetAndMetadata | int], member: InGroup | ConsumerGroupMetadata) -> None:
        """Commit a group's offsets as part of the transaction (KIP-447): pass a consumer's `positions()` and the consumer.

        Raises `TransactionAbortable`, whose cause is `CommitFailed` if the group has assigned the partitions to other members, or
        `TransactionFailed`. Raises `SettingError` for a consumer without a group or with automatic commits.
        """
        self._background.run(self._driver.transactions.send_offsets(committable(offsets), metadata_of(member)))

    def flush(self, timeout_ms: int | None = None) -> None:
        """Return once every record sent so far is written. Raises `TimedOut` after `timeout_ms`; None waits without limit.

        Raises `DeliveryFailed` if records were not written and no caller has read their errors. In a transaction,
        `commit_transaction` raises the error instead.
        """
        self._background.run(self._driver.flush(timeout_ms))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises `KafkaError`."""
        return self._background.run(self._driver.partitions_for(topic))

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. Records not written within `timeout_ms` fail with `Closed`. Raises `TimedOut`.

        Raises `DeliveryFailed` if records were not written and no caller has read their errors. An open transaction is aborted.
        """
        timeout_ms = timeout("timeout_ms", timeout_ms)
        if self._closed:
            return
        self._background.check_thread()
        self._closed = True
        try:
            if not self._background.is_forked:
                self._background.run(self._driver.close(timeout_ms))
        finally:
            self._background.stop()
