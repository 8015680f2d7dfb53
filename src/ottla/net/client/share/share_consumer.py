"""The blocking share consumer. Written by `tools/blocking.py`: change `async_share_consumer.py`, not this file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from ottla.client.errors import KafkaError
from ottla.client.keywords import ShareConsumerKeywords, ShareConsumerOptions
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.share.acknowledgements import AcknowledgeType, TypeName
from ottla.client.types import ConsumerRecord, TopicPartition
from ottla.net.client.blocking_base import BlockingClient
from ottla.net.client.consumer.column_keywords import ColumnKeywords
from ottla.net.client.consumer.listeners import on_thread
from ottla.net.client.share.async_share_consumer import AcknowledgementCallback, AsyncShareConsumer
from ottla.net.client.share.delivered_places import DeliveredBatch
from ottla.records.batches.record import Key_co, Value_co

if TYPE_CHECKING:
    import pyarrow


class ShareConsumer(BlockingClient[AsyncShareConsumer[Any, Any]], Generic[Key_co, Value_co]):
    """A consumer of a share group, whose members take turns at the records of each partition: a queue. A context manager.

        with ShareConsumer("jobs", bootstrap_servers="localhost:9092", group_id="workers") as consumer:
            for record in consumer: ...

    A record counts as processed, and is accepted, once the next one is requested. With
    `share_acknowledgement_mode="explicit"`, `acknowledge` accepts, releases or rejects each record. A record that is not
    acknowledged in time is delivered again, up to the group's `share.delivery.count.limit`; `delivery_count` of the record has
    the number. Keyword arguments are Kafka's settings with underscores.

    `on_acknowledged` is called with a partition, a list of offsets, and None or the error,
    after their acknowledgement. Raises `SettingError` for a setting that is unknown or has a wrong value.

    `on_acknowledged` runs on a thread of its own. Every thread may call `acknowledge` and `wakeup`.
    Apart from them, only one thread may use a share consumer at a time.
    """

    @overload
    def __init__(
        self: ShareConsumer[bytes, bytes],
        *topics: str,
        on_acknowledged: AcknowledgementCallback | None = None,
        **settings: Unpack[ShareConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[Any, Any],
        *topics: str,
        on_acknowledged: AcknowledgementCallback | None = None,
        **settings: Unpack[ShareConsumerKeywords],
    ) -> None: ...
    def __init__(
        self, *topics: str, on_acknowledged: AcknowledgementCallback | None = None, **settings: Unpack[ShareConsumerKeywords]
    ) -> None:
        made: AsyncShareConsumer[Any, Any] = AsyncShareConsumer(*topics, on_acknowledged=on_thread(on_acknowledged), **settings)
        super().__init__(made, "share-consumer")

    def subscribe(self, *topics: str) -> None:
        """Read these topics from now on. If the group has refused this consumer, this call makes it join again.

        If brokers do not answer, the subscription stays unchanged. Raises `KafkaError`.
        """
        self._background.run(self._async.subscribe(*topics))

    def unsubscribe(self) -> None:
        """Stop reading, and leave the group. Processed records are acknowledged before, and all others are released."""
        self._background.run(self._async.unsubscribe())

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return self._async.subscription()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the coordinator has assigned. Other members can read them, too."""
        return self._background.do(self._async.assignment)

    def records(self, timeout_ms: int | None = None) -> Iterator[ConsumerRecord[Key_co, Value_co]]:
        """Yield records one by one, without end, or until none arrives for `timeout_ms`. Raises `KafkaError`.

        Processed records are acknowledged with the next request for records, and at least every second. Records whose
        acquisition lock has ended are left out, because the group may deliver them to others.
        """
        while cursors := self._run_serving(self._async._next_cursors(timeout_ms)):
            for cursor in self._async._in_turn(cursors):
                try:
                    yield from cursor.each()
                except KafkaError as error:
                    self._background.run(self._async._pass_over(error))
                    break

    def __iter__(self) -> Iterator[ConsumerRecord[Key_co, Value_co]]:
        return self.records()

    def batches(self, timeout_ms: int | None = None, **columns: Unpack[ColumnKeywords]) -> Iterator[pyarrow.RecordBatch]:
        """Yield Arrow record batches, each of one partition and one delivery count, until none arrives for `timeout_ms`.

        The arguments are those of `Consumer.batches`. There is one more column, `delivery_count`. In explicit mode, `acknowledge`
        accepts a whole batch with the columns topic, partition and offset. Raises `DeserializationFailed`, `SettingError`.
        """
        from ottla.net.client.consumer.arrow import typed_batches

        typed = typed_batches(columns, shared=True)
        if typed.decodes:
            while (found := self._run_serving(self._async._next_batches(timeout_ms, typed), self._async._put_back)) is not None:
                yield from found
        else:
            while cursors := self._run_serving(self._async._next_cursors(timeout_ms)):
                for cursor in self._async._in_turn(cursors):
                    yield from typed.plain(cursor)

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord[Key_co, Value_co]]:
        """Return up to `max_records` records (None: `max_poll_records`). Wait up to `timeout_ms` for the first.

        All records of the call before count as processed: in implicit mode, they are accepted. Raises `KafkaError`, in explicit
        mode also while records are neither acknowledged nor renewed.
        """
        return self._run_serving(self._async.poll(timeout_ms, max_records), self._async._put_back)

    def acknowledge(
        self,
        records: ConsumerRecord[Any, Any] | Iterable[ConsumerRecord[Any, Any]] | DeliveredBatch,
        kind: AcknowledgeType | TypeName = AcknowledgeType.ACCEPT,
    ) -> None:
        """Acknowledge a record, several, or a batch of `batches`, in explicit mode. Any thread may call this.

        "accept" is for processed records, and "release" for records that the group shall deliver again. "reject" is for records
        that nobody can process. "renew" begins the acquisition lock anew, and is sent within a second. The other acknowledgements
        are sent with the next request for records, or by `commit`; until then, a later one replaces an earlier one.

        Raises `SettingError` in implicit mode, and `KafkaError` for a record that is not in this consumer's hands: then, none is
        acknowledged.
        """
        self._async.acknowledge(records, kind)

    def commit(self, timeout_ms: int | None = None) -> None:
        """Send all acknowledgements, and wait for the leaders' answers up to `timeout_ms` (None: `default_api_timeout_ms`).

        In implicit mode, all records that were handed out are accepted. Raises `AcknowledgeFailed` with the error of each
        partition, for example because an acquisition lock has ended, `TimedOut`, or another `KafkaError`.
        """
        self._background.run(self._async.commit(timeout_ms))

    def commit_soon(self) -> None:
        """Send all acknowledgements as `commit` does, in the background. `close` waits for the answers.

        `on_acknowledged` gets the outcomes. Without it, errors are logged.
        """
        self._background.do(self._async.commit_soon)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return the time, in ms, for which delivered records stay with this consumer; None before the first fetch."""
        return self._background.do(self._async.acquisition_lock_timeout_ms)

    def close(self, *, finished: bool = True) -> None:
        """Acknowledge processed records, release all others, leave the group, and close all connections.

        With `finished=False`, the records handed out last do not count as processed. Leaving a `with` statement by an exception
        passes False.
        """
        self._end(lambda: self._async.close(finished=finished))

    def wakeup(self) -> None:
        """Make the call that waits for records raise `WokenUp`, or the next one if none waits. Any thread may call this.

        No record is lost: the consumer can go on, or close.
        """
        self._background.do(self._async.wakeup)

    def metrics(self) -> MetricsSnapshot:
        """Return the consumer's metrics, with the names and groups of Kafka's Java client.

            consumer.metrics().value("fetch-latency-avg")

        Rates and averages are about the last `metrics_num_samples` windows of `metrics_sample_window_ms`.
        """
        return self._background.do(self._async.metrics)

    def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Return the id by which brokers know this client's metrics, as Kafka prints it (KIP-714).

        Raises `SettingError` without `enable_metrics_push`, `NotSupported` if brokers have no subscriptions to metrics, and
        `TimedOut`.
        """
        return self._background.run(self._async.client_instance_id(timeout_ms))
