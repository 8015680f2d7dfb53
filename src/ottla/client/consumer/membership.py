"""A consumer's group membership as a state machine: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (classic protocol, KIP-429).

`next` returns one step at a time, and the other methods take the step's result. A driver sends requests, and commits and fetches as
steps such as `Revoke` require.

A member that is OUT joins. PLANNING assigns partitions to all members, if this one is the group's leader. SYNC requests this
member's assignment. ADOPT revokes old partitions and begins to read new ones. STABLE reads and sends heartbeats.

| state | event | next state |
|---|---|---|
| OUT | joined | SYNC |
| OUT | joined as leader | PLANNING |
| PLANNING | shared out | SYNC |
| SYNC | synced | ADOPT |
| ADOPT | assigned | STABLE |
| STABLE | rejoin | OUT |
| SYNC, STABLE | rebalance, member gone | OUT |
| SYNC | connection broken | OUT |
| STABLE, ADOPT | commit fenced | OUT |
| PLANNING, SYNC, ADOPT, STABLE | step failed, leave | OUT |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, NamedTuple

from ottla.client.connection.versions import JOIN_GROUP, SYNC_GROUP
from ottla.client.consumer.assignors import (
    NO_GENERATION,
    STRATEGIES,
    AssignmentStrategy,
    MemberSubscription,
    PartitionAssignor,
    StatefulShare,
)
from ottla.client.consumer.subscription_bytes import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from ottla.client.errors import KafkaError, broker_error
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Message

PROTOCOL_TYPE = "consumer"
JOIN_SLACK_MS = 5_000
COORDINATOR_GONE = frozenset({codes.NOT_COORDINATOR, codes.COORDINATOR_NOT_AVAILABLE})
_MEMBER_GONE = frozenset({codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION})


class Phase(Enum):
    OUT = "out"
    PLANNING = "planning"
    SYNC = "sync"
    ADOPT = "adopt"
    STABLE = "stable"


class SendRequest(NamedTuple):
    """A step of the caller: send this request to the group coordinator, and pass the answer to `Membership.on_answer`."""

    body: Message
    timeout_ms: int

    @property
    def api_key(self) -> int:
        return self.body.WIRE.key


class Revoke(NamedTuple):
    """A step of the caller: stop reading these partitions, commit their offsets if auto-commit is on, then call `revoked`."""

    partitions: list[TopicPartition]


class Lose(NamedTuple):
    """A step of the caller: stop reading these partitions, whose offsets can no longer be committed, then call `revoked`."""

    partitions: list[TopicPartition]


class Assign(NamedTuple):
    """A step of the caller: start reading these new partitions, then call `assigned`."""

    partitions: list[TopicPartition]


class Lead(NamedTuple):
    """A step of the caller, whose member is the group's leader: find the partition counts of these topics, then call
    `share_out`.
    """

    topics: list[str]


class Idle(NamedTuple):
    """A step of the caller: do nothing until this monotonic time in ms, or until a method of `Membership` is called."""

    until_ms: int


Step = SendRequest | Revoke | Lose | Assign | Lead | Idle
GroupAnswer = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse


@dataclass(slots=True)
class Membership:
    """The state machine of a consumer's membership in a classic group, without sockets.

    `owned` are the assigned partitions. While `coordinator_lost`, the caller looks up the coordinator before a `SendRequest`.
    """

    COMMITS_ARE_REPEATED: ClassVar[bool] = False
    """A commit of an older generation is not repeated: its partitions can have other owners."""

    settings: ConsumerSettings
    topics: list[str] = field(default_factory=list)
    phase: Phase = Phase.OUT
    member_id: str = ""
    generation_id: int = NO_GENERATION
    protocol: str = ""
    owned: list[TopicPartition] = field(default_factory=list)
    coordinator_lost: bool = True
    _lost: bool = False
    _rejoin: bool = False
    _target: list[TopicPartition] = field(default_factory=list)
    _members: dict[str, MemberSubscription] = field(default_factory=dict)
    _shares: dict[str, StatefulShare] = field(default_factory=dict)
    _state: bytes = b""
    _not_before_ms: int = 0
    _heartbeat_ms: int = 0

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics in place of the previous topics. The member then joins the group again."""
        self.topics = sorted(topics)
        self._rejoin = True

    def rejoin(self) -> None:
        """Join again, because the partition counts of topics, or another input of the assignment, have changed."""
        self._rejoin = True

    @property
    def group_id(self) -> str:
        return self.settings.group_id or ""

    @property
    def is_stable(self) -> bool:
        """Return whether the member may commit offsets of the partitions that it owns."""
        return self.phase is Phase.STABLE

    @property
    def cooperative(self) -> bool:
        """Return whether this member keeps its partitions while it joins again. Every offered strategy must allow that."""
        return all(strategy.cooperative for strategy in self._strategies().values())

    def _strategies(self) -> dict[str, AssignmentStrategy | PartitionAssignor]:
        offered = self.settings.partition_assignment_strategy
        return {
            strategy if isinstance(strategy, str) else strategy.name: STRATEGIES[strategy]
            if isinstance(strategy, str)
            else strategy
            for strategy in offered
        }

    def next(self, now_ms: int) -> Step:
        """Return what the caller must do next."""
        if self._lost and self.owned:
            return Lose(list(self.owned))
        self._lost = False
        if self._rejoin and self.phase is Phase.STABLE:
            self.phase = Phase.OUT
        if now_ms < self._not_before_ms:
            return Idle(self._not_before_ms)
        return self._STEPS[self.phase](self, now_ms)

    def _next_out(self, now_ms: int) -> Step:
        if self.owned and not self.cooperative:
            return Revoke(list(self.owned))
        self._rejoin = False
        return self._join()

    def _join(self) -> SendRequest:
        settings = self.settings
        metadata = encode_subscription(MemberSubscription(self.topics, self.owned, self.generation_id, state=self._state))
        offered = JoinGroupRequest.JoinGroupRequestProtocol
        body = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[offered(name=name, metadata=metadata) for name in self._strategies()],
        )
        return SendRequest(body, settings.max_poll_interval_ms + JOIN_SLACK_MS)

    def _next_planning(self, now_ms: int) -> Step:
        return Lead(sorted({topic for member in self._members.values() for topic in member.topics}))

    def share_out(self, counts: Mapping[str, int]) -> None:
        """Assign partitions to all members. `counts` maps each existing topic to its number of partitions."""
        strategy = self._strategies()[self.protocol]
        if isinstance(strategy, PartitionAssignor):
            self._shares = strategy.share_out(self._members, counts)
        else:
            shares = strategy.assign(self._members, counts)
            self._shares = {member: StatefulShare(partitions) for member, partitions in shares.items()}
        self.phase = Phase.SYNC

    def _next_sync(self, now_ms: int) -> Step:
        share = SyncGroupRequest.SyncGroupRequestAssignment
        body = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=[share(member_id=member, assignment=encode_assignment(*parts)) for member, parts in self._shares.items()],
        )
        return SendRequest(body, self.settings.max_poll_interval_ms + JOIN_SLACK_MS)

    def _next_adopt(self, now_ms: int) -> Step:
        target = set(self._target)
        going = [where for where in self.owned if where not in target]
        if going:
            # Rejoin then: another member gets a partition only after this one has rejoined without it (KIP-429).
            self._rejoin = self._rejoin or self._strategies()[self.protocol].cooperative
            return Revoke(going)
        owned = set(self.owned)
        return Assign([where for where in self._target if where not in owned])

    def finish_revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the partitions of a finished `Revoke` or `Lose` from `owned`."""
        gone = set(partitions)
        self.owned = [where for where in self.owned if where not in gone]

    def finish_assign(self, now_ms: int) -> None:
        """Finish `Assign`: the member is now stable."""
        self.owned = list(self._target)
        self.phase = Phase.STABLE
        self._heartbeat_ms = now_ms + self.settings.heartbeat_interval_ms

    def _next_stable(self, now_ms: int) -> Step:
        return self.heartbeat() if now_ms >= self._heartbeat_ms else Idle(self._heartbeat_ms)

    def heartbeat(self) -> SendRequest:
        """Build a heartbeat. The driver also sends it while a `Revoke` takes long."""
        body = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
        )
        return SendRequest(body, min(self.settings.request_timeout_ms, self.settings.session_timeout_ms))

    _STEPS: ClassVar[dict[Phase, Callable[[Membership, int], Step]]] = {
        Phase.OUT: _next_out,
        Phase.PLANNING: _next_planning,
        Phase.SYNC: _next_sync,
        Phase.ADOPT: _next_adopt,
        Phase.STABLE: _next_stable,
    }

    def on_answer(self, answer: GroupAnswer, now_ms: int) -> None:
        """Process the coordinator's answer. Raises `BrokerError` if the group will never accept this member."""
        if answer.error_code:
            self._on_error(answer.error_code, now_ms)
        elif isinstance(answer, JoinGroupResponse):
            self._on_join(answer)
        elif isinstance(answer, SyncGroupResponse):
            self._on_sync(answer)
        else:
            self._heartbeat_ms = now_ms + self.settings.heartbeat_interval_ms
        if answer.error_code == codes.MEMBER_ID_REQUIRED and isinstance(answer, JoinGroupResponse):
            self.member_id = answer.member_id

    def still_member(self, answer: HeartbeatResponse, now_ms: int) -> bool:
        """Process the answer to a heartbeat that was sent beside another step. Return False if the group has fenced this member."""
        return answer.error_code not in (*_MEMBER_GONE, codes.FENCED_INSTANCE_ID)

    def _on_join(self, answer: JoinGroupResponse) -> None:
        # Another member may have owned partitions since a generation that this one missed. A coordinator that assigns partitions
        # itself (KIP-848) prevents that: it assigns a partition only after its owner has returned it.
        self._lost = self._lost or bool(answer.leader and 0 <= self.generation_id < answer.generation_id - 1)
        self.member_id = answer.member_id
        self.generation_id = answer.generation_id
        self.protocol = answer.protocol_name or ""
        self._shares = {}
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        self._members = {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in (answer.members if leads else ())
        }
        self.phase = Phase.PLANNING if leads else Phase.SYNC

    def _on_sync(self, answer: SyncGroupResponse) -> None:
        self._target, self._state = decode_assignment(answer.assignment)
        self._members, self._shares = {}, {}
        self.phase = Phase.ADOPT

    def _on_error(self, code: int, now_ms: int) -> None:
        if code in COORDINATOR_GONE or code == codes.COORDINATOR_LOAD_IN_PROGRESS:
            self.coordinator_lost = self.coordinator_lost or code in COORDINATOR_GONE
            self._not_before_ms = now_ms + self.settings.retry_backoff_ms
        elif code in _MEMBER_GONE:
            self._forget_membership(keep_id=code == codes.ILLEGAL_GENERATION)
        elif code in (codes.REBALANCE_IN_PROGRESS, codes.MEMBER_ID_REQUIRED):
            self.phase = Phase.OUT
        else:
            raise broker_error(code, f"Group {self.group_id}")

    def _forget_membership(self, *, keep_id: bool) -> None:
        self.phase = Phase.OUT
        self._lost = True
        self.generation_id = NO_GENERATION
        if not keep_id:
            self.member_id = ""

    def commit_refused(self, code: int, generation_id: int) -> None:
        """Leave the generation if the error of a commit shows that the group has fenced this member.

        While the member waits for an assignment, the answer to JoinGroup or SyncGroup shows that too, so the error is ignored.
        """
        waits = self.phase in (Phase.PLANNING, Phase.SYNC)
        if code in _MEMBER_GONE and 0 <= generation_id == self.generation_id and not waits:
            self._forget_membership(keep_id=code == codes.ILLEGAL_GENERATION)

    def broken(self, ask: SendRequest, error: KafkaError, now_ms: int) -> None:
        """Process the loss of the answer to `ask`: find the coordinator and retry after a pause.

        Raises `error` if it is not retriable.
        """
        if not error.retriable:
            raise error
        self.coordinator_lost = True
        self._not_before_ms = now_ms + self.settings.retry_backoff_ms
        if ask.api_key in (JOIN_GROUP, SYNC_GROUP):
            self.phase = Phase.OUT

    def begin_anew(self, now_ms: int) -> None:
        """Join again after a pause, without the owned partitions, because a step failed after an unknown part of its work."""
        self._forget_membership(keep_id=True)
        self._not_before_ms = now_ms + self.settings.retry_backoff_ms

    def leave(self, leave_group: bool | None = None) -> SendRequest | None:
        """Reset the state, and return a LeaveGroup request, or None if there is nothing to leave.

        With None, a static member stays in the group until its session times out (KIP-345), and any other leaves.
        """
        instance_id, member_id = self.settings.group_instance_id, self.member_id
        known = member_id and (instance_id is None if leave_group is None else leave_group)
        self.phase, self.member_id, self.generation_id, self.owned = Phase.OUT, "", NO_GENERATION, []
        if not known:
            return None
        member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
        body = LeaveGroupRequest(group_id=self.group_id, members=[member])
        return SendRequest(body, self.settings.request_timeout_ms)
