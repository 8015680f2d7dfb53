"""The state of one share group (KIP-932), its methods as a `Group` (`ottla.coord.groups`), and `apply`, which changes it.

Decisions about requests are elsewhere. The state follows from the members, and its events are records.

| state | event | next state |
|---|---|---|
| Empty | ShareMemberStored | Stable |
| Stable | ShareMemberForgotten | Empty |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Final, Never, TypeVar

from ottla.coord.commit_rules import Commit
from ottla.coord.consumer.assign import NO_PARTITIONS, Partitions
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.member_checks import LEAVING_EPOCH
from ottla.coord.offsets import FetchGroup
from ottla.coord.share.events import (
    InitializationBegun,
    ShareAssignmentBegun,
    ShareAssignmentEnded,
    ShareEvent,
    ShareTopicsRefreshed,
)
from ottla.coord.share.member import ShareMember
from ottla.coord.share.records import (
    KINDS,
    PartitionsByTopic,
    ShareCurrentForgotten,
    ShareCurrentStored,
    ShareEpochForgotten,
    ShareEpochStored,
    ShareMemberForgotten,
    ShareMemberStored,
    ShareStateForgotten,
    ShareStateStored,
    ShareStored,
    ShareTargetEpochForgotten,
    ShareTargetEpochStored,
    ShareTargetForgotten,
    ShareTargetStored,
)
from ottla.wire.errors import GROUP_ID_NOT_FOUND, NONE
from ottla.wire.schema import Uuid

V = TypeVar("V")

FIRST_EPOCH = 1

TOPIC_BYTES: Final = 350
PARTITION_BYTES: Final = 30
"""The memory in bytes of each topic and of each partition in a member's target or assignment, or with state of the group."""


class ShareGroupState(Enum):
    """The states of a share group, named as in ListGroups and ShareGroupDescribe."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(slots=True, eq=False, repr=False)
class ShareGroup:
    """One share group.

    Members and targets are immutable values. `subscriptions` counts members by topic names. `initializing` and `initialized` are
    the share partitions by topic id, and `begun_ms` says when the initialization of a topic began. `deleting` are the names of
    topics whose state is being deleted. `has_state`: the group has had share partitions. `stale`: topics have possibly changed
    since the group checked them. `assigning` is the token of a long assignment. `covered` caches whether every initialized
    partition is assigned; None if unknown. `weight` is the estimated memory in bytes, without the members' topic names.
    """

    group_type: ClassVar[str] = "share"
    protocol_type: ClassVar[str] = "share"

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_wall_ms: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    subscriptions: dict[frozenset[str], int] = field(default_factory=dict)
    initializing: PartitionsByTopic = field(default_factory=dict)
    initialized: PartitionsByTopic = field(default_factory=dict)
    deleting: Mapping[Uuid, str] = field(default_factory=dict)
    begun_ms: dict[Uuid, int] = field(default_factory=dict)
    has_state: bool = False
    stale: bool = True
    assigning: int | None = None
    covered: bool | None = None
    weight: int = 0

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_deserted(self) -> bool:
        """Return False: a share group is deleted only by DeleteGroups, because its state is elsewhere."""
        return False

    def yields_to(self, group_type: str) -> bool:
        """Return False: as in Kafka, no group of another kind replaces a share group."""
        return False

    def serves(self, request: type) -> bool:
        """Return True: no other kind decides a deadline of this group. Requests of other protocols are not in this kind's table."""
        return True

    def commit_error(self, commit: Commit) -> int:
        return GROUP_ID_NOT_FOUND

    def fetch_error(self, wanted: FetchGroup) -> int:
        """Return NONE: the group has no committed offsets, so that each is reported as -1."""
        return NONE

    def offset_delete_error(self) -> int:
        return GROUP_ID_NOT_FOUND

    def session_restarted_by_commit(self, member_id: str) -> int | None:
        return None

    def expires_from_ms(self) -> int | None:
        return None

    def tombstones(self) -> Sequence[ShareStored]:
        group_id = self.group_id
        records: list[ShareStored] = [ShareCurrentForgotten(group_id, member_id) for member_id in self.members]
        records += [ShareTargetForgotten(group_id, member_id) for member_id in self.members]
        records.append(ShareTargetEpochForgotten(group_id))
        records += [ShareMemberForgotten(group_id, member_id) for member_id in self.members]
        records += [ShareStateForgotten(group_id), ShareEpochForgotten(group_id)]
        return records

    def without_deleted(self, topics: KnownTopics) -> Sequence[ShareStored]:
        """Return the record that removes the share partitions of deleted topics. Their state is deleted with the topics."""

        def filter_existing(of: Mapping[Uuid, V]) -> dict[Uuid, V]:
            return {topic_id: value for topic_id, value in of.items() if topics.with_id(topic_id) is not None}

        initializing, initialized = filter_existing(self.initializing), filter_existing(self.initialized)
        left = ShareStateStored(self.group_id, initializing, initialized, filter_existing(self.deleting))
        return () if left[1:] == (self.initializing, self.initialized, self.deleting) else (left,)

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in names for names in self.subscriptions)

    def subscriptions_with(self, member: ShareMember, topics: frozenset[str] | None) -> Iterator[frozenset[str]]:
        """Yield the sets of names to which the group subscribes once `member` subscribes to `topics`; None if it has left."""
        for names, count in self.subscriptions.items():
            if count > 1 or names != member.topics:
                yield names
        if topics is not None:
            yield topics


def apply(group: ShareGroup, event: ShareStored | ShareEvent) -> None:
    _APPLY[type(event)](group, event)  # type: ignore[arg-type]  # the table's keys are the events' types


