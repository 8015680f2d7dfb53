"""The driver of a producer's accumulator and sender over a cluster, shared by `AsyncProducer` and `Producer`.

`append` can run on any thread, because users of the blocking producer call it on theirs. It shares the accumulator, the counts of
failed records and the metadata with the event loop. Accumulator and counts have locks; metadata is replaced and never resized. Only
the loop uses all other state.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from typing import Any

from ottla.client.arguments import plain, short_repr, topic_name, whole
from ottla.client.errors import Closed, DeliveryFailed, FlushTimedOut, KafkaError, Purged, SettingError, TimedOut, TransactionError
from ottla.client.metrics.producer import ProducerMetrics
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.producer.accumulator import Accumulator, BatchPart, Headers, PendingBatch, checked_record
from ottla.client.producer.partition_queue import Outgoing
from ottla.client.producer.partitioner import own_partition, own_spread
from ottla.client.producer.transactions import ProducerTransactions
from ottla.client.producer.unreported_failures import Losses, count_text
from ottla.client.settings.clients import COMPRESSIONS, ProducerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import now_ms
from ottla.net.client.of_release import links_to, partitioner_of
from ottla.net.client.producer.batch_sender import BatchSender
from ottla.net.client.producer.delivery import AwaitableBatch, Delivery, SentRows, arrival
from ottla.net.client.producer.delivery_callbacks import CallbackErrors
from ottla.net.client.producer.exit_report import forget_exit, watch_exit
from ottla.net.client.producer.transaction_driver import TransactionDriver
from ottla.net.client.stopwatch import time_call
from ottla.net.client.tasks import Tasks
from ottla.net.client.telemetry_driver import TelemetryDriver
from ottla.records.batches.halves import halves
from ottla.records.batches.rows import Rows, value_rows

STALE_PAUSE_MS = 1_000
"""The interval, in ms, at which the age of metadata is checked."""

LOSSES_PAUSE_MS = 10_000
"""The time, in ms, for which failures are collected before they are logged together."""

PLAIN = (bytes, type(None))
"""The types of keys and values that batches store without a copy."""

log = logging.getLogger("ottla.client")


def split_batch(batch: Outgoing) -> tuple[Outgoing, Outgoing]:
    """Return two batches with the halves of a batch's records."""
    first, second = halves(batch.data)
    middle = batch.record_count // 2

    def part(data: bytearray, start: int, count: int) -> Outgoing:
        return Outgoing(batch.where, data, count, batch.deadline_ms, batch.when_done, batch.split, batch.start + start)

    return part(first, 0, middle), part(second, middle, batch.record_count - middle)


