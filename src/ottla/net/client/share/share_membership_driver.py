"""The driver of a share consumer's group membership over a cluster: finding the coordinator, heartbeats, leaving."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from ottla.client.connection.versions import SHARE_GROUP_HEARTBEAT, not_shared
from ottla.client.consumer.consumer_membership import FindTopics
from ottla.client.consumer.membership import Assign, Idle, SendRequest
from ottla.client.errors import KafkaError
from ottla.client.metrics.share import ShareGroupMetrics
from ottla.client.settings.clients import ShareConsumerSettings
from ottla.client.share.share_membership import ShareMembership, ShareStep
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import GROUP_LANE, ClusterLinks, now_ms
from ottla.net.client.coordinator import GROUP, Coordinator
from ottla.net.client.tasks import Tasks

LEAVE_TIMEOUT_S = 5

log = logging.getLogger("ottla.client")


class ShareMembershipDriver:
    """The membership of one share consumer: sends the heartbeats that its state machine plans.

    `adopt` is called with the assigned partitions, and `failed` with an error that ends the membership. `handed_out()` returns a
    set that gets further items as the user gets records.
    """

    def __init__(
        self,
        cluster: ClusterLinks,
        settings: ShareConsumerSettings,
        tasks: Tasks,
        member_id: str,
        *,
        adopt: Callable[[list[TopicPartition]], None],
        failed: Callable[[KafkaError], None],
        handed_out: Callable[[], frozenset[object]],
        metrics: ShareGroupMetrics,
    ) -> None:
        self.machine = ShareMembership(settings, member_id)
        self._settings = settings
        self._cluster = cluster
        self._tasks = tasks
        self._adopt, self._failed, self._handed_out = adopt, failed, handed_out
        self._metrics = metrics
        self._coordinator = Coordinator(cluster, self.machine.group_id, GROUP)
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._before: frozenset[object] = frozenset()
        """The items of `handed_out` when the user was last seen at work."""
        self._busy_since_ms: int | None = now_ms()

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe to these topics. The first call, and the first after an error, begins the membership."""
        self.machine.subscribe(topics)
        if self._task is None or self._task.done():
            self._task = self._tasks.spawn(self._run())
        self._changed.set()

    def user_is_busy(self, busy: bool) -> None:
        """Record whether the user processes records, which counts towards `max_poll_interval_ms`, or waits for records."""
        self._busy_since_ms = now_ms() if busy else None
        if not busy:
            self._changed.set()

    async def _run(self) -> None:
        try:
            while True:
                if self._user_is_late():
                    log.warning(
                        "group %s: this share consumer leaves, because it was not polled for max_poll_interval_ms=%d; "
                        "raise that, or lower max_poll_records",
                        self.machine.group_id,
                        self._settings.max_poll_interval_ms,
                    )
                    await self._leave_group()
                    self._adopt([])
                    if self._busy_since_ms is not None:  # the user can have begun to wait for records meanwhile
                        await self._wait_for_change(None)
                else:
                    await self._try(self.machine.next(now_ms()))
        except KafkaError as error:
            self._failed(error)

    async def _try(self, step: ShareStep) -> None:
        try:
            await self._do(step)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("group %s: joining again, because brokers did not answer: %s", self.machine.group_id, error)
            self.machine.begin_anew(now_ms())

    def _user_is_late(self) -> bool:
        """Return whether `max_poll_interval_ms` have passed since the user last waited for records or got some."""
        handed_out = self._handed_out()
        if not handed_out <= self._before and self._busy_since_ms is not None:
            self._before, self._busy_since_ms = handed_out, now_ms()
        since = self._busy_since_ms
        return since is not None and now_ms() - since > self._settings.max_poll_interval_ms

    def _late_ms(self) -> int:
        since = now_ms() if self._busy_since_ms is None else self._busy_since_ms
        return since + self._settings.max_poll_interval_ms + 1

    async def _do(self, step: ShareStep) -> None:
        if isinstance(step, SendRequest):
            await self._request(step)
        elif isinstance(step, Idle):
            await self._wait_for_change(min(step.until_ms, self._late_ms()))
        elif isinstance(step, FindTopics):
            await self._cluster.retry(lambda: self._cluster.refresh(self.machine.topics))
            known = {topic.topic_id: topic.name for topic in self._cluster.metadata.topics.values()}
            self.machine.found_topics({each: known[each] for each in step.topic_ids if each in known}, now_ms())
        elif isinstance(step, Assign):
            log.info("group %s: member %s is in epoch %d", self.machine.group_id, self.machine.member_id, self.machine.epoch)
            self.machine.finish_assign()
            self._adopt(step.partitions)
            self._metrics.on_rebalance(now_ms())

    async def _wait_for_change(self, until_ms: int | None) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if until_ms is None else max(0, until_ms - now_ms()) / 1000):
                await self._changed.wait()

    async def _request(self, step: SendRequest) -> None:
        machine = self.machine
        if machine.coordinator_lost:
            self._coordinator.forget()
            machine.coordinator_lost = False
        try:
            link = await self._coordinator.link(GROUP_LANE)
            if link.version(SHARE_GROUP_HEARTBEAT) < 0:
                raise not_shared(SHARE_GROUP_HEARTBEAT)
            began = time.monotonic()
            answer = await self._coordinator.request(step.body, lane=GROUP_LANE, timeout_ms=step.timeout_ms)
        except KafkaError as error:
            machine.broken(error, now_ms())
            return
        self._metrics.on_heartbeat((time.monotonic() - began) * 1000, now_ms())
        machine.on_answer(answer, now_ms())

    async def leave(self) -> None:
        """Leave the group, if this member has joined it. Errors are ignored: the group removes the member later."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._leave_group()

    async def _leave_group(self) -> None:
        step = self.machine.leave()
        if step is not None:
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    await self._coordinator.request(step.body, lane=GROUP_LANE, timeout_ms=step.timeout_ms)
