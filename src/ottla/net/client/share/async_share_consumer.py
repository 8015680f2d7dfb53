"""The share consumer on asyncio: subscription, deliveries and acknowledgements over a driver of sessions and one of membership."""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, overload

from ottla.client import arguments
from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.cursor_opener import cursor_opener
from ottla.client.errors import AcknowledgeFailed, KafkaError, SettingError, TimedOut
from ottla.client.interceptors import ConsumerInterceptors
from ottla.client.keywords import ShareConsumerKeywords, ShareConsumerOptions
from ottla.client.metrics.consumer import PollMetrics
from ottla.client.metrics.share import POLL_GROUP, ShareGroupMetrics
from ottla.client.settings.clients import ShareConsumerSettings, parse, refuse_dict
from ottla.client.share.acknowledgements import GAP, AcknowledgeType, TypeName, acknowledge_type, count_of
from ottla.client.share.deliveries import ShareDelivery, handed_out
from ottla.client.share.share_fetcher import Acknowledged, Acknowledgement
from ottla.client.types import ConsumerRecord, TopicPartition
from ottla.net.client.cluster import ClusterLinks, now_ms
from ottla.net.client.consumer.column_keywords import ColumnKeywords
from ottla.net.client.consumer.listeners import call_listener, refuse_in_listener
from ottla.net.client.consumer.polling_consumer import PollingConsumer
from ottla.net.client.lifetime import made_by_start
from ottla.net.client.share.delivered_places import DeliveredBatch, places_of
from ottla.net.client.share.share_bad_records import ShareBadRecords
from ottla.net.client.share.share_fetch_driver import ShareFetchDriver
from ottla.net.client.share.share_membership_driver import ShareMembershipDriver
from ottla.net.client.tasks import Tasks
from ottla.net.client.telemetry_driver import TelemetryDriver
from ottla.records.batches.record import Key_co, Value_co

if TYPE_CHECKING:
    import pyarrow

    from ottla.net.client.consumer.typed_batches import TypedBatches

AcknowledgementCallback = Callable[[TopicPartition, list[int], KafkaError | None], Awaitable[None] | None]
"""A callback that gets a partition, the offsets of acknowledged records, and the error if the leader refused them."""
FLUSH_S = 1.0
"""The interval, in seconds, at which an iteration's processed records are acknowledged, and renewals are sent."""
CLOSING_CALLBACKS_S = 5.0

log = logging.getLogger("ottla.client")


