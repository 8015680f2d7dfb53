"""The driver of a consumer's group membership over a cluster: finding the coordinator, joining, heartbeats, commits, leaving."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress

from ottla.client.connection.connection import AnswerBody
from ottla.client.connection.versions import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, SYNC_GROUP
from ottla.client.consumer.committed_offsets import commit_request, fetch_offsets_request, read_commit, read_fetch_offsets
from ottla.client.consumer.consumer_membership import ConsumerMembership, ConsumerStep, FindTopics
from ottla.client.consumer.membership import Assign, Idle, Lead, Membership, Revoke, SendRequest, Step
from ottla.client.errors import CommitFailed, KafkaError, NotSupported, broker_error
from ottla.client.metrics.consumer import GroupMetrics
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.net.client.cluster import CONTROL, GROUP_LANE, ClusterLinks, now_ms
from ottla.net.client.coordinator import GROUP, Coordinator
from ottla.net.client.tasks import Tasks
from ottla.wire import errors as codes
from ottla.wire.api.offset_fetch import OffsetFetchResponse
from ottla.wire.schema import Message

MOVED_ON = frozenset(
    {
        codes.ILLEGAL_GENERATION,
        codes.UNKNOWN_MEMBER_ID,
        codes.REBALANCE_IN_PROGRESS,
        codes.FENCED_INSTANCE_ID,
        codes.FENCED_MEMBER_EPOCH,
        codes.STALE_MEMBER_EPOCH,
        codes.GROUP_ID_NOT_FOUND,  # its last member has left, and it was deleted
    }
)
GROUP_FEATURE = "group.version"
LEAVE_TIMEOUT_S = 5
REGEX_FROM_HEARTBEAT = 1
"""The first version of ConsumerGroupHeartbeat with regular expressions."""
CLASSIC_PATTERN = (
    "A SubscriptionPattern is resolved by the coordinator of a group with group_protocol='consumer', which needs Kafka 4.0 or "
    "newer: set that, or give pattern='…', which this client resolves."
)

log = logging.getLogger("ottla.client")

Adopt = Callable[[list[TopicPartition]], Coroutine[object, None, None]]


class MembershipDriver:
    """The membership of one consumer in a group: sends the requests that its state machine plans, of the classic or the consumer
    protocol.

    `revoke`, `lose` and `adopt` are called as partitions change, and `failed` with an error that ends the membership.
    `free(partitions, timeout_ms)` waits until the user has processed the records that it got of the partitions, and returns whether
    that happened in time. `handed_out()` returns a set that gets further items as the user takes records. `on_committed` is called
    with committed offsets.
    """

    def __init__(
        self,
        cluster: ClusterLinks,
        settings: ConsumerSettings,
        tasks: Tasks,
        *,
        free: Callable[[list[TopicPartition], int], Awaitable[bool]],
        revoke: Adopt,
        lose: Adopt,
        adopt: Adopt,
        failed: Callable[[KafkaError], None],
        handed_out: Callable[[], frozenset[object]],
        metrics: GroupMetrics,
        on_committed: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None],
    ) -> None:
        self.group_id = settings.group_id or ""
        self._settings = settings
        by_coordinator = settings.group_protocol == "consumer"
        self.machine: Membership | ConsumerMembership = self._of_consumer_protocol() if by_coordinator else Membership(settings)
        self.assigned_counts: dict[str, int] = {}
        """The partition counts of the last assignment, if this member has made it as the group's leader; otherwise empty."""
        self._cluster = cluster
        self._tasks = tasks
        self._free = free
        self._revoke, self._lose, self._adopt, self._failed = revoke, lose, adopt, failed
        self._coordinator = Coordinator(cluster, self.group_id, GROUP)
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._handed_out = handed_out
        self._metrics = metrics
        self._on_committed = on_committed
        self._recorders = {
            HEARTBEAT: metrics.on_heartbeat,
            CONSUMER_GROUP_HEARTBEAT: metrics.on_heartbeat,
            JOIN_GROUP: metrics.on_join,
            SYNC_GROUP: metrics.on_sync,
            OFFSET_COMMIT: metrics.on_commit,
        }
        self._last = ConsumerGroupMetadata(self.group_id, group_instance_id=settings.group_instance_id)
        """The metadata of the last generation in which this consumer was a member."""
        self._regex = ""
        self._is_chosen = settings.group_protocol != "auto"
        """Whether the protocol of the machine is the final one."""
        self._taken: frozenset[object] = frozenset()
        self._busy_since_ms: int | None = now_ms()

    def subscribe(self, topics: list[str], pattern: str | None = None, *, regex: str = "") -> None:
        """Subscribe to these topics, or to the topics that the coordinator finds for `regex`.

        `pattern` is ignored, because `topics` are already the topics that match it. The first call begins the membership. After an
        error has ended the membership, another call begins it again. Raises `NotSupported` for `regex` if the membership has
        already chosen the classic protocol.
        """
        is_running = self._task is not None and not self._task.done()
        if isinstance(self.machine, ConsumerMembership):
            self.machine.subscribe(topics, regex)
        elif regex and is_running and self._is_chosen:
            raise NotSupported(CLASSIC_PATTERN)
        else:
            self.machine.subscribe(topics)
        self._regex = regex
        if not is_running:
            self._task = self._tasks.spawn(self._run())
        self._changed.set()

    def rejoin(self) -> None:
        """Join again, because the topics' partitions have changed and the leader must assign them anew."""
        self.machine.rejoin()
        self._changed.set()

    def user_is_busy(self, busy: bool) -> None:
        """Record whether the user processes records, which counts towards `max_poll_interval_ms`, or waits for records."""
        self._busy_since_ms = now_ms() if busy else None
        if not busy:
            self._changed.set()

    async def drop_if_expired(self) -> None:
        """Do nothing, because the coordinator refuses requests of a member that was late."""

    def _of_consumer_protocol(self) -> ConsumerMembership:
        return ConsumerMembership(self._settings, str(uuid.uuid4()))

    async def _choose_protocol(self) -> None:
        """Use the consumer protocol with `group_protocol=auto`, if the coordinator serves it and its cluster has enabled it.

        Raises `NotSupported` if the coordinator must resolve a regular expression and cannot.
        """
        link = await self._cluster.retry(lambda: self.coordinator.link(GROUP_LANE))
        version = link.version(CONSUMER_GROUP_HEARTBEAT)
        if not self._is_chosen and version >= 0 and link.feature(GROUP_FEATURE) > 0:
            topics, self.machine = self.machine.topics, self._of_consumer_protocol()
            self.machine.subscribe(topics, self._regex)
        self._is_chosen = True
        if self._regex and isinstance(self.machine, Membership):
            raise NotSupported(CLASSIC_PATTERN)
        if self._regex and 0 <= version < REGEX_FROM_HEARTBEAT:
            raise NotSupported("A SubscriptionPattern needs Kafka 4.0 or newer: use a newer broker, or pattern='…'.")

    async def _run(self) -> None:
        try:
            if self._regex or not self._is_chosen:
                await self._choose_protocol()
            while True:
                if self._user_is_late():
                    log.warning(
                        "group %s: this consumer leaves, because it was not polled for max_poll_interval_ms=%d; "
                        "raise that, or lower max_poll_records",
                        self.group_id,
                        self._settings.max_poll_interval_ms,
                    )
                    await self._leave_group()
                    if self._busy_since_ms is not None:  # the user can have begun to wait for records meanwhile
                        await self._wait_for_change(None)
                else:
                    await self._try(self.machine.next(now_ms()))
        except KafkaError as error:
            self._failed(error)

    async def _try(self, step: Step | ConsumerStep) -> None:
        """Execute a step of the state machine. If brokers do not answer in time, join the group again."""
        self.group_metadata()  # a step can end the membership of a generation
        try:
            await self._do(step)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("group %s: joining again, because brokers did not answer: %s", self.group_id, error)
            self._metrics.fail_rebalance(now_ms())
            self.machine.begin_anew(now_ms())

    def _user_is_late(self) -> bool:
        """Return whether `max_poll_interval_ms` have passed since the user last waited for records or got some."""
        taken = self._handed_out()
        if not taken <= self._taken and self._busy_since_ms is not None:  # partitions that are taken away leave fewer items
            self._taken, self._busy_since_ms = taken, now_ms()
        since = self._busy_since_ms
        return since is not None and now_ms() - since > self._settings.max_poll_interval_ms

    def _late_ms(self) -> int:
        """Return the time, in ms, at which to check whether the user is late: heartbeats can be too far apart for that."""
        since = now_ms() if self._busy_since_ms is None else self._busy_since_ms
        return since + self._settings.max_poll_interval_ms + 1

    async def _do(self, step: Step | ConsumerStep) -> None:
        if isinstance(step, SendRequest):
            await self._request(step)
        elif isinstance(step, Idle):
            await self._wait_for_change(min(step.until_ms, self._late_ms()))
        elif isinstance(step, Lead):
            await self._share_out(step.topics)
        elif isinstance(step, FindTopics):
            await self._find_topics(step.topic_ids)
        elif isinstance(step, Assign):
            machine = self.machine
            log.info("group %s: member %s is in generation %d", self.group_id, machine.member_id, machine.generation_id)
            machine.finish_assign(now_ms())
            await self._beside_heartbeats(self._adopt(step.partitions))
            self._metrics.end_rebalance(now_ms())
        elif isinstance(step, Revoke):
            self._metrics.begin_rebalance(now_ms())
            await self._beside_heartbeats(self._give_up(step.partitions))
            self.machine.finish_revoke(step.partitions)
        else:
            await self._beside_heartbeats(self._lose(step.partitions))
            self.machine.finish_revoke(step.partitions)

    async def _give_up(self, partitions: list[TopicPartition]) -> None:
        """Revoke partitions once the user has processed the records that it got of them, or is late."""
        while not await self._free(partitions, self._settings.heartbeat_interval_ms) and not self._user_is_late():
            pass
        await self._revoke(partitions)

    async def _beside_heartbeats(self, work: Coroutine[object, None, None]) -> None:
        """Run work of unknown duration, such as a rebalance callback, and send heartbeats meanwhile.

        No heartbeats are sent after `max_poll_interval_ms`, so that the group continues without a member whose callback never
        returns.
        """
        doing = asyncio.ensure_future(work)
        beat, end_ms = self.machine.heartbeat(), now_ms() + self._settings.max_poll_interval_ms
        try:
            while not (await asyncio.wait([doing], timeout=self._settings.heartbeat_interval_ms / 1000))[0]:
                if self.machine.generation_id < 0 or now_ms() > end_ms or not await self._is_member_yet(beat):
                    break
            await doing
        finally:
            if not doing.done():
                doing.cancel()
                await asyncio.wait([doing])

    async def _is_member_yet(self, beat: SendRequest) -> bool:
        """Send a heartbeat. Return False if the group has continued without this member."""
        try:
            answer = await self._request_measured(beat.body, lane=GROUP_LANE, timeout_ms=beat.timeout_ms)
        except KafkaError as error:
            log.info("group %s: a heartbeat failed during a rebalance: %s", self.group_id, error)
            return True
        return self.machine.still_member(answer, now_ms())

    async def _wait_for_change(self, until_ms: int | None) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if until_ms is None else max(0, until_ms - now_ms()) / 1000):
                await self._changed.wait()

    async def _share_out(self, topics: list[str]) -> None:
        """Assign partitions as the group's leader. Topics that do not exist (yet) count as topics without partitions."""
        machine = self.machine
        assert isinstance(machine, Membership), "only its members lead"
        await self._cluster.retry(lambda: self._cluster.refresh(topics))
        self.assigned_counts = {topic: self._cluster.metadata.partition_count(topic) for topic in topics}
        machine.share_out(self.assigned_counts)

    async def _find_topics(self, topic_ids: Collection[bytes]) -> None:
        """Find the names of assigned topics, which are among the subscribed ones unless the coordinator resolves an expression."""
        machine = self.machine
        assert isinstance(machine, ConsumerMembership), "only its steps search for topics"
        if machine.regex:
            await self._cluster.retry(lambda: self._cluster.refresh_by_id(topic_ids))
        else:
            await self._cluster.retry(lambda: self._cluster.refresh(machine.topics))
        known = {topic.topic_id: topic.name for topic in self._cluster.metadata.topics.values()}
        machine.found_topics({topic_id: known[topic_id] for topic_id in topic_ids if topic_id in known}, now_ms())

    async def _request_measured(self, body: Message, lane: str = CONTROL, timeout_ms: int | None = None) -> AnswerBody:
        """Return the coordinator's answer to a request whose latency is a metric."""
        began = time.monotonic()
        answer = await self.coordinator.request(body, lane=lane, timeout_ms=timeout_ms)
        self._recorders[body.WIRE.key]((time.monotonic() - began) * 1000, now_ms())
        return answer

    async def _request(self, ask: SendRequest) -> None:
        if ask.api_key == JOIN_GROUP:
            self._metrics.begin_rebalance(now_ms())
        try:
            answer = await self._request_measured(ask.body, lane=GROUP_LANE, timeout_ms=ask.timeout_ms)
        except KafkaError as error:
            self.machine.broken(ask, error, now_ms())
            return
        if ask.api_key == JOIN_GROUP:
            self.assigned_counts = {}
        self.machine.on_answer(answer, now_ms())

    @property
    def coordinator(self) -> Coordinator:
        """Return the group's coordinator. If the state machine has lost the coordinator, look it up again."""
        if self.machine.coordinator_lost:
            self._coordinator.forget()
            self.machine.coordinator_lost = False
        return self._coordinator

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None) -> None:
        """Commit offsets for the group. Raises `CommitFailed` if another member owns the partitions, or another `KafkaError`."""
        if offsets:
            # In the classic protocol, a repetition in a later generation could overwrite newer offsets of another member.
            member = self.group_metadata()
            repeated = self.machine.COMMITS_ARE_REPEATED

            async def commit() -> None:
                owns_them = repeated and set(self.machine.owned).issuperset(offsets)
                await self._commit(offsets, self.group_metadata() if owns_them else member)

            await self._cluster.retry(commit, timeout_ms=timeout_ms)
            self._on_committed(offsets)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's current group metadata; while it is out of the group, the last one, which brokers then refuse.

        Without a generation, brokers would accept offsets whose partitions other members may have read further.
        """
        machine = self.machine
        if machine.generation_id >= 0:
            self._last = self._last._replace(generation_id=machine.generation_id, member_id=machine.member_id)
        return self._last

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: ConsumerGroupMetadata) -> None:
        machine = self.machine
        request = commit_request(member, offsets)
        for where, code in read_commit(await self._request_measured(request)):
            context = f"Committing {where.topic}-{where.partition} to group {self.group_id}"
            if code == codes.STALE_MEMBER_EPOCH and set(machine.owned).issuperset(offsets):
                stale = broker_error(code, context)
                stale.retriable = True  # soon, a heartbeat has returned the new epoch
                raise stale
            if code in MOVED_ON:
                machine.commit_refused(code, request.generation_id_or_member_epoch)
                self._changed.set()
                reason = broker_error(code, context)
                raise CommitFailed(f"{reason} Records since the last commit are read again.") from reason
            self._coordinator.check(code, context)

    async def fetch_committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of these partitions. Omit partitions without one."""
        wanted = list(partitions)
        return await self._cluster.retry(lambda: self._fetch_committed(wanted)) if wanted else {}

    async def _fetch_committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        answer: OffsetFetchResponse = await self.coordinator.request(fetch_offsets_request(self.group_id, partitions))
        self._coordinator.check(answer.error_code, f"Group {self.group_id}")
        found = {}
        for where, code, offset in read_fetch_offsets(answer):
            self._coordinator.check(code, f"Committed offset of {where.topic}-{where.partition}")
            if offset.offset >= 0:
                found[where] = offset
        return found

    async def _leave_group(self, leave_group: bool | None = None) -> None:
        owned = list(self.machine.owned)
        member_id, ask = self.machine.member_id, self.machine.leave(leave_group)
        try:
            if owned:
                await self._lose(owned)
        finally:  # even if a callback raises, leave the group, so that it does not wait for this member
            if ask is not None:
                with suppress(KafkaError):
                    await self.coordinator.request(ask.body)
                    log.info("group %s: member %s has left", self.group_id, member_id)

    async def leave(self, leave_group: bool | None = None) -> None:
        """Stop, and leave the group at once, so that the group does not wait until the session of this member times out.

        With `leave_group` False, stay in the group until then (KIP-1092); with None, only a static member does.
        """
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        try:
            if self.machine.is_stable and self.machine.owned:
                await self._revoke(list(self.machine.owned))
        finally:
            if self.machine.is_stable:
                self.machine.finish_revoke(self.machine.owned)
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    await self._leave_group(leave_group)
