"""The driver of a share consumer's sessions over a cluster: requests to leaders, deliveries to the user, acknowledgements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress

from ottla.client.connection.versions import SHARE_ACKNOWLEDGE, SHARE_FETCH, not_shared
from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetch_requests import FetchLimits
from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import KafkaError, NotSupported
from ottla.client.metrics.share import ShareFetchMetrics
from ottla.client.settings.clients import ShareConsumerSettings
from ottla.client.share.acknowledgements import AcknowledgementRun, count_of
from ottla.client.share.deliveries import ShareDelivery, Source
from ottla.client.share.share_fetcher import Acknowledged, Acknowledgement, FetchMode, PlannedShareRequest, ShareFetcher
from ottla.net.client.cluster import FETCH_LANE, ClusterLinks, now_ms
from ottla.net.client.tasks import Tasks
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest
from ottla.wire.api.share_fetch import ShareFetchRequest

RENEWALS_FROM, RECORD_LIMIT_FROM = 2, 2
"""The versions of ShareAcknowledge with renewals (KIP-1222), and of ShareFetch with record_limit (KIP-1206): Kafka 4.2."""
CLOSE_TIMEOUT_S = 5.0

log = logging.getLogger("ottla.client")


class ShareFetchDriver:
    """The sessions of one share consumer, and the records in its user's hands. Use it only on the event loop that created it.

    `acknowledged` is called with each finished acknowledgement.
    """

    def __init__(
        self,
        cluster: ClusterLinks,
        settings: ShareConsumerSettings,
        tasks: Tasks,
        member_id: str,
        open_cursor: Callable[[Chunk], Cursor],
        acknowledged: Callable[[Acknowledged], None],
    ) -> None:
        limits = FetchLimits(
            fetch_max_bytes=settings.fetch_max_bytes,
            max_partition_fetch_bytes=settings.fetch_max_bytes,
            fetch_min_bytes=settings.fetch_min_bytes,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
        )
        self.machine = ShareFetcher(
            cluster.metadata,
            limits,
            FetchMode(settings.max_poll_records, settings.share_acquire_mode == "record_limit"),
            settings.group_id or "",
            member_id,
            open_cursor,
            check_crcs=settings.check_crcs,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self.deliveries: list[ShareDelivery] = []
        """The deliveries with records that the user may still get, or must still acknowledge."""
        self.metrics = ShareFetchMetrics(cluster.metrics)
        self._acknowledged = acknowledged
        self._cluster = cluster
        self._settings = settings
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._answered = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    # --- records

    async def next_deliveries(self, timeout_ms: int | None) -> list[ShareDelivery]:
        """Return the deliveries of the next fetched batches. Return none after `timeout_ms`, or once `wake` is called.

        Raises the `KafkaError` of a fetch.
        """
        if found := self._open_next():
            self.pump()
            return found
        self.machine.wants_records = True
        try:
            self.pump()
            if timeout_ms == 0:
                await asyncio.sleep(0)  # a loop of such calls lets the fetches make progress
            elif self.machine.is_idle:
                await self._wait(timeout_ms)
        finally:
            self.machine.wants_records = False
        return self._open_next()

    async def _wait(self, timeout_ms: int | None) -> None:
        self._waiter = self._loop.create_future()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._waiter
        except TimeoutError:
            pass
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Wake waiting `next_deliveries`, which then returns deliveries or none."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _open_next(self) -> list[ShareDelivery]:
        while (batches := self.machine.next_batches(now_ms())) is not None:
            opened = batches.open()
            self.queue(batches.source, opened.runs)
            self.deliveries += opened.deliveries
            if opened.deliveries:
                self.metrics.on_delivery(sum(each.last - each.first + 1 for each in opened.deliveries), now_ms())
            if opened.error is not None:
                log.warning("group %s: %s", self.machine.group_id, opened.error)
                self.machine.failure = opened.error
            if opened.deliveries:
                return opened.deliveries
        return []

    # --- acknowledgements

    def queue(self, source: Source, runs: list[AcknowledgementRun]) -> None:
        """Queue acknowledgements for the next request to their leader."""
        self.machine.acknowledge(source, runs, now_ms() + self._settings.default_api_timeout_ms)

    def collect(self) -> None:
        """Queue what the user has acknowledged, in implicit mode what was processed, and forget finished deliveries."""
        for each in self.deliveries:
            self.queue(each.source, each.pop_decisions() if self._settings.is_explicit else each.pop_processed())
        self.deliveries = [each for each in self.deliveries if not each.is_finished]

    def drop_expired(self) -> None:
        """Drop records whose acquisition locks have ended: the group may deliver them to other members."""
        now = now_ms()
        for each in self.deliveries:
            if each.source.deadline_ms <= now and not each.cursor.exhausted:
                each.cursor.drop()

    def drop_lost(self) -> None:
        """Return no more records: the consumer does not read any more."""
        self.machine.drop_batches()
        for each in self.deliveries:
            each.cursor.drop()

    async def finish(self, acknowledgements: Collection[Acknowledgement], timeout_ms: int) -> None:
        """Wait until these acknowledgements have an outcome, at most `timeout_ms`. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_ms / 1000):
            while any(each in acknowledgements for each in self.machine.list_pending()):
                self._answered.clear()
                await self._answered.wait()

    # --- requests

    def pump(self) -> None:
        """Send the requests that are ready, and start the metadata refreshes that they need."""
        if self._is_closed:
            return
        now = now_ms()
        for planned in self.machine.requests(now):
            self._tasks.spawn(self._run(planned))
        self._finish_outcomes()
        if self.machine.wants_metadata:
            self._cluster.refresh_soon(self.machine.wants_metadata, self.pump, self._fail)
            self.machine.wants_metadata.clear()
        if self._timer is not None:
            self._timer.cancel()
        wake_ms = self.machine.next_wake_ms(now)
        self._timer = None if wake_ms is None else self._tasks.later(max(1, wake_ms - now) / 1000, self.pump)
        if not self.machine.is_idle:
            self.wake()

    def _fail(self, error: KafkaError) -> None:
        self.machine.failure = error
        self.wake()

    def _finish_outcomes(self) -> None:
        outcomes, self.machine.outcomes = self.machine.outcomes, []
        for each in outcomes:
            self.metrics.on_acknowledged(count_of(each.acknowledgement.runs), now_ms(), failed=each.error is not None)
            self._acknowledged(each)
        if outcomes:
            self._answered.set()

    async def _run(self, planned: PlannedShareRequest) -> None:
        await self._send(planned)
        self.pump()
        self._answered.set()

    async def _send(self, planned: PlannedShareRequest) -> None:
        body, machine = planned.body, self.machine
        try:
            link = await self._cluster.link(planned.node_id, FETCH_LANE)
            self._check_version(body, link.version(SHARE_FETCH if planned.is_fetch else SHARE_ACKNOWLEDGE))
            began, sent_ms = self._loop.time(), now_ms()
            timeout_ms = self._settings.request_timeout_ms + (self._settings.fetch_max_wait_ms if planned.is_fetch else 0)
            answer = await link.request(body, timeout_ms)
        except KafkaError as error:
            machine.broken(planned, error, now_ms())
            return
        if planned.is_fetch:
            size = sum(len(part.records or b"") for topic in answer.responses for part in topic.partitions)
            self.metrics.on_fetch((self._loop.time() - began) * 1000, answer.throttle_time_ms, size, now_ms())
            machine.on_fetch(planned, answer, sent_ms, now_ms())
        else:
            machine.on_acknowledge(planned, answer, now_ms())

    def _check_version(self, body: ShareFetchRequest | ShareAcknowledgeRequest, version: int) -> None:
        """Raise `NotSupported` if a broker's version lacks what the request needs."""
        if version < 0:
            raise not_shared(body.WIRE.key)
        if isinstance(body, ShareFetchRequest):
            if self.machine.mode.record_limit and version < RECORD_LIMIT_FROM:
                raise NotSupported("share_acquire_mode=record_limit needs Kafka 4.2 or newer: leave it out, or use a newer broker.")
        elif body.is_renew_ack and version < RENEWALS_FROM:
            raise NotSupported(
                "Renewing acquisition locks needs Kafka 4.2 or newer: accept or release records, or use a newer broker."
            )

    async def close_sessions(self) -> None:
        """Send the queued acknowledgements and close the sessions, so that leaders release all other records.

        Waiting `next_deliveries` returns, because the next fetch for it would keep its session busy.
        """
        self.machine.wants_records = False
        self.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S + self._settings.fetch_max_wait_ms / 1000):
                while self.machine.has_requests:
                    self._answered.clear()
                    await self._answered.wait()
                await asyncio.gather(*(self._send(planned) for planned in self.machine.closing_requests()))
        self._finish_outcomes()

    def close(self) -> None:
        """Send no more requests, and wake waiting `next_deliveries`."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.wake()