class AsyncShareConsumer(PollingConsumer, Generic[Key_co, Value_co]):
    """A consumer of a share group, whose members take turns at the records of each partition: a queue. A context manager.

        async with AsyncShareConsumer("jobs", bootstrap_servers="localhost:9092", group_id="workers") as consumer:
            async for record in consumer: ...

    A record counts as processed, and is accepted, once the next one is requested. With
    `share_acknowledgement_mode="explicit"`, `acknowledge` accepts, releases or rejects each record. A record that is not
    acknowledged in time is delivered again, up to the group's `share.delivery.count.limit`; `delivery_count` of the record has
    the number. Keyword arguments are Kafka's settings with underscores.

    `on_acknowledged`, a function or a coroutine function, is called with a partition, a list of offsets, and None or the error,
    after their acknowledgement. Raises `SettingError` for a setting that is unknown or has a wrong value.
    """

    _reader: ShareFetchDriver
    _bad_records: ShareBadRecords

    @overload
    def __init__(
        self: AsyncShareConsumer[bytes, bytes],
        *topics: str,
        on_acknowledged: AcknowledgementCallback | None = None,
        **settings: Unpack[ShareConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncShareConsumer[Any, Any],
        *topics: str,
        on_acknowledged: AcknowledgementCallback | None = None,
        **settings: Unpack[ShareConsumerKeywords],
    ) -> None: ...
    def __init__(
        self, *topics: str, on_acknowledged: AcknowledgementCallback | None = None, **settings: Unpack[ShareConsumerKeywords]
    ) -> None:
        if topics:
            refuse_dict(ShareConsumerSettings, topics[0])
            arguments.check_subscription(topics, None)
        self._settings = parse(ShareConsumerSettings, settings)
        super().__init__(self._settings, topics)
        self._on_acknowledged = arguments.callback("on_acknowledged", on_acknowledged)
        self._topics: list[str] = []
        self._refused: KafkaError | None = None
        self._commits: list[dict[Acknowledgement, KafkaError | None]] = []
        """For each waiting `commit`, the outcomes of its acknowledgements."""
        self._outcomes: deque[Acknowledged] = deque()
        """The finished acknowledgements for `on_acknowledged`."""
        self._calling: asyncio.Task[None] | None = None

    async def start(self) -> Self:
        """Start the consumer without a `with` statement, and subscribe to the given topics. If that fails, close everything."""
        if self._started:
            self._check()
            return self
        self._tasks = Tasks(self._broke)
        self._cluster = ClusterLinks(self._settings, self._tasks)
        self._telemetry = TelemetryDriver(self._cluster, self._settings)
        self._polls = PollMetrics(self._cluster.metrics, POLL_GROUP)
        self._interceptors = ConsumerInterceptors(self._settings.interceptors)
        member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")  # as Kafka prints ids
        opener = cursor_opener(self._settings, self._interceptors)
        self._reader = ShareFetchDriver(self._cluster, self._settings, self._tasks, member_id, opener, self._record_outcome)
        self._bad_records = ShareBadRecords(self._settings, self._reader)
        self._member = ShareMembershipDriver(
            self._cluster,
            self._settings,
            self._tasks,
            member_id,
            adopt=self._adopt,
            failed=self._refuse,
            handed_out=lambda: handed_out(self._reader.deliveries),
            metrics=ShareGroupMetrics(self._cluster.metrics),
        )
        await self._begin(self._keep_metadata_fresh(), self._flush_at_intervals())
        return self

    @property
    def _refusal(self) -> KafkaError | None:
        return self._refused

    # --- what to read

    async def subscribe(self, *topics: str) -> None:
        """Read these topics from now on. If the group has refused this consumer, this call makes it join again.

        If brokers do not answer, the subscription stays unchanged. Raises `KafkaError`.
        """
        arguments.check_subscription(topics, None)
        refuse_in_listener(self, "subscribe")
        self._check()
        create = self._settings.allow_auto_create_topics
        wanted = sorted({*map(str, topics)})
        await self._cluster.retry(lambda: self._cluster.refresh(wanted, create=create))
        self._topics, self._refused = wanted, None
        self._member.subscribe(wanted)

    async def unsubscribe(self) -> None:
        """Stop reading, and leave the group. Processed records are acknowledged before, and all others are released."""
        refuse_in_listener(self, "unsubscribe")
        self._check()
        self._topics, self._refused = [], None
        self._mark_processed()
        self._reader.collect()
        self._reader.drop_lost()
        await self._reader.close_sessions()
        await self._member.leave()
        self._adopt([])

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return set(self._topics)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the coordinator has assigned. Other members can read them, too."""
        return set(self._reader.machine.partitions)

    def _adopt(self, partitions: list[TopicPartition]) -> None:
        if partitions != self._reader.machine.partitions:
            listed = arguments.list_partitions(partitions) or "no partition"
            log.info("group %s: this share consumer reads %s", self._settings.group_id, listed)
        self._reader.machine.assign(partitions, self._member.machine.topic_ids)
        self._reader.pump()

    def _refuse(self, error: KafkaError) -> None:
        group = self._settings.group_id
        log.warning("group %s: this share consumer left the group until it subscribes again: %s", group, error)
        self._refused = error
        self._reader.wake()

    async def _keep_metadata_fresh(self) -> None:
        while True:
            await asyncio.sleep(self._settings.metadata_max_age_ms / 1000)
            with suppress(KafkaError):
                await self._cluster.refresh(self._topics)

    # --- records

    def _mark_processed(self) -> None:
        for delivery in self._reader.deliveries:
            delivery.cursor.mark_processed()
            if delivery.cursor.held:  # all its records at once, as columns
                delivery.cursor.finish()

    async def _next_cursors(self, timeout_ms: int | None) -> list[Cursor]:
        """Return cursors of different partitions, to be read `_in_turn`; none after `timeout_ms`.

        All records of earlier cursors count as processed.
        """
        timeout_ms = arguments.timeout("timeout_ms", timeout_ms)
        refuse_in_listener(self, "poll")
        self._raise_error_or_wakeup()
        if not self._topics:
            raise KafkaError("This share consumer reads no topic: subscribe() first.")
        self._polls.begin(now_ms())
        try:
            return await self._next_or_wait(timeout_ms)
        finally:
            self._polls.end(now_ms())

    async def _next_or_wait(self, timeout_ms: int | None) -> list[Cursor]:
        self._mark_processed()
        self._reader.drop_expired()
        if left := self._left_over():
            return left
        self._check_acknowledged()
        self._reader.collect()
        self._member.user_is_busy(False)
        try:
            return await self._wait_for_cursors(timeout_ms)
        finally:
            self._member.user_is_busy(True)

    def _left_over(self) -> list[Cursor]:
        return [each.cursor for each in self._reader.deliveries if not each.cursor.exhausted]

    def _check_acknowledged(self) -> None:
        """Raise `KafkaError` if the user has not acknowledged all records, in explicit mode."""
        if not self._settings.is_explicit:
            return
        missing = [(each.source.where, offset) for each in self._reader.deliveries for offset in each.find_undecided()]
        if missing:
            where, offset = missing[0]
            raise KafkaError(
                f"{len(missing)} records are not acknowledged, such as offset {offset} of {where.topic}-{where.partition}: "
                "acknowledge() each record before more are requested, or renew it."
            )

    async def _wait_for_cursors(self, timeout_ms: int | None) -> list[Cursor]:
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        while True:
            left_ms = None if deadline is None else max(0, round((deadline - loop.time()) * 1000))
            found = await self._reader.next_deliveries(left_ms)
            if found:
                return [each.cursor for each in found]
            self._raise_error_or_wakeup()
            if left_ms == 0:
                return []

    def _in_turn(self, cursors: Sequence[Cursor]) -> Iterator[Cursor]:
        """Yield cursors of `_next_cursors`, on any thread, until its next call has something to do or to raise first.

        A request for the next cursor marks the columns of the one before as processed. That call returns those left over again.
        """
        for cursor in cursors:
            if cursor is cursors[0] or not (self._woken or self._closed or self._refused is not None):
                yield cursor
                cursor.finish()

    async def records(self, timeout_ms: int | None = None) -> AsyncIterator[ConsumerRecord[Key_co, Value_co]]:
        """Yield records one by one, without end, or until none arrives for `timeout_ms`. Raises `KafkaError`.

        Processed records are acknowledged with the next request for records, and at least every second. Records whose
        acquisition lock has ended are left out, because the group may deliver them to others.
        """
        while cursors := await self._next_cursors(timeout_ms):
            for cursor in self._in_turn(cursors):
                try:
                    for record in cursor.each():
                        yield record
                except KafkaError as error:
                    await self._pass_over(error)
                    break

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Key_co, Value_co]]:
        return self.records()

    async def batches(self, timeout_ms: int | None = None, **columns: Unpack[ColumnKeywords]) -> AsyncIterator[pyarrow.RecordBatch]:
        """Yield Arrow record batches, each of one partition and one delivery count, until none arrives for `timeout_ms`.

        The arguments are those of `Consumer.batches`. There is one more column, `delivery_count`. In explicit mode, `acknowledge`
        accepts a whole batch with the columns topic, partition and offset. Raises `DeserializationFailed`, `SettingError`.
        """
        from ottla.net.client.consumer.arrow import typed_batches

        typed = typed_batches(columns, shared=True)
        if typed.decodes:
            while (found := await self._next_batches(timeout_ms, typed)) is not None:
                for batch in found:
                    yield batch
        else:
            while cursors := await self._next_cursors(timeout_ms):
                for cursor in self._in_turn(cursors):
                    for batch in typed.plain(cursor):
                        yield batch

    async def _next_batches(self, timeout_ms: int | None, typed: TypedBatches) -> list[pyarrow.RecordBatch] | None:
        cursors = await self._next_cursors(timeout_ms)
        if not cursors:
            return None
        return await typed.read(cursors[0], self._bad_records)

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord[Key_co, Value_co]]:
        """Return up to `max_records` records (None: `max_poll_records`). Wait up to `timeout_ms` for the first.

        All records of the call before count as processed: in implicit mode, they are accepted. Raises `KafkaError`, in explicit
        mode also while records are neither acknowledged nor renewed.
        """
        return await self._poll(timeout_ms, max_records, self._next_cursors)

    def _put_back(self) -> None:
        """Return records to the buffer if their caller was interrupted before it got them."""
        for delivery in self._reader.deliveries:
            delivery.cursor.put_back()

    # --- acknowledgements

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
        chosen = acknowledge_type(kind)
        self._check()
        if not self._settings.is_explicit:
            raise SettingError("acknowledge() is for share_acknowledgement_mode='explicit': give it, or let poll() accept records.")
        found = [(self._delivery_of(where, offset), offset) for where, offset in places_of(records)]
        for delivery, offset in found:
            delivery.decide(offset, chosen)

    def _delivery_of(self, where: tuple[str, int], offset: int) -> ShareDelivery:
        for delivery in reversed(self._reader.deliveries):
            if delivery.source.where == where and delivery.is_in_hand(offset):
                return delivery
        raise KafkaError(
            f"Offset {offset} of {where[0]}-{where[1]} is not in this consumer's hands: it was not delivered here, or it has its "
            "final acknowledgement already."
        )

    async def commit(self, timeout_ms: int | None = None) -> None:
        """Send all acknowledgements, and wait for the leaders' answers up to `timeout_ms` (None: `default_api_timeout_ms`).

        In implicit mode, all records that were handed out are accepted. Raises `AcknowledgeFailed` with the error of each
        partition, for example because an acquisition lock has ended, `TimedOut`, or another `KafkaError`.
        """
        refuse_in_listener(self, "commit")
        allowed_ms = arguments.timeout("timeout_ms", timeout_ms)
        allowed_ms = self._settings.default_api_timeout_ms if allowed_ms is None else allowed_ms
        outcomes = self._begin_commit()
        self._commits.append(outcomes)
        try:
            self._reader.pump()
            await self._reader.finish([*outcomes], allowed_ms)
        except TimeoutError:
            raise TimedOut(f"No answer to acknowledgements within {allowed_ms} ms.") from None
        finally:
            self._commits.remove(outcomes)
        self._check()
        errors: dict[tuple[str, int], KafkaError] = {}
        for each, error in outcomes.items():
            if error is not None:
                errors.setdefault(each.source.where, error)
        if errors:
            raise AcknowledgeFailed(errors)

    def commit_soon(self) -> None:
        """Send all acknowledgements as `commit` does, in the background. `close` waits for the answers.

        `on_acknowledged` gets the outcomes. Without it, errors are logged.
        """
        self._begin_commit()
        self._reader.pump()

    def _begin_commit(self) -> dict[Acknowledgement, KafkaError | None]:
        """Queue all acknowledgements, and return those without an outcome yet."""
        self._check()
        if not self._is_gathering:
            self._mark_processed()
        self._reader.collect()
        machine = self._reader.machine
        failed = {each.acknowledgement: each.error for each in machine.outcomes}
        return {**failed, **dict.fromkeys(machine.list_pending())}

    def _record_outcome(self, outcome: Acknowledged) -> None:
        for outcomes in self._commits:
            if outcome.acknowledgement in outcomes:
                outcomes[outcome.acknowledgement] = outcome.error
        if not count_of(outcome.acknowledgement.runs):
            return
        if self._on_acknowledged is not None:
            self._outcomes.append(outcome)
            if self._calling is None or self._calling.done():
                self._calling = self._tasks.spawn(self._call_user(self._on_acknowledged))
        elif outcome.error is not None and not any(outcome.acknowledgement in outcomes for outcomes in self._commits):
            where = outcome.acknowledgement.source.where
            log.warning(
                "group %s: acknowledgements of %d records of %s-%d failed: %s",
                self._settings.group_id,
                count_of(outcome.acknowledgement.runs),
                *where,
                outcome.error,
            )

    async def _call_user(self, callback: AcknowledgementCallback) -> None:
        """Call `on_acknowledged` for each outcome, one after the other. Its exception ends the consumer."""
        while self._outcomes:
            acknowledgement, error = self._outcomes.popleft()
            offsets = [offset for run in acknowledgement.runs if run.kind != GAP for offset in range(run.first, run.last + 1)]
            where = TopicPartition(*acknowledgement.source.where)
            await call_listener(self, callback, where, offsets, error)

    async def _flush_at_intervals(self) -> None:
        """Acknowledge what an iteration has processed, send renewals, and drop records whose locks have ended."""
        while True:
            lock_ms = self._reader.machine.acquisition_lock_timeout_ms
            await asyncio.sleep(FLUSH_S if lock_ms is None else min(FLUSH_S, lock_ms / 4000))
            self._reader.drop_expired()
            for each in self._reader.deliveries:
                self._reader.queue(each.source, each.pop_renewals() if self._settings.is_explicit else each.pop_processed())
            self._reader.pump()

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return the time, in ms, for which delivered records stay with this consumer; None before the first fetch."""
        return self._reader.machine.acquisition_lock_timeout_ms

    async def close(self, *, finished: bool = True) -> None:
        """Acknowledge processed records, release all others, leave the group, and close all connections.

        With `finished=False`, the records handed out last do not count as processed. Leaving a `with` statement by an exception
        passes False.
        """
        refuse_in_listener(self, "close")
        if not self._started:
            return
        if finished and self._shutting is None and not self._is_gathering:
            self._mark_processed()
        await asyncio.shield(self._begin_shutting())  # a caller that gives up waiting does not stop it
        self._tasks.check_unraised()

    async def _shut(self) -> None:
        try:
            if not self._tasks.broken:
                self._reader.collect()
                await self._reader.close_sessions()
                if self._calling is not None:
                    await asyncio.wait([self._calling], timeout=CLOSING_CALLBACKS_S)
            await self._tasks.cancel()
            await self._member.leave()
        finally:
            self._reader.close()
            self._interceptors.close()
            await self._telemetry.close()
            await self._cluster.close()


made_by_start(
    AsyncShareConsumer,
    "_tasks",
    "_cluster",
    "_reader",
    "_telemetry",
    "_polls",
    "_interceptors",
    "_bad_records",
    "_member",
)
