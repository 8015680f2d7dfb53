"""The hot path of the blocking producer: records are appended on the caller's thread, and sent on the background thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

from ottla.client.arguments import timeout, whole
from ottla.client.interceptors import ProducerRecord
from ottla.client.producer.accumulator import Headers
from ottla.client.types import Key_contra, Value_contra
from ottla.net.client.blocking_base import BlockingClient
from ottla.net.client.producer.async_producer import AsyncProducer
from ottla.net.client.producer.delivery import Delivery, SentRows
from ottla.net.client.producer.delivery_callbacks import DeliveryCallbacks, OnDelivery, check_callback
from ottla.records.batches.rows import Rows

if TYPE_CHECKING:
    import pyarrow

MOST_FULL_BATCHES = 6
"""The number of full batches that the loop has not taken yet, from which on a sending thread waits for the loop."""

HAND_OVER_S = 0.01
"""The longest wait, in s, for a loop that a callback of the user holds up."""


class BlockingProducer(BlockingClient[AsyncProducer[Any, Any]], Generic[Key_contra, Value_contra]):
    """A producer whose records are appended on the caller's thread."""

    def __init__(self, client: AsyncProducer[Any, Any], kind: str) -> None:
        self._callbacks = DeliveryCallbacks(client._made.callback_errors)
        super().__init__(client, kind)
        self._driver = client._driver
        self._accumulator = self._driver.accumulator
        self._append_quickly = self._driver.append_quickly
        self._buffer_memory = self._driver.settings.buffer_memory
        self._close_timeout_ms: int | None = None
        self._interception = client._interception
        if self._driver.settings.interceptors:
            self.__dict__.update(send=self._send_intercepted, send_rows=self._send_rows_intercepted)

    def _hand_over(self, function: Callable[[], None]) -> None:
        self._callbacks.put(function)

    def send(
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
        """Queue a record, and return a `Delivery` whose `result()` is the record's `RecordMetadata`.

        Without `partition`, the key selects the partition; records without a key are spread over all (KIP-480). `timestamp_ms` is
        in ms since 1970; None means now. Waits up to `max_block_ms` while `buffer_memory` is full or the topic's metadata is
        missing.

        `on_delivery(delivery)` is called once the record is written or has failed, on the thread that calls `poll`, `flush` or
        `close`. It may call the producer. Its exceptions are logged, and that call raises the first after all callbacks.

        Key and value are bytes or None, or with `key_serializer` and `value_serializer` what these accept. A serializer runs on the
        caller's thread.

        Raises `TimedOut`, `UnknownTopic`, `BrokerError` (MESSAGE_TOO_LARGE), `SerializationFailed`, `Closed`, or another
        `KafkaError`; `TypeError` for a field of a wrong type. With a `transactional_id` also `TransactionAbortable`,
        `TransactionFailed`, and outside of a transaction `TransactionError`.
        """
        if on_delivery is None:
            added = self._append_quickly(topic, value, key, partition, headers, timestamp_ms)
            if added is not None:
                return added
        return self._send(topic, value, key, partition, headers, timestamp_ms, on_delivery)

    def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        """Queue a record that needs more than a place in an open batch."""
        self._background.check_process()
        if on_delivery is not None:
            self._check_callback(on_delivery)
        if self._accumulator.pending_bytes > self._buffer_memory:
            self._background.run(self._driver.wait_for_memory())
        if headers is not None and isinstance(headers, Iterator):
            headers = tuple(headers)  # because the record is appended again once metadata was loaded
        while (delivery := self._driver.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            self._background.run(self._driver.load_metadata(topic))
        if on_delivery is not None:
            self._callbacks.add(delivery, on_delivery)
        if not delivery.index:
            self._pump_soon()
        return delivery

    def _pump_soon(self) -> None:
        """Let the loop send batches. If it is behind, wait for its turn, in which this thread would only fill further memory."""
        if self._accumulator.full_count < MOST_FULL_BATCHES:
            self._background.call(self._driver.pump_guarded)
        else:
            self._background.hand_over(self._driver.pump_guarded, HAND_OVER_S)

    def _send_intercepted(
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
            delivery = BlockingProducer.send(self, record.topic, record.value, on_delivery=on_delivery, **rest)
        except BaseException as error:
            self._interception.refuse(record, error)
            raise
        self._interception.watch(record, delivery)
        return delivery

    def _send_rows_intercepted(
        self, topic: str, rows: Rows, start: int = 0, stop: int | None = None, *, partition: int | None = None
    ) -> list[SentRows]:
        """Do what `send_rows` does, with interceptors."""
        groups = self._interception.replace_rows(topic, rows, *self._driver.check_rows(rows, start, stop), partition)
        sent: list[SentRows] = []
        while groups:
            group = groups[0]
            try:
                queued = BlockingProducer.send_rows(self, group.topic, group.rows, partition=group.partition)
            except BaseException as error:
                self._interception.refuse_rows(groups, error)
                raise
            del groups[0]
            sent += self._interception.watch_rows(group, queued)
            if sum(len(numbers) for _, numbers in queued) < group.rows.row_count:
                break
        self._interception.refuse_rows(groups)
        return sent

    def send_rows(
        self, topic: str, rows: Rows, start: int = 0, stop: int | None = None, *, partition: int | None = None
    ) -> list[SentRows]:
        """Queue records in the form of columns, the fastest way: no record becomes a Python object, and none is serialized.

        `rows` are made by `ottla.records.batches`: of lines (`lines.split_lines`), of Arrow's columns (`arrow.arrow_rows`), or of
        values. The rows from `start` up to `stop` (None: the last) are sent, in this order in each partition. Without `partition`,
        their keys select it. Return the rows that each batch got. If a row exceeds `max_request_size`, it and those after it are
        not queued. Raises the exceptions of `send`, but for MESSAGE_TOO_LARGE.
        """
        first, end = self._driver.check_rows(rows, start, stop)
        self._background.check_process()
        if self._accumulator.pending_bytes > self._buffer_memory:
            self._background.run(self._driver.wait_for_memory())
        while (sent := self._driver.extend(topic, rows, first, end, partition)) is None:
            self._background.run(self._driver.load_metadata(topic))
        self._pump_soon()
        return sent

    def send_values(self, topic: str, values: Sequence[bytes], *, partition: int | None = None) -> list[tuple[Delivery, int]]:
        """Queue many records without keys and headers in one call. Values are bytes, and are not serialized.

        Return the `Delivery` of the first value in each batch, and the number of values that the batch got. The other values of a
        batch have the same outcome, and the next offsets. If a value exceeds `max_request_size`, it and all values after it are not
        queued, so the numbers add up to fewer. Raises the exceptions of `send`, but for MESSAGE_TOO_LARGE.
        """
        sent = self.send_rows(topic, self._driver.rows_of(values), partition=partition)
        return [(delivery, len(numbers)) for delivery, numbers in sent]

    @staticmethod
    def _check_callback(on_delivery: OnDelivery) -> None:
        if inspect.iscoroutinefunction(check_callback(on_delivery)):
            raise TypeError("on_delivery is a coroutine function, which a blocking producer cannot await: use AsyncProducer.")

    def poll(self, timeout_ms: int = 0) -> int:
        """Call `on_delivery` of all records that are written or have failed since. Return the number of calls.

        Waits up to `timeout_ms` for the first. Without callbacks, there is no need to call this. Raises the first exception of a
        callback.
        """
        timeout_ms = whole("timeout_ms", timeout_ms)
        self._background.check_process()
        self._background.check_thread()
        count = self._callbacks.call_due(timeout_ms / 1000)
        self._callbacks.check()
        return count

    def flush(self, timeout_ms: int | None = None) -> None:
        """Return once every record sent so far is written, and its `on_delivery` was called. None waits without limit.

        After `timeout_ms`, raises `FlushTimedOut`, which has the number of records left. Raises `DeliveryFailed` if records were
        not written and no caller has read their errors. In a transaction, `commit_transaction` raises this error, not `flush`.
        """
        limit_ms = timeout("timeout_ms", timeout_ms)
        try:
            self._background.run(self._driver.flush(limit_ms))
        finally:
            self._callbacks.call_due()
        self._callbacks.check()
        if not self._closed:  # unless a callback has closed the producer
            self._background.do(self._driver.raise_losses)

    def unwritten(self) -> dict[str, int]:
        """Return the number of records of each topic that were sent, and are neither written nor failed."""
        self._background.check_process()
        return self._accumulator.unwritten()

    def send_table(
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
            sent = self.send_rows(topic, rows, partition=partition)
            count += (queued := sum(len(numbers) for _, numbers in sent))
            if queued < rows.row_count:
                raise row_too_large(count)
        return count

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. Records not written within `timeout_ms` fail with `Closed`. Raises `TimedOut`.

        Raises `DeliveryFailed` if records were not written and no caller has read their errors. An open transaction is aborted.
        """
        timeout_ms = timeout("timeout_ms", timeout_ms)
        self._close_timeout_ms = timeout_ms
        self._end(lambda: self._async.close(timeout_ms))
        self._callbacks.check()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        if error is None:
            self._callbacks.check()

    def _run_closing(self, closing: Callable[[], Coroutine[object, None, None]]) -> None:
        """Flush, call the callbacks on this thread, and then run `closing()`."""
        try:
            self._background.run(self._driver.settle(self._close_timeout_ms))
        finally:
            try:
                self._callbacks.call_due()
            finally:
                self._background.run(closing())
