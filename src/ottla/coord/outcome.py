"""Inputs, timers and records that only the group machine has. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from ottla.coord.classic.events import ClassicEvent
from ottla.coord.consumer.events import ConsumerEvent, TopicsSeen
from ottla.coord.consumer.records import TargetStored
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.records import OffsetPending, Stored, TransactionEnded
from ottla.coord.runtime.machine import NOBODY, Input, Outcome, Shown, every_topic
from ottla.coord.share.events import ShareEvent
from ottla.coord.streams.events import StreamsEvent
from ottla.coord.streams.records import StreamsTargetStored
from ottla.coord.streams.values import TaskSets
from ottla.ports import Pauses
from ottla.values import dataclass
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import NONE
from ottla.wire.schema import Uuid


class DeletionBegun(NamedTuple):
    """An event: the deletion of a group in several steps has begun. The group refuses requests until `DeletionOver`."""

    group_id: str


class DeletionOver(NamedTuple):
    """An event: the deletion of a group is complete."""

    group_id: str


GroupRecord = (
    Stored
    | ClassicEvent
    | ConsumerEvent
    | ShareEvent
    | StreamsEvent
    | TopicsSeen
    | OffsetPending
    | TransactionEnded
    | DeletionBegun
    | DeletionOver
)
"""Changes of groups and offsets: records of `__consumer_offsets`, and events that a restart drops."""

GroupOutcome = Outcome[GroupRecord]


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The deadline of a member's session."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinKey:
    """The deadline for a group's members to join."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncGroupKey:
    """The deadline for the members of a generation to send SyncGroup."""

    group_id: str


@dataclass(frozen=True, slots=True)
class RebalanceKey:
    """The deadline for a member of a consumer group to revoke partitions."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RejoinKey:
    """The deadline for a consumer group's member that uses the classic protocol to rejoin."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberSyncGroupKey:
    """The deadline for a consumer group's member that uses the classic protocol to send SyncGroup."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ExpiryKey:
    """The timer of the search for expired offsets and groups.

    The next step of a search continues with group number `at` of `groups`, after the first `kept` topics of this group.
    """

    groups: tuple[str, ...] = field(default=(), compare=False, repr=False)
    at: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class TopicsKey:
    """The timer of a step that deletes offsets and share partitions of deleted topics, from group number `at` of `groups` on.

    `token` is the token of the `TopicsDeleted` that started the deletion.
    """

    names: frozenset[str]
    groups: tuple[str, ...] = field(compare=False, repr=False)
    at: int
    token: int = field(default=NOBODY, compare=False)


@dataclass(frozen=True, slots=True)
class DeletionKey:
    """The timer of a step that deletes `groups`. `is_begun`: the first group is partly deleted already.

    `token` is the token of the DeleteGroups request. `results` are the finished groups and their error codes.
    """

    token: int
    groups: tuple[str, ...] = field(compare=False)
    results: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    is_begun: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class PatternsKey:
    """The timer of a step that matches regular expressions: the first of `patterns`, from topic name number `at` on.

    `matched` are the topics of this pattern so far, `found` the topics of each finished pattern. `shown` removes the topics that
    the sender must not see.
    """

    group_id: str
    patterns: tuple[str, ...] = field(compare=False)
    names: tuple[str, ...] = field(compare=False, repr=False)
    at: int = field(default=0, compare=False)
    matched: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    found: tuple[tuple[str, frozenset[str]], ...] = field(default=(), compare=False, repr=False)
    shown: Shown = field(default=every_topic, compare=False, repr=False)


class ChangedTarget(NamedTuple):
    """The record of a member's new target, and the member's instance id.

    If a new static member has replaced the member meanwhile, the instance id identifies it.
    """

    record: TargetStored
    instance_id: str | None


class AwaitedTarget(NamedTuple):
    """A heartbeat that waits for a new target assignment, with its member's `assigned` partitions at that time.

    `changed`: the heartbeat changed the subscription.
    """

    asked: Input[ConsumerGroupHeartbeatRequest]
    member_id: str
    assigned: Mapping[Uuid, Mapping[int, int]]
    changed: bool


@dataclass(frozen=True, slots=True)
class AssignmentKey:
    """The timer of the next step of a large group's assignment.

    The step runs a part of `work`, or stores the changes of `found` from `at` on. `token` identifies the request that started the
    assignment. `epoch` is the group epoch at that time.
    """

    group_id: str
    token: int
    epoch: int = field(compare=False)
    work: Pauses[list[ChangedTarget]] = field(compare=False, repr=False)
    awaited: AwaitedTarget | None = field(compare=False, repr=False)
    found: tuple[ChangedTarget, ...] | None = field(default=None, compare=False, repr=False)
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class InitialDelayKey:
    """The end of the time in which a new streams group waits for more members before its first assignment."""

    group_id: str


class FoundTasks(NamedTuple):
    """A computed assignment of a streams group: the targets that change, all targets, and the members that differ for now."""

    changes: Sequence[StreamsTargetStored]
    targets: Mapping[str, TaskSets]
    patches: Mapping[str, TaskSets]


@dataclass(frozen=True, slots=True)
class TaskAssignmentKey:
    """The timer of the next step of a large streams group's assignment.

    The step runs a part of `work`, or stores the changes of `found` from `at` on. `token` identifies the request that started the
    assignment. `epoch` and `began_wall_ms` are the group epoch and the time at that request.
    """

    group_id: str
    token: int
    epoch: int = field(compare=False)
    began_wall_ms: int = field(compare=False)
    work: Pauses[FoundTasks] = field(compare=False, repr=False)
    found: FoundTasks | None = field(default=None, compare=False, repr=False)
    at: int = field(default=0, compare=False)


# Keys are not tuples, because keys of two kinds must never be equal.
TimerKey = (
    SessionKey
    | JoinKey
    | SyncGroupKey
    | RebalanceKey
    | RejoinKey
    | MemberSyncGroupKey
    | PatternsKey
    | AssignmentKey
    | InitialDelayKey
    | TaskAssignmentKey
    | ExpiryKey
    | TopicsKey
    | DeletionKey
)


class TopicsDeleted(NamedTuple):
    """An input: these topics were deleted, so their offsets must be deleted. New topics can have the same names."""

    names: frozenset[str]


class TopicsForgotten(NamedTuple):
    """The reply to `TopicsDeleted`. Without an error, no offset of the deleted topics is left."""

    names: frozenset[str]
    error_code: int = NONE


class TopicsChanged(NamedTuple):
    """An input: the present topics. `names` have changed since the previous input. `new`: some of them are new."""

    topics: KnownTopics
    names: frozenset[str]
    new: bool
