"""The hot path of the blocking producer: records are appended on the caller's thread, and sent on the background thread."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.arguments import timeout
from ottla.client.producer.accumulator import Headers
from ottla.net.client.blocking_base import BlockingClient
from ottla.net.client.producer.async_producer import AsyncProducer
from ottla.net.client.producer.delivery import Delivery, SentRows
from ottla.records.batches.rows import Rows


class BlockingProducer(BlockingClient[AsyncProducer]):
    """A producer whose records are appended on the caller's thread."""

    def __init__(self, client: AsyncProducer, kind: str) -> None:
        super().__init__(client, kind)
        self._driver = client._driver
        self._accumulator = self._driver.accumulator
        self._buffer_memory = self._driver.settings.buffer_memory

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
        self._background.check_process()
        if self._accumulator.pending_bytes > self._buffer_memory:
            self._background.run(self._driver.wait_for_memory())
        while (delivery := self._driver.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            self._background.run(self._driver.load_metadata(topic))
        if not delivery.index:
            self._background.call(self._driver.pump_soon)
        return delivery

    def send_rows(
        self, topic: str, rows: Rows, start: int = 0, stop: int | None = None, *, partition: int | None = None
    ) -> list[SentRows]:
        """Queue records in the form of columns, the fastest way: no record becomes a Python object.

        `rows` are made by `ottla.records.batches`: of lines (`lines.split_lines`), of Arrow's columns (`arrow.arrow_rows`), or of
        values. The rows from `start` up to `stop` (None: the last) are sent, in this order in each partition. Without `partition`,
        their keys select it. Return the rows that each batch got. If a row exceeds `max_request_size`, it and those after it are
        not queued. Raises the exceptions of `send`, but for MESSAGE_TOO_LARGE.
        """
        self._background.check_process()
        if self._accumulator.pending_bytes > self._buffer_memory:
            self._background.run(self._driver.wait_for_memory())
        while (sent := self._driver.extend(topic, rows, start, rows.row_count if stop is None else stop, partition)) is None:
            self._background.run(self._driver.load_metadata(topic))
        self._background.call(self._driver.pump_soon)
        return sent

    def send_values(self, topic: str, values: Sequence[bytes], *, partition: int | None = None) -> list[tuple[Delivery, int]]:
        """Queue many records that have values alone, several times faster than `send`.

        Return, for each batch that values were added to, the `Delivery` of the first of them and their number. The others of a
        batch have the same outcome, and the offsets that follow. The numbers add up to fewer than all values if one exceeds
        `max_request_size`: it and those after it are not queued. Raises the exceptions of `send`, but for MESSAGE_TOO_LARGE.
        """
        sent = self.send_rows(topic, self._driver.rows_of(values), partition=partition)
        return [(delivery, len(numbers)) for delivery, numbers in sent]

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. Records not written within `timeout_ms` fail with `Closed`. Raises `TimedOut`.

        Raises `DeliveryFailed` if records were not written and no caller has read their errors. An open transaction is aborted.
        """
        timeout_ms = timeout("timeout_ms", timeout_ms)
        self._end(lambda: self._async.close(timeout_ms))