def weight_of_partitions(partitions: Partitions) -> int:
    """Return the estimated memory of an assignment, in bytes."""
    return TOPIC_BYTES * len(partitions) + PARTITION_BYTES * sum(map(len, partitions.values()))


def _weight_of_state(topics: PartitionsByTopic) -> int:
    return sum(TOPIC_BYTES + PARTITION_BYTES * len(held.partitions) for held in topics.values())


def _epoch_stored(group: ShareGroup, event: ShareEpochStored) -> None:
    group.epoch = event.epoch
    group.metadata_hash = event.metadata_hash


def _put(group: ShareGroup, member: ShareMember) -> None:
    """Add a member to the group, or replace it."""
    before = group.members.get(member.member_id)
    _remove(group, member.member_id)
    group.members[member.member_id] = member
    group.weight += member.weight + weight_of_partitions(member.assigned)
    if member.topics:
        group.subscriptions[member.topics] = group.subscriptions.get(member.topics, 0) + 1
    if before is None or before.topics != member.topics:
        group.covered = None


def _remove(group: ShareGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is None:
        return
    group.weight -= member.weight + weight_of_partitions(member.assigned)
    if member.topics:
        group.subscriptions[member.topics] -= 1
        if not group.subscriptions[member.topics]:
            del group.subscriptions[member.topics]


def _member_stored(group: ShareGroup, event: ShareMemberStored) -> None:
    member = group.members.get(event.member_id) or ShareMember(event.member_id)
    _, _, rack_id, client_id, client_host, topics = event
    _put(group, replace(member, rack_id=rack_id, client_id=client_id, client_host=client_host, topics=topics))


def _member_forgotten(group: ShareGroup, event: ShareMemberForgotten) -> None:
    _remove(group, event.member_id)
    group.members.pop(event.member_id, None)
    group.covered = None


def _target_epoch_stored(group: ShareGroup, event: ShareTargetEpochStored) -> None:
    group.assignment_epoch = event.epoch
    group.assignment_wall_ms = event.wall_ms


def _target_epoch_forgotten(group: ShareGroup, event: ShareTargetEpochForgotten) -> None:
    group.assignment_epoch = -1
    group.assignment_wall_ms = 0


def _target_stored(group: ShareGroup, event: ShareTargetStored) -> None:
    before = group.targets.get(event.member_id, NO_PARTITIONS)
    group.weight += weight_of_partitions(event.partitions) - weight_of_partitions(before)
    group.targets[event.member_id] = event.partitions
    group.covered = None


def _target_forgotten(group: ShareGroup, event: ShareTargetForgotten) -> None:
    group.weight -= weight_of_partitions(group.targets.pop(event.member_id, NO_PARTITIONS))
    group.covered = None


def _current_stored(group: ShareGroup, event: ShareCurrentStored) -> None:
    member = group.members.get(event.member_id) or ShareMember(event.member_id)
    _put(group, replace(member, epoch=event.epoch, previous_epoch=event.previous_epoch, assigned=event.assigned))


def _current_forgotten(group: ShareGroup, event: ShareCurrentForgotten) -> None:
    if event.member_id in group.members:
        _current_stored(group, ShareCurrentStored(*event, LEAVING_EPOCH, LEAVING_EPOCH, NO_PARTITIONS))


def _state_stored(group: ShareGroup, event: ShareStateStored) -> None:
    group.weight += sum(map(_weight_of_state, event[1:3])) - sum(map(_weight_of_state, (group.initializing, group.initialized)))
    _, group.initializing, group.initialized, group.deleting = event
    group.has_state = True
    group.begun_ms = {topic_id: begun for topic_id, begun in group.begun_ms.items() if topic_id in group.initializing}
    group.covered = None


def _state_forgotten(group: ShareGroup, event: ShareStateForgotten) -> None:
    _state_stored(group, ShareStateStored(event.group_id, {}, {}, {}))
    group.has_state = False


def _set_refreshed(group: ShareGroup, event: ShareTopicsRefreshed) -> None:
    group.stale = False


def _initialization_begun(group: ShareGroup, event: InitializationBegun) -> None:
    group.begun_ms.update(dict.fromkeys(event.topic_ids, event.mono_ms))


def _assignment_begun(group: ShareGroup, event: ShareAssignmentBegun) -> None:
    group.assigning = event.token


def _assignment_ended(group: ShareGroup, event: ShareAssignmentEnded) -> None:
    group.assigning = None


def _ignore(group: ShareGroup, event: ShareEpochForgotten) -> None:
    """Do nothing, because the coordinator removes the group."""


_APPLY: dict[type, Callable[[ShareGroup, Never], None]] = {
    ShareEpochStored: _epoch_stored,
    ShareEpochForgotten: _ignore,
    ShareMemberStored: _member_stored,
    ShareMemberForgotten: _member_forgotten,
    ShareTargetEpochStored: _target_epoch_stored,
    ShareTargetEpochForgotten: _target_epoch_forgotten,
    ShareTargetStored: _target_stored,
    ShareTargetForgotten: _target_forgotten,
    ShareCurrentStored: _current_stored,
    ShareCurrentForgotten: _current_forgotten,
    ShareStateStored: _state_stored,
    ShareStateForgotten: _state_forgotten,
    ShareTopicsRefreshed: _set_refreshed,
    InitializationBegun: _initialization_begun,
    ShareAssignmentBegun: _assignment_begun,
    ShareAssignmentEnded: _assignment_ended,
}
EVENTS: Final = frozenset(_APPLY) - KINDS.stored
"""The types of the events, which are volatile."""

FOUNDING: Final = frozenset(
    (ShareEpochStored, ShareMemberStored, ShareTargetEpochStored, ShareTargetStored, ShareCurrentStored, ShareStateStored)
)
"""The types of the records that create a group. All other records are tombstones."""
