"""The consumer groups of one coordinator. Each request is passed to the rule that decides it, each record to its group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Never

from ottla.coord.classic.join import request_error
from ottla.coord.classic.rebalance import join_error
from ottla.coord.classic.sync_group import request_error as sync_request_error
from ottla.coord.consumer import classic_members, leave, migrate, slow_target
from ottla.coord.consumer import group as consumer
from ottla.coord.consumer import heartbeat as heartbeats
from ottla.coord.consumer.checks import request_error as heartbeat_error
from ottla.coord.consumer.draft import ConsumerDraft
from ottla.coord.consumer.events import ConsumerEvent, TopicsSeen
from ottla.coord.consumer.group import EVENTS, NO_TARGET, ConsumerGroup
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.names import in_order
from ottla.coord.consumer.records import STORED, ConsumerStored, EpochForgotten, MemberStored, PatternStored
from ottla.coord.consumer.states import MemberState
from ottla.coord.consumer.subscription import choose_assignor, seek, subscribed_with
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.groups import Context, Decision, Group
from ottla.coord.member_checks import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH, Refusal
from ottla.coord.outcome import (
    AssignmentKey,
    GroupOutcome,
    MemberSyncGroupKey,
    PatternsKey,
    RebalanceKey,
    RejoinKey,
    SessionKey,
)
from ottla.coord.runtime.machine import NOBODY, NOTHING, Due, Input, Outcome, Reply, Shown, every_topic
from ottla.ports import Now, Pauses
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND, INVALID_GROUP_ID
from ottla.wire.schema import Message, Uuid

ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1

Described = ConsumerGroupDescribeResponse.DescribedGroup
DescribedMember = ConsumerGroupDescribeResponse.Member
Assignment = ConsumerGroupDescribeResponse.Assignment


def _describe(group: ConsumerGroup, topics: KnownTopics, assignor: str) -> Described:
    return Described(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _not_found(group_id: str, message: str) -> Described:
    return Described(group_id=group_id, error_code=GROUP_ID_NOT_FOUND, error_message=message)


def _member(group: ConsumerGroup, member: ConsumerMember, topics: KnownTopics) -> DescribedMember:
    """Return a member's description. Its assignment includes the partitions to revoke, which the member still reads."""
    held: dict[Uuid, set[int]] = {}
    for part in (member.assigned, member.revoking):
        for topic_id, partitions in part.items():
            held.setdefault(topic_id, set()).update(partitions)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=in_order(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(held, topics),
        target_assignment=_assignment(group.targets.get(member.member_id, NO_TARGET), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], topics: KnownTopics) -> Assignment:
    """Return an assignment with topic names. Deleted topics are left out, because their names are unknown."""
    named = ((topics.with_id(topic_id), indexes) for topic_id, indexes in partitions.items())
    return Assignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse.TopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(indexes)
            )
            for topic, indexes in named
            if topic is not None
        ]
    )


