"""The group coordinator as a machine: the groups and committed offsets of one partition of `__consumer_offsets`.

The machine uses no log: `ottla.coord.runtime` runs it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any, Never, TypeVar

from ottla.coord import expiry, offsets
from ottla.coord.classic.groups import ClassicGroups
from ottla.coord.commit_rules import commit_of
from ottla.coord.consumer.assign import Assignor
from ottla.coord.consumer.assign.built_in import BUILT_IN
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.groups import ConsumerGroups
from ottla.coord.groups import MISSING, Context, GroupKind, OfGroup, drop
from ottla.coord.kinds import KINDS
from ottla.coord.memory import GroupMemory
from ottla.coord.outcome import (
    DeletionBegun,
    DeletionKey,
    DeletionOver,
    ExpiryKey,
    GroupOutcome,
    GroupRecord,
    SessionKey,
    TopicsChanged,
    TopicsDeleted,
    TopicsForgotten,
    TopicsKey,
)
from ottla.coord.records import (
    NO_TOPIC_ID,
    STORED,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPending,
    TransactionEnded,
    encode_record,
)
from ottla.coord.refusal import refuse
from ottla.coord.runtime.machine import NOBODY, Due, Input, KeyAndValue, Outcome, Reply, Timer, WrittenBy, drain
from ottla.coord.settings import GroupSettings
from ottla.coord.share.groups import ShareGroups
from ottla.ports import Now, Pauses
from ottla.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, INVALID_GROUP_ID, NON_EMPTY_GROUP, NONE

K = TypeVar("K", bound=GroupKind)


def no_settings_of_its_own(group_id: str) -> Mapping[str, int]:
    """Return an empty mapping, for a broker without settings of single groups."""
    return {}


class GroupMachine:
    """The state machine of group coordinators: it decides inputs, and its records change the groups.

    Inputs and outcomes are in `ottla.coord.outcome`. `new_id` returns unique ids. Each of the `kinds` (classic, consumer, share)
    has its own groups, and a group id is in at most one kind. `assignors` are for consumer groups; the first one is the default.
    `of_group` returns the settings of one group. `memory` limits the memory of all members, and is shared with other machines.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        assignors: tuple[Assignor, ...] = BUILT_IN,
        of_group: OfGroup = no_settings_of_its_own,
        memory: GroupMemory | None = None,
        kinds: tuple[type[GroupKind], ...] = KINDS,
    ) -> None:
        by_name = {assignor.name: assignor for assignor in assignors}
        self.context = Context(settings, new_id, memory or GroupMemory(lambda: 0), by_name, of_group)
        self.kinds = tuple(kind(self.context) for kind in kinds)
        self.context.tables = tuple(kind.groups for kind in self.kinds)
        self.classic, self.consumers = self._kind(ClassicGroups), self._kind(ConsumerGroups)
        self.shares = self._kind(ShareGroups)
        self.offsets = offsets.Offsets()
        self._by_type = {kind.group_type: kind for kind in self.kinds}
        self._homes = {what: kind for kind in reversed(self.kinds) for what in kind.decisions}
        self._changed = {record: kind for kind in self.kinds for record in kind.records}
        self._deleting: set[str] = set()
        """The groups that are being deleted in several steps."""
        self.weight = 0
        """The memory in bytes of the members of all groups, without topic names, which consumer groups share."""

    def configure(self, settings: GroupSettings) -> None:
        self.context.settings = settings

    @property
    def count(self) -> int:
        return sum(map(len, self.context.tables))

    def encode(self, record: GroupRecord) -> KeyAndValue | None:
        """Return the record as `__consumer_offsets` stores it; None for a volatile event. Raises `Unencodable`."""
        if type(record) is OffsetPending:
            record = record.offset
        if type(record) is OffsetCommitted and not self.context.settings.stores_topic_ids:
            record = record._replace(topic_id=NO_TOPIC_ID)
        return encode_record(record) if type(record) in STORED else None  # type: ignore[arg-type]  # a stored record

    def leaves_at_once(self, body: object) -> bool:
        """Return whether the reply to this request can be sent before its records are durable: True only for a classic heartbeat.

        That reply shows no state that could be lost.
        """
        return type(body) is HeartbeatRequest

    def dissolve(self) -> Pauses[None]:
        """Release the memory of all groups and offsets in steps, with pauses."""
        yield from self.offsets.dissolve()
        for groups in self.context.tables:
            yield from drain(groups)

    def is_independent(self, body: object) -> bool:
        """Return True for an OffsetCommit to an existing group, because no other commit depends on its outcome."""
        return type(body) is OffsetCommitRequest and self.context.find(body.group_id) is not None

    def decide(self, asked: Input[object], now: Now) -> GroupOutcome:
        """Decide one input. Nothing changes until the outcome's records are applied."""
        if self._deleting and _group_of(asked.body) in self._deleting:
            return Outcome(replies=(Reply(asked.token, refuse(asked.body, COORDINATOR_LOAD_IN_PROGRESS)),))
        decision = _DECISIONS.get(type(asked.body))
        return self._decide_by_kind(asked.body, asked, now) if decision is None else decision(self, asked, now)  # type: ignore[arg-type]  # of the body's type

    def _decide_by_kind(self, target: object, asked: Input[Any], now: Now) -> GroupOutcome:
        """Pass a request or timer to its group's kind if the group `serves` it, else to the kind of groups that the API is for."""
        what, group_id = type(target), getattr(target, "group_id", None)
        kind = self._homes[what]
        if group_id not in kind.groups:
            group = None if group_id is None else self.context.find(group_id)
            if group is not None and group.serves(what):
                own = self._by_type[group.group_type]
                kind = own if what in own.decisions else kind
        return kind.decisions[what](kind, asked, now)

    def apply(self, record: GroupRecord) -> None:
        if isinstance(record, OffsetCommitted):
            if self.context.find(record.group_id) is None:
                self.classic.found(record.group_id)
            self.offsets.apply(record)
            return
        kind = self._changed.get(type(record))
        if kind is not None:
            if type(record) in kind.founding:
                self._make_room(kind, record[0])  # type: ignore[arg-type]  # the first field is the group id
            self.weight += kind.apply(record)
        elif isinstance(record, OffsetPending):
            if self.context.find(record.offset.group_id) is None:
                self.classic.found(record.offset.group_id)
            self.offsets.apply(record)
        elif isinstance(record, OffsetForgotten | TransactionEnded):
            self.offsets.apply(record)
        else:
            self._note(record)  # type: ignore[arg-type]  # the record belongs to no kind, and is no offset

    def _make_room(self, kind: GroupKind, group_id: str) -> None:
        """Remove the group of this id from all kinds except `kind`, whose new group replaces it."""
        for other in self.kinds:
            if other is not kind:
                self.weight += drop(other.groups, group_id)

    def _note(self, event: TopicsSeen | DeletionBegun | DeletionOver) -> None:
        """Apply an event that concerns groups of all kinds."""
        if isinstance(event, TopicsSeen):
            self.context.topics = event.topics
            for kind in self.kinds:
                kind.see(event)
        elif isinstance(event, DeletionBegun):
            self._deleting.add(event.group_id)
        else:
            self._deleting.discard(event.group_id)

    def recall(self, now: Now) -> GroupOutcome:
        """Return the outcome that sets all timers and continues all rebalances, after the records were loaded."""
        deadline_ms = now.mono_ms + self.context.settings.offsets_retention_check_interval_ms
        outcomes: list[GroupOutcome] = [Outcome(timers=(Timer(ExpiryKey(), deadline_ms),))]
        for kind in self.kinds:
            outcomes += kind.recall(now)
        return _join(outcomes)

    def weight_of(self, group_id: str) -> int:
        """Return the memory of a group's members, in bytes."""
        group = self.context.find(group_id)
        return 0 if group is None else group.weight

    def _kind(self, wanted: type[K]) -> K:
        return next(kind for kind in self.kinds if isinstance(kind, wanted))

    def _due(self, asked: Input[Due], now: Now) -> GroupOutcome:
        key = asked.body.key
        if isinstance(key, ExpiryKey):
            return self._expire(key, now)
        if isinstance(key, TopicsKey):
            return self._forget_topics(key, now)
        if isinstance(key, DeletionKey):
            return self._delete_step(key, now)
        return self._decide_by_kind(key, asked, now)

    def _expire(self, key: ExpiryKey, now: Now) -> GroupOutcome:
        rules = expiry.ExpiryRules(now.wall_ms, self.context.settings.offsets_retention_ms)
        records, following = expiry.search(ChainMap(*self.context.tables), self.offsets, rules, key)
        delay_ms = expiry.PAUSE_MS if following else self.context.settings.offsets_retention_check_interval_ms
        return Outcome(tuple(records), timers=(Timer(following or ExpiryKey(), now.mono_ms + delay_ms),))

    def _commit(self, asked: Input[OffsetCommitRequest], now: Now) -> GroupOutcome:
        body = asked.body
        group = self.context.find(body.group_id) or MISSING
        most_bytes = self.context.settings.offset_metadata_max_bytes
        error_code = group.commit_error(commit_of(body, asked.version, most_bytes))
        if error_code:
            return Outcome(replies=(Reply(asked.token, offsets.commit_refused(body, error_code)),))
        records, response = offsets.commit(body, now.wall_ms, most_bytes)
        timeout_ms = group.session_restarted_by_commit(body.member_id)
        timers: tuple[Timer, ...] = ()
        if timeout_ms is not None:
            timers = (Timer(SessionKey(body.group_id, body.member_id), now.mono_ms + timeout_ms),)
        return Outcome(tuple(records), (Reply(asked.token, response),), timers)

    def _commit_in_transaction(self, asked: Input[TxnOffsetCommitRequest], now: Now) -> GroupOutcome:
        body = asked.body
        most_bytes = self.context.settings.offset_metadata_max_bytes
        error_code = (self.context.find(body.group_id) or MISSING).commit_error(commit_of(body, asked.version, most_bytes))
        if error_code:
            return Outcome(replies=(Reply(asked.token, offsets.pending_refused(body, error_code)),))
        records, response = offsets.commit_in_transaction(body, now.wall_ms, most_bytes)
        producer = WrittenBy(body.producer_id, body.producer_epoch)
        return Outcome(tuple(records), (Reply(asked.token, response),), producer=producer)

    def _end_transaction(self, asked: Input[TransactionEnded], now: Now) -> GroupOutcome:
        return Outcome((asked.body,))

    def _fetch(self, asked: Input[OffsetFetchRequest.OffsetFetchRequestGroup], now: Now) -> GroupOutcome:
        return self._fetch_offsets(asked.body, asked.token, require_stable=False)

    def _fetch_stable(self, asked: Input[offsets.StableFetch], now: Now) -> GroupOutcome:
        return self._fetch_offsets(asked.body.wanted, asked.token, require_stable=True)

    def _fetch_offsets(self, wanted: offsets.FetchGroup, token: int, *, require_stable: bool) -> GroupOutcome:
        error_code = (self.context.find(wanted.group_id) or MISSING).fetch_error(wanted)
        if error_code:
            return Outcome(replies=(Reply(token, offsets.FetchedGroup(group_id=wanted.group_id, error_code=error_code)),))
        return Outcome(
            replies=(Reply(token, offsets.fetch(self.offsets, wanted, self.context.topics, require_stable=require_stable)),)
        )

    def _delete_offsets(self, asked: Input[OffsetDeleteRequest], now: Now) -> GroupOutcome:
        body = asked.body
        group = self.context.find(body.group_id)
        error_code = (group or MISSING).offset_delete_error() if body.group_id else INVALID_GROUP_ID
        if group is None or error_code:
            return Outcome(replies=(Reply(asked.token, OffsetDeleteResponse(error_code=error_code)),))
        subscribed = {topic.name for topic in body.topics if group.is_subscribed(topic.name) and group.members}
        records, response = offsets.delete(self.offsets, body, subscribed)
        return Outcome(tuple(records), (Reply(asked.token, response),))

    def _topics_deleted(self, asked: Input[TopicsDeleted], now: Now) -> GroupOutcome:
        groups = (*self.offsets.group_ids(), *self.shares.groups)
        return self._forget_topics(TopicsKey(asked.body.names, groups, 0, asked.token), now)

    def _topics_changed(self, asked: Input[TopicsChanged], now: Now) -> GroupOutcome:
        return Outcome((TopicsSeen(asked.body.topics, asked.body.names, asked.body.new),))

    def _forget_topics(self, key: TopicsKey, now: Now) -> GroupOutcome:
        gone, following = expiry.forget_topics(self.offsets, key, self.context.topics)
        records: list[GroupRecord] = [*gone]
        for group_id in key.groups[key.at : len(key.groups) if following is None else following.at]:
            group = self.context.find(group_id)
            records += () if group is None else group.without_deleted(self.context.topics)
        if following is not None:
            return Outcome(tuple(records), timers=(Timer(following, now.mono_ms + expiry.PAUSE_MS),))
        replies = () if key.token == NOBODY else (Reply(key.token, TopicsForgotten(key.names)),)
        return Outcome(tuple(records), replies)

    def _list(self, asked: Input[ListGroupsRequest], now: Now) -> GroupOutcome:
        states = {state.lower() for state in asked.body.states_filter}
        types = {kind.lower() for kind in asked.body.types_filter}
        groups = [
            ListGroupsResponse.ListedGroup(
                group_id=group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=group.group_type,
            )
            for kind in self.kinds
            if not types or kind.group_type in types
            for group_id, group in kind.groups.items()
            if not states or group.state.value.lower() in states
        ]
        return Outcome(replies=(Reply(asked.token, ListGroupsResponse(groups=groups)),))

    def _delete(self, asked: Input[DeleteGroupsRequest], now: Now) -> GroupOutcome:
        return self._delete_step(DeletionKey(asked.token, tuple(dict.fromkeys(asked.body.groups_names))), now)

    def _delete_step(self, key: DeletionKey, now: Now) -> GroupOutcome:
        """Delete groups for one step, with at most `MOST_FORGOTTEN` tombstones. A group that is partly deleted refuses requests."""
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
                group = self.context.find(group_id)
                records += () if group is None else group.tombstones()
                records += [DeletionOver(group_id)] if is_begun else []
            results.append((group_id, error_code))
        of = DeleteGroupsResponse.DeletableGroupResult
        response = DeleteGroupsResponse(results=[of(group_id=name, error_code=code) for name, code in results])
        return Outcome(tuple(records), (Reply(key.token, response),))

    def _delete_error(self, group_id: str) -> int:
        if group_id in self._deleting:
            return COORDINATOR_LOAD_IN_PROGRESS
        group = self.context.find(group_id)
        if group is None:
            return GROUP_ID_NOT_FOUND
        return NONE if group.is_empty else NON_EMPTY_GROUP


