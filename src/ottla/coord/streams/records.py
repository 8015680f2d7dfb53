"""The records of a streams group in `__consumer_offsets`, as values and as bytes in Kafka's formats (KIP-1071).

Their effects are elsewhere. The first field of each record is the group id. Records named `…Forgotten` are tombstones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.coord.record_kinds import OF_GROUP, RecordKind, RecordKinds
from ottla.coord.streams.member import AssignedTasks, TaskEpochs
from ottla.coord.streams.states import StreamsMemberState
from ottla.coord.streams.values import CopartitionGroup, DeclaredSubtopology, InternalTopic, TaskIds, TaskSets, Topology
from ottla.wire.data import streams_groups as data

CurrentTaskIds = data.StreamsGroupCurrentMemberAssignmentValue.TaskIds
TargetTaskIds = data.StreamsGroupTargetAssignmentMemberValue.TaskIds


class StreamsEpochStored(NamedTuple):
    """The record of a group's epoch, of the hash of its topics' metadata, and of the settings of its last assignment.

    `validated_topology_epoch` is the epoch of the topology whose topics were complete, or -1.
    """

    group_id: str
    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    configs: tuple[tuple[str, str], ...] = ()


class StreamsEpochForgotten(NamedTuple):
    """A tombstone: the group was deleted."""

    group_id: str


class StreamsMemberStored(NamedTuple):
    """The record of what a member has reported about itself."""

    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: tuple[str, int] | None
    client_tags: tuple[tuple[str, str], ...]


class StreamsMemberForgotten(NamedTuple):
    group_id: str
    member_id: str


class StreamsTargetEpochStored(NamedTuple):
    """The group epoch of the target assignment, and the wall time at which it was computed (0 if unknown)."""

    group_id: str
    epoch: int
    wall_ms: int


class StreamsTargetEpochForgotten(NamedTuple):
    group_id: str


class StreamsTargetStored(NamedTuple):
    """The target assignment of a member."""

    group_id: str
    member_id: str
    tasks: TaskSets


class StreamsTargetForgotten(NamedTuple):
    group_id: str
    member_id: str


class StreamsCurrentStored(NamedTuple):
    """A member's assignment, and its state of reconciliation."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: StreamsMemberState
    assigned: AssignedTasks
    revoking: AssignedTasks


class StreamsCurrentForgotten(NamedTuple):
    group_id: str
    member_id: str


class TopologyStored(NamedTuple):
    """The topology of the group's application."""

    group_id: str
    topology: Topology


class TopologyForgotten(NamedTuple):
    group_id: str


StreamsStored = (
    StreamsEpochStored
    | StreamsEpochForgotten
    | StreamsMemberStored
    | StreamsMemberForgotten
    | StreamsTargetEpochStored
    | StreamsTargetEpochForgotten
    | StreamsTargetStored
    | StreamsTargetForgotten
    | StreamsCurrentStored
    | StreamsCurrentForgotten
    | TopologyStored
    | TopologyForgotten
)


def _epoch_value(record: StreamsEpochStored) -> data.StreamsGroupMetadataValue:
    config = data.StreamsGroupMetadataValue.LastAssignmentConfig
    return data.StreamsGroupMetadataValue(
        epoch=record.epoch,
        metadata_hash=record.metadata_hash,
        validated_topology_epoch=record.validated_topology_epoch,
        last_assignment_configs=[config(key=key, value=value) for key, value in record.configs],
    )


def _member_value(record: StreamsMemberStored) -> data.StreamsGroupMemberMetadataValue:
    value = data.StreamsGroupMemberMetadataValue
    endpoint = record.user_endpoint
    return value(
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        topology_epoch=record.topology_epoch,
        process_id=record.process_id,
        user_endpoint=None if endpoint is None else value.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[value.KeyValue(key=key, value=text) for key, text in record.client_tags],
    )


def _target_epoch_value(record: StreamsTargetEpochStored) -> data.StreamsGroupTargetAssignmentMetadataValue:
    value = data.StreamsGroupTargetAssignmentMetadataValue
    return value(assignment_epoch=record.epoch, assignment_timestamp=record.wall_ms)


def _target_value(record: StreamsTargetStored) -> data.StreamsGroupTargetAssignmentMemberValue:
    active, standby, warmup = (
        [TargetTaskIds(subtopology_id=name, partitions=sorted(held)) for name, held in sorted(tasks.items())]
        for tasks in record.tasks
    )
    return data.StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _current_value(record: StreamsCurrentStored) -> data.StreamsGroupCurrentMemberAssignmentValue:
    assigned, revoking = record.assigned, record.revoking
    return data.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=record.epoch,
        previous_member_epoch=record.previous_epoch,
        state=record.state.value,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_plain(assigned.standby),
        warmup_tasks=_plain(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoking.active),
        standby_tasks_pending_revocation=_plain(revoking.standby),
        warmup_tasks_pending_revocation=_plain(revoking.warmup),
    )


def _with_epochs(tasks: TaskEpochs) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=name, partitions=sorted(held), assignment_epochs=[held[partition] for partition in sorted(held)]
        )
        for name, held in sorted(tasks.items())
    ]


def _plain(tasks: TaskIds) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(subtopology_id=name, partitions=sorted(held)) for name, held in sorted(tasks.items())]


def _read_epoch(value: data.StreamsGroupMetadataValue, group_id: str) -> StreamsEpochStored:
    configs = tuple((config.key, config.value) for config in value.last_assignment_configs or ())
    return StreamsEpochStored(group_id, value.epoch, value.metadata_hash, value.validated_topology_epoch, configs)


