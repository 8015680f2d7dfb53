"""Volatile events of streams groups: they are lost when the coordinator restarts. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.coord.streams.values import ConfiguredTopology, TaskSets


class TopologyConfigured(NamedTuple):
    """The group's topology was compared with the present topics."""

    group_id: str
    configured: ConfiguredTopology


class ShutdownRequested(NamedTuple):
    """A member requested that all members of the application shut down."""

    group_id: str
    member_id: str


class EndpointsChanged(NamedTuple):
    """The tasks of a member that answers interactive queries have changed."""

    group_id: str


class DelayBegun(NamedTuple):
    """The first assignment of a new group waits for more members."""

    group_id: str


class DelayEnded(NamedTuple):
    """The first assignment of a new group no longer waits."""

    group_id: str


class TaskAssignmentBegun(NamedTuple):
    """The assignment of a large group began, because of the input with this `token`."""

    group_id: str
    token: int


class TaskAssignmentEnded(NamedTuple):
    """The assignment of a large group ended."""

    group_id: str


class TaskOffsetsReported(NamedTuple):
    """A member reported the sums of its changelogs' offsets, and of their end offsets, by task."""

    group_id: str
    member_id: str
    offsets: Mapping[tuple[str, int], int]
    end_offsets: Mapping[tuple[str, int], int]


class WarmupsSupported(NamedTuple):
    """A member sent a version of heartbeats with which it can run warm-up tasks and report their offsets."""

    group_id: str
    member_id: str


class GroupRecalled(NamedTuple):
    """A coordinator loaded the stored group at this monotonic time in ms. The members that support warm-up tasks report again."""

    group_id: str
    mono_ms: int


class TasksRefined(NamedTuple):
    """Tasks of the target assignment wait for warm-up tasks: `assigned` is what members have instead for now, by member id."""

    group_id: str
    assigned: Mapping[str, TaskSets]


class TasksSent(NamedTuple):
    """A reply sent a member its tasks at this monotonic time in ms. The member has not reported these tasks yet."""

    group_id: str
    member_id: str
    mono_ms: int


class TasksConfirmed(NamedTuple):
    """A member has reported the tasks that a reply sent it, or a second reply sent them."""

    group_id: str
    member_id: str


StreamsEvent = (
    TopologyConfigured
    | ShutdownRequested
    | EndpointsChanged
    | DelayBegun
    | DelayEnded
    | TaskAssignmentBegun
    | TaskAssignmentEnded
    | TaskOffsetsReported
    | WarmupsSupported
    | GroupRecalled
    | TasksRefined
    | TasksSent
    | TasksConfirmed
)
