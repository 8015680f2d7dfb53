"""The state of one consumer group (KIP-848), its methods as a `Group` (`ottla.coord.groups`), and `apply`, which changes it.

Decisions about requests are elsewhere. The state follows from epochs and members, and its events are records. The records of one
decision are applied one after the other, so clients never see some of these states.

| state | event | next state |
|---|---|---|
| Empty | MemberStored | Assigning |
| Empty | MemberStored | Reconciling |
| Empty | MemberStored | Stable |
| Stable | MemberStored, CurrentStored, CurrentForgotten | Reconciling |
| Stable, Reconciling | EpochStored | Assigning |
| Reconciling | TargetEpochForgotten | Assigning |
| Assigning | TargetEpochStored | Reconciling |
| Reconciling | TargetEpochStored, CurrentStored, MemberForgotten | Stable |
| Assigning, Reconciling | MemberForgotten | Empty |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple, Never, TypeVar

from ottla.coord.commit_rules import Commit, member_commit_error, member_fetch_error
from ottla.coord.consumer.assign import Partitions
from ottla.coord.consumer.embedded_protocol import PROTOCOL_TYPE
from ottla.coord.consumer.events import (
    AssignmentBegun,
    AssignmentEnded,
    ConsumerEvent,
    MetadataRefreshed,
    PatternsFound,
    PatternsSought,
    RejoinAwaited,
    RejoinSeen,
)
from ottla.coord.consumer.member import ConsumerMember, Epochs
from ottla.coord.consumer.records import (
    ConsumerStored,
    CurrentForgotten,
    CurrentStored,
    EpochForgotten,
    EpochStored,
    MemberForgotten,
    MemberStored,
    OldMetadataForgotten,
    OldMetadataStored,
    PatternForgotten,
    PatternStored,
    TargetEpochForgotten,
    TargetEpochStored,
    TargetForgotten,
    TargetStored,
)
from ottla.coord.consumer.states import GroupState, MemberState
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.member_checks import LEAVING_EPOCH
from ottla.coord.records import NO_TIMESTAMP
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import NONE
from ottla.wire.schema import Uuid

K = TypeVar("K")

FIRST_EPOCH = 1
NO_TARGET: Partitions = {}
NOBODYS: Mapping[int, str] = {}

TARGET_TOPIC_BYTES: Final = 350
TARGET_BYTES: Final = 30
HELD_TOPIC_BYTES: Final = 700
HELD_BYTES: Final = 50
"""The memory in bytes of each topic and of each partition in a member's target, and in its assignment."""


