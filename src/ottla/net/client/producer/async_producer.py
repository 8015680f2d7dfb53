"""The producer on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, cast, overload

from ottla.client.arguments import timeout, whole
from ottla.client.consumer.committed_offsets import committable
from ottla.client.errors import Closed, CommitFailed, KafkaError, TransactionAbortable
from ottla.client.interceptors import ProducerInterceptors, ProducerRecord
from ottla.client.keywords import ProducerKeywords, Servers
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.other_names import ClientType
from ottla.client.producer.accumulator import Headers
from ottla.client.producer.transactions import InGroup, chain_errors, metadata_of
from ottla.client.settings.clients import ProducerSettings, parse
from ottla.client.types import ConsumerGroupMetadata, Key_contra, OffsetAndMetadata, Place, RawBytes, TopicPartition, Value_contra
from ottla.net.client.cluster import now_ms
from ottla.net.client.lifetime import OfOneProcess, Unstarted
from ottla.net.client.producer.delivery import Delivery, SentRows
from ottla.net.client.producer.delivery_callbacks import AwaitedCallbacks, OnDelivery, check_callback
from ottla.net.client.producer.interception import Interception
from ottla.net.client.producer.produce_driver import ProduceDriver
from ottla.net.client.producer.serializing_driver import produce_driver
from ottla.net.client.statistics import statistics_of
from ottla.records.batches.rows import Rows

if TYPE_CHECKING:
    import pyarrow

    from ottla.client import typed_keywords as typed
    from ottla.client.typed_keywords import Key, Value


class AsyncProducer(OfOneProcess, Generic[Key_contra, Value_contra], metaclass=ClientType):
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

    @overload
    def __init__(
        self: AsyncProducer[RawBytes, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerBytesBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[RawBytes, Value],
        bootstrap_servers: Servers | None = None,
        **given: Unpack[typed.ProducerBytesOwn[Value]],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[RawBytes, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerBytesStr]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[RawBytes, int], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerBytesInt]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[RawBytes, Any], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerBytesAny]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Key, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnBytes[Key]]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Key, Value], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnOwn[Key, Value]]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Key, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnStr[Key]]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Key, int], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnInt[Key]]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Key, Any], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerOwnAny[Key]]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[str, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[str, Value], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrOwn[Value]]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[str, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrStr]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[str, int], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrInt]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[str, Any], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerStrAny]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[int, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[int, Value], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntOwn[Value]]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[int, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntStr]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[int, int], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntInt]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[int, Any], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerIntAny]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Any, RawBytes], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerAnyBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Any, Value], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerAnyOwn[Value]]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Any, str], bootstrap_servers: Servers | None = None, **given: Unpack[typed.ProducerAnyStr]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Any, Any], bootstrap_servers: Servers | None = None, **given: Unpack[ProducerKeywords]
    ) -> None: ...
    def __init__(self, bootstrap_servers: Servers | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        given = {**settings, **servers}
        made = produce_driver(parse(ProducerSettings, given), needs_idempotence="enable_idempotence" in given)
        self._made = made
        self._driver = cast(ProduceDriver, Unstarted("AsyncProducer"))
        self._callbacks = AwaitedCallbacks(made.callback_errors)
        self._statistics = statistics_of(made.settings)
        self._interception = Interception(ProducerInterceptors(made.settings.interceptors))
        if made.settings.interceptors:
            self.__dict__.update(send=self._send_intercepted, send_rows=self._send_rows_intercepted)

    async def start(self) -> Self:
        """Start the producer without a `with` statement. Connections are opened when first needed."""
        if self._driver is self._made:
            return self
        await self._made.start()
        self._driver = self._made
        if self._statistics is not None:
            self._driver.spawn(self._statistics.run(self.metrics))
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            await self._close(None)
        except KafkaError as failed:
            if error is None:
                raise
            error.add_note(f"Closing the producer failed as well: {failed}")
        if error is None:
            self._callbacks.check()

    async def send(
        self,
        topic: str,
        value: Value_contra | None = None,
        *,
        key: Key_contra | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Queue a record, and return a `Delivery`; awaiting it returns the record's `RecordMetadata`.

        Without `partition`, the key selects the partition; records without a key are spread over all (KIP-480). `timestamp_ms` is
        in ms since 1970; None means now. Waits up to `max_block_ms` while `buffer_memory` is full or the topic's metadata is
        missing.

        `on_delivery(delivery)` is called on the event loop once the record is written or has failed. Its awaitable result is
        awaited, and its exceptions are logged; the next `flush` or `close` raises the first. Both wait for all callbacks.

        Key and value are bytes or None, or with `key_serializer` and `value_serializer` what these accept. A serializer runs on the
        caller's thread.

        Raises `TimedOut`, `UnknownTopic`, `BrokerError` (MESSAGE_TOO_LARGE), `SerializationFailed`, `Closed`, or another
        `KafkaError`; `TypeError` for a field of a wrong type. With a `transactional_id` also `TransactionAbortable`,
        `TransactionFailed`, and outside of a transaction `TransactionError`.
        """
        driver = self._driver
        if on_delivery is not None:
            check_callback(on_delivery)
        elif (added := driver.append_quickly(topic, value, key, partition, headers, timestamp_ms)) is not None:
            return added
        accumulator = driver.accumulator
        if accumulator.pending_bytes > driver.settings.buffer_memory:
            await driver.wait_for_memory()
        if headers is not None and isinstance(headers, Iterator):
            headers = tuple(headers)  # because the record is appended again once metadata was loaded
        while (delivery := driver.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            await driver.load_metadata(topic)
        if on_delivery is not None:
            self._callbacks.add(delivery, on_delivery)
        if not delivery.index:
            driver.pump()
            if not driver.has_written(delivery.batch):
                # Without this pause, a caller that sends in a loop without waiting keeps the event loop from its sockets.
                await asyncio.sleep(0)
        return delivery

    async def _send_intercepted(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Do what `send` does, with interceptors."""
        record = self._interception.replace(ProducerRecord(topic, value, key, partition, headers, timestamp_ms))
        rest = {"key": record.key, "partition": record.partition, "headers": record.headers, "timestamp_ms": record.timestamp_ms}
        try:
            delivery = await AsyncProducer.send(self, record.topic, record.value, on_delivery=on_delivery, **rest)
        except BaseException as error:
            self._interception.refuse(record, error)
            raise
        self._interception.watch(record, delivery)
        return delivery

    async def _send_rows_intercepted(
        self, topic: str, rows: Rows, start: int = 0, stop: int | None = None, *, partition: int | None = None
    ) -> list[SentRows]:
        """Do what `send_rows` does, with interceptors."""
        groups = self._interception.replace_rows(topic, rows, *self._driver.check_rows(rows, start, stop), partition)
        sent: list[SentRows] = []
        while groups:
            group = groups[0]
            try:
                queued = await AsyncProducer.send_rows(self, group.topic, group.rows, partition=group.partition)
            except BaseException as error:
                self._interception.refuse_rows(groups, error)
                raise
            del groups[0]
            sent += self._interception.watch_rows(group, queued)
            if sum(len(numbers) for _, numbers in queued) < group.rows.row_count:
                break
        self._interception.refuse_rows(groups)
        return sent

    async def send_rows(
        self, topic: str, rows: Rows, start: int = 0, stop: int | None = None, *, partition: int | None = None
    ) -> list[SentRows]:
        """Queue records in the form of columns, the fastest way: no record becomes a Python object, and none is serialized.

        `rows` are made by `ottla.records.batches`: of lines (`lines.split_lines`), of Arrow's columns (`arrow.arrow_rows`), or of
        values. The rows from `start` up to `stop` (None: the last) are sent, in this order in each partition. Without `partition`,
        their keys select it. Return the rows that each batch got. If a row exceeds `max_request_size`, it and those after it are
        not queued. Raises the exceptions of `send`, but for MESSAGE_TOO_LARGE.
        """
        first, end = self._driver.check_rows(rows, start, stop)
        driver = self._driver
        if driver.accumulator.pending_bytes > driver.settings.buffer_memory:
            await driver.wait_for_memory()
        while (sent := driver.extend(topic, rows, first, end, partition)) is None:
            await driver.load_metadata(topic)
        driver.pump()
        await asyncio.sleep(0)  # as in `send`
        return sent

    async def send_values(self, topic: str, values: Sequence[bytes], *, partition: int | None = None) -> list[tuple[Delivery, int]]:
        """Queue many records without keys and headers in one call. Values are bytes, and are not serialized.

        Return the `Delivery` of the first value in each batch, and the number of values that the batch got. The other values of a
        batch have the same outcome, and the next offsets. If a value exceeds `max_request_size`, it and all values after it are not
        queued, so the numbers add up to fewer. Raises the exceptions of `send`, but for MESSAGE_TOO_LARGE.
        """
        sent = await self.send_rows(topic, self._driver.rows_of(values), partition=partition)
        return [(delivery, len(numbers)) for delivery, numbers in sent]

    async def send_table(
        self,
        topic: str,
        table: pyarrow.Table | pyarrow.RecordBatch,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: int | None = None,
    ) -> int:
        """Queue the rows of a table, without a Python object for each record. Return their number.

        `key`, `value`, `headers` and `timestamp` name columns. If none is given, the columns of these names are written, and
        a column of another name raises `SettingError`. If one is given, the named columns are written and no other; `value` is then
        `value` unless named. Keys and values are binary or strings, headers lists of structs of a name and a value, timestamps ms
        since 1970 or of a type of Arrow. Needs pyarrow.

        Raises the exceptions of `send`. A row that exceeds `max_request_size` raises `BrokerError` (MESSAGE_TOO_LARGE), which has
        its number: the rows before it are queued.
        """
        from ottla.net.client.producer.arrow import row_too_large, table_rows

        count = 0
        for rows in table_rows(table, key=key, value=value, headers=headers, timestamp=timestamp):
            sent = await self.send_rows(topic, rows, partition=partition)
            count += (queued := sum(len(numbers) for _, numbers in sent))
            if queued < rows.row_count:
                raise row_too_large(count)
        return count

    async def init_transactions(self) -> None:
        """Fence older producers with the transactional id, and abort their open transaction.

        The first `begin_transaction` does this too. Raises `SettingError` without a `transactional_id`, and `TransactionFailed`.
        After any other `KafkaError`, call again.
        """
        with self._driver.time_call("txn-init"):
            await self._driver.transactions.initialize()

    async def begin_transaction(self) -> None:
        """Begin a transaction: it contains all records sent until it ends.

        Raises `TransactionError`, and the exceptions of `init_transactions`.
        """
        with self._driver.time_call("txn-begin"):
            await self._driver.transactions.begin()

    async def commit_transaction(self) -> None:
        """Write all records sent so far, and commit the transaction.

        After `TransactionAbortable`, abort the transaction. After `TransactionFailed`, close the producer. After any other
        `KafkaError`, such as `TimedOut`, it is unknown whether brokers have committed: call again.
        """
        with self._driver.time_call("txn-commit"):
            await self._driver.transactions.commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction. Records that are still unsent are never written.

        After `TransactionFailed`, close the producer. After any other `KafkaError`, such as `TimedOut`, call again.
        """
        with self._driver.time_call("txn-abort"):
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

        Raises `TransactionAbortable` or `TransactionFailed`. The cause of the former is `CommitFailed` if the group has taken
        partitions away whose records were handed out since the offsets before. Raises `SettingError` for a consumer without a group
        or with automatic commits.
        """
        with self._driver.time_call("txn-send-offsets"):
            transactions = self._driver.transactions
            try:
                metadata = metadata_of(member)
            except CommitFailed as error:  # the group has taken partitions away whose records are in the transaction
                raise transactions.refuse(error) from error
            chosen = committable(offsets)
            await transactions.send_offsets(chosen, metadata)
            if confirm := getattr(member, "_confirm", None):
                try:
                    confirm(chosen)
                except Closed:
                    pass  # by another thread meanwhile
                except CommitFailed as error:  # the group has taken them away while their offsets were sent
                    raise transactions.refuse(error) from error

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Return once every record sent so far is written, and its `on_delivery` has returned. None waits without limit.

        After `timeout_ms`, raises `FlushTimedOut`, which has the number of records left. Raises `DeliveryFailed` if records were
        not written and no caller has read their errors. In a transaction, `commit_transaction` raises this error, not `flush`.
        """
        end_ms = None if (limit_ms := timeout("timeout_ms", timeout_ms)) is None else now_ms() + limit_ms
        await self._driver.flush(limit_ms)
        await self._callbacks.finish(None if end_ms is None else max(0, end_ms - now_ms()) / 1000)
        self._callbacks.check()
        self._driver.raise_losses()

    def unwritten(self) -> dict[str, int]:
        """Return the number of records of each topic that were sent, and are neither written nor failed."""
        return self._driver.accumulator.unwritten()

    async def purge(self) -> int:
        """Drop the records that were not sent to a broker yet, and return their number. Their deliveries fail with `Purged`.

        Records in flight are not dropped, because brokers may have written them. `flush` does not report purged records. Raises
        `TransactionError` with a `transactional_id`: `abort_transaction` drops the records of a transaction.
        """
        return self._driver.purge()

    def metrics(self) -> MetricsSnapshot:
        """Return the producer's metrics, with the names and groups of Kafka's Java client.

            producer.metrics().value("record-send-rate", topic="flights")

        Rates and averages are about the last `metrics_num_samples` windows of `metrics_sample_window_ms`.
        """
        return self._driver.snapshot()

    async def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Return the id by which brokers know this client's metrics, as Kafka prints it (KIP-714).

        Raises `SettingError` without `enable_metrics_push`, `NotSupported` if brokers have no subscriptions to metrics, and
        `TimedOut`.
        """
        return await self._driver.telemetry.instance_id(whole("timeout_ms", timeout_ms))

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises `KafkaError`."""
        return await self._driver.partitions_for(topic)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. Records not written within `timeout_ms` fail with `Closed`. Raises `TimedOut`.

        Raises `DeliveryFailed` if records were not written and no caller has read their errors. An open transaction is aborted.
        """
        await self._close(timeout("timeout_ms", timeout_ms))
        self._callbacks.check()

    async def _close(self, timeout_ms: int | None) -> None:
        if self._driver is not self._made or not self._driver.claim_close():
            return
        try:
            await self._driver.settle(timeout_ms)
        except BaseException:  # such as a cancellation, which the caller gets rather than the records that it cost
            with suppress(KafkaError):
                await self._end(timeout_ms)
            raise
        await self._end(timeout_ms)

    async def _end(self, timeout_ms: int | None) -> None:
        try:
            await self._callbacks.finish(None if timeout_ms is None else timeout_ms / 1000, cancel=True)
        finally:
            self._interception.close()
            await self._driver.end()
