"""The share groups of one coordinator. Each request is passed to the rule that decides it, each record to its group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.names import in_order
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.groups import Context, Decision
from ottla.coord.member_checks import JOINING_EPOCH, LEAVING_EPOCH, Refusal
from ottla.coord.outcome import GroupOutcome, SessionKey
from ottla.coord.runtime.machine import NOBODY, NOTHING, Due, Input, Outcome, Reply
from ottla.coord.share import heartbeat as heartbeats
from ottla.coord.share import initialization, offsets
from ottla.coord.share.draft import ShareDraft
from ottla.coord.share.events import (
    DeletingShares,
    InitializationBegun,
    ShareEvent,
    SharePlaces,
    SharesDeleted,
    SharesInitialized,
    ShareStateDeletion,
    ShareStateQuery,
)
from ottla.coord.share.group import EVENTS, FOUNDING, ShareGroup, apply
from ottla.coord.share.member import ShareMember
from ottla.coord.share.records import KINDS, ShareEpochForgotten, ShareMemberStored, ShareStored
from ottla.coord.share.simple_assignor import SIMPLE
from ottla.coord.share.target import ShareAssignmentKey, continue_assignment
from ottla.ports import Now, Pauses
from ottla.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND, INVALID_GROUP_ID, NONE

Described = ShareGroupDescribeResponse.DescribedGroup


def _describe(group: ShareGroup, topics: KnownTopics) -> Described:
    return Described(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=SIMPLE,
        members=[_member(member, topics) for member in group.members.values()],
    )


def _member(member: ShareMember, topics: KnownTopics) -> ShareGroupDescribeResponse.Member:
    """Return a member's description. Deleted topics are left out of its assignment, because their names are unknown."""
    named = ((topics.with_id(topic_id), numbers) for topic_id, numbers in member.assigned.items())
    of = ConsumerGroupDescribeResponse.TopicPartitions
    held = [
        of(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(numbers))
        for topic, numbers in named
        if topic is not None
    ]
    return ShareGroupDescribeResponse.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=in_order(member.topics),
        assignment=ConsumerGroupDescribeResponse.Assignment(topic_partitions=held),
    )