class ProduceDriver:
    """The sending part of a producer: accepts records by `append`, and writes them in the background between `start` and
    `close`.
    """

    def __init__(self, settings: ProducerSettings, *, needs_idempotence: bool = True) -> None:
        """Create a driver. Without `needs_idempotence`, brokers before Kafka 0.11 are written to without it."""
        self.settings = settings
        self._needs_idempotence = needs_idempotence
        name = settings.transactional_id
        self._machine = ProducerTransactions(name, settings.transaction_timeout_ms) if name is not None else None
        self._losses = Losses(threading.Lock())
        self.callback_errors = CallbackErrors()
        self._codec = COMPRESSIONS["none" if settings.is_of_0_7 else settings.compression_type]  # with 0.7, the link compresses
        self._own_partitioner = settings.partitioner
        self._closed = self._closing = self._is_close_claimed = False
        self._close_error: KafkaError | None = None

    async def start(self) -> None:
        """Start on the running loop. Connections are opened when first needed."""
        settings = self.settings
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks(self._fail_all)
        self._cluster = links_to(settings, self._tasks)
        self.accumulator = self._new_accumulator()
        self.append_quickly: Callable[..., Delivery | None] = self.accumulator.append_quickly
        """As `Accumulator.append_quickly`: if it returns None, `append` must be called."""
        self._metadata_version = -1
        self._waiting_for_room: list[asyncio.Future[None]] = []
        self.metrics = self._new_metrics()
        self.telemetry = TelemetryDriver(self._cluster, settings)
        self.telemetry.begin()
        self._sender = BatchSender(
            self._cluster,
            settings,
            self._tasks,
            self.pump,
            self._machine,
            metrics=self.metrics,
            needs_idempotence=self._needs_idempotence,
        )
        self._transactions = self._new_transactions(self._machine) if self._machine is not None else None
        self._losses_timer: asyncio.TimerHandle | None = None
        self._tasks.spawn(self._keep_metadata_fresh())
        watch_exit(self.accumulator)

    def _new_metrics(self) -> ProducerMetrics:
        cluster = self._cluster
        metrics = ProducerMetrics(
            cluster.metrics,
            delivery_timeout_ms=self.settings.delivery_timeout_ms,
            in_flight=lambda: cluster.connections.unanswered,
        )
        metrics.buffer(
            self.settings.buffer_memory,
            lambda: self.accumulator.pending_bytes,
            lambda: len(self._waiting_for_room),
            lambda: cluster.refreshed_ms,
        )
        return metrics

    def time_call(self, call: str) -> AbstractContextManager[None]:
        """Return a context manager that records the duration of a call."""
        return time_call(partial(self.metrics.on_call, call))

    def spawn(self, work: Coroutine[object, None, None]) -> None:
        """Run a coroutine in the background until the producer is closed."""
        self._tasks.spawn(work)

    def snapshot(self) -> MetricsSnapshot:
        """Return the metrics now."""
        return self._cluster.snapshot()

    def _new_accumulator(self) -> Accumulator:
        settings = self.settings
        return Accumulator(
            batch_size=settings.batch_size,
            linger_ms=settings.linger_ms,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            max_record_bytes=settings.max_request_size,
            partitioner=partitioner_of(settings, self._cluster.metadata),
            clock=time.time_ns,
            most_pending_bytes=settings.buffer_memory,
            has_own_partitions=settings.is_of_0_7 or settings.partitioner is not None,
            check=self._machine.check_open if self._machine is not None else None,
            lock=threading.Lock(),
            opener=partial(AwaitableBatch, call_back=self.callback_errors.call),
        )

    def _new_transactions(self, machine: ProducerTransactions) -> TransactionDriver:
        return TransactionDriver(
            self._cluster,
            self.settings,
            self._tasks,
            machine,
            flush=self.finish_all,
            drop=self._drop,
            begins_with=self._sender.machine.restart,
            pump=self.pump,
        )

    @property
    def transactions(self) -> TransactionDriver:
        """Return the driver of transactions. Raises `SettingError` without a transactional id, and `Closed` after `close`."""
        if self._closing or self._closed:
            self._raise_closed()
        if self._transactions is None:
            raise SettingError("The producer is not transactional: set transactional_id.")
        return self._transactions

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
    ) -> Delivery | None:
        """Add a record to its batch, on any thread.

        Call `pump` afterwards if the index of the delivery is 0. Return None if `load_metadata` must be called first.
        """
        if headers is not None or timestamp_ms is not None or type(value) not in PLAIN or type(key) not in PLAIN:
            key, value, headers, timestamp_ms = checked_record(key, value, headers, timestamp_ms)
        if not isinstance(topic, str):
            return None
        topic = plain(topic)
        metadata = self._cluster.metadata
        count = metadata.partition_count(topic)
        if not count:
            return None
        if partition is not None:
            partition = self._check_partition(topic, partition)
        elif self._own_partitioner is not None:
            partition = own_partition(self._own_partitioner, topic, key, value, count)
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        batch, index = self.accumulator.append(topic, partition, count, key, value, headers, stamp, now_ms)
        return Delivery(batch, index)

    def extend(self, topic: str, rows: Rows, start: int, stop: int, partition: int | None) -> list[SentRows] | None:
        """Add rows to batches, on any thread: as `append`, for the first rows up to one that is too large."""
        if not isinstance(topic, str):
            return None
        topic = plain(topic)
        metadata = self._cluster.metadata
        count = metadata.partition_count(topic)
        if not count:
            return None
        if partition is not None:
            partition = self._check_partition(topic, partition)
        spread = None
        if partition is None and self._own_partitioner is not None:
            spread = own_spread(self._own_partitioner, topic, rows, range(start, stop), count)
        added = self.accumulator.extend(topic, partition, count, rows, start, stop, now_ms, spread)
        return [SentRows(Delivery(batch, index), numbers) for batch, index, numbers in added]

    @staticmethod
    def check_rows(rows: Rows, start: int, stop: int | None) -> tuple[int, int]:
        """Return the numbers of the first row to send and of the row after the last. Raises `TypeError`, `SettingError`."""
        if not isinstance(rows, Rows):
            raise TypeError(f"rows are made by ottla.records.batches, not {short_repr(rows)}: send_values() takes a list of bytes.")
        count = rows.row_count
        first, end = whole("start", start), count if stop is None else whole("stop", stop)
        if not first <= end <= count:
            raise SettingError(f"There are {count} rows: start and stop are numbers up to {count}, not {first} and {end}.")
        return first, end

    @staticmethod
    def rows_of(values: Sequence[bytes]) -> Rows:
        """Return values as rows with the present time. Raises `TypeError` unless all values are bytes."""
        if not isinstance(values, Sequence) or not {bytes}.issuperset(map(type, values)):
            raise TypeError("Values are a list of bytes: send null and other types by send().")
        return value_rows(values, time.time_ns() // 1_000_000)

    def _check_partition(self, topic: str, partition: int) -> int:
        """Return the number of a partition. Raises `SettingError` if the topic does not have it."""
        metadata = self._cluster.metadata
        if not metadata.has(topic, number := whole("partition", partition)):
            raise SettingError(f"Topic {topic} has partitions {metadata.numbers(topic)}, not {number}.")
        return number

    def _raise_closed(self) -> None:
        self._tasks.check()
        raise self._tasks.end_error()

    async def load_metadata(self, topic: str) -> None:
        """Request the metadata of a topic that is not cached. Brokers with automatic topic creation create the topic.

        Raises `KafkaError`, and `TypeError` for a topic that is not a string.
        """
        topic = topic_name(topic)
        with self.time_call("metadata-wait"):
            await self._cluster.ensure([topic], create=True, timeout_ms=self.settings.max_block_ms)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        await self.load_metadata(topic)
        return self._cluster.metadata.partitions(topic)

    async def _keep_metadata_fresh(self) -> None:
        """Refresh all cached topics every `metadata_max_age_ms`, because they can get more partitions or other leaders."""
        asked_ms, age_ms = now_ms(), self.settings.metadata_max_age_ms
        while True:
            await asyncio.sleep(min(STALE_PAUSE_MS, age_ms) / 1000)
            if self._cluster.is_stale or now_ms() - asked_ms >= age_ms:
                asked_ms = now_ms()
                with suppress(KafkaError):
                    await self._cluster.refresh(list(self._cluster.metadata.topics))
                self.pump()

    async def wait_for_memory(self) -> None:
        """Return once the unfinished batches fit in `buffer_memory`. Raises `TimedOut` after `max_block_ms`."""
        try:
            with self.time_call("bufferpool-wait"):
                await self._wait_for_memory()
        except TimeoutError:
            self.metrics.on_exhausted(now_ms())
            raise TimedOut(
                f"buffer_memory={self.settings.buffer_memory} stayed full for max_block_ms={self.settings.max_block_ms}: "
                "records are sent faster than brokers acknowledge them; send more slowly, or raise one of both."
            ) from None

    async def _wait_for_memory(self) -> None:
        async with asyncio.timeout(self.settings.max_block_ms / 1000):
            while self.accumulator.pending_bytes > self.settings.buffer_memory:
                freed: asyncio.Future[None] = self._loop.create_future()
                self._waiting_for_room.append(freed)
                await freed
                if self._closed:
                    self._raise_closed()

    def pump_guarded(self) -> None:
        """Call `pump` from a callback of the loop: an exception ends the producer, and is not merely logged."""
        self._tasks.call(self.pump)

    def pump(self) -> None:
        """Send the batches that are ready, and set a timer for the next. Must be called on the loop."""
        if self._closed:
            return
        if self._metadata_version != (version := self._cluster.metadata.version):
            self._metadata_version = version
            self.accumulator.recount()
        now = now_ms()
        batches, next_close_ms = self.accumulator.close(now, self._sender.machine.has_backlog)
        for batch in batches:
            self._pass_on(batch)
        self._sender.send_ready(now, next_close_ms)
        if self._transactions is not None:
            self._transactions.add_wanted()

    def has_written(self, batch: PendingBatch) -> bool:
        """Return whether a batch has left for its broker, so that `pump` need not be called for it."""
        return not batch.is_open and not self._sender.has_unwritten(batch.where)

    def _pass_on(self, batch: PendingBatch) -> None:
        data = batch.encode(self._codec)
        on_done = partial(self._on_done, batch)
        outgoing = Outgoing(batch.where, data, batch.record_count, batch.deadline_ms, on_done, self._split)
        self.metrics.on_encoded(outgoing, batch.size if self._codec else len(data), now_ms())
        self._sender.machine.add(outgoing)

    def _split(self, batch: Outgoing) -> tuple[Outgoing, Outgoing]:
        self.metrics.on_split(now_ms())
        return split_batch(batch)

    def _on_done(self, batch: PendingBatch, sent: Outgoing) -> None:
        indexes = range(sent.start, sent.start + sent.record_count)
        if sent.error is not None and not isinstance(sent.error, Purged):
            self.metrics.on_failed(batch.where.topic, sent.record_count, now_ms())
            self._note_loss(batch, sent.error, indexes)
        part = BatchPart(indexes, sent.base_offset, sent.log_append_time_ms, sent.error)
        if batch.is_last(part):
            self.accumulator.release(batch)
        batch.finish_part(part)
        if self._waiting_for_room and self.accumulator.pending_bytes <= self.settings.buffer_memory:
            self._notify_waiting()

    def _note_loss(self, batch: PendingBatch, error: KafkaError, indexes: range | None = None) -> None:
        """Count the failing records of a batch, except in a transaction, whose commit raises the error."""
        if self._machine is not None:
            return
        self._losses.add(batch, error, indexes)
        if self._losses_timer is None:
            self._losses_timer = self._tasks.later(LOSSES_PAUSE_MS / 1000, self._log_losses)

    def _log_losses(self) -> None:
        """Log how many records have failed since the last report, for programs that seldom or never flush."""
        self._losses_timer = None
        if lost := self._losses.snapshot():
            log.error("records were not written, and their results were not read: %s", count_text(lost))

    def _report_losses(self) -> DeliveryFailed | None:
        """Log the failed records since the last report, and return them as an exception. Return None if there are none."""
        if self._losses_timer is not None:
            self._losses_timer.cancel()
            self._losses_timer = None
        lost = self._losses.pop_error()
        if lost is not None:
            log.error("%s", lost)
        return lost

    def _notify_waiting(self) -> None:
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for freed in waiting:
            if not freed.done():
                freed.set_result(None)

    async def _drop(self, error: KafkaError) -> None:
        """Drop the unsent batches, and return once no batch is in flight."""
        dropped = self.accumulator.drop()
        for batch in dropped:
            batch.finish(error=error)
        self._notify_waiting()
        await self.finish_all()

    def raise_losses(self) -> None:
        """Log and raise `DeliveryFailed` for the failed records since the last report, if there are some."""
        if (lost := self._report_losses()) is not None:
            raise lost

    def purge(self) -> int:
        """Drop the records that were not sent yet, and return their number. Raises `TransactionError` for transactions."""
        self._tasks.check()
        if self._machine is not None:
            raise TransactionError("purge() would leave gaps in the transaction: abort_transaction() drops its records.")
        error = Purged("The record was purged before it was sent.")
        dropped = self.accumulator.drop()
        for batch in dropped:
            batch.finish(error=error)
        count = sum(batch.record_count for batch in dropped) + self._sender.machine.purge(error)
        self._notify_waiting()
        self.pump()
        return count

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Do what `finish_all` does, for a user."""
        with self.time_call("flush"):
            await self.finish_all(timeout_ms)

    async def finish_all(self, timeout_ms: int | None = None) -> None:
        """Return once every record sent so far is written or has failed. Raises `FlushTimedOut` after `timeout_ms`."""
        self._tasks.check()
        waiting = self.accumulator.end_linger()
        self.pump()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                for batch in waiting:
                    if not batch.done:
                        await arrival(batch)
        except TimeoutError:
            left: dict[str, int] = {}
            for batch in waiting:
                if not batch.done:
                    left[batch.where.topic] = left.get(batch.where.topic, 0) + batch.record_count
            raise FlushTimedOut(f"Not acknowledged within timeout_ms={timeout_ms}: {count_text(left)}.", left) from None
        self._tasks.check()

    def claim_close(self) -> bool:
        """Return whether this is the first call, whose caller closes the producer by `settle` and `end`."""
        is_first, self._is_close_claimed = not self._is_close_claimed, True
        return is_first

    async def settle(self, timeout_ms: int | None) -> None:
        """Accept no more records, and flush. Records not written within `timeout_ms` fail with `Closed`. Later calls do nothing.

        `end` raises what went wrong.
        """
        if self._closing:
            return
        self._closing = True
        self.accumulator.end(self._raise_closed)
        try:
            if not self._closed:
                await self._abort_what_is_open(timeout_ms)
                await self.finish_all(timeout_ms)
        except KafkaError as error:
            self._close_error = error
        finally:
            await self._tasks.cancel()
            self._fail_all(Closed("The producer was closed before the record was written."))

    async def end(self) -> None:
        """Close all connections after `settle`, and raise its error.

        Raises `FlushTimedOut`, and `DeliveryFailed` for records that were not written and whose errors no caller has read.
        """
        forget_exit(self.accumulator)
        lost = self._report_losses()
        await self.telemetry.close()
        await self._cluster.close()
        if self._close_error is not None:
            raise self._close_error
        self._tasks.check_unraised()
        if lost is not None and not self._tasks.broken:  # an earlier call has raised the error that ended the producer
            raise lost

    async def _abort_what_is_open(self, timeout_ms: int | None) -> None:
        if self._transactions is None or self._machine is None or not self._machine.can_abort:
            return
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._transactions.abort_open()
        except (KafkaError, TimeoutError) as error:
            log.warning(
                "transactional id %s: brokers abort the open transaction after its timeout: %s",
                self.settings.transactional_id,
                error,
            )

    def _fail_all(self, error: KafkaError) -> None:
        """Stop sending and accepting records. Unfinished batches fail with `error`, and waiting calls return or raise."""
        self._sender.stop()
        self._closed = True
        self.accumulator.end(self._raise_closed)
        unfinished = self.accumulator.abandon()
        self._notify_waiting()
        with ExitStack() as stack:  # Every watcher is called, even if an earlier one raises.
            for batch in reversed(unfinished):
                self._note_loss(batch, error)
                stack.callback(batch.finish, error=error)
