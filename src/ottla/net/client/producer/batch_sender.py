"""The driver of a `Sender` over a cluster. It sends requests, passes answers on, and requests missing metadata and identities.

`ottla.client.producer.sender` decides order, sequence numbers and retries. Records stay encoded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from ottla.client.connection.connection import AnswerBody
from ottla.client.errors import KafkaError, NotSupported, raise_for
from ottla.client.metrics.producer import ProducerMetrics
from ottla.client.producer.partition_queue import Identity
from ottla.client.producer.sender import Send, Sender
from ottla.client.producer.transactions import ProducerTransactions
from ottla.client.settings.clients import ProducerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import ClusterLinks, now_ms
from ottla.net.client.link import Link
from ottla.net.client.tasks import Tasks
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.produce import ProduceResponse

log = logging.getLogger("ottla.client")

OLD_BROKERS = (
    "%s: the brokers are older than Kafka 0.11, so batches are written without idempotence: a batch whose answer is lost can be "
    "written twice. Set enable_idempotence=True to refuse such brokers, or False to accept them silently."
)


class BatchSender:
    """Sends the batches of the state machine `machine` to brokers. Use it only on the event loop that created it.

    `pump` is called whenever a batch can be ready to send; it must call `send_ready`. With `needs_idempotence`, batches fail if the
    brokers are too old for it.
    """

    def __init__(
        self,
        cluster: ClusterLinks,
        settings: ProducerSettings,
        tasks: Tasks,
        pump: Callable[[], None],
        transactions: ProducerTransactions | None = None,
        *,
        metrics: ProducerMetrics | None = None,
        needs_idempotence: bool = True,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._tasks = tasks
        self._pump = pump
        self._metrics = metrics
        self._needs_idempotence = needs_idempotence
        self._identifying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._is_stopped = False
        self._waiting: dict[int, deque[Send]] = {}
        """The requests to each broker that wait for a connection. Later requests to the broker wait behind them."""
        self.machine = Sender(cluster.metadata, settings, transactions)

    def send_ready(self, now: int, wake_ms: int | None = None) -> None:
        """Send the batches that are ready, and request missing metadata. `pump` is called again when the next batch can be ready.

        This is at `wake_ms`, or at the next deadline of a retry if that is earlier.
        """
        if not self.machine.idle:
            self.machine.expire(now)
            for send in self.machine.requests(now):
                self._dispatch(send)
        self._get_what_is_missing()
        times = [time for time in (wake_ms, self.machine.next_wake_ms(now)) if time is not None]
        if times:
            self._wake_at(max(now + 1, min(times)), now)

    def _wake_at(self, time_ms: int, now: int) -> None:
        """Call `pump` at a time in ms. If it will be called earlier, do nothing, because it sets the next timer itself."""
        if self._timer is not None:
            if self._timer_ms <= time_ms:
                return
            self._timer.cancel()
        self._timer_ms = time_ms
        self._timer = self._tasks.later((time_ms - now) / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._pump()

    def stop(self) -> None:
        """Set no more timers, and ignore all answers. `send_ready` must not be called any more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _get_what_is_missing(self) -> None:
        machine = self.machine
        if machine.wants_metadata:
            self._cluster.refresh_soon(machine.wants_metadata, self._pump, machine.fail_unsent)
            machine.wants_metadata.clear()
        if machine.wants_identity and (self._identifying is None or self._identifying.done()):
            self._identifying = self._tasks.spawn(self._identify())

    def _dispatch(self, send: Send) -> None:
        """Write a request at once if its broker is connected and no earlier request waits. None may overtake another."""
        waiting = self._waiting.get(send.node_id)
        if waiting is not None:
            waiting.append(send)
            return
        link = self._cluster.open_link_to(send.node_id) if self._settings.acks_code else None
        if link is not None:
            self._write(link, send)
        else:
            self._waiting[send.node_id] = deque([send])
            self._tasks.spawn(self._connect_and_write(send.node_id))

    async def _connect_and_write(self, node_id: int) -> None:
        """Write the requests that wait for a broker, in their order, as soon as it is connected."""
        waiting = self._waiting[node_id]
        try:
            link = await self._cluster.link(node_id)
            while waiting:
                send = waiting.popleft()
                if self._settings.acks_code:
                    self._write(link, send)
                else:
                    await self._write_unanswered(link, send)
        except KafkaError as error:
            while waiting:
                self.machine.broken(waiting.popleft(), error, now_ms(), was_sent=False)
        finally:
            del self._waiting[node_id]
        self._pump()

    def _write(self, link: Link, send: Send) -> None:
        """Write a request whose answer is processed without a task, which takes half the time."""
        timeout_ms, most = self._settings.request_timeout_ms, self.machine.most_produce_version
        try:
            if link.is_ready:
                link.call_back(send.request, timeout_ms, partial(self._receive, send), most)
            else:
                self._tasks.spawn(self._await_answer(link, send, link.send(send.request, most)))
        except KafkaError as error:
            self.machine.broken(send, error, now_ms())
            self._tasks.soon(self._pump)
            return
        self._note_request(send)

    async def _write_unanswered(self, link: Link, send: Send) -> None:
        """Write a request with acks=0, and wait until the socket accepts it."""
        self._note_request(send)
        try:
            await link.send_unanswered(send.request)
            self.machine.sent_unanswered(send)
        except KafkaError as error:
            self.machine.broken(send, error, now_ms())

    async def _await_answer(self, link: Link, send: Send, sent: asyncio.Future[AnswerBody]) -> None:
        """Process the answer to a request that was held back while the link's login was renewed."""
        try:
            self._process(send, await link.answer(sent, self._settings.request_timeout_ms))
        except KafkaError as error:
            self.machine.broken(send, error, now_ms())
        self._pump()

    def has_unwritten(self, where: TopicPartition) -> bool:
        """Return whether batches of a partition, or requests to any broker, wait to be written to a connection."""
        return bool(self._waiting) or self.machine.has_backlog(where)

    def _note_request(self, send: Send) -> None:
        if self._metrics is not None:
            self._metrics.on_request(send.batches, now_ms())

    def _receive(self, send: Send, answer: AnswerBody, error: BaseException | None) -> None:
        """Process the answer to a request, or the error instead of one."""
        self._tasks.call(partial(self._on_answer, send, answer, error))

    def _on_answer(self, send: Send, answer: AnswerBody, error: BaseException | None) -> None:
        if self._is_stopped:
            return
        if error is None:
            self._process(send, answer)
        elif isinstance(error, KafkaError):
            self.machine.broken(send, error, now_ms())
        else:
            raise error
        self._pump()

    def _process(self, send: Send, answer: ProduceResponse) -> None:
        now = now_ms()
        self.machine.on_answer(send, answer, now)
        if self._metrics is not None:
            self._metrics.on_throttle(answer.throttle_time_ms, now)

    async def _identify(self) -> None:
        """Get an identity. As long as brokers do not answer, try again, and let each waiting batch fail at its own deadline."""
        while True:
            if await self._is_identified():
                break
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        self._pump()

    async def _is_identified(self) -> bool:
        """Request an identity for up to `delivery_timeout_ms`. Return False if another try can succeed."""
        try:
            identity = await self._cluster.retry(self._request_identity, timeout_ms=self._settings.delivery_timeout_ms)
        except NotSupported as error:
            if self._needs_idempotence:
                self._fail_without_identity(error)
            else:
                log.warning(OLD_BROKERS, self._settings.client_id or "producer")
                self.machine.send_without_identity()
        except KafkaError as error:
            if error.retriable:
                self.machine.identity_error = error
                return self.machine.idle
            self._fail_without_identity(error)
        else:
            self.machine.set_identity(identity)
        return True

    def _fail_without_identity(self, error: KafkaError) -> None:
        self.machine.wants_identity = False
        self.machine.fail_unsent(error)

    async def _request_identity(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            answer: InitProducerIdResponse = await self._cluster.request_any(request)
            raise_for(answer.error_code, "Getting a producer id")
        except KafkaError as error:
            self.machine.identity_error = error  # the reason of batches that fail before this is tried for the last time
            raise
        return Identity(answer.producer_id, answer.producer_epoch)