def _read_member(value: data.StreamsGroupMemberMetadataValue, group_id: str, member_id: str) -> StreamsMemberStored:
    endpoint = value.user_endpoint
    return StreamsMemberStored(
        group_id,
        member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        tuple((tag.key, tag.value) for tag in value.client_tags),
    )


def _read_target_epoch(value: data.StreamsGroupTargetAssignmentMetadataValue, group_id: str) -> StreamsTargetEpochStored:
    return StreamsTargetEpochStored(group_id, value.assignment_epoch, value.assignment_timestamp)


def _read_target(value: data.StreamsGroupTargetAssignmentMemberValue, group_id: str, member_id: str) -> StreamsTargetStored:
    kinds = value.active_tasks, value.standby_tasks, value.warmup_tasks
    return StreamsTargetStored(group_id, member_id, TaskSets(*map(tasks_in, kinds)))


def tasks_in(listed: Iterable[TargetTaskIds | CurrentTaskIds]) -> dict[str, frozenset[int]]:
    """Return listed tasks by subtopology id."""
    return {each.subtopology_id: frozenset(each.partitions) for each in listed if each.partitions}


def _read_current(value: data.StreamsGroupCurrentMemberAssignmentValue, group_id: str, member_id: str) -> StreamsCurrentStored:
    """Return the record of a member's assignment.

    An unknown state becomes UNKNOWN. Before Kafka 4.3 tasks had no epochs, so the member's epoch is used.
    """
    states = StreamsMemberState._value2member_map_
    state = StreamsMemberState(value.state) if value.state in states else StreamsMemberState.UNKNOWN
    epoch = max(value.member_epoch, 0)
    assigned = _read_epochs(value.active_tasks, epoch), tasks_in(value.standby_tasks), tasks_in(value.warmup_tasks)
    revoking = (
        _read_epochs(value.active_tasks_pending_revocation, epoch),
        tasks_in(value.standby_tasks_pending_revocation),
        tasks_in(value.warmup_tasks_pending_revocation),
    )
    epochs = value.member_epoch, value.previous_member_epoch
    return StreamsCurrentStored(group_id, member_id, *epochs, state, AssignedTasks(*assigned), AssignedTasks(*revoking))


def _read_epochs(listed: Iterable[CurrentTaskIds], epoch: int) -> dict[str, Mapping[int, int]]:
    read: dict[str, Mapping[int, int]] = {}
    for each in listed:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [epoch] * len(each.partitions)
        if each.partitions:
            read[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return read


def _topology_value(record: TopologyStored) -> data.StreamsGroupTopologyValue:
    value = data.StreamsGroupTopologyValue
    return value(
        epoch=record.topology.epoch,
        subtopologies=[
            value.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                state_changelog_topics=_topic_values(each.state_changelog_topics),
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=_topic_values(each.repartition_source_topics),
                copartition_groups=[
                    value.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in record.topology.subtopologies
        ],
    )


def _topic_values(topics: Iterable[InternalTopic]) -> list[data.StreamsGroupTopologyValue.TopicInfo]:
    value = data.StreamsGroupTopologyValue
    return [
        value.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[value.TopicConfig(key=key, value=text) for key, text in topic.configs],
        )
        for topic in topics
    ]


def _read_topology(value: data.StreamsGroupTopologyValue, group_id: str) -> TopologyStored:
    return TopologyStored(group_id, Topology(value.epoch, tuple(map(_read_subtopology, value.subtopologies))))


def _read_subtopology(value: data.StreamsGroupTopologyValue.Subtopology) -> DeclaredSubtopology:
    return DeclaredSubtopology(
        value.subtopology_id,
        tuple(value.source_topics),
        tuple(value.source_topic_regex),
        _read_topics(value.state_changelog_topics),
        tuple(value.repartition_sink_topics),
        _read_topics(value.repartition_source_topics),
        tuple(
            CopartitionGroup(tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics))
            for group in value.copartition_groups
        ),
    )


def _read_topics(listed: Iterable[data.StreamsGroupTopologyValue.TopicInfo]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple((config.key, config.value) for config in topic.topic_configs),
        )
        for topic in listed
    )


RECORDS = RecordKinds(
    RecordKind(
        data.StreamsGroupMetadataKey,
        data.StreamsGroupMetadataValue,
        StreamsEpochStored,
        StreamsEpochForgotten,
        _epoch_value,
        _read_epoch,
        OF_GROUP,
    ),
    RecordKind(
        data.StreamsGroupMemberMetadataKey,
        data.StreamsGroupMemberMetadataValue,
        StreamsMemberStored,
        StreamsMemberForgotten,
        _member_value,
        _read_member,
    ),
    RecordKind(
        data.StreamsGroupTargetAssignmentMetadataKey,
        data.StreamsGroupTargetAssignmentMetadataValue,
        StreamsTargetEpochStored,
        StreamsTargetEpochForgotten,
        _target_epoch_value,
        _read_target_epoch,
        OF_GROUP,
    ),
    RecordKind(
        data.StreamsGroupTargetAssignmentMemberKey,
        data.StreamsGroupTargetAssignmentMemberValue,
        StreamsTargetStored,
        StreamsTargetForgotten,
        _target_value,
        _read_target,
    ),
    RecordKind(
        data.StreamsGroupCurrentMemberAssignmentKey,
        data.StreamsGroupCurrentMemberAssignmentValue,
        StreamsCurrentStored,
        StreamsCurrentForgotten,
        _current_value,
        _read_current,
    ),
    RecordKind(
        data.StreamsGroupTopologyKey,
        data.StreamsGroupTopologyValue,
        TopologyStored,
        TopologyForgotten,
        _topology_value,
        _read_topology,
        OF_GROUP,
    ),
)
"""The encodings of all records of streams groups."""
