"""The classic groups of one coordinator. Each request is passed to the rule that decides it, each record to its group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ottla.coord.classic import rebalance
from ottla.coord.classic.draft import ClassicDraft
from ottla.coord.classic.events import ClassicEvent
from ottla.coord.classic.group import APPLIED, ClassicGroup, apply
from ottla.coord.classic.join import join
from ottla.coord.classic.leave import leave
from ottla.coord.classic.states import State
from ottla.coord.classic.sync_group import heartbeat, sync_group
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.groups import Context, Decision, drop
from ottla.coord.outcome import GroupOutcome, JoinKey, SessionKey, SyncGroupKey
from ottla.coord.records import GroupForgotten, GroupStored
from ottla.coord.runtime.machine import NOTHING, Due, Input, Outcome, Reply
from ottla.ports import Now
from ottla.wire.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_SERVER_ERROR
from ottla.wire.schema import Message

NOT_FOUND_FROM = 6

Described = DescribeGroupsResponse.DescribedGroup


def _describe(group: ClassicGroup) -> Described:
    """Return a group's description. It contains the members' metadata only while the group is stable."""
    is_stable = group.state is State.STABLE
    members = [
        DescribeGroupsResponse.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return Described(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=members,
    )


def _not_found(group_id: str, version: int, *, exists: bool = False) -> Described:
    """Return the state Dead for a missing group, or for one that `exists` with another protocol. KIP-1043 added an error."""
    if version < NOT_FOUND_FROM:
        return Described(group_id=group_id, group_state=State.DEAD.value)
    message = f"Group {group_id} is not a classic group." if exists else f"Group {group_id} not found."
    return Described(group_id=group_id, group_state=State.DEAD.value, error_code=GROUP_ID_NOT_FOUND, error_message=message)


class ClassicGroups:
    """All classic groups of one coordinator, by id."""

    group_type: ClassVar[str] = ClassicGroup.group_type
    decisions: ClassVar[Mapping[type, Decision]]
    records: ClassVar[frozenset[type]] = APPLIED | {GroupForgotten}
    founding: ClassVar[frozenset[type]] = frozenset((GroupStored,))
    refusals: ClassVar[Mapping[type, Callable[[Any, int], object]]]

    def __init__(self, context: Context) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self._context = context

    def apply(self, record: ClassicEvent | GroupStored | GroupForgotten) -> int:
        """Apply one record or event, and return the growth of its group's weight in bytes."""
        if isinstance(record, GroupForgotten):
            return drop(self.groups, record.group_id)
        group = self.found(record.group_id)
        before = group.weight
        apply(group, record)
        return group.weight - before

    def found(self, group_id: str) -> ClassicGroup:
        """Return the group with this id, and create an empty group if it does not exist. A commit of offsets can create a group."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id)
        return group

    def recall(self, now: Now) -> list[GroupOutcome]:
        """Return the outcomes that restart all session timeouts and rebalances, after a coordinator has loaded its records."""
        outcomes: list[GroupOutcome] = []
        for group in self.groups.values():
            if group.members:
                draft = ClassicDraft(group, group.group_id, self._context.settings, now)
                rebalance.recall(draft)
                outcomes.append(draft.outcome())
        return outcomes

    def see(self, event: TopicsSeen) -> None:
        """Do nothing when topics change, because the leader of a classic group itself detects changes of topics."""

    def _draft(self, group_id: str, now: Now, token: int) -> ClassicDraft:
        return ClassicDraft(self.groups.get(group_id), group_id, self._context.settings, now, token)

    def _join(self, asked: Input[JoinGroupRequest], now: Now) -> GroupOutcome:
        """Decide a JoinGroup. An empty consumer or streams group becomes a classic group."""
        group_id = asked.body.group_id
        present = self._context.find(group_id)
        other = None if group_id in self.groups else present
        if other is not None and not other.yields_to(ClassicGroup.group_type):
            return _reply_to(asked, rebalance.join_error(INCONSISTENT_GROUP_PROTOCOL, asked.body.member_id))
        draft = self._draft(group_id, now, asked.token)
        join(draft, asked, self._context.new_id, exists=group_id in self.groups)
        if self._lacks_memory(draft):
            return _reply_to(asked, rebalance.join_error(GROUP_MAX_SIZE_REACHED, asked.body.member_id))
        outcome = draft.outcome()
        if outcome.records and other is not None:
            return Outcome((*other.tombstones(), *outcome.records), outcome.replies, outcome.timers)
        return outcome

    def _sync(self, asked: Input[SyncGroupRequest], now: Now) -> GroupOutcome:
        draft = self._draft(asked.body.group_id, now, asked.token)
        sync_group(draft, asked)
        if self._lacks_memory(draft):
            return _reply_to(asked, SyncGroupResponse(error_code=UNKNOWN_SERVER_ERROR))
        return draft.outcome()

    def _lacks_memory(self, draft: ClassicDraft) -> bool:
        growth, most_bytes = draft.group.weight - draft.weight_before, self._context.settings.ottla_max_group_bytes
        return self._context.memory.lacks(growth, most_bytes, draft.group.group_id, draft.group.weight)

    def _heartbeat(self, asked: Input[HeartbeatRequest], now: Now) -> GroupOutcome:
        return heartbeat(self.groups.get(asked.body.group_id), asked, now)

    def _leave(self, asked: Input[LeaveGroupRequest], now: Now) -> GroupOutcome:
        group_id = asked.body.group_id
        draft = self._draft(group_id, now, asked.token)
        leave(draft, asked, exists=group_id in self.groups)
        return draft.outcome()

    def _describe(self, asked: Input[DescribeGroupsRequest], now: Now) -> GroupOutcome:
        groups = [
            _describe(self.groups[group_id])
            if group_id in self.groups
            else _not_found(group_id, asked.version, exists=self._context.find(group_id) is not None)
            for group_id in asked.body.groups
        ]
        return _reply_to(asked, DescribeGroupsResponse(groups=groups))

    def _due(self, asked: Input[Due], now: Now) -> GroupOutcome:
        key = asked.body.key
        assert isinstance(key, SessionKey | JoinKey | SyncGroupKey), "the inputs of the kind have no other keys"
        if key.group_id not in self.groups:
            return NOTHING
        draft = self._draft(key.group_id, now, asked.token)
        if isinstance(key, SessionKey):
            rebalance.session_timed_out(draft, key.member_id)
        elif isinstance(key, JoinKey):
            rebalance.join_timed_out(draft)
        else:
            rebalance.sync_timed_out(draft)
        return draft.outcome()


def _reply_to(asked: Input[object], message: Message) -> GroupOutcome:
    return Outcome(replies=(Reply(asked.token, message),))


def _refuse_described(body: DescribeGroupsRequest, error_code: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[Described(group_id=group_id, error_code=error_code) for group_id in body.groups])


ClassicGroups.decisions = {
    JoinGroupRequest: ClassicGroups._join,
    SyncGroupRequest: ClassicGroups._sync,
    HeartbeatRequest: ClassicGroups._heartbeat,
    LeaveGroupRequest: ClassicGroups._leave,
    DescribeGroupsRequest: ClassicGroups._describe,
    SessionKey: ClassicGroups._due,
    JoinKey: ClassicGroups._due,
    SyncGroupKey: ClassicGroups._due,
}
ClassicGroups.refusals = {
    JoinGroupRequest: lambda body, error_code: rebalance.join_error(error_code, body.member_id),
    SyncGroupRequest: lambda body, error_code: SyncGroupResponse(error_code=error_code),
    HeartbeatRequest: lambda body, error_code: HeartbeatResponse(error_code=error_code),
    LeaveGroupRequest: lambda body, error_code: LeaveGroupResponse(error_code=error_code),
    DescribeGroupsRequest: _refuse_described,
}
