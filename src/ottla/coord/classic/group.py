"""The state of one classic group, its methods as a `Group` (`ottla.coord.groups`), and `apply`, which alone changes the state.

Decisions about requests are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import ClassVar, Final, Never

from ottla.coord.classic.events import (
    ClassicEvent,
    ClassicMember,
    InitialDelay,
    InitialDelaySet,
    JoinCompleted,
    LeaderElected,
    MemberIdGiven,
    MemberJoined,
    MemberRejoined,
    MemberRemoved,
    MemberReplaced,
    Protocols,
    RebalanceBegun,
    SyncGroupAwaited,
    SyncGroupSeen,
)
from ottla.coord.classic.states import NEXT, Cause, State
from ottla.coord.classic.subscription import subscribed_topics
from ottla.coord.commit_rules import Commit
from ottla.coord.consumer.embedded_protocol import PROTOCOL_TYPE
from ottla.coord.consumer.names import TEXT_BYTES
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.records import NO_TIMESTAMP, GroupForgotten, GroupStored, StoredMember
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import (
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    NON_EMPTY_GROUP,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

MEMBER_BYTES: Final = 2_500
"""The memory in bytes of a member without texts and protocols, if it is alone in its group: values, tables and a deadline."""
PROTOCOL_BYTES: Final = 100
"""The memory in bytes of a member's protocol without its name and metadata."""
INVITATION_BYTES: Final = 1_000
"""The memory in bytes of a member id that has not joined yet, without its text: an entry and a deadline."""


