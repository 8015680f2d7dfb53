"""A consumer's group membership as a state machine: ConsumerGroupHeartbeat (the consumer protocol, KIP-848).

The coordinator assigns partitions. A heartbeat reports what has changed since the last one: the subscription, or the owned
partitions. `next` returns one step at a time, and the other methods take the step's result, as in `membership` for the classic
protocol.

A member that is JOINING has epoch 0. RECONCILING revokes partitions that the coordinator has assigned to others, and begins to read
new ones. If that has changed its partitions, it is ACKNOWLEDGING until it has reported them. STABLE has reported everything.

| state | event | next state |
|---|---|---|
| JOINING | heartbeat answered | STABLE |
| JOINING | assignment received | RECONCILING |
| STABLE | assignment received | RECONCILING |
| ACKNOWLEDGING | assignment received | RECONCILING |
| RECONCILING | assignment carried out | ACKNOWLEDGING |
| RECONCILING | assignment carried out | STABLE |
| ACKNOWLEDGING | heartbeat answered | STABLE |
| RECONCILING, ACKNOWLEDGING, STABLE | fenced, leave | JOINING |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from ottla.client.consumer.assignors import NO_GENERATION
from ottla.client.consumer.list_offsets import indexes
from ottla.client.consumer.membership import COORDINATOR_GONE, Assign, Idle, Lose, Revoke, SendRequest
from ottla.client.errors import KafkaError, broker_error
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH = 0, -1, -2
_FENCED = frozenset({codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH})


class FindTopics(NamedTuple):
    """A step of the caller: find the names of topics with these ids, and pass them to `ConsumerMembership.found_topics`."""

    topic_ids: list[bytes]


ConsumerStep = SendRequest | Revoke | Lose | Assign | FindTopics | Idle


@dataclass(slots=True)
class ConsumerMembership:
    """The state machine of a consumer's membership under the consumer protocol, without sockets.

    `owned` are the partitions being read. `epoch` is the member epoch of the last answer, 0 while joining. While `coordinator_lost`
    is set, the caller must look up the coordinator before a `SendRequest`. `member_id` is a random id of the caller's (KIP-1082).
    """

    COMMITS_ARE_REPEATED: ClassVar[bool] = True
    """A commit with an outdated epoch is repeated with the new one, since the coordinator assigns no owned partition to others."""

    settings: ConsumerSettings
    member_id: str
    topics: list[str] = field(default_factory=list)
    regex: str = ""
    """A regular expression that the coordinator resolves, or an empty string."""
    epoch: int = JOINING_EPOCH
    owned: list[TopicPartition] = field(default_factory=list)
    coordinator_lost: bool = True
    _names: dict[bytes, str] = field(default_factory=dict)
    """The names of topics, by id."""
    _target: dict[bytes, list[int]] | None = None
    """Topic id -> partitions, of an assignment that is not carried out yet."""
    _coming: list[TopicPartition] = field(default_factory=list)
    _lost: bool = False
    _reported_topics: list[str] | None = None
    _reported_regex: str = ""
    _reported_owned: dict[bytes, list[int]] | None = None
    """The subscription, and the owned partitions by topic id, that the coordinator knows; None if that is uncertain."""
    _sent: SendRequest | None = None
    _not_before_ms: int = 0
    _search_ms: int = 0
    """The time, in ms, from which names of topics are searched again."""
    _heartbeat_ms: int = 0

    def subscribe(self, topics: Sequence[str], regex: str = "") -> None:
        """Subscribe to these topics and this regular expression in place of the previous ones. The next heartbeat, sent at once,
        reports them.
        """
        self.topics, self.regex = sorted(topics), regex

    def rejoin(self) -> None:
        """Do nothing: the coordinator itself notices that partitions have changed."""

    @property
    def group_id(self) -> str:
        return self.settings.group_id or ""

    @property
    def generation_id(self) -> int:
        """Return the member epoch, or -1 while the member has not joined."""
        return self.epoch if self.epoch > JOINING_EPOCH else NO_GENERATION

    @property
    def is_stable(self) -> bool:
        """Return whether the member may commit offsets of the partitions that it owns."""
        return self.epoch > JOINING_EPOCH and not self._lost

    @property
    def state(self) -> str:
        """Return the state of the table above."""
        if self.epoch == JOINING_EPOCH:
            return "JOINING"
        if self._target is not None:
            return "RECONCILING"
        return "STABLE" if self._reported_owned == self._owned_by_id() else "ACKNOWLEDGING"

    def next(self, now_ms: int) -> ConsumerStep:
        """Return what the caller must do next."""
        if self._lost and self.owned:
            return Lose(list(self.owned))
        self._lost = False
        if now_ms < self._not_before_ms:
            return Idle(self._not_before_ms)
        if self.epoch == JOINING_EPOCH:
            return self._report()
        if (step := self._next_of_assignment(now_ms)) is not None:
            return step
        is_resubscribed = self._reported_topics != self.topics or self._reported_regex != self.regex
        is_news = is_resubscribed or (self._target is None and self._reported_owned != self._owned_by_id())
        if is_news or now_ms >= self._heartbeat_ms:
            return self._report()
        return Idle(self._heartbeat_ms if self._target is None else min(self._heartbeat_ms, self._search_ms))

    def _next_of_assignment(self, now_ms: int) -> ConsumerStep | None:
        """Return the next step of an assignment that is not carried out yet; None if it is, or as far as topics have names."""
        if self._target is None:
            return None
        unnamed = [topic_id for topic_id in self._target if topic_id not in self._names]
        if unnamed and now_ms >= self._search_ms:
            return FindTopics(unnamed)
        named = ((self._names[topic_id], partitions) for topic_id, partitions in self._target.items() if topic_id in self._names)
        wanted = sorted(TopicPartition(name, partition) for name, partitions in named for partition in partitions)
        if going := [where for where in self.owned if where not in wanted]:
            return Revoke(going)
        self._coming = [where for where in wanted if where not in self.owned]
        if self._coming:
            return Assign(list(self._coming))
        if not unnamed:
            self._names = {topic_id: self._names[topic_id] for topic_id in self._target}
            self._target = None
        return None

    def found_topics(self, names: Mapping[bytes, str], now_ms: int) -> None:
        """Take the names of topics by id, as the result of `FindTopics`. Missing topics are searched again after a pause."""
        self._names.update(names)
        self._search_ms = now_ms + self.settings.retry_backoff_ms

    def finish_revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the partitions of a finished `Revoke` or `Lose` from `owned`."""
        gone = set(partitions)
        self.owned = [where for where in self.owned if where not in gone]

    def finish_assign(self, now_ms: int) -> None:
        """Add the partitions of `Assign` to `owned`. The next heartbeat, sent at once, reports them."""
        self.owned = sorted({*self.owned, *self._coming})

    def _report(self) -> SendRequest:
        """Build the next heartbeat: with everything while the member joins or after an error, otherwise with what has changed."""
        settings = self.settings
        is_whole = self.epoch == JOINING_EPOCH or self._reported_topics is None
        owned, part = self._owned_by_id(), ConsumerGroupHeartbeatRequest.TopicPartitions
        owned_parts = [part(topic_id=topic_id, partitions=partitions) for topic_id, partitions in owned.items()]
        self._sent = self._request(
            self.epoch,
            rack_id=settings.client_rack if is_whole else None,
            rebalance_timeout_ms=settings.max_poll_interval_ms if is_whole else -1,
            server_assignor=settings.group_remote_assignor if is_whole else None,
            subscribed_topic_names=list(self.topics) if self._reported_topics != self.topics else None,
            # An empty string takes an earlier expression back.
            subscribed_topic_regex=self.regex if (is_whole and self.regex) or self._reported_regex != self.regex else None,
            topic_partitions=owned_parts if is_whole or self._reported_owned != owned else None,
        )
        return self._sent

    def _owned_by_id(self) -> dict[bytes, list[int]]:
        # A recreated topic has a new id, which the assignment names.
        target = self._target or {}
        ids = {name: topic_id for topic_id, name in sorted(self._names.items(), key=lambda each: each[0] in target)}
        return {ids[name]: sorted(some) for name, some in indexes(self.owned)}

    def heartbeat(self) -> SendRequest:
        """Build a heartbeat that reports no changes. The driver sends it while another step takes long."""
        self._sent = self._request(self.epoch)
        return self._sent

    def _request(self, epoch: int, **reported: object) -> SendRequest:
        settings = self.settings
        body = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=settings.group_instance_id,
            **reported,  # type: ignore[arg-type]  # the fields of the request, by their names
        )
        return SendRequest(body, settings.request_timeout_ms)

    def still_member(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> bool:
        """Process the answer to a heartbeat that was sent beside another step. Return False if the group has fenced this member."""
        self.on_answer(answer, now_ms)
        return self.epoch > JOINING_EPOCH

    def on_answer(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        """Process the coordinator's answer. Raises `BrokerError` if the group will never accept this member."""
        if answer.error_code:
            self._on_error(answer, now_ms)
            return
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        self._heartbeat_ms = now_ms + answer.heartbeat_interval_ms
        sent = self._sent.body if self._sent is not None else None
        if isinstance(sent, ConsumerGroupHeartbeatRequest):
            if sent.subscribed_topic_names is not None:
                self._reported_topics = list(sent.subscribed_topic_names)
            if sent.subscribed_topic_regex is not None:
                self._reported_regex = sent.subscribed_topic_regex
            if sent.topic_partitions is not None:
                self._reported_owned = {topic.topic_id: list(topic.partitions) for topic in sent.topic_partitions}
        if answer.assignment is not None:
            self._target = {topic.topic_id: list(topic.partitions) for topic in answer.assignment.topic_partitions}
            self._search_ms = 0

    def _on_error(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        code = answer.error_code
        if code in COORDINATOR_GONE or code == codes.COORDINATOR_LOAD_IN_PROGRESS:
            self.coordinator_lost = self.coordinator_lost or code in COORDINATOR_GONE
            self._repeat_after_pause(now_ms)
        elif code in _FENCED or (code == codes.GROUP_ID_NOT_FOUND and self.epoch > JOINING_EPOCH):
            # A group whose last member of this protocol has timed out is deleted, or goes on as a classic one.
            self._forget_epoch()
        else:
            pattern = f", SubscriptionPattern({self.regex!r})" if code == codes.INVALID_REGULAR_EXPRESSION else ""
            raise broker_error(code, f"Group {self.group_id}{pattern}", answer.error_message)

    def _repeat_after_pause(self, now_ms: int) -> None:
        """Report everything again after a pause, because the coordinator perhaps has not received the last heartbeat."""
        self._reported_topics = self._reported_owned = None
        self._not_before_ms = now_ms + self.settings.retry_backoff_ms

    def _forget_epoch(self) -> None:
        self.epoch = JOINING_EPOCH
        self._lost = True
        self._target = self._reported_topics = self._reported_owned = None

    def commit_refused(self, code: int, generation_id: int) -> None:
        """Join again if the error of a commit shows that the group has fenced this member."""
        if code in _FENCED and 0 <= generation_id == self.generation_id:
            self._forget_epoch()

    def broken(self, ask: SendRequest, error: KafkaError, now_ms: int) -> None:
        """Process the loss of the answer to `ask`: find the coordinator and retry after a pause.

        Raises `error` if it is not retriable.
        """
        if not error.retriable:
            raise error
        self.coordinator_lost = True
        self._repeat_after_pause(now_ms)

    def begin_anew(self, now_ms: int) -> None:
        """Join again after a pause, without the owned partitions, because a step failed after an unknown part of its work."""
        self._forget_epoch()
        self._not_before_ms = now_ms + self.settings.retry_backoff_ms

    def leave(self, leave_group: bool | None = None) -> SendRequest | None:
        """Reset the state, and return a heartbeat that leaves the group, or None if there is nothing to leave.

        A static member leaves for a while, unless `leave_group` is True: the coordinator keeps its partitions for the session
        timeout (KIP-848). With False, any other member sends nothing, and stays for that time too (KIP-1092).
        """
        is_static = self.settings.group_instance_id is not None
        joined, self.owned = self.epoch > JOINING_EPOCH, []
        self._forget_epoch()
        if not joined or (leave_group is False and not is_static):
            return None
        return self._request(STATIC_LEAVING_EPOCH if is_static and not leave_group else LEAVING_EPOCH)
