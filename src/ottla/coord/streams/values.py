"""Values of streams groups (KIP-1071): topologies, tasks, statuses, and the input of task assignors. Immutable, without rules.

A task is one partition of a subtopology. Topics of a topology are named; the coordinator has their partition counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

TaskIds = Mapping[str, frozenset[int]]
"""Partitions by subtopology id. A subtopology without partitions is missing."""

NO_TASK_IDS: TaskIds = MappingProxyType({})

Task = tuple[str, int]
"""One task: the subtopology id and the partition."""

STALE_TOPOLOGY: Final = 0
MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
MISSING_CLIENT_TAGS: Final = 6
"""The status codes of StreamsGroupHeartbeat. The last is for version 1 and newer."""


class TaskSets(NamedTuple):
    """The tasks of one member: active tasks process records, standby tasks follow their state, warm-up tasks restore it."""

    active: TaskIds = NO_TASK_IDS
    standby: TaskIds = NO_TASK_IDS
    warmup: TaskIds = NO_TASK_IDS


NO_TASKS: Final = TaskSets()


class InternalTopic(NamedTuple):
    """A repartition or changelog topic of a topology.

    With 0 partitions, the number follows from the source topics. With replication factor 0, the broker's default applies.
    """

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Source topics with equally many partitions, as indexes into the lists of their subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class DeclaredSubtopology(NamedTuple):
    """A part of a topology, whose tasks are assigned independently."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class Topology(NamedTuple):
    """The topology of a streams application, as its members send it and as the coordinator stores it."""

    epoch: int
    subtopologies: tuple[DeclaredSubtopology, ...] = ()


class GroupStatus(NamedTuple):
    """A status of a streams group in the response to a heartbeat: its code, and one sentence."""

    code: int
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology after its topics were found. Internal topics have their numbers of partitions. All names are sorted."""

    task_count: int
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    state_changelog_topics: tuple[InternalTopic, ...] = ()


class ConfiguredTopology(NamedTuple):
    """A topology after its topics were found, by subtopology id in ascending order.

    With a `problem`, no tasks can be assigned. `missing` are the internal topics to create, if everything else is in order.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    missing: tuple[InternalTopic, ...] = ()
    problem: GroupStatus | None = None


class AssignmentConfigs(NamedTuple):
    """The settings of a group that an assignor uses."""

    num_standby_replicas: int = 0
    rack_aware_tags: tuple[str, ...] = ()
    num_warmup_replicas: int = 2
    acceptable_recovery_lag: int = 10_000


class TaskMember(NamedTuple):
    """A member of a group as input of an assignor.

    `target` is its present target assignment, and `assigned` its present tasks. `offsets` and `end_offsets` are the sums of the
    offsets of its tasks' changelogs, as it reported them last.
    """

    process_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] = MappingProxyType({})
    target: TaskSets = NO_TASKS
    assigned: TaskSets = NO_TASKS
    offsets: Mapping[Task, int] = MappingProxyType({})
    end_offsets: Mapping[Task, int] = MappingProxyType({})