@dataclass(slots=True, eq=False, repr=False)
class ClassicGroup:
    """One consumer group of the classic protocol.

    Members are immutable values, so that a copy of a group copies only a few dictionaries. `joining` and `syncing` are the tokens
    of waiting replies, by member id. `invited` are member ids that clients got but have not joined with. `unsynced` are members
    that have not sent SyncGroup in this generation. `new` are members that never got a reply to a join. `weight` is the estimated
    memory of all members and member ids, in bytes.
    """

    group_type: ClassVar[str] = "classic"

    group_id: str
    state: State = State.EMPTY
    previous_state: State = State.DEAD
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    supported: dict[str, int] = field(default_factory=dict)
    joining: dict[str, int] = field(default_factory=dict)
    syncing: dict[str, int] = field(default_factory=dict)
    invited: dict[str, None] = field(default_factory=dict)
    unsynced: dict[str, None] = field(default_factory=dict)
    new: dict[str, None] = field(default_factory=dict)
    topics: frozenset[str] | None = None
    delay: InitialDelay | None = None
    more_came: bool = False
    weight: int = 0
    topics_weight: int = 0

    def copy(self) -> ClassicGroup:
        """Return a copy that can be changed without changing this group."""
        twin = ClassicGroup.__new__(ClassicGroup)
        for name in ClassicGroup.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, dict) else value)
        return twin

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.invited

    @property
    def is_initial_rebalance(self) -> bool:
        return self.state is State.PREPARING_REBALANCE and self.previous_state is State.EMPTY

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols can join.

        An empty group accepts any protocols. Any other group needs the same type, and a protocol that all members support.
        """
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(self.supported.get(name, 0) == everybody for name, _ in protocols)

    def choose_protocol(self) -> str:
        """Return the elected protocol: each member votes for its most preferred common one, and the first candidate wins a tie."""
        everybody = len(self.members)
        votes = {name: 0 for name, count in self.supported.items() if count == everybody}
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in votes)] += 1
        return max(votes, key=votes.__getitem__)

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_deserted(self) -> bool:
        """Return whether the group is empty, and no client has a member id with which it can join."""
        return self.state is State.EMPTY and not self.invited

    def yields_to(self, group_type: str) -> bool:
        """Return whether a group of this type replaces the empty group: a consumer or streams group, as in Kafka."""
        return self.is_empty and group_type != "share"

    def without_deleted(self, topics: KnownTopics) -> Sequence[GroupStored]:
        """Return no records: the group's leader finds that a topic was deleted."""
        return ()

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member possibly reads this topic.

        Return True for every topic if the subscriptions of a consumer group cannot be parsed.
        """
        if self.topics is None:
            return self.protocol_type == PROTOCOL_TYPE
        return topic in self.topics

    def serves(self, request: type) -> bool:
        return True

    def member_error(self, member_id: str, group_instance_id: str | None) -> int:
        """Return NONE for a member, else an error code: FENCED_INSTANCE_ID if another member now has the instance id (KIP-345)."""
        if group_instance_id is not None:
            holder = self.static.get(group_instance_id)
            if holder is None:
                return UNKNOWN_MEMBER_ID
            if holder != member_id:
                return FENCED_INSTANCE_ID
        return NONE if member_id in self.members else UNKNOWN_MEMBER_ID

    def generation_error(self, member_id: str, group_instance_id: str | None, generation: int) -> int:
        """Return the error code of a request for this member id and generation; NONE if both are valid.

        An unknown or fenced member gets the error of `member_error`, another generation ILLEGAL_GENERATION.
        """
        error_code = self.member_error(member_id, group_instance_id)
        if error_code == NONE and generation != self.generation:
            return ILLEGAL_GENERATION
        return error_code

    def commit_error(self, commit: Commit) -> int:
        """Return the error code of a commit. A commit without a generation is allowed only while the group has no members.

        In a producer's transaction, such a commit is always allowed (before KIP-447), and a rebalance is no error, because the
        transaction itself fences members of older generations.
        """
        if commit.epoch < 0 and self.state is State.EMPTY:
            return NONE
        if commit.epoch < 0 and commit.is_anonymous:
            return NONE if commit.is_transactional else UNKNOWN_MEMBER_ID
        error_code = self.generation_error(commit.member_id, commit.group_instance_id, commit.epoch)
        if error_code == NONE and self.state is State.COMPLETING_REBALANCE and not commit.is_transactional:
            return REBALANCE_IN_PROGRESS
        return error_code

    def fetch_error(self, wanted: OffsetFetchRequest.OffsetFetchRequestGroup) -> int:
        return NONE

    def offset_delete_error(self) -> int:
        """Return NON_EMPTY_GROUP for a group with members of another protocol type than `consumer`, else NONE.

        Only subscriptions of consumers can be parsed, so topics that other members use are unknown.
        """
        return NONE if self.is_empty or self.protocol_type == PROTOCOL_TYPE else NON_EMPTY_GROUP

    def session_restarted_by_commit(self, member_id: str) -> int | None:
        member = self.members.get(member_id)
        return None if member is None else member.session_timeout_ms

    def expires_from_ms(self) -> int | None:
        """Return the wall time in ms at which retention of offsets began; -1 if it begins at each commit; None if nothing expires.

        Retention begins when the group becomes empty. In a stable group, offsets of topics that no member reads expire by the time
        of each commit, as do offsets committed without members. Nothing expires during a rebalance.
        """
        if self.protocol_type is None:
            return NO_TIMESTAMP
        if self.state is State.EMPTY:
            return self.state_timestamp_ms
        return NO_TIMESTAMP if self.state is State.STABLE and self.topics is not None else None

    def tombstones(self) -> Sequence[GroupForgotten]:
        return (GroupForgotten(self.group_id),)

    def at_rest(self, assignments: dict[str, bytes], wall_ms: int) -> GroupStored:
        """Return the record that stores this group, with `assignments` by member id."""
        members = tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol),
                assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        )
        return GroupStored(self.group_id, self.protocol_type or "", self.generation, self.protocol, self.leader, wall_ms, members)

    def move(self, cause: Cause, wall_ms: int) -> None:
        self.state, self.previous_state = NEXT[self.state, cause], self.state
        self.state_timestamp_ms = wall_ms

    def remember_topics(self) -> None:
        """Parse the members' subscriptions. Offsets of subscribed topics do not expire."""
        self.weight -= self.topics_weight
        self.topics, self.topics_weight = None, 0
        if self.protocol_type == PROTOCOL_TYPE:
            self.topics = subscribed_topics(member.metadata(self.protocol) for member in self.members.values())
        if self.topics is not None:
            self.topics_weight = getsizeof(self.topics) + TEXT_BYTES * len(self.topics) + getsizeof("".join(self.topics))
        self.weight += self.topics_weight


