"""The blocking producer. Written by `tools/blocking.py`: change `async_producer.py`, not this file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack, overload

from ottla.client.errors import KafkaError, TransactionAbortable
from ottla.client.keywords import ProducerKeywords, Servers
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.producer.transactions import InGroup, chain_errors
from ottla.client.types import ConsumerGroupMetadata, Key_contra, OffsetAndMetadata, Place, RawBytes, TopicPartition, Value_contra
from ottla.net.client.producer.async_producer import AsyncProducer
from ottla.net.client.producer.blocking_producer import BlockingProducer

if TYPE_CHECKING:
    from ottla.client import typed_keywords as typed
    from ottla.client.typed_keywords import Key, Value


class Producer(BlockingProducer[Key_contra, Value_contra]):
    """A producer that writes records; a context manager. Keyword arguments are Kafka's producer settings with underscores.

        with Producer("localhost:9092", linger_ms=5) as producer:
            delivery = producer.send("flights", b"...", key=b"JFK")
            written = delivery.result()  # topic, partition, offset, timestamp

    With `transactional_id`, every record belongs to a transaction; a newer producer with that id fences this one (KIP-98):

        with producer.transaction():
            producer.send("flights", b"...")
            producer.send_offsets(consumer.positions(), consumer)

    With `api_version="0.7"` brokers acknowledge no records. A record counts as written once the broker has answered a later
    request, and its offset is -1.

    Leaving the context waits until every record is written. It raises `DeliveryFailed` if records were not written and no caller
    has read their errors. Raises `SettingError` for a setting that is unknown or has a wrong value.

    Several threads may share a producer.
    """

    @overload
    def __init__(
        self: Producer[RawBytes, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerBytesBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[RawBytes, Value],
        bootstrap_servers: Servers | None = None,
        **given: Unpack[typed.ProducerBytesOwn[Value]],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[RawBytes, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerBytesStr]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[RawBytes, int], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerBytesInt]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[RawBytes, Any], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerBytesAny]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Key, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnBytes[Key]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Key, Value], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnOwn[Key, Value]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Key, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnStr[Key]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Key, int], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnInt[Key]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Key, Any], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnAny[Key]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, Value], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrOwn[Value]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrStr]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, int], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrInt]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, Any], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrAny]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[int, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[int, Value], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntOwn[Value]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[int, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntStr]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[int, int], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntInt]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[int, Any], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntAny]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerAnyBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, Value], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerAnyOwn[Value]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerAnyStr]
    ) -> None: ...
    @overload
    def __init__(self: Producer[Any, Any], bootstrap_servers: Servers | None = None, **given: Unpack[ProducerKeywords]) -> None: ...
    def __init__(self, bootstrap_servers: Servers | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        made: AsyncProducer[Any, Any] = AsyncProducer(bootstrap_servers, **settings)
        super().__init__(made, "producer")

    def init_transactions(self) -> None:
        """Fence older producers with the transactional id, and abort their open transaction.

        The first `begin_transaction` does this too. Raises `SettingError` without a `transactional_id`, and `TransactionFailed`.
        After any other `KafkaError`, call again.
        """
        self._background.run(self._async.init_transactions())

    def begin_transaction(self) -> None:
        """Begin a transaction: it contains all records sent until it ends.

        Raises `TransactionError`, and the exceptions of `init_transactions`.
        """
        self._background.run(self._async.begin_transaction())

    def commit_transaction(self) -> None:
        """Write all records sent so far, and commit the transaction.

        After `TransactionAbortable`, abort the transaction. After `TransactionFailed`, close the producer. After any other
        `KafkaError`, such as `TimedOut`, it is unknown whether brokers have committed: call again.
        """
        self._background.run(self._async.commit_transaction())

    def abort_transaction(self) -> None:
        """Abort the transaction. Records that are still unsent are never written.

        After `TransactionFailed`, close the producer. After any other `KafkaError`, such as `TimedOut`, call again.
        """
        self._background.run(self._async.abort_transaction())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a context manager that begins a transaction, commits it at the end, and aborts it after an exception.

        Raises the exceptions of `begin_transaction` and `commit_transaction`. A transaction that cannot be committed is aborted
        before the exception is raised.
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
            chain_errors(error, failed)

    def send_offsets(self, offsets: Mapping[Place, OffsetAndMetadata | int], member: InGroup | ConsumerGroupMetadata) -> None:
        """Commit a group's offsets as part of the transaction (KIP-447). Pass a consumer's `positions()` and the consumer.

        Raises `TransactionAbortable` or `TransactionFailed`. The cause of the former is `CommitFailed` if the group has taken
        partitions away whose records were handed out since the offsets before. Raises `SettingError` for a consumer without a group
        or with automatic commits.
        """
        self._background.run(self._async.send_offsets(offsets, member))

    def purge(self) -> int:
        """Drop the records that were not sent to a broker yet, and return their number. Their deliveries fail with `Purged`.

        Records in flight are not dropped, because brokers may have written them. `flush` does not report purged records. Raises
        `TransactionError` with a `transactional_id`: `abort_transaction` drops the records of a transaction.
        """
        return self._background.run(self._async.purge())

    def metrics(self) -> MetricsSnapshot:
        """Return the producer's metrics, with the names and groups of Kafka's Java client.

            producer.metrics().value("record-send-rate", topic="flights")

        Rates and averages are about the last `metrics_num_samples` windows of `metrics_sample_window_ms`.
        """
        return self._background.do(self._async.metrics)

    def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Return the id by which brokers know this client's metrics, as Kafka prints it (KIP-714).

        Raises `SettingError` without `enable_metrics_push`, `NotSupported` if brokers have no subscriptions to metrics, and
        `TimedOut`.
        """
        return self._background.run(self._async.client_instance_id(timeout_ms))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises `KafkaError`."""
        return self._background.run(self._async.partitions_for(topic))