class Resolved(NamedTuple):
    """The topics that match a regular expression, and when they were matched."""

    topics: frozenset[str]
    wall_ms: int


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroup:
    """One consumer group.

    Members and targets are immutable values. `subscriptions` counts members by topic names, `patterns` by regular expression,
    `assignors` by assignor, and `protocols` by classic protocol. `owners` are the members that have a partition or must still
    revoke it. `stale`: topics have possibly changed since the group checked them; `stale_patterns`: so has the set of topics.
    `seeking`: patterns are being matched. `assigning` is the token of the request that began a long assignment. `rejoining` are
    classic members that must rejoin. `weight` is the estimated memory of the members in bytes, without their topic names.
    """

    group_type: ClassVar[str] = "consumer"
    protocol_type: ClassVar[str] = PROTOCOL_TYPE

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_wall_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    owners: dict[Uuid, dict[int, str]] = field(default_factory=dict)
    subscriptions: dict[frozenset[str], int] = field(default_factory=dict)
    patterns: dict[str, int] = field(default_factory=dict)
    resolved: dict[str, Resolved] = field(default_factory=dict)
    assignors: dict[str, int] = field(default_factory=dict)
    protocols: dict[str, int] = field(default_factory=dict)
    classic_count: int = 0
    has_old_metadata: bool = False
    stale: bool = True
    stale_patterns: bool = True
    seeking: bool = False
    assigning: int | None = None
    rejoining: set[str] = field(default_factory=set)
    weight: int = 0

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_deserted(self) -> bool:
        return not self.members

    def yields_to(self, group_type: str) -> bool:
        """Return whether a group of this type replaces the empty group: only a classic one, as in Kafka."""
        return not self.members and group_type == "classic"

    def without_deleted(self, topics: KnownTopics) -> Sequence[ConsumerStored]:
        """Return no records: the group finds by its next heartbeat that a topic was deleted."""
        return ()

    def serves(self, request: type) -> bool:
        """Return whether this group decides a classic request. A JoinGroup to an empty group makes it a classic group instead."""
        return request is not JoinGroupRequest or bool(self.members)

    def commit_error(self, commit: Commit) -> int:
        return member_commit_error(commit, self.members, lambda member, place: member.given_at(place.topic_id, place.partition))

    def fetch_error(self, wanted: OffsetFetchRequest.OffsetFetchRequestGroup) -> int:
        return member_fetch_error(wanted, self.members)

    def offset_delete_error(self) -> int:
        return NONE

    def session_restarted_by_commit(self, member_id: str) -> int | None:
        return None

    def expires_from_ms(self) -> int | None:
        """Return -1, because retention begins at each commit: the time when a group became empty is not stored (KIP-848)."""
        return NO_TIMESTAMP

    def tombstones(self, replaced: str | None = None, newcomer: str = "") -> Sequence[ConsumerStored]:
        """Return the records that delete the group. If a static member was `replaced`, they contain the id `newcomer` instead."""
        group_id = self.group_id
        member_ids = [newcomer if member_id == replaced else member_id for member_id in self.members]
        records: list[ConsumerStored] = [CurrentForgotten(group_id, member_id) for member_id in member_ids]
        records += [TargetForgotten(group_id, member_id) for member_id in member_ids]
        records.append(TargetEpochForgotten(group_id))
        records += [MemberForgotten(group_id, member_id) for member_id in member_ids]
        records += [PatternForgotten(group_id, pattern) for pattern in self.resolved]
        records += [OldMetadataForgotten(group_id), EpochForgotten(group_id)]
        return records

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the static member with this instance id; None if it is missing."""
        member_id = self.static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member can be reading this topic."""
        return any(topic in names for names in self.subscribed_topics())

    def subscribed_topics(self) -> Iterator[frozenset[str]]:
        """Yield the sets of topics to which members subscribe: by name, and by the regular expressions that match them."""
        yield from self.subscriptions
        for resolved in self.resolved.values():
            yield resolved.topics

    def owner(self, topic_id: Uuid, partition: int) -> str | None:
        """Return the member that has a partition or must still revoke it; None if the partition is free."""
        return self.owners.get(topic_id, {}).get(partition)

    def taken_partitions(self, topic_id: Uuid) -> AbstractSet[int]:
        """Return the partitions of a topic that members have or must still revoke."""
        return self.owners.get(topic_id, NOBODYS).keys()

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics to which a member subscribes, by name or by a regular expression that was matched already."""
        resolved = self.resolved.get(member.pattern) if member.pattern else None
        return member.topics if resolved is None else member.topics | resolved.topics


def apply(group: ConsumerGroup, event: ConsumerStored | ConsumerEvent) -> None:
    _APPLY[type(event)](group, event)  # type: ignore[arg-type]  # the table's keys are the events' types


def _count(counts: dict[K, int], names: Iterable[K], by: int) -> None:
    for name in names:
        count = counts.get(name, 0) + by
        if count:
            counts[name] = count
        else:
            counts.pop(name, None)


def _count_member(group: ConsumerGroup, member: ConsumerMember, by: int) -> None:
    """Add `by` (1 or -1) to the counts for a member's topics, pattern, assignor and protocols."""
    group.weight += by * member.weight
    if member.topics:
        _count(group.subscriptions, (member.topics,), by)
    if member.pattern:
        _count(group.patterns, (member.pattern,), by)
    if member.assignor is not None:
        _count(group.assignors, (member.assignor,), by)
    if member.classic is not None:
        group.classic_count += by
        _count(group.protocols, dict(member.classic.protocols), by)
    if member.instance_id is None:
        return
    if by > 0:
        group.static[member.instance_id] = member.member_id
    elif group.static.get(member.instance_id) == member.member_id:
        del group.static[member.instance_id]


