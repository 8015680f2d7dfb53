"""The consumer groups of one coordinator: the rule that decides each request, and the group that each record changes.

`decide` returns None if a request concerns no consumer group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Never

from ottla.coord.classic.group import ClassicGroup
from ottla.coord.classic.join import request_error
from ottla.coord.classic.rebalance import join_error
from ottla.coord.classic.states import State
from ottla.coord.classic.sync_group import request_error as sync_request_error
from ottla.coord.consumer import classic_members, describe, leave, migrate, slow_target
from ottla.coord.consumer import group as consumer
from ottla.coord.consumer import heartbeat as heartbeats
from ottla.coord.consumer.assign import Assignor, Pauses
from ottla.coord.consumer.assign.range import RangeAssignor
from ottla.coord.consumer.assign.uniform import UniformAssignor
from ottla.coord.consumer.checks import request_error as heartbeat_error
from ottla.coord.consumer.draft import ConsumerDraft, Context, OfGroup, Refusal
from ottla.coord.consumer.events import ConsumerEvent, TopicsSeen
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember
from ottla.coord.consumer.records import ConsumerStored, EpochForgotten, MemberStored, PatternStored
from ottla.coord.consumer.states import MemberState
from ottla.coord.consumer.subscription import preferred, seek, subscribed_with
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.memory import GroupMemory
from ottla.coord.outcome import (
    AssignmentKey,
    GroupOutcome,
    MemberSyncGroupKey,
    PatternsKey,
    RebalanceKey,
    RejoinKey,
    SessionKey,
    TopicsChanged,
)
from ottla.coord.records import GroupForgotten
from ottla.coord.runtime.machine import NOBODY, NOTHING, Asked, Due, Outcome, Reply, Shown, everything
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND, INVALID_GROUP_ID
from ottla.wire.schema import Message

BUILT_IN: tuple[Assignor, ...] = (UniformAssignor(), RangeAssignor())
OUR_KEYS = (SessionKey, RebalanceKey, RejoinKey, MemberSyncGroupKey, PatternsKey, AssignmentKey)

ClassicGroups = Mapping[str, ClassicGroup]
ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest


def no_settings_of_its_own(group_id: str) -> Mapping[str, int]:
    """Return no settings of its own for any group."""
    return {}


class ConsumerGroups:
    """All consumer groups of one coordinator, and its topics."""

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        memory: GroupMemory,
        assignors: tuple[Assignor, ...] = BUILT_IN,
        of_group: OfGroup = no_settings_of_its_own,
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.topics = KnownTopics()
        self._memory = memory
        self._settings = settings
        self._new_id = new_id
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._of_group = of_group

    def configure(self, settings: GroupSettings) -> None:
        """Use these settings from now on."""
        self._settings = settings

    def decide(self, asked: Asked[object], now: Now, classic: ClassicGroups) -> GroupOutcome | None:
        """Decide an input; None if it concerns no consumer group."""
        decision = _DECISIONS.get(type(asked.body))
        return None if decision is None else decision(self, asked, now, classic)  # type: ignore[arg-type]  # of the body's type

    def apply(self, record: ConsumerStored | ConsumerEvent) -> int:
        """Apply one record or event, and return the growth of its group's weight in bytes.

        Tombstones of a group that does not exist change nothing.
        """
        group = self.groups.get(record.group_id)
        if group is None and type(record) in consumer.FOUNDING:
            group = self.groups[record.group_id] = ConsumerGroup(record.group_id)
        if group is None:
            return 0
        before = group.weight
        if isinstance(record, EpochForgotten):
            del self.groups[record.group_id]
            return -before
        if isinstance(record, MemberStored | PatternStored):
            record = record._replace(topics=self._memory.names.shared(record.topics))
        consumer.apply(group, record)
        return group.weight - before

    def prepare(self, group_id: str, member_id: str, names: frozenset[str]) -> Pauses[None]:
        """Compute in advance, with pauses, what the decision about a heartbeat with thousands of topic names needs."""
        group = self.groups.get(group_id) or ConsumerGroup(group_id)
        member = group.members.get(member_id) or ConsumerMember(member_id)
        yield from self.topics.hash_slowly(*subscribed_with(group, member, names, group.resolved))

    def recall(self, now: Now) -> list[GroupOutcome]:
        """Restart all deadlines after a restart of the broker: of sessions, and of revocations."""
        outcomes: list[GroupOutcome] = []
        for group in self.groups.values():
            draft = self._draft(group, now)
            for member in group.members.values():
                draft.expect(member)
                if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    draft.after(RebalanceKey(group.group_id, member.member_id), member.rebalance_timeout_ms)
            outcomes.append(draft.outcome())
        return outcomes

    def is_empty(self, group_id: str) -> bool:
        """Return whether the group exists and has no members."""
        group = self.groups.get(group_id)
        return group is not None and not group.members

    def tombstones(self, group_id: str) -> list[ConsumerStored]:
        """Return the records that delete a group."""
        return migrate.tombstones(self.groups[group_id])

    def see(self, event: TopicsSeen) -> None:
        """Use these topics from now on."""
        self.topics = event.topics
        for group in self.groups.values():
            group.stale_patterns = group.stale_patterns or event.new
            group.stale = group.stale or any(not names.isdisjoint(event.names) for names in group.subscribed())

    def _draft(self, group: ConsumerGroup, now: Now, token: int = NOBODY, shown: Shown = everything) -> ConsumerDraft:
        context = Context(self._settings, self._of_group, self._assignors, self.topics, self._memory, self._new_id)
        return ConsumerDraft(group, context, now, token, shown)

    def _heartbeat(self, asked: Asked[ConsumerGroupHeartbeatRequest], now: Now, classic: ClassicGroups) -> GroupOutcome:
        body = asked.body
        refused = heartbeat_error(body, asked.version, self._assignors)
        draft = self._draft(self.groups.get(body.group_id) or ConsumerGroup(body.group_id), now, asked.token, asked.shown)
        if refused is None and body.group_id not in self.groups:
            refused = self._begin(draft, body.member_epoch, classic.get(body.group_id))
        if refused is None:
            leaves = body.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
            refused = leave.leave(draft, asked) if leaves else heartbeats.heartbeat(draft, asked)
        return draft.outcome() if refused is None else _answered(asked, heartbeats.refusal(refused))

    def _begin(self, draft: ConsumerDraft, epoch: int, known: ClassicGroup | None) -> Refusal | None:
        """Create a group by a join, or turn a classic one into a consumer group."""
        if epoch != JOINING_EPOCH:
            return Refusal(GROUP_ID_NOT_FOUND, f"There is no consumer group {draft.group_id}: let the member join it.")
        if known is None:
            return None
        if known.state is not State.EMPTY:
            return migrate.upgrade(draft, known)
        draft.store(GroupForgotten(draft.group_id))
        return None

    def _describe(self, asked: Asked[ConsumerGroupDescribeRequest], now: Now, classic: ClassicGroups) -> GroupOutcome:
        described = [self._described(group_id, now, classic) for group_id in asked.body.group_ids]
        return _answered(asked, ConsumerGroupDescribeResponse(groups=described))

    def _described(self, group_id: str, now: Now, classic: ClassicGroups) -> describe.Described:
        group = self.groups.get(group_id)
        if not group_id:
            return describe.Described(error_code=INVALID_GROUP_ID)
        if group is not None:
            return describe.described(group, self.topics, preferred(self._draft(group, now)))
        if group_id in classic:
            return describe.not_found(group_id, f"Group {group_id} is not a consumer group.")
        return describe.not_found(group_id, f"Group {group_id} not found.")

    def _classic(self, asked: Asked[ClassicRequest], now: Now, classic: ClassicGroups) -> GroupOutcome | None:
        """Decide a classic request to a consumer group.

        Return None for a join to a group without members, which creates a classic group instead.
        """
        body = asked.body
        group = self.groups.get(body.group_id)
        if group is None or (type(body) is JoinGroupRequest and not group.members):
            return None
        draft = self._draft(group, now, asked.token, asked.shown)
        refused = _CLASSIC[type(body)](self, draft, asked)  # type: ignore[arg-type]  # the table goes by the body's type
        return draft.outcome() if refused is None else _answered(asked, _REFUSED[type(body)](refused))

    def _join(self, draft: ConsumerDraft, asked: Asked[JoinGroupRequest]) -> Refusal | None:
        error_code = request_error(asked.body, self._settings)
        if error_code:
            draft.answer(join_error(error_code, asked.body.member_id))
            return None
        return classic_members.join(draft, asked)

    def _sync(self, draft: ConsumerDraft, asked: Asked[SyncGroupRequest]) -> Refusal | None:
        error_code = sync_request_error(asked.body, asked.version)
        return Refusal(error_code, "") if error_code else classic_members.sync_group(draft, asked)

    def _live(self, draft: ConsumerDraft, asked: Asked[HeartbeatRequest]) -> Refusal | None:
        return classic_members.heartbeat(draft, asked)

    def _leave(self, draft: ConsumerDraft, asked: Asked[LeaveGroupRequest]) -> Refusal | None:
        classic_members.leave(draft, asked)
        return None

    def _due(self, asked: Asked[Due], now: Now, classic: ClassicGroups) -> GroupOutcome | None:
        key = asked.body.key
        if not isinstance(key, OUR_KEYS):
            return None
        group = self.groups.get(key.group_id)
        if group is None and not isinstance(key, AssignmentKey):
            return None if isinstance(key, SessionKey) else NOTHING
        draft = self._draft(group or ConsumerGroup(key.group_id), now, asked.token)
        if isinstance(key, PatternsKey):
            seek(draft, key)
        elif isinstance(key, AssignmentKey):
            slow_target.go_on(draft, key)
        else:
            leave.timed_out(draft, key)
        return draft.outcome()

    def _topics(self, asked: Asked[TopicsChanged], now: Now, classic: ClassicGroups) -> GroupOutcome:
        return Outcome((TopicsSeen(asked.body.topics, asked.body.names, asked.body.new),))


def _answered(asked: Asked[object], message: Message) -> GroupOutcome:
    return Outcome(replies=(Reply(asked.token, message),))


_CLASSIC: dict[type, Callable[[ConsumerGroups, ConsumerDraft, Asked[Never]], Refusal | None]] = {
    JoinGroupRequest: ConsumerGroups._join,
    SyncGroupRequest: ConsumerGroups._sync,
    HeartbeatRequest: ConsumerGroups._live,
    LeaveGroupRequest: ConsumerGroups._leave,
}

_REFUSED: dict[type, Callable[[Refusal], Message]] = {
    JoinGroupRequest: lambda refused: join_error(refused.error_code),
    SyncGroupRequest: lambda refused: SyncGroupResponse(error_code=refused.error_code),
    HeartbeatRequest: lambda refused: HeartbeatResponse(error_code=refused.error_code),
}

_DECISIONS: dict[type, Callable[[ConsumerGroups, Asked[Never], Now, ClassicGroups], GroupOutcome | None]] = {
    ConsumerGroupHeartbeatRequest: ConsumerGroups._heartbeat,
    ConsumerGroupDescribeRequest: ConsumerGroups._describe,
    JoinGroupRequest: ConsumerGroups._classic,
    SyncGroupRequest: ConsumerGroups._classic,
    HeartbeatRequest: ConsumerGroups._classic,
    LeaveGroupRequest: ConsumerGroups._classic,
    TopicsChanged: ConsumerGroups._topics,
    Due: ConsumerGroups._due,
}