class ShareGroups:
    """All share groups of one coordinator, by id."""

    group_type: ClassVar[str] = ShareGroup.group_type
    decisions: ClassVar[Mapping[type, Decision]]
    records: ClassVar[frozenset[type]] = KINDS.stored | EVENTS
    founding: ClassVar[frozenset[type]] = FOUNDING
    refusals: ClassVar[Mapping[type, Callable[[Any, int], object]]]

    def __init__(self, context: Context) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self._context = context

    def apply(self, record: ShareStored | ShareEvent) -> int:
        """Apply one record or event, and return the growth of its group's weight in bytes.

        Tombstones of a group that does not exist change nothing.
        """
        group = self.groups.get(record.group_id)
        if group is None and type(record) in FOUNDING:
            group = self.groups[record.group_id] = ShareGroup(record.group_id)
        if group is None:
            return 0
        before = group.weight
        if isinstance(record, ShareEpochForgotten):
            del self.groups[record.group_id]
            return -before
        if isinstance(record, ShareMemberStored):
            record = record._replace(topics=self._context.memory.names.share(record.topics))
        apply(group, record)
        return group.weight - before

    def prepare(self, group_id: str, member_id: str, names: frozenset[str]) -> Pauses[None]:
        """Compute and cache the metadata hash for a heartbeat with thousands of topic names, with pauses."""
        group = self.groups.get(group_id) or ShareGroup(group_id)
        member = group.members.get(member_id) or ShareMember(member_id)
        yield from self._context.topics.hash_slowly(*group.subscriptions_with(member, names))

    def recall(self, now: Now) -> list[GroupOutcome]:
        """Return the outcomes that restart all session timeouts, and let initializations without a result be repeated later."""
        outcomes: list[GroupOutcome] = []
        for group in self.groups.values():
            draft = self._draft(group, now)
            for member_id in group.members:
                draft.expect(member_id)
            if group.initializing:
                draft.store(InitializationBegun(group.group_id, tuple(group.initializing), now.mono_ms))
            outcomes.append(draft.outcome())
        return outcomes

    def see(self, event: TopicsSeen) -> None:
        """Mark the groups that subscribe to changed topics, so that their next heartbeat compares the topics' metadata."""
        for group in self.groups.values():
            group.covered = None
            group.stale = group.stale or any(not names.isdisjoint(event.names) for names in group.subscriptions)

    def _draft(self, group: ShareGroup, now: Now, token: int = NOBODY) -> ShareDraft:
        return ShareDraft(group, self._context, now, token)

    def _found(self, group_id: str, *, create: bool) -> ShareGroup | Refusal:
        """Return the group of this id, or a new one, or a refusal if it is missing or of another kind."""
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if self._context.find(group_id) is not None:
            return Refusal(GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if create:
            return ShareGroup(group_id)
        return Refusal(GROUP_ID_NOT_FOUND, f"Share group {group_id} not found: check its name, or join first.")

    def _heartbeat(self, asked: Input[ShareGroupHeartbeatRequest], now: Now) -> GroupOutcome:
        body = asked.body
        found = heartbeats.request_error(body) or self._found(body.group_id, create=body.member_epoch == JOINING_EPOCH)
        if isinstance(found, Refusal):
            return _reply_to(asked, heartbeats.refusal(found))
        draft = self._draft(found, now, asked.token)
        leaves = body.member_epoch == LEAVING_EPOCH
        refused = heartbeats.leave(draft, body) if leaves else heartbeats.heartbeat(draft, asked)
        return draft.outcome() if refused is None else _reply_to(asked, heartbeats.refusal(refused))

    def _describe(self, asked: Input[ShareGroupDescribeRequest], now: Now) -> GroupOutcome:
        described = [self._describe_group(group_id) for group_id in asked.body.group_ids]
        return _reply_to(asked, ShareGroupDescribeResponse(groups=described))

    def _describe_group(self, group_id: str) -> Described:
        if not group_id:
            return Described(error_code=INVALID_GROUP_ID)
        group = self.groups.get(group_id)
        if group is not None:
            return _describe(group, self._context.topics)
        kind = "is not a share group" if self._context.find(group_id) is not None else "not found"
        return Described(group_id=group_id, error_code=GROUP_ID_NOT_FOUND, error_message=f"Group {group_id} {kind}.")

    def _timed_out(self, asked: Input[Due], now: Now) -> GroupOutcome:
        key = asked.body.key
        assert isinstance(key, SessionKey), "the table goes by the key's type"
        group = self.groups.get(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None:
            return NOTHING
        draft = self._draft(group, now, asked.token)
        heartbeats.fence(draft, member, "sent no heartbeat in time")
        return draft.outcome()

    def _assign(self, asked: Input[Due], now: Now) -> GroupOutcome:
        key = asked.body.key
        assert isinstance(key, ShareAssignmentKey), "the table goes by the key's type"
        group = self.groups.get(key.group_id)
        if group is None:
            return NOTHING
        draft = self._draft(group, now, asked.token)
        continue_assignment(draft, key)
        return draft.outcome()

    def _end_initialization(self, asked: Input[SharesInitialized], now: Now) -> GroupOutcome:
        """Store the result of an initialization. If the group was deleted meanwhile, its state is deleted again."""
        done = asked.body
        draft = self._draft(self.groups.get(done.group_id) or ShareGroup(done.group_id), now, asked.token)
        initialization.end(draft, done)
        if asked.token != NOBODY:
            draft.answer(NONE)
        return draft.outcome()

    def _alter(self, asked: Input[AlterShareGroupOffsetsRequest], now: Now) -> GroupOutcome:
        body = asked.body
        if not body.group_id:
            return _reply_to(asked, offsets.alter_refused(INVALID_GROUP_ID))
        found = self._found(body.group_id, create=True)
        if isinstance(found, Refusal):
            return _reply_to(asked, offsets.alter_refused(*found))
        draft = self._draft(found, now, asked.token)
        draft.answer(offsets.alter(draft, body))
        return draft.outcome()

    def _delete_offsets(self, asked: Input[DeleteShareGroupOffsetsRequest], now: Now) -> GroupOutcome:
        body = asked.body
        if not body.group_id:
            return _reply_to(asked, offsets.delete_refused(INVALID_GROUP_ID))
        found = self._found(body.group_id, create=False)
        if isinstance(found, Refusal):
            return _reply_to(asked, offsets.delete_refused(*found))
        draft = self._draft(found, now, asked.token)
        draft.answer(offsets.delete(draft, body))
        return draft.outcome()

    def _delete_state(self, asked: Input[ShareStateDeletion], now: Now) -> GroupOutcome:
        """Begin to delete all state of a share group. A group of another kind has none."""
        group = self.groups.get(asked.body.group_id)
        if group is None:
            return _reply_to(asked, DeletingShares())
        draft = self._draft(group, now, asked.token)
        draft.answer(offsets.delete_all(draft))
        return draft.outcome()

    def _forget(self, asked: Input[SharesDeleted], now: Now) -> GroupOutcome:
        group = self.groups.get(asked.body.group_id)
        if group is None:
            return _reply_to(asked, NONE)
        draft = self._draft(group, now, asked.token)
        offsets.forget(draft, asked.body.topic_ids)
        draft.answer(NONE)
        return draft.outcome()

    def _query(self, asked: Input[ShareStateQuery], now: Now) -> GroupOutcome:
        group = self.groups.get(asked.body.group_id)
        return _reply_to(asked, SharePlaces() if group is None else offsets.initialized_places(group))


def _reply_to(asked: Input[object], message: object) -> GroupOutcome:
    return Outcome(replies=(Reply(asked.token, message),))


def _refuse_described(body: ShareGroupDescribeRequest, error_code: int) -> ShareGroupDescribeResponse:
    groups = [Described(group_id=group_id, error_code=error_code) for group_id in body.group_ids]
    return ShareGroupDescribeResponse(groups=groups)


ShareGroups.decisions = {
    ShareGroupHeartbeatRequest: ShareGroups._heartbeat,
    ShareGroupDescribeRequest: ShareGroups._describe,
    AlterShareGroupOffsetsRequest: ShareGroups._alter,
    DeleteShareGroupOffsetsRequest: ShareGroups._delete_offsets,
    ShareStateDeletion: ShareGroups._delete_state,
    ShareStateQuery: ShareGroups._query,
    SharesInitialized: ShareGroups._end_initialization,
    SharesDeleted: ShareGroups._forget,
    SessionKey: ShareGroups._timed_out,
    ShareAssignmentKey: ShareGroups._assign,
}
ShareGroups.refusals = {
    ShareGroupHeartbeatRequest: lambda body, error_code: ShareGroupHeartbeatResponse(error_code=error_code),
    ShareGroupDescribeRequest: _refuse_described,
    AlterShareGroupOffsetsRequest: lambda body, error_code: offsets.alter_refused(error_code),
    DeleteShareGroupOffsetsRequest: lambda body, error_code: offsets.delete_refused(error_code),
    ShareStateDeletion: lambda body, error_code: DeletingShares(error_code=error_code),
    ShareStateQuery: lambda body, error_code: SharePlaces(error_code=error_code),
    SharesInitialized: lambda body, error_code: error_code,
    SharesDeleted: lambda body, error_code: error_code,
}