def _target_weight(partitions: Partitions) -> int:
    return TARGET_TOPIC_BYTES * len(partitions) + TARGET_BYTES * sum(map(len, partitions.values()))


def _held_weight(*held: Epochs) -> int:
    return sum(HELD_TOPIC_BYTES * len(topics) + HELD_BYTES * sum(map(len, topics.values())) for topics in held)


def _own(group: ConsumerGroup, member_id: str, held: Epochs) -> None:
    for topic_id, partitions in held.items():
        group.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))


def _disown(group: ConsumerGroup, member_id: str, held: Epochs) -> None:
    """Remove a member's ownership of the partitions `held`. Partitions that another member already owns stay unchanged."""
    for topic_id, partitions in held.items():
        owners = group.owners.get(topic_id, {})
        for partition in partitions:
            if owners.get(partition) == member_id:
                del owners[partition]
        if not owners:
            group.owners.pop(topic_id, None)


def _epoch_stored(group: ConsumerGroup, event: EpochStored) -> None:
    group.epoch = event.epoch
    group.metadata_hash = event.metadata_hash


def _member_stored(group: ConsumerGroup, event: MemberStored) -> None:
    member = group.members.get(event.member_id)
    if member is None:
        member = ConsumerMember(event.member_id)
    else:
        _count_member(group, member, -1)
    member = with_stored(member, event)
    group.members[event.member_id] = member
    _count_member(group, member, 1)


def with_stored(member: ConsumerMember, stored: MemberStored) -> ConsumerMember:
    """Return the member with the subscription and other data in `stored`. Its assignment stays."""
    return replace(
        member,
        instance_id=stored.instance_id,
        rack_id=stored.rack_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        topics=stored.topics,
        pattern=stored.pattern,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        assignor=stored.assignor,
        classic=stored.classic,
    )


def _member_forgotten(group: ConsumerGroup, event: MemberForgotten) -> None:
    member = group.members.pop(event.member_id, None)
    if member is not None:
        _count_member(group, member, -1)
        _disown(group, event.member_id, member.assigned)
        _disown(group, event.member_id, member.revoking)
        group.weight -= _held_weight(member.assigned, member.revoking)
    group.rejoining.discard(event.member_id)


def _target_epoch_stored(group: ConsumerGroup, event: TargetEpochStored) -> None:
    group.assignment_epoch = event.epoch
    group.assignment_wall_ms = event.wall_ms


def _target_epoch_forgotten(group: ConsumerGroup, event: TargetEpochForgotten) -> None:
    group.assignment_epoch = -1
    group.assignment_wall_ms = 0


def _target_stored(group: ConsumerGroup, event: TargetStored) -> None:
    group.weight += _target_weight(event.partitions) - _target_weight(group.targets.get(event.member_id, NO_TARGET))
    group.targets[event.member_id] = event.partitions


def _target_forgotten(group: ConsumerGroup, event: TargetForgotten) -> None:
    group.weight -= _target_weight(group.targets.pop(event.member_id, NO_TARGET))


def _current_stored(group: ConsumerGroup, event: CurrentStored) -> None:
    member = group.members.get(event.member_id)
    if member is None:
        member = ConsumerMember(event.member_id)
        _count_member(group, member, 1)
    group.weight += _held_weight(event.assigned, event.revoking) - _held_weight(member.assigned, member.revoking)
    _disown(group, event.member_id, member.assigned)
    _disown(group, event.member_id, member.revoking)
    group.members[event.member_id] = replace(
        member,
        epoch=event.epoch,
        previous_epoch=event.previous_epoch,
        state=event.state,
        assigned=event.assigned,
        revoking=event.revoking,
    )
    _own(group, event.member_id, event.assigned)
    _own(group, event.member_id, event.revoking)


