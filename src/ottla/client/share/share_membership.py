"""A share consumer's group membership as a state machine: ShareGroupHeartbeat (KIP-932).

The coordinator assigns partitions, which members share: none is revoked, and a heartbeat reports the subscription alone. `next`
returns one step at a time, and the other methods take the step's result, as in `consumer.consumer_membership`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.consumer.consumer_membership import JOINING_EPOCH, LEAVING_EPOCH, FindTopics
from ottla.client.consumer.membership import COORDINATOR_GONE, Assign, Idle, SendRequest
from ottla.client.errors import KafkaError, NotSupported, broker_error
from ottla.client.settings.clients import ShareConsumerSettings
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

FENCED = frozenset({codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH, codes.GROUP_ID_NOT_FOUND})
TRANSIENT = COORDINATOR_GONE | {codes.COORDINATOR_LOAD_IN_PROGRESS}
FIRST_PAUSE_MS = 50
SWITCHED_OFF = (
    "The cluster has switched share groups off: set its feature share.version to 1, such as by `ottla features upgrade --feature "
    "share.version=1`."
)

ShareStep = SendRequest | Assign | FindTopics | Idle


@dataclass(slots=True)
class ShareMembership:
    """The state machine of a share consumer's membership, without sockets.

    `topic_ids` are the ids of the topics in `assigned`: a topic that was created again has another one. `epoch` is the member epoch
    of the last answer, 0 while joining. While `coordinator_lost` is set, the caller must look up the coordinator before a
    `SendRequest`. `member_id` is a random id of the caller's.
    """

    settings: ShareConsumerSettings
    member_id: str
    topics: list[str] = field(default_factory=list)
    epoch: int = JOINING_EPOCH
    assigned: list[TopicPartition] = field(default_factory=list)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    coordinator_lost: bool = True
    _target: dict[bytes, list[int]] | None = None
    """Topic id -> partitions, of an assignment that is not carried out yet."""
    _names: dict[bytes, str] = field(default_factory=dict)
    _coming: list[TopicPartition] = field(default_factory=list)
    _coming_ids: dict[str, bytes] = field(default_factory=dict)
    _reported_topics: list[str] | None = None
    _sent: ShareGroupHeartbeatRequest | None = None
    """The last heartbeat, until an answer that refuses it: the group perhaps has the member since then."""
    _not_before_ms: int = 0
    _search_ms: int = 0
    _heartbeat_ms: int = 0
    _empty_pause_ms: int = FIRST_PAUSE_MS
    """The longest pause, in ms, before the next heartbeat of a member without partitions. It doubles each time."""

    @property
    def group_id(self) -> str:
        return self.settings.group_id or ""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics in place of the previous ones. The next heartbeat, sent at once, reports them."""
        self.topics = sorted(topics)

    def next(self, now_ms: int) -> ShareStep:
        """Return what the caller must do next."""
        if now_ms < self._not_before_ms:
            return Idle(self._not_before_ms)
        if self.epoch == JOINING_EPOCH:
            return self._report()
        if (step := self._next_of_assignment(now_ms)) is not None:
            return step
        if self._reported_topics != self.topics or now_ms >= self._heartbeat_ms:
            return self._report()
        return Idle(self._heartbeat_ms if self._target is None else min(self._heartbeat_ms, self._search_ms))

    def _next_of_assignment(self, now_ms: int) -> Assign | FindTopics | None:
        """Return the next step of an assignment that is not carried out yet; None if it is, or as far as topics have names."""
        if self._target is None:
            return None
        unnamed = [topic_id for topic_id in self._target if topic_id not in self._names]
        if unnamed and now_ms >= self._search_ms:
            return FindTopics(unnamed)
        self._coming_ids = {self._names[topic_id]: topic_id for topic_id in self._target if topic_id in self._names}
        named = ((name, self._target[topic_id]) for name, topic_id in self._coming_ids.items())
        self._coming = sorted(TopicPartition(name, index) for name, partitions in named for index in partitions)
        if not unnamed:
            self._names = {topic_id: self._names[topic_id] for topic_id in self._target}
            self._target = None
        is_new = self._coming != self.assigned or self._coming_ids != self.topic_ids
        return Assign(list(self._coming)) if is_new else None

    def found_topics(self, names: Mapping[bytes, str], now_ms: int) -> None:
        """Process the names of topics by id, as the result of `FindTopics`. Missing topics are searched again after a pause."""
        self._names.update(names)
        self._search_ms = now_ms + self.settings.retry_backoff_ms

    def finish_assign(self) -> None:
        """Record that the partitions of `Assign` are being read."""
        self.assigned, self.topic_ids = list(self._coming), self._coming_ids

    def _report(self) -> SendRequest:
        """Build the next heartbeat: with the rack and the subscription while the member joins or after an error."""
        is_whole = self.epoch == JOINING_EPOCH or self._reported_topics is None
        self._sent = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rack_id=self.settings.client_rack if is_whole else None,
            subscribed_topic_names=list(self.topics) if is_whole or self._reported_topics != self.topics else None,
        )
        return SendRequest(self._sent, self.settings.request_timeout_ms)

    def on_answer(self, answer: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        """Process the coordinator's answer. Raises `KafkaError` if the group will never accept this member."""
        if answer.error_code:
            self._on_error(answer, now_ms)
            return
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        if self._sent is not None and self._sent.subscribed_topic_names is not None:
            self._reported_topics = list(self._sent.subscribed_topic_names)
        if answer.assignment is not None:
            self._target = {topic.topic_id: list(topic.partitions) for topic in answer.assignment.topic_partitions}
            self._search_ms = 0
        # A new group gets its first partitions a moment after its members: the next heartbeat returns them.
        is_empty = not (self.assigned or self._target)
        interval_ms = answer.heartbeat_interval_ms
        self._heartbeat_ms = now_ms + (min(interval_ms, self._empty_pause_ms) if is_empty else interval_ms)
        self._empty_pause_ms = min(2 * self._empty_pause_ms, interval_ms) if is_empty else FIRST_PAUSE_MS

    def _on_error(self, answer: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        code = answer.error_code
        if self.epoch == JOINING_EPOCH:
            self._sent = None
        if code in TRANSIENT:
            self.coordinator_lost = self.coordinator_lost or code in COORDINATOR_GONE
            self._repeat_after_pause(now_ms)
        elif code in FENCED and self.epoch > JOINING_EPOCH:
            self.rejoin()
        elif code == codes.UNSUPPORTED_VERSION:
            raise NotSupported(SWITCHED_OFF)
        else:
            raise broker_error(code, f"Group {self.group_id}", answer.error_message)

    def _repeat_after_pause(self, now_ms: int) -> None:
        """Report everything again after a pause, because the coordinator perhaps has not received the last heartbeat."""
        self._reported_topics = None
        self._not_before_ms = now_ms + self.settings.retry_backoff_ms

    def rejoin(self) -> None:
        """Join again as a new member. Acquired records stay acquired, because share sessions belong to leaders."""
        self.epoch, self._empty_pause_ms = JOINING_EPOCH, FIRST_PAUSE_MS
        self._target = self._reported_topics = None

    def broken(self, error: KafkaError, now_ms: int) -> None:
        """Process the loss of an answer: find the coordinator and retry after a pause. Raises `error` if it is not retriable."""
        if not error.retriable:
            raise error
        self.coordinator_lost = True
        self._repeat_after_pause(now_ms)

    def begin_anew(self, now_ms: int) -> None:
        """Join again after a pause, because a step failed after an unknown part of its work."""
        self.rejoin()
        self._not_before_ms = now_ms + self.settings.retry_backoff_ms

    def leave(self) -> SendRequest | None:
        """Reset the state, and return a heartbeat that leaves the group, or None if there is nothing to leave."""
        has_joined = self.epoch > JOINING_EPOCH or (self._sent is not None and not self.coordinator_lost)
        self.rejoin()
        self._sent = None
        self.assigned, self.topic_ids = [], {}
        if not has_joined:
            return None
        body = ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVING_EPOCH)
        return SendRequest(body, self.settings.request_timeout_ms)