def weight_of(group: ClassicGroup) -> int:
    """Return the estimated memory of a group's members and unused member ids, in bytes."""
    invited = sum(map(_invitation_weight, group.invited))
    return sum(map(_member_weight, group.members.values())) + invited + group.topics_weight


def _member_weight(member: ClassicMember) -> int:
    texts = member.member_id, member.group_instance_id, member.client_id, member.client_host
    weight = MEMBER_BYTES + sum(map(getsizeof, texts)) + len(member.assignment)
    for name, metadata in member.protocols:
        weight += PROTOCOL_BYTES + getsizeof(name) + len(metadata)
    return weight


def _invitation_weight(member_id: str) -> int:
    return INVITATION_BYTES + getsizeof(member_id)


def apply(group: ClassicGroup, event: ClassicEvent | GroupStored) -> None:
    _APPLY[type(event)](group, event)  # type: ignore[arg-type]  # the table's keys are the events' types


def _count(group: ClassicGroup, protocols: Iterable[tuple[str, bytes]], by: int) -> None:
    for name in dict(protocols):
        group.supported[name] = group.supported.get(name, 0) + by
        if not group.supported[name]:
            del group.supported[name]


def _id_given(group: ClassicGroup, event: MemberIdGiven) -> None:
    group.invited[event.member_id] = None
    group.weight += _invitation_weight(event.member_id)


def _apply_joined_member(group: ClassicGroup, event: MemberJoined) -> None:
    member = event.member
    if not group.members:
        group.protocol_type = event.protocol_type
    group.members[member.member_id] = member
    _count(group, member.protocols, 1)
    if member.group_instance_id is not None:
        group.static[member.group_instance_id] = member.member_id
    group.leader = group.leader or member.member_id
    group.joining[member.member_id] = event.token
    group.new[member.member_id] = None
    group.weight += _member_weight(member)
    if member.member_id in group.invited:
        _disinvite(group, member.member_id)
    group.more_came = group.is_initial_rebalance


def _disinvite(group: ClassicGroup, member_id: str) -> None:
    del group.invited[member_id]
    group.weight -= _invitation_weight(member_id)


def _apply_rejoined_member(group: ClassicGroup, event: MemberRejoined) -> None:
    member = group.members[event.member_id]
    _count(group, member.protocols, -1)
    _count(group, event.protocols, 1)
    again = replace(
        member,
        protocols=event.protocols,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        session_timeout_ms=event.session_timeout_ms,
    )
    group.members[event.member_id] = again
    group.weight += _member_weight(again) - _member_weight(member)
    group.joining[event.member_id] = event.token


def _replace_member(group: ClassicGroup, event: MemberReplaced) -> None:
    """Replace a member at the same position, because the order of members decides the next leader."""
    seated = {}
    for member_id, member in group.members.items():
        if member_id == event.member_id:
            member = replace(member, member_id=event.new_member_id)
        seated[member.member_id] = member
    newcomer = seated[event.new_member_id]
    group.weight += _member_weight(newcomer) - _member_weight(group.members[event.member_id])
    group.members = seated
    if newcomer.group_instance_id is not None:
        group.static[newcomer.group_instance_id] = event.new_member_id
    if group.leader == event.member_id:
        group.leader = event.new_member_id
    for awaited in (group.joining, group.syncing, group.unsynced, group.new):
        awaited.pop(event.member_id, None)


