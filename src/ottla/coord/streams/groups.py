"""The streams groups of one coordinator. Each request is passed to the rule that decides it, each record to its group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.groups import Context, Decision, Group
from ottla.coord.member_checks import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH, Refusal
from ottla.coord.outcome import GroupOutcome, InitialDelayKey, RebalanceKey, SessionKey, TaskAssignmentKey
from ottla.coord.runtime.machine import NOBODY, NOTHING, Due, Input, Outcome, Reply
from ottla.coord.streams import group as streams
from ottla.coord.streams import leave
from ottla.coord.streams.checks import owned_of, request_error
from ottla.coord.streams.describe import DescribedStreamsGroup, describe
from ottla.coord.streams.draft import StreamsDraft, next_epoch_record
from ottla.coord.streams.events import GroupRecalled, StreamsEvent, TasksSent
from ottla.coord.streams.group import EVENTS, GROUP_TYPE, StreamsGroup
from ottla.coord.streams.heartbeat import heartbeat
from ottla.coord.streams.membership import TaskAsk
from ottla.coord.streams.records import RECORDS, StreamsEpochForgotten, StreamsStored
from ottla.coord.streams.response import HeartbeatResult
from ottla.coord.streams.states import StreamsMemberState
from ottla.coord.streams.target import continue_assignment
from ottla.coord.streams.topology.request import StreamsHeartbeat
from ottla.ports import Now
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND, INVALID_GROUP_ID
from ottla.wire.schema import Message


class StreamsGroups:
    """All streams groups of one coordinator, by id."""

    group_type: ClassVar[str] = GROUP_TYPE
    decisions: ClassVar[Mapping[type, Decision]]
    records: ClassVar[frozenset[type]] = RECORDS.stored | EVENTS
    founding: ClassVar[frozenset[type]] = streams.FOUNDING
    refusals: ClassVar[Mapping[type, Callable[[Any, int], object]]]

    def __init__(self, context: Context) -> None:
        self.groups: dict[str, StreamsGroup] = {}
        self._context = context

    def apply(self, record: StreamsStored | StreamsEvent) -> int:
        """Apply one record or event, and return the growth of its group's weight in bytes.

        Tombstones of a group that does not exist change nothing.
        """
        group = self.groups.get(record.group_id)
        if group is None and type(record) in streams.FOUNDING:
            group = self.groups[record.group_id] = StreamsGroup(record.group_id)
        if group is None:
            return 0
        before = group.weight
        if isinstance(record, StreamsEpochForgotten):
            del self.groups[record.group_id]
            return -before
        streams.apply(group, record)
        return group.weight - before

    def recall(self, now: Now) -> Iterable[GroupOutcome]:
        """Return the outcomes that restart all session and revocation deadlines, after the stored records were loaded.

        The assignment of the moment is not stored. A group in which tasks waited for warm-up tasks needs another assignment.
        """
        outcomes: list[GroupOutcome] = []
        for group in self.groups.values():
            draft = StreamsDraft(group, self._context, now)
            for member in group.members.values():
                draft.expect(member)
                draft.store(TasksSent(group.group_id, member.member_id, now.mono_ms))
                if member.state is StreamsMemberState.UNREVOKED_TASKS:
                    draft.after(RebalanceKey(group.group_id, member.member_id), member.rebalance_timeout_ms)
            if group.members:
                draft.store(GroupRecalled(group.group_id, now.mono_ms))
            if group.has_strayed:
                draft.store(next_epoch_record(group))
            outcomes.append(draft.outcome())
        return outcomes

    def see(self, event: TopicsSeen) -> None:
        """Mark the groups whose topologies depend on changed topics, so that their next heartbeat compares the topics."""
        for group in self.groups.values():
            group.stale = group.stale or not group.required.isdisjoint(event.names)

    def _heartbeat(self, asked: TaskAsk, now: Now) -> GroupOutcome:
        body, checked = asked.body
        refused = request_error(body, checked, asked.version)
        group = self.groups.get(body.group_id) or StreamsGroup(body.group_id)
        draft = StreamsDraft(group, self._context, now, asked.token, asked.version, owned_of(body))
        if refused is None and body.group_id not in self.groups:
            refused = self._begin(draft, body.member_epoch, self._context.find(body.group_id))
        if refused is None:
            leaves = body.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
            refused = leave.leave(draft, asked) if leaves else heartbeat(draft, asked)
        return draft.outcome() if refused is None else _reply_to(asked, refusal(refused))

    def _begin(self, draft: StreamsDraft, epoch: int, known: Group | None) -> Refusal | None:
        """Create a group for a joining member. An empty classic group is replaced."""
        if known is not None and not (epoch == JOINING_EPOCH and known.is_empty and known.yields_to(GROUP_TYPE)):
            return Refusal(GROUP_ID_NOT_FOUND, f"Group {draft.group_id} is not a streams group.")
        if epoch != JOINING_EPOCH:
            return Refusal(GROUP_ID_NOT_FOUND, f"Streams group {draft.group_id} not found: join first.")
        for record in known.tombstones() if known is not None else ():
            draft.store(record)
        return None

    def _describe(self, asked: Input[StreamsGroupDescribeRequest], now: Now) -> GroupOutcome:
        described = [self._describe_group(group_id) for group_id in asked.body.group_ids]
        return _reply_to(asked, StreamsGroupDescribeResponse(groups=described))

    def _describe_group(self, group_id: str) -> DescribedStreamsGroup:
        group = self.groups.get(group_id)
        if not group_id:
            return DescribedStreamsGroup(error_code=INVALID_GROUP_ID)
        if group is not None:
            return describe(group)
        is_other = self._context.find(group_id) is not None
        message = f"Group {group_id} is not a streams group." if is_other else f"Group {group_id} not found."
        return DescribedStreamsGroup(group_id=group_id, error_code=GROUP_ID_NOT_FOUND, error_message=message)

    def _timed_out(self, asked: Input[Due], now: Now) -> GroupOutcome:
        key = asked.body.key
        assert isinstance(key, SessionKey | RebalanceKey | InitialDelayKey | TaskAssignmentKey), "the table goes by the key's type"
        group = self.groups.get(key.group_id)
        if group is None:
            return NOTHING
        draft = StreamsDraft(group, self._context, now, NOBODY)
        if isinstance(key, InitialDelayKey):
            leave.end_delay(draft)
        elif isinstance(key, TaskAssignmentKey):
            continue_assignment(draft, key)
        else:
            leave.timed_out(draft, key)
        return draft.outcome()


def refusal(refused: Refusal) -> HeartbeatResult:
    return HeartbeatResult(StreamsGroupHeartbeatResponse(error_code=refused.error_code, error_message=refused.message))


def _reply_to(asked: Input[object], message: Message | HeartbeatResult) -> GroupOutcome:
    return Outcome(replies=(Reply(asked.token, message),))


def _refuse_described(body: StreamsGroupDescribeRequest, error_code: int) -> StreamsGroupDescribeResponse:
    groups = [DescribedStreamsGroup(group_id=group_id, error_code=error_code) for group_id in body.group_ids]
    return StreamsGroupDescribeResponse(groups=groups)


StreamsGroups.decisions = {
    StreamsHeartbeat: StreamsGroups._heartbeat,
    StreamsGroupDescribeRequest: StreamsGroups._describe,
    **dict.fromkeys((SessionKey, RebalanceKey, InitialDelayKey, TaskAssignmentKey), StreamsGroups._timed_out),
}
StreamsGroups.refusals = {
    StreamsHeartbeat: lambda body, error_code: HeartbeatResult(StreamsGroupHeartbeatResponse(error_code=error_code)),
    StreamsGroupDescribeRequest: _refuse_described,
}