class ConsumerGroups:
    """All consumer groups of one coordinator, by id."""

    group_type: ClassVar[str] = ConsumerGroup.group_type
    decisions: ClassVar[Mapping[type, Decision]]
    records: ClassVar[frozenset[type]] = STORED | EVENTS
    founding: ClassVar[frozenset[type]] = consumer.FOUNDING
    refusals: ClassVar[Mapping[type, Callable[[Any, int], object]]]

    def __init__(self, context: Context) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._context = context

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
            record = record._replace(topics=self._context.memory.names.share(record.topics))
        consumer.apply(group, record)
        return group.weight - before

    def prepare(self, group_id: str, member_id: str, names: frozenset[str]) -> Pauses[None]:
        """Compute and cache the metadata hash for a heartbeat with thousands of topic names, with pauses."""
        group = self.groups.get(group_id) or ConsumerGroup(group_id)
        member = group.members.get(member_id) or ConsumerMember(member_id)
        yield from self._context.topics.hash_slowly(*subscribed_with(group, member, names, group.resolved))

    def recall(self, now: Now) -> list[GroupOutcome]:
        """Return the outcomes that restart all session and revocation deadlines, after the stored records were loaded."""
        outcomes: list[GroupOutcome] = []
        for group in self.groups.values():
            draft = self._draft(group, now)
            for member in group.members.values():
                draft.expect(member)
                if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    draft.after(RebalanceKey(group.group_id, member.member_id), member.rebalance_timeout_ms)
            outcomes.append(draft.outcome())
        return outcomes

    def see(self, event: TopicsSeen) -> None:
        """Mark the groups that subscribe to changed topics, so that their next heartbeat compares the topics' metadata."""
        for group in self.groups.values():
            group.stale_patterns = group.stale_patterns or event.new
            group.stale = group.stale or any(not names.isdisjoint(event.names) for names in group.subscribed_topics())

    def _draft(self, group: ConsumerGroup, now: Now, token: int = NOBODY, shown: Shown = every_topic) -> ConsumerDraft:
        return ConsumerDraft(group, self._context, now, token, shown)

    def _heartbeat(self, asked: Input[ConsumerGroupHeartbeatRequest], now: Now) -> GroupOutcome:
        body = asked.body
        refused = heartbeat_error(body, asked.version, self._context.assignors)
        draft = self._draft(self.groups.get(body.group_id) or ConsumerGroup(body.group_id), now, asked.token, asked.shown)
        if refused is None and body.group_id not in self.groups:
            refused = self._begin(draft, body.member_epoch, self._context.find(body.group_id))
        if refused is None:
            leaves = body.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
            refused = leave.leave(draft, asked) if leaves else heartbeats.heartbeat(draft, asked)
        return draft.outcome() if refused is None else _reply_to(asked, heartbeats.refusal(refused))

    def _begin(self, draft: ConsumerDraft, epoch: int, known: Group | None) -> Refusal | None:
        """Create a group for a joining member. An empty classic group is replaced, and one with members is migrated."""
        if epoch != JOINING_EPOCH:
            return Refusal(GROUP_ID_NOT_FOUND, f"Consumer group {draft.group_id} does not exist: join first.")
        if known is None:
            return None
        if not known.yields_to(ConsumerGroup.group_type):
            return migrate.upgrade(draft, known)
        for record in known.tombstones():
            draft.store(record)
        return None

    def _describe(self, asked: Input[ConsumerGroupDescribeRequest], now: Now) -> GroupOutcome:
        described = [self._describe_group(group_id, now) for group_id in asked.body.group_ids]
        return _reply_to(asked, ConsumerGroupDescribeResponse(groups=described))

    def _describe_group(self, group_id: str, now: Now) -> Described:
        group = self.groups.get(group_id)
        if not group_id:
            return Described(error_code=INVALID_GROUP_ID)
        if group is not None:
            return _describe(group, self._context.topics, choose_assignor(self._draft(group, now)))
        if self._context.find(group_id) is not None:
            return _not_found(group_id, f"Group {group_id} is not a consumer group.")
        return _not_found(group_id, f"Group {group_id} not found.")

    def _classic(self, asked: Input[ClassicRequest], now: Now) -> GroupOutcome:
        """Decide a classic request to a consumer group. The caller has checked that the group `serves` the request."""
        body = asked.body
        draft = self._draft(self.groups[body.group_id], now, asked.token, asked.shown)
        refused = _CLASSIC[type(body)](self, draft, asked)  # type: ignore[arg-type]  # the table goes by the body's type
        return draft.outcome() if refused is None else _reply_to(asked, _REFUSED[type(body)](refused))

    def _join(self, draft: ConsumerDraft, asked: Input[JoinGroupRequest]) -> Refusal | None:
        error_code = request_error(asked.body, self._context.settings)
        if error_code:
            draft.answer(join_error(error_code, asked.body.member_id))
            return None
        return classic_members.join(draft, asked)

    def _sync(self, draft: ConsumerDraft, asked: Input[SyncGroupRequest]) -> Refusal | None:
        error_code = sync_request_error(asked.body, asked.version)
        return Refusal(error_code, "") if error_code else classic_members.sync_group(draft, asked)

    def _live(self, draft: ConsumerDraft, asked: Input[HeartbeatRequest]) -> Refusal | None:
        return classic_members.heartbeat(draft, asked)

    def _leave(self, draft: ConsumerDraft, asked: Input[LeaveGroupRequest]) -> Refusal | None:
        classic_members.leave(draft, asked)
        return None

    def _timed_out(self, asked: Input[Due], now: Now) -> GroupOutcome:
        key = asked.body.key
        assert isinstance(key, SessionKey | RebalanceKey | RejoinKey | MemberSyncGroupKey), "the table goes by the key's type"
        group = self.groups.get(key.group_id)
        if group is None:
            return NOTHING
        draft = self._draft(group, now, asked.token)
        leave.timed_out(draft, key)
        return draft.outcome()

    def _seek(self, asked: Input[Due], now: Now) -> GroupOutcome:
        key = asked.body.key
        assert isinstance(key, PatternsKey), "the table goes by the key's type"
        group = self.groups.get(key.group_id)
        if group is None:
            return NOTHING
        draft = self._draft(group, now, asked.token)
        seek(draft, key)
        return draft.outcome()

    def _assign(self, asked: Input[Due], now: Now) -> GroupOutcome:
        """Run the next step of an assignment. If the group no longer exists, refuse the heartbeat that waits for the assignment."""
        key = asked.body.key
        assert isinstance(key, AssignmentKey), "the table goes by the key's type"
        draft = self._draft(self.groups.get(key.group_id) or ConsumerGroup(key.group_id), now, asked.token)
        slow_target.continue_assignment(draft, key)
        return draft.outcome()


def _reply_to(asked: Input[object], message: Message) -> GroupOutcome:
    return Outcome(replies=(Reply(asked.token, message),))


_CLASSIC: dict[type, Callable[[ConsumerGroups, ConsumerDraft, Input[Never]], Refusal | None]] = {
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


def _refuse_described(body: ConsumerGroupDescribeRequest, error_code: int) -> ConsumerGroupDescribeResponse:
    groups = [Described(group_id=group_id, error_code=error_code) for group_id in body.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


ConsumerGroups.decisions = {
    ConsumerGroupHeartbeatRequest: ConsumerGroups._heartbeat,
    ConsumerGroupDescribeRequest: ConsumerGroups._describe,
    **dict.fromkeys(_CLASSIC, ConsumerGroups._classic),
    **dict.fromkeys((SessionKey, RebalanceKey, RejoinKey, MemberSyncGroupKey), ConsumerGroups._timed_out),
    PatternsKey: ConsumerGroups._seek,
    AssignmentKey: ConsumerGroups._assign,
}
ConsumerGroups.refusals = {
    ConsumerGroupHeartbeatRequest: lambda body, error_code: ConsumerGroupHeartbeatResponse(error_code=error_code),
    ConsumerGroupDescribeRequest: _refuse_described,
}