def _remove_member(group: ClassicGroup, event: MemberRemoved) -> None:
    member = group.members.pop(event.member_id, None)
    if member is not None:
        _count(group, member.protocols, -1)
        group.weight -= _member_weight(member)
        if member.group_instance_id is not None:
            group.static.pop(member.group_instance_id, None)
    if group.leader == event.member_id:
        group.leader = next(iter(group.members), None)
    if event.member_id in group.invited:
        _disinvite(group, event.member_id)
    for awaited in (group.joining, group.syncing, group.unsynced, group.new):
        awaited.pop(event.member_id, None)


def _set_leader(group: ClassicGroup, event: LeaderElected) -> None:
    group.leader = event.member_id


def _rebalance_begun(group: ClassicGroup, event: RebalanceBegun) -> None:
    if group.state is State.COMPLETING_REBALANCE:
        group.members = {member_id: replace(member, assignment=b"") for member_id, member in group.members.items()}
        group.weight = weight_of(group)
    group.syncing.clear()
    group.unsynced.clear()
    group.more_came = False
    group.move(Cause.MEMBERSHIP_CHANGED, event.wall_ms)


def _delay_set(group: ClassicGroup, event: InitialDelaySet) -> None:
    group.delay = event.delay
    group.more_came = False


def _join_completed(group: ClassicGroup, event: JoinCompleted) -> None:
    group.generation += 1
    group.protocol = event.protocol
    group.delay = None
    group.joining.clear()
    group.new.clear()
    group.unsynced = dict.fromkeys(group.members)
    group.move(Cause.JOIN_COMPLETED, event.wall_ms)
    group.remember_topics()


def _sync_awaited(group: ClassicGroup, event: SyncGroupAwaited) -> None:
    group.syncing[event.member_id] = event.token
    group.unsynced.pop(event.member_id, None)


def _sync_seen(group: ClassicGroup, event: SyncGroupSeen) -> None:
    group.unsynced.pop(event.member_id, None)


def _apply_stored_group(group: ClassicGroup, event: GroupStored) -> None:
    """Load a stored group. Members that are present already keep protocols that the record does not contain."""
    group.generation = event.generation
    group.protocol_type = event.protocol_type or None
    group.protocol = event.protocol
    group.leader = event.leader
    group.previous_state = group.state
    group.state = State.STABLE if event.members else State.EMPTY
    group.state_timestamp_ms = event.state_timestamp_ms
    group.delay = None
    group.joining.clear()
    group.syncing.clear()
    group.new.clear()
    known = group.members
    group.members = {
        stored.member_id: _load_member(stored, known.get(stored.member_id), event.protocol) for stored in event.members
    }
    group.static = {m.group_instance_id: m.member_id for m in group.members.values() if m.group_instance_id is not None}
    group.unsynced = {member_id: None for member_id in group.unsynced if member_id in group.members}
    group.supported = {}
    for member in group.members.values():
        _count(group, member.protocols, 1)
    group.weight = weight_of(group)
    group.remember_topics()


def _load_member(stored: StoredMember, known: ClassicMember | None, protocol: str | None) -> ClassicMember:
    """Return a stored member. If its subscription equals that of `known`, it also keeps the other protocols of `known`."""
    protocols: Protocols = ((protocol or "", stored.subscription),)
    if known is not None and known.metadata(protocol) == stored.subscription:
        protocols = known.protocols
    return ClassicMember(
        stored.member_id,
        stored.group_instance_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.session_timeout_ms,
        protocols,
        stored.assignment,
    )


_APPLY: dict[type, Callable[[ClassicGroup, Never], None]] = {
    MemberIdGiven: _id_given,
    MemberJoined: _apply_joined_member,
    MemberRejoined: _apply_rejoined_member,
    MemberReplaced: _replace_member,
    MemberRemoved: _remove_member,
    LeaderElected: _set_leader,
    RebalanceBegun: _rebalance_begun,
    InitialDelaySet: _delay_set,
    JoinCompleted: _join_completed,
    SyncGroupAwaited: _sync_awaited,
    SyncGroupSeen: _sync_seen,
    GroupStored: _apply_stored_group,
}
APPLIED = frozenset(_APPLY)
"""The types of the records and events that `apply` can apply."""
