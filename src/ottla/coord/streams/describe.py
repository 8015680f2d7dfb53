"""StreamsGroupDescribe (KIP-1071): the topology, the members and the tasks of a streams group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from ottla.coord.streams.group import StreamsGroup
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.values import NO_TASKS, ConfiguredTopology, InternalTopic, Topology
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeResponse
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest

DescribedStreamsGroup = StreamsGroupDescribeResponse.DescribedGroup
DescribedStreamsMember = StreamsGroupDescribeResponse.Member
DescribedSubtopology = StreamsGroupDescribeResponse.Subtopology
DescribedTopic = StreamsGroupHeartbeatRequest.TopicInfo
DescribedTasks = StreamsGroupHeartbeatRequest.TaskIds
KeyValue = StreamsGroupHeartbeatRequest.KeyValue

TasksBySubtopology = Mapping[str, Mapping[int, int] | AbstractSet[int]]


def describe(group: StreamsGroup) -> DescribedStreamsGroup:
    """Return a group's description. The topology has the numbers of partitions once all its topics exist."""
    topology = None
    if group.configured is not None and group.configured.problem is None:
        topology = _configured_topology(group.configured)
    elif group.topology is not None:
        topology = _topology(group.topology)
    return DescribedStreamsGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
        members=[_member(group, member) for member in group.members.values()],
    )


def _configured_topology(topology: ConfiguredTopology) -> StreamsGroupDescribeResponse.Topology:
    subtopologies = [
        DescribedSubtopology(
            subtopology_id=subtopology_id,
            source_topics=list(each.source_topics),
            repartition_sink_topics=list(each.repartition_sink_topics),
            state_changelog_topics=_topics(each.state_changelog_topics),
            repartition_source_topics=_topics(each.repartition_source_topics),
        )
        for subtopology_id, each in topology.subtopologies.items()
    ]
    return StreamsGroupDescribeResponse.Topology(epoch=topology.epoch, subtopologies=subtopologies)


def _topology(topology: Topology) -> StreamsGroupDescribeResponse.Topology:
    subtopologies = [
        DescribedSubtopology(
            subtopology_id=each.subtopology_id,
            source_topics=sorted(each.source_topics),
            repartition_sink_topics=sorted(each.repartition_sink_topics),
            state_changelog_topics=_topics(each.state_changelog_topics),
            repartition_source_topics=_topics(each.repartition_source_topics),
        )
        for each in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
    ]
    return StreamsGroupDescribeResponse.Topology(epoch=topology.epoch, subtopologies=subtopologies)


def _topics(topics: Iterable[InternalTopic]) -> list[DescribedTopic]:
    return [
        DescribedTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> DescribedStreamsMember:
    endpoint = member.user_endpoint
    return DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else StreamsGroupHeartbeatRequest.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
        task_offsets=_offsets(group.offsets.get(member.member_id, {})),
        task_end_offsets=_offsets(group.end_offsets.get(member.member_id, {})),
        assignment=_assignment(*member.assigned),
        target_assignment=_assignment(*group.targets.get(member.member_id, NO_TASKS)),
    )


def _offsets(offsets: Mapping[tuple[str, int], int]) -> list[StreamsGroupHeartbeatRequest.TaskOffset]:
    of = StreamsGroupHeartbeatRequest.TaskOffset
    return [of(subtopology_id=name, partition=partition, offset=offset) for (name, partition), offset in sorted(offsets.items())]


def _assignment(
    active: TasksBySubtopology, standby: TasksBySubtopology, warmup: TasksBySubtopology
) -> StreamsGroupDescribeResponse.Assignment:
    return StreamsGroupDescribeResponse.Assignment(
        active_tasks=_tasks(active), standby_tasks=_tasks(standby), warmup_tasks=_tasks(warmup)
    )


def _tasks(tasks: TasksBySubtopology) -> list[DescribedTasks]:
    return [DescribedTasks(subtopology_id=name, partitions=sorted(held)) for name, held in sorted(tasks.items())]
