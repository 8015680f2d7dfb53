"""The group coordinator as a machine: the groups and committed offsets of one partition of `__consumer_offsets`.

Logs are unknown here: `ottla.coord.runtime` runs the machine.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator
from typing import Never, TypeGuard, cast

from ottla.coord import expiry, offsets, transactional
from ottla.coord.classic import describe, rebalance
from ottla.coord.classic import group as classic
from ottla.coord.classic.checks import generation_error
from ottla.coord.classic.draft import ClassicDraft
from ottla.coord.classic.events import ClassicEvent
from ottla.coord.classic.group import ClassicGroup
from ottla.coord.classic.join import join
from ottla.coord.classic.leave import leave
from ottla.coord.classic.states import State
from ottla.coord.classic.sync_group import heartbeat, sync_group
from ottla.coord.consumer import describe as consumer_describe
from ottla.coord.consumer.assign import Assignor
from ottla.coord.consumer.commits import commit_error, fetch_error
from ottla.coord.consumer.draft import OfGroup
from ottla.coord.consumer.events import ConsumerEvent, TopicsSeen
from ottla.coord.consumer.group import EVENTS, FOUNDING, ConsumerGroup
from ottla.coord.consumer.groups import BUILT_IN, ConsumerGroups, no_settings_of_its_own
from ottla.coord.consumer.records import STORED as CONSUMER_STORED
from ottla.coord.consumer.records import ConsumerStored
from ottla.coord.memory import GroupMemory
from ottla.coord.outcome import (
    DeletionBegun,
    DeletionKey,
    DeletionOver,
    ExpiryKey,
    GroupOutcome,
    GroupRecord,
    JoinKey,
    SessionKey,
    SyncGroupKey,
    TopicsDeleted,
    TopicsForgotten,
    TopicsKey,
)
from ottla.coord.records import (
    NO_TOPIC_ID,
    STORED,
    GroupForgotten,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPending,
    Stored,
    TransactionEnded,
    encode_record,
)
from ottla.coord.refusal import refused
from ottla.coord.runtime.machine import NOBODY, NOTHING, Asked, Due, KeyAndValue, Outcome, Reply, Timer, WrittenBy, dissolved
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    NON_EMPTY_GROUP,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
)

GROUP_ID_NOT_FOUND_FROM = 9
"""The first version of OffsetCommit that reports a missing group with GROUP_ID_NOT_FOUND."""


class GroupMachine:
    """The machine of group coordinators. Inputs and outcomes are in `ottla.coord.outcome`. `new_id` returns unique ids.

    `groups` are classic groups, `consumers` groups of the consumer protocol; a group id is in at most one of them. `assignors`
    serve consumer groups; the first is the default. `of_group` returns the settings of one group. `memory` limits the memory of
    all members, and is shared with other machines.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        assignors: tuple[Assignor, ...] = BUILT_IN,
        of_group: OfGroup = no_settings_of_its_own,
        memory: GroupMemory | None = None,
    ) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self.memory = memory or GroupMemory(lambda: 0)
        self.consumers = ConsumerGroups(settings, new_id, self.memory, assignors, of_group)
        self.offsets = offsets.Offsets()
        self._new_id = new_id
        self._deleting: set[str] = set()
        """The groups that are being deleted in slices."""
        self.weight = 0
        """The memory of the members of its groups in bytes, without the names of topics that consumer groups share."""

    def configure(self, settings: GroupSettings) -> None:
        """Use these settings from now on; no state of a group depends on them."""
        self.settings = settings
        self.consumers.configure(settings)

    def encode(self, record: GroupRecord) -> KeyAndValue | None:
        """Return the record as `__consumer_offsets` stores it; None for a volatile event. Raises `Unencodable`."""
        if type(record) is OffsetPending:
            record = record.offset
        if type(record) is OffsetCommitted and not self.settings.stores_topic_ids:
            record = record._replace(topic_id=NO_TOPIC_ID)
        return encode_record(record) if type(record) in STORED else None  # type: ignore[arg-type]  # so it is a stored one

    def leaves_at_once(self, body: object) -> bool:
        """Return whether the request is a classic heartbeat, whose reply depends on nothing that could be lost."""
        return type(body) is HeartbeatRequest

    def dissolve(self) -> Generator[None, object, None]:
        """Release all entries, as `Machine.dissolve`."""
        yield from self.offsets.dissolve()
        yield from dissolved(self.groups)
        yield from dissolved(self.consumers.groups)

    def is_independent(self, body: object) -> bool:
        """Return whether this is a commit of an existing group: its outcome changes nothing on which another commit depends."""
        if type(body) is not OffsetCommitRequest:
            return False
        return body.group_id in self.groups or body.group_id in self.consumers.groups

    def decide(self, asked: Asked[object], now: Now) -> GroupOutcome:
        """Decide one input. Nothing changes until the outcome's records are applied."""
        if self._deleting and _group_of(asked.body) in self._deleting:
            return Outcome(replies=(Reply(asked.token, refused(asked.body, COORDINATOR_LOAD_IN_PROGRESS)),))
        outcome = self.consumers.decide(asked, now, self.groups)
        if outcome is not None:
            return outcome
        return _DECISIONS[type(asked.body)](self, asked, now)  # type: ignore[arg-type]  # the table goes by the body's type

    def apply(self, record: GroupRecord) -> None:
        """Apply one record or event."""
        if isinstance(record, OffsetCommitted):
            if record.group_id not in self.groups and record.group_id not in self.consumers.groups:
                self._group(record.group_id)
            self.offsets.apply(record)
        elif is_of_consumers(record):
            if type(record) in FOUNDING:  # a group that existed only because offsets were committed for it
                self._drop(record.group_id)
            self.weight += self.consumers.apply(record)
        elif isinstance(record, OffsetPending):
            if record.offset.group_id not in self.consumers.groups:
                self._group(record.offset.group_id)
            self.offsets.apply(record)
        elif isinstance(record, OffsetForgotten | TransactionEnded):
            self.offsets.apply(record)
        elif isinstance(record, GroupForgotten):
            self._drop(record.group_id)
        elif isinstance(record, TopicsSeen | DeletionBegun | DeletionOver):
            self._note(record)
        else:
            event = cast(ClassicEvent, record)
            group = self._group(event.group_id)
            self.weight -= group.weight
            classic.apply(group, event)
            self.weight += group.weight

    def _note(self, event: TopicsSeen | DeletionBegun | DeletionOver) -> None:
        """Apply an event of neither kind of group."""
        if isinstance(event, TopicsSeen):
            self.consumers.see(event)
        elif isinstance(event, DeletionBegun):
            self._deleting.add(event.group_id)
        else:
            self._deleting.discard(event.group_id)

    def recall(self, now: Now) -> GroupOutcome:
        """Set the timers of all groups, and continue their rebalances."""
        deadline_ms = now.mono_ms + self.settings.offsets_retention_check_interval_ms
        outcomes: list[GroupOutcome] = [Outcome(timers=(Timer(ExpiryKey(), deadline_ms),))]
        for group in self.groups.values():
            if group.members:
                draft = ClassicDraft(group, group.group_id, self.settings, now)
                rebalance.recall(draft)
                outcomes.append(draft.outcome())
        return _joined(outcomes + self.consumers.recall(now))

    def weight_of(self, group_id: str) -> int:
        """Return the memory of a group's members, in bytes."""
        group = self.groups.get(group_id) or self.consumers.groups.get(group_id)
        return 0 if group is None else group.weight

    def _group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id)
        return group

    def _drop(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            self.weight -= group.weight

    def _draft(self, group_id: str, now: Now, token: int) -> ClassicDraft:
        return ClassicDraft(self.groups.get(group_id), group_id, self.settings, now, token)

    def _join(self, asked: Asked[JoinGroupRequest], now: Now) -> GroupOutcome:
        group_id = asked.body.group_id
        draft = self._draft(group_id, now, asked.token)
        join(draft, asked, self._new_id, exists=group_id in self.groups)
        growth, most_bytes = draft.group.weight - draft.weight_before, self.settings.ottla_max_group_bytes
        if self.memory.lacks(growth, most_bytes, draft.group.group_id, draft.group.weight):
            return Outcome(replies=(Reply(asked.token, rebalance.join_error(GROUP_MAX_SIZE_REACHED, asked.body.member_id)),))
        outcome = draft.outcome()
        if outcome.records and self.consumers.is_empty(group_id):
            return Outcome((*self.consumers.tombstones(group_id), *outcome.records), outcome.replies, outcome.timers)
        return outcome

    def _sync(self, asked: Asked[SyncGroupRequest], now: Now) -> GroupOutcome:
        draft = self._draft(asked.body.group_id, now, asked.token)
        sync_group(draft, asked)
        growth, most_bytes = draft.group.weight - draft.weight_before, self.settings.ottla_max_group_bytes
        if self.memory.lacks(growth, most_bytes, draft.group.group_id, draft.group.weight):
            return Outcome(replies=(Reply(asked.token, SyncGroupResponse(error_code=UNKNOWN_SERVER_ERROR)),))
        return draft.outcome()

    def _heartbeat(self, asked: Asked[HeartbeatRequest], now: Now) -> GroupOutcome:
        return heartbeat(self.groups.get(asked.body.group_id), asked, now)

    def _leave(self, asked: Asked[LeaveGroupRequest], now: Now) -> GroupOutcome:
        group_id = asked.body.group_id
        draft = self._draft(group_id, now, asked.token)
        leave(draft, asked, exists=group_id in self.groups)
        return draft.outcome()

    def _due(self, asked: Asked[Due], now: Now) -> GroupOutcome:
        key = asked.body.key
        if isinstance(key, ExpiryKey):
            return self._expire(key, now)
        if isinstance(key, TopicsKey):
            return self._forget_topics(key, now)
        if isinstance(key, DeletionKey):
            return self._deleted(key, now)
        assert isinstance(key, SessionKey | JoinKey | SyncGroupKey), "the other keys are those of consumer groups"
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

    def _expire(self, key: ExpiryKey, now: Now) -> GroupOutcome:
        rules = expiry.ExpiryRules(now.wall_ms, self.settings.offsets_retention_ms)
        groups = ChainMap[str, expiry.AnyGroup](self.groups, self.consumers.groups)  # type: ignore[arg-type]  # only read
        records, following = expiry.look(groups, self.offsets, rules, key)
        delay_ms = expiry.PAUSE_MS if following else self.settings.offsets_retention_check_interval_ms
        return Outcome(tuple(records), timers=(Timer(following or ExpiryKey(), now.mono_ms + delay_ms),))

    def _commit(self, asked: Asked[OffsetCommitRequest], now: Now) -> GroupOutcome:
        body = asked.body
        group = self.groups.get(body.group_id)
        consumer_group = self.consumers.groups.get(body.group_id)
        error_code = _commit_error(group, asked) if consumer_group is None else commit_error(consumer_group, body, asked.version)
        if error_code:
            return Outcome(replies=(Reply(asked.token, offsets.commit_refused(body, error_code)),))
        records, response = offsets.commit(body, now.wall_ms, self.settings.offset_metadata_max_bytes)
        timers: tuple[Timer, ...] = ()
        if group is not None and body.member_id in group.members:
            deadline_ms = now.mono_ms + group.members[body.member_id].session_timeout_ms
            timers = (Timer(SessionKey(body.group_id, body.member_id), deadline_ms),)
        return Outcome(tuple(records), (Reply(asked.token, response),), timers)

    def _commit_in_transaction(self, asked: Asked[TxnOffsetCommitRequest], now: Now) -> GroupOutcome:
        body = asked.body
        consumer_group = self.consumers.groups.get(body.group_id)
        if consumer_group is None:
            error_code = transactional.classic_error(self.groups.get(body.group_id), body)
        else:
            error_code = transactional.consumer_error(consumer_group, body)
        if error_code:
            return Outcome(replies=(Reply(asked.token, transactional.refused(body, error_code)),))
        records, response = transactional.commit(body, now.wall_ms, self.settings.offset_metadata_max_bytes)
        producer = WrittenBy(body.producer_id, body.producer_epoch)
        return Outcome(tuple(records), (Reply(asked.token, response),), producer=producer)

    def _end_transaction(self, asked: Asked[TransactionEnded], now: Now) -> GroupOutcome:
        return Outcome((asked.body,))

    def _fetch(self, asked: Asked[OffsetFetchRequest.OffsetFetchRequestGroup], now: Now) -> GroupOutcome:
        return self._fetched(asked.body, asked.token, require_stable=False)

    def _fetch_stable(self, asked: Asked[offsets.StableFetch], now: Now) -> GroupOutcome:
        return self._fetched(asked.body.wanted, asked.token, require_stable=True)

    def _fetched(self, wanted: offsets.FetchGroup, token: int, *, require_stable: bool) -> GroupOutcome:
        consumer_group = self.consumers.groups.get(wanted.group_id)
        error_code = NONE if consumer_group is None else fetch_error(consumer_group, wanted)
        if error_code:
            return Outcome(replies=(Reply(token, offsets.FetchedGroup(group_id=wanted.group_id, error_code=error_code)),))
        return Outcome(
            replies=(Reply(token, offsets.fetch(self.offsets, wanted, self.consumers.topics, require_stable=require_stable)),)
        )

    def _delete_offsets(self, asked: Asked[OffsetDeleteRequest], now: Now) -> GroupOutcome:
        body = asked.body
        group = self.consumers.groups.get(body.group_id) or self.groups.get(body.group_id)
        error_code = _offset_delete_error(group, body.group_id)
        if group is None or error_code:
            return Outcome(replies=(Reply(asked.token, OffsetDeleteResponse(error_code=error_code)),))
        subscribed = {topic.name for topic in body.topics if group.is_subscribed(topic.name) and group.members}
        records, response = offsets.delete(self.offsets, body, subscribed)
        return Outcome(tuple(records), (Reply(asked.token, response),))

    def _topics_deleted(self, asked: Asked[TopicsDeleted], now: Now) -> GroupOutcome:
        return self._forget_topics(TopicsKey(asked.body.names, self.offsets.group_ids(), 0, asked.token), now)

    def _forget_topics(self, key: TopicsKey, now: Now) -> GroupOutcome:
        records, following = expiry.forget_topics(self.offsets, key, self.consumers.topics)
        if following is not None:
            return Outcome(tuple(records), timers=(Timer(following, now.mono_ms + expiry.PAUSE_MS),))
        replies = () if key.token == NOBODY else (Reply(key.token, TopicsForgotten(key.names)),)
        return Outcome(tuple(records), replies)

    def _list(self, asked: Asked[ListGroupsRequest], now: Now) -> GroupOutcome:
        states = {state.lower() for state in asked.body.states_filter}
        types = {kind.lower() for kind in asked.body.types_filter}
        groups = [
            describe.listed(group)
            for group in self.groups.values()
            if not states or group.state.value.lower() in states
            if not types or describe.GROUP_TYPE in types
        ]
        groups += [
            consumer_describe.listed(group)
            for group in self.consumers.groups.values()
            if not types or consumer_describe.GROUP_TYPE in types
            if not states or group.state.value.lower() in states
        ]
        return Outcome(replies=(Reply(asked.token, ListGroupsResponse(groups=groups)),))

    def _describe(self, asked: Asked[DescribeGroupsRequest], now: Now) -> GroupOutcome:
        groups = [
            describe.described(self.groups[group_id])
            if group_id in self.groups
            else describe.not_found(group_id, asked.version, exists=group_id in self.consumers.groups)
            for group_id in asked.body.groups
        ]
        return Outcome(replies=(Reply(asked.token, DescribeGroupsResponse(groups=groups)),))

    def _delete(self, asked: Asked[DeleteGroupsRequest], now: Now) -> GroupOutcome:
        return self._deleted(DeletionKey(asked.token, tuple(dict.fromkeys(asked.body.groups_names))), now)

    def _deleted(self, key: DeletionKey, now: Now) -> GroupOutcome:
        """Delete groups until one slice has enough tombstones. A group that is not finished refuses requests until it is."""
        records: list[GroupRecord] = []
        results = list(key.results)
        for at, group_id in enumerate(key.groups):
            is_begun = key.is_begun and at == 0
            error_code = NONE if is_begun else self._delete_error(group_id)
            if error_code == NONE:
                room = max(expiry.MOST_FORGOTTEN - len(records), 1)
                offsets_gone = self.offsets.forget_group(group_id, room)
                records += offsets_gone
                if len(offsets_gone) == room:
                    following = DeletionKey(key.token, key.groups[at:], tuple(results), is_begun=True)
                    begun = (DeletionBegun(group_id),)
                    return Outcome((*begun, *records), timers=(Timer(following, now.mono_ms + expiry.PAUSE_MS),))
                records += self._tombstones(group_id)
                records += [DeletionOver(group_id)] if is_begun else []
            results.append((group_id, error_code))
        of = DeleteGroupsResponse.DeletableGroupResult
        response = DeleteGroupsResponse(results=[of(group_id=name, error_code=code) for name, code in results])
        return Outcome(tuple(records), (Reply(key.token, response),))

    def _tombstones(self, group_id: str) -> list[Stored]:
        """Return the records that delete a group of either kind."""
        if group_id in self.consumers.groups:
            return list(self.consumers.tombstones(group_id))
        return [GroupForgotten(group_id)]

    def _delete_error(self, group_id: str) -> int:
        if group_id in self._deleting:
            return COORDINATOR_LOAD_IN_PROGRESS
        if group_id in self.consumers.groups:
            return NONE if self.consumers.is_empty(group_id) else NON_EMPTY_GROUP
        group = self.groups.get(group_id)
        if group is None:
            return GROUP_ID_NOT_FOUND
        return NONE if group.state is State.EMPTY else NON_EMPTY_GROUP


def _joined(outcomes: list[GroupOutcome]) -> GroupOutcome:
    return Outcome(
        tuple(record for outcome in outcomes for record in outcome.records),
        tuple(reply for outcome in outcomes for reply in outcome.replies),
        tuple(timer for outcome in outcomes for timer in outcome.timers),
    )


def _commit_error(group: ClassicGroup | None, asked: Asked[OffsetCommitRequest]) -> int:
    """Return why a commit is refused. One without a generation comes from outside the group, and needs a group without members."""
    body = asked.body
    generation = body.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return NONE
        return GROUP_ID_NOT_FOUND if asked.version >= GROUP_ID_NOT_FOUND_FROM else ILLEGAL_GENERATION
    if generation < 0 and group.state is State.EMPTY:
        return NONE
    if generation < 0 and not body.member_id and body.group_instance_id is None:
        return UNKNOWN_MEMBER_ID
    error_code = generation_error(group, body.member_id, body.group_instance_id, generation)
    if error_code == NONE and group.state is State.COMPLETING_REBALANCE:
        return REBALANCE_IN_PROGRESS
    return error_code


def _offset_delete_error(group: ClassicGroup | ConsumerGroup | None, group_id: str) -> int:
    """Return why offsets cannot be deleted. A group with members needs the protocol type "consumer" to show subscriptions."""
    if not group_id:
        return INVALID_GROUP_ID
    if group is None:
        return GROUP_ID_NOT_FOUND
    if isinstance(group, ClassicGroup) and group.state is not State.EMPTY and group.protocol_type != "consumer":
        return NON_EMPTY_GROUP
    return NONE


def _group_of(body: object) -> str | None:
    """Return the group of a request; None for a request about several groups, or an input that no client sent."""
    if type(body) is offsets.StableFetch:
        return body.wanted.group_id
    return getattr(body, "group_id", None)


_OF_CONSUMERS = CONSUMER_STORED | EVENTS


def is_of_consumers(record: GroupRecord) -> TypeGuard[ConsumerStored | ConsumerEvent]:
    """Return whether a record is of a consumer group."""
    return type(record) in _OF_CONSUMERS


_DECISIONS: dict[type, Callable[[GroupMachine, Asked[Never], Now], GroupOutcome]] = {
    JoinGroupRequest: GroupMachine._join,
    SyncGroupRequest: GroupMachine._sync,
    HeartbeatRequest: GroupMachine._heartbeat,
    LeaveGroupRequest: GroupMachine._leave,
    OffsetCommitRequest: GroupMachine._commit,
    TxnOffsetCommitRequest: GroupMachine._commit_in_transaction,
    TransactionEnded: GroupMachine._end_transaction,
    OffsetFetchRequest.OffsetFetchRequestGroup: GroupMachine._fetch,
    offsets.StableFetch: GroupMachine._fetch_stable,
    OffsetDeleteRequest: GroupMachine._delete_offsets,
    ListGroupsRequest: GroupMachine._list,
    DescribeGroupsRequest: GroupMachine._describe,
    DeleteGroupsRequest: GroupMachine._delete,
    TopicsDeleted: GroupMachine._topics_deleted,
    Due: GroupMachine._due,
}
