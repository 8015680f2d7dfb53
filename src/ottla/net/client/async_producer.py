"""The producer on asyncio: drives drafts and sender of `ottla.client` over a cluster.

`append` may run on another thread than the loop (the blocking twin does that), so drafts are touched under a lock; everything
else belongs to the loop.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self, Unpack

from ottla.client.accumulator import BYTES, Accumulator, Headers, PendingBatch, check_record
from ottla.client.errors import Closed, KafkaError, SettingError, TimedOut, raise_for
from ottla.client.keywords import ProducerKeywords
from ottla.client.lane import Identity, Outgoing
from ottla.client.partitioner import Partitioner
from ottla.client.sender import Send, Sender, SendSettings
from ottla.client.settings import COMPRESSIONS, ProducerSettings, parse
from ottla.client.types import TopicPartition
from ottla.client.versions import INIT_PRODUCER_ID, PRODUCE
from ottla.net.client.cluster import Cluster, now_ms
from ottla.net.client.delivery import Delivery, arrival
from ottla.net.client.tasks import Tasks
from ottla.records.columns import build
from ottla.wire.api.init_producer_id import InitProducerIdRequest


class AsyncProducer:
    """Writes records. A context manager; keyword arguments are Kafka's producer settings with underscores.

        async with AsyncProducer("localhost:9092", linger_ms=5) as producer:
            delivery = await producer.send("flights", b"...", key=b"JFK")
            where = await delivery

    Leaving the context waits until everything is written or given up. Raises `SettingError` for a setting it does not know.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self.settings = parse(ProducerSettings, {**settings, **servers})
        self.lock = threading.Lock()
        self.drafts = Accumulator(
            batch_size=self.settings.batch_size,
            linger_ms=self.settings.linger_ms,
            max_record_bytes=self.settings.max_request_size,
            partitioner=Partitioner(random.randrange),
        )
        self._codec = COMPRESSIONS[self.settings.compression_type]
        self.closed = self._closing = False

    async def start(self) -> Self:
        """Begin; connections are opened when first needed."""
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks(self._give_up)
        self._cluster = Cluster(self.settings, self._tasks)
        self._sender = Sender(
            self._cluster.metadata,
            SendSettings(
                acks=self.settings.acks_code,
                enable_idempotence=self.settings.enable_idempotence,
                max_in_flight_requests_per_connection=self.settings.max_in_flight_requests_per_connection,
                max_request_size=self.settings.max_request_size,
                request_timeout_ms=self.settings.request_timeout_ms,
                delivery_timeout_ms=self.settings.delivery_timeout_ms,
                retry_backoff_ms=self.settings.retry_backoff_ms,
            ),
        )
        self._identifying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._room: list[asyncio.Future[None]] = []
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

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
        """Queue one record; await the returned `Delivery` to learn where it landed.

        Waits up to `max_block_ms` while `buffer_memory` is full or the topic is not known yet. Raises `KafkaError`, and
        `TypeError` for a record that cannot be.
        """
        if self.drafts.pending_bytes > self.settings.buffer_memory:
            await self.wait_for_room()
        while (delivery := self.append(topic, value, key, partition, headers, timestamp_ms)) is None:
            await self.know(topic)
        if self.drafts.news:
            self.drafts.news = False
            self.pump()
            # Whoever sends in a tight loop would otherwise keep the loop from writing to sockets.
            await asyncio.sleep(0)
        return delivery

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
    ) -> Delivery | None:
        """Put a record into its draft, from any thread, then `pump` if `drafts.news`; None: first `know` the topic."""
        if headers or timestamp_ms is not None or not isinstance(value, BYTES) or not isinstance(key, BYTES):
            check_record(key, value, headers, timestamp_ms)
        count = self._cluster.metadata.partition_count(topic)
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        with self.lock:
            if self.closed:
                self._raise_closed()
            if not count:
                return None
            if partition is None:
                partition = self.drafts.partitioner.partition(topic, key, count)
            elif not 0 <= partition < count:
                raise SettingError(f"Topic {topic} has partitions 0 to {count - 1}, not {partition}.")
            draft = self.drafts.append(topic, partition, key, value, headers, stamp, int(time.monotonic() * 1000))
            return Delivery(draft, len(draft.values) - 1)

    def _raise_closed(self) -> None:
        self._tasks.check()
        raise self._tasks.ended()

    async def know(self, topic: str) -> None:
        """Learn of a topic's partitions; it is created if the broker does that."""
        await self._cluster.ensure([topic], create=True, timeout_ms=self.settings.max_block_ms)

    async def wait_for_room(self) -> None:
        """Return once `buffer_memory` has room. Raises `TimedOut` after `max_block_ms`."""
        try:
            async with asyncio.timeout(self.settings.max_block_ms / 1000):
                while self.drafts.pending_bytes > self.settings.buffer_memory:
                    freed: asyncio.Future[None] = self._loop.create_future()
                    self._room.append(freed)
                    await freed
                    if self.closed:
                        self._raise_closed()
        except TimeoutError:
            raise TimedOut(
                f"buffer_memory={self.settings.buffer_memory} stayed full for max_block_ms={self.settings.max_block_ms}: "
                "the broker takes records more slowly than they are sent."
            ) from None

    def pump_soon(self) -> None:
        """Have `pump` called as work in the background."""
        self._tasks.soon(self.pump)

    def pump(self) -> None:
        """Send what can leave, and arrange to be called again. On the loop."""
        if self.closed:
            return
        now = now_ms()
        with self.lock:
            drafts = self.drafts.close(now, self._sender.has_backlog)
        for draft in drafts:
            self._hand_over(draft, now)
        self._sender.expire(now)
        for send in self._sender.requests(now):
            self._tasks.spawn(self._dispatch(send))
        self._get_what_is_missing()
        self._rearm(now)

    def _hand_over(self, draft: PendingBatch, now: int) -> None:
        data = build(draft.keys, draft.values, draft.timestamps, draft.headers, codec=self._codec)
        deadline_ms = now + self.settings.delivery_timeout_ms
        self._sender.add(Outgoing(draft.where, data, len(draft.values), deadline_ms, lambda batch: self._done(draft, batch)))

    def _done(self, draft: PendingBatch, batch: Outgoing) -> None:
        with self.lock:
            self.drafts.finished(draft)
        draft.finish(base_offset=batch.base_offset, log_append_time_ms=batch.log_append_time_ms, error=batch.error)
        if self._room and self.drafts.pending_bytes <= self.settings.buffer_memory:
            self._make_room()

    def _make_room(self) -> None:
        waiting, self._room = self._room, []
        for freed in waiting:
            if not freed.done():
                freed.set_result(None)

    def _get_what_is_missing(self) -> None:
        sender = self._sender
        if sender.wants_metadata:
            self._cluster.refresh_soon(sender.wants_metadata, self.pump, sender.give_up)
            sender.wants_metadata.clear()
        if sender.wants_identity and (self._identifying is None or self._identifying.done()):
            self._identifying = self._tasks.spawn(self._identify())

    def _rearm(self, now: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        times = [time for time in (self.drafts.next_close_ms(now), self._sender.next_wake_ms(now)) if time is not None]
        self._timer = self._tasks.later(max(1, min(times) - now) / 1000, self.pump) if times else None

    async def _dispatch(self, send: Send) -> None:
        try:
            link = await self._cluster.link(send.node_id)
            if self.settings.acks_code == 0:
                link.send_unanswered(PRODUCE, send.request)
                self._sender.sent_unanswered(send)
            else:
                answer = await link.ask(PRODUCE, send.request, self.settings.request_timeout_ms)
                self._sender.answered(send, answer, now_ms())
        except KafkaError as error:
            self._sender.broken(send, error, now_ms())
        self.pump()

    async def _identify(self) -> None:
        try:
            self._sender.identified(await self._cluster.retried(self._ask_identity, timeout_ms=self.settings.delivery_timeout_ms))
        except KafkaError as error:
            self._sender.wants_identity = False
            self._sender.give_up(error)
        self.pump()

    async def _ask_identity(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await self._cluster.ask_any(INIT_PRODUCER_ID, request)
        raise_for(answer.error_code, "Getting a producer id")
        return Identity(answer.producer_id, answer.producer_epoch)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Return once everything sent so far is written or given up. Raises `TimedOut` after `timeout_ms`."""
        self._tasks.check()
        with self.lock:
            waiting = list(self.drafts.undone)
            self.drafts.hurry()
        self.pump()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                for draft in waiting:
                    if not draft.done:
                        await arrival(draft)
        except TimeoutError:
            raise TimedOut(f"flush() did not end within {timeout_ms} ms: records are still on their way.") from None
        self._tasks.check()

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        await self.know(topic)
        return self._cluster.metadata.partitions(topic)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close all connections. What is still not written after `timeout_ms` is given up with `Closed`."""
        if self._closing:
            return
        self._closing = True
        try:
            if not self.closed:
                await self.flush(timeout_ms)
        finally:
            await self._tasks.cancel()
            try:
                self._give_up(Closed("The producer was closed before the record was written."))
            finally:
                await self._cluster.close()
        self._tasks.check_untold()

    def _give_up(self, error: KafkaError) -> None:
        """Nothing more is sent or taken, and whoever waits for something hears `error`."""
        if self._timer is not None:
            self._timer.cancel()
        with self.lock:
            self.closed = True
            undone = self.drafts.abandon()
        self._make_room()
        with ExitStack() as stack:  # a watcher that raises keeps none of the others from hearing
            for draft in undone:
                stack.callback(draft.finish, base_offset=-1, log_append_time_ms=-1, error=error)