def _current_forgotten(group: ConsumerGroup, event: CurrentForgotten) -> None:
    if event.member_id in group.members:
        nothing: Mapping[Uuid, Mapping[int, int]] = {}
        gone = CurrentStored(*event, LEAVING_EPOCH, LEAVING_EPOCH, MemberState.STABLE, nothing, nothing)
        _current_stored(group, gone)


def _pattern_stored(group: ConsumerGroup, event: PatternStored) -> None:
    _pattern_forgotten(group, PatternForgotten(event.group_id, event.pattern))
    group.resolved[event.pattern] = Resolved(event.topics, event.wall_ms)


def _pattern_forgotten(group: ConsumerGroup, event: PatternForgotten) -> None:
    group.resolved.pop(event.pattern, None)


def _old_metadata_stored(group: ConsumerGroup, event: OldMetadataStored) -> None:
    group.has_old_metadata = True


def _old_metadata_forgotten(group: ConsumerGroup, event: OldMetadataForgotten) -> None:
    group.has_old_metadata = False


def _set_refreshed(group: ConsumerGroup, event: MetadataRefreshed) -> None:
    group.stale = False


def _patterns_sought(group: ConsumerGroup, event: PatternsSought) -> None:
    group.stale_patterns = False
    group.seeking = True


def _patterns_found(group: ConsumerGroup, event: PatternsFound) -> None:
    group.seeking = False


def _assignment_begun(group: ConsumerGroup, event: AssignmentBegun) -> None:
    group.assigning = event.token


def _assignment_ended(group: ConsumerGroup, event: AssignmentEnded) -> None:
    group.assigning = None


def _rejoin_awaited(group: ConsumerGroup, event: RejoinAwaited) -> None:
    group.rejoining.add(event.member_id)


def _rejoin_seen(group: ConsumerGroup, event: RejoinSeen) -> None:
    group.rejoining.discard(event.member_id)


def _ignore(group: ConsumerGroup, event: EpochForgotten) -> None:
    """Do nothing, because the coordinator removes the group."""


_APPLY: dict[type, Callable[[ConsumerGroup, Never], None]] = {
    EpochStored: _epoch_stored,
    EpochForgotten: _ignore,
    OldMetadataStored: _old_metadata_stored,
    OldMetadataForgotten: _old_metadata_forgotten,
    MemberStored: _member_stored,
    MemberForgotten: _member_forgotten,
    TargetEpochStored: _target_epoch_stored,
    TargetEpochForgotten: _target_epoch_forgotten,
    TargetStored: _target_stored,
    TargetForgotten: _target_forgotten,
    CurrentStored: _current_stored,
    CurrentForgotten: _current_forgotten,
    PatternStored: _pattern_stored,
    PatternForgotten: _pattern_forgotten,
    MetadataRefreshed: _set_refreshed,
    PatternsSought: _patterns_sought,
    PatternsFound: _patterns_found,
    AssignmentBegun: _assignment_begun,
    AssignmentEnded: _assignment_ended,
    RejoinAwaited: _rejoin_awaited,
    RejoinSeen: _rejoin_seen,
}
FOUNDING = frozenset((EpochStored, MemberStored, TargetEpochStored, TargetStored, CurrentStored, PatternStored, OldMetadataStored))
"""The types of the records that create a group. All other records are tombstones."""

EVENTS = frozenset((MetadataRefreshed, PatternsSought, PatternsFound, AssignmentBegun, AssignmentEnded, RejoinAwaited, RejoinSeen))
"""The types of the events, which are volatile."""