def _join(outcomes: list[GroupOutcome]) -> GroupOutcome:
    return Outcome(
        tuple(record for outcome in outcomes for record in outcome.records),
        tuple(reply for outcome in outcomes for reply in outcome.replies),
        tuple(timer for outcome in outcomes for timer in outcome.timers),
        tuple(order for outcome in outcomes for order in outcome.orders),
    )


def _group_of(body: object) -> str | None:
    """Return the group id of a request; None if it concerns several groups or is not from a client."""
    if type(body) is offsets.StableFetch:
        return body.wanted.group_id
    return getattr(body, "group_id", None)


_DECISIONS: dict[type, Callable[[GroupMachine, Input[Never], Now], GroupOutcome]] = {
    OffsetCommitRequest: GroupMachine._commit,
    TxnOffsetCommitRequest: GroupMachine._commit_in_transaction,
    TransactionEnded: GroupMachine._end_transaction,
    OffsetFetchRequest.OffsetFetchRequestGroup: GroupMachine._fetch,
    offsets.StableFetch: GroupMachine._fetch_stable,
    OffsetDeleteRequest: GroupMachine._delete_offsets,
    ListGroupsRequest: GroupMachine._list,
    DeleteGroupsRequest: GroupMachine._delete,
    TopicsDeleted: GroupMachine._topics_deleted,
    TopicsChanged: GroupMachine._topics_changed,
    Due: GroupMachine._due,
}
