"""An admin client's requests about groups of all kinds: classic, consumer (KIP-848), share (KIP-932) and streams (KIP-1071).

The module sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.admin.acls import operation_words
from ottla.client.admin.results import outcome
from ottla.client.consumer.committed_offsets import NOTHING_COMMITTED, read_fetch_offsets
from ottla.client.consumer.list_offsets import by_topic, indexes
from ottla.client.consumer.subscription_bytes import decode_assignment
from ottla.client.errors import KafkaError, broker_error, raise_for
from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.delete_groups import DeleteGroupsResponse
from ottla.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from ottla.wire.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.api.list_groups import ListGroupsResponse
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.wire.schema import Message

Offsets = dict[TopicPartition, OffsetAndMetadata]

DEAD, EMPTY = "Dead", "Empty"
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
CLASSIC_MEMBER = 0
"""The type of a member of a consumer group that uses the classic protocol (KIP-1099)."""
LEAVES_FOR_GOOD = -1
"""The epoch in the heartbeat by which a member leaves a consumer group, static or not."""


class GroupListing(NamedTuple):
    """A group in the list of all groups.

    `state` is Kafka's name: Stable, Empty, PreparingRebalance, Assigning … `group_type` is classic, consumer (KIP-848), share or
    streams. `state` is empty before Kafka 2.6, `group_type` before Kafka 3.8.
    """

    group_id: str
    protocol_type: str
    state: str
    group_type: str = ""


class StreamsTasks(NamedTuple):
    """The tasks of a member of a streams group: the partitions of each subtopology, by its id (KIP-1071)."""

    active: dict[str, list[int]]
    standby: dict[str, list[int]]
    warmup: dict[str, list[int]]


class StreamsMemberDetails(NamedTuple):
    """A member of a streams group: its process, and the tasks to which the coordinator moves it (KIP-1071).

    `endpoint` is HOST:PORT for interactive queries, empty without one. `task_lags` maps (subtopology, partition) to the number of
    records by which the state of a task is behind, as the member has reported it.
    """

    process_id: str
    endpoint: str
    client_tags: dict[str, str]
    topology_epoch: int
    target_tasks: StreamsTasks
    task_lags: dict[tuple[str, int], int]


class Subtopology(NamedTuple):
    """A part of the topology of a streams group: the topics that it reads, writes, and keeps its state in (KIP-1071)."""

    subtopology_id: str
    source_topics: list[str]
    repartition_source_topics: list[str]
    repartition_sink_topics: list[str]
    changelog_topics: list[str]


class GroupMember(NamedTuple):
    """A member of a group.

    `group_instance_id` is the name of a static member (KIP-345). `assignment` are the partitions of a consumer, or the partitions
    that the active tasks of a streams member read; `target_assignment` is the assignment to which the coordinator moves the member.
    `member_assignment` is the assignment in bytes, as the leader of a classic group wrote it. Its format depends on the protocol;
    Kafka Connect uses another one than consumers. `member_epoch` is -1 in a classic group. `is_classic` means that the member uses
    the classic protocol, in a consumer group, too. `tasks` and `streams` are None except in a streams group.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_assignment: bytes
    assignment: list[TopicPartition]
    member_epoch: int = -1
    rack_id: str | None = None
    is_classic: bool = True
    subscribed_topics: Sequence[str] = ()
    target_assignment: Sequence[TopicPartition] = ()
    tasks: StreamsTasks | None = None
    streams: StreamsMemberDetails | None = None


class GroupDescription(NamedTuple):
    """A group with its members. `protocol` is the assignor in use, or empty. A group that does not exist has the state Dead.

    `group_type` is classic, consumer, share or streams; the epochs are -1 in a classic group. `authorized_operations` are the words
    of what this client may do with the group, if they were requested. `topology` are the parts of a streams group.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: list[GroupMember]
    group_type: str = CLASSIC
    coordinator_id: int = -1
    group_epoch: int = -1
    assignment_epoch: int = -1
    authorized_operations: frozenset[str] | None = None
    topology: Sequence[Subtopology] = ()


class ShareOffset(NamedTuple):
    """The position of a share group in a partition: `start_offset` is the first record that is not consumed yet.

    `start_offset` is -1 before the first fetch. `lag` is -1 where the broker does not know it, as before Kafka 4.2.
    """

    start_offset: int
    lag: int = -1
    leader_epoch: int = -1


class DescribedGroup(NamedTuple):
    """A group as one kind of request describes it, with the error code of this group in the answer."""

    error_code: int
    error_message: str | None
    group: GroupDescription


def read_groups(answer: ListGroupsResponse) -> list[GroupListing]:
    """Return the groups of one broker. Raises `BrokerError`."""
    raise_for(answer.error_code, "Listing groups")
    return [GroupListing(found.group_id, found.protocol_type, found.group_state, found.group_type) for found in answer.groups]


def read_deleted_groups(answer: DeleteGroupsResponse) -> Iterator[tuple[str, KafkaError | None]]:
    """Yield (group, its error or None) for each group in the answer."""
    for result in answer.results:
        yield result.group_id, outcome(result.error_code, None, f"Group {result.group_id}", result.error_message)


def _read_classic(answer: DescribeGroupsResponse) -> Iterator[DescribedGroup]:
    """Yield the classic groups in the answer. Groups of another type have the state Dead, like groups that do not exist.

    Raises `KafkaError`.
    """
    for found in answer.groups:
        members = [
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                bytes(member.member_assignment),
                decode_assignment(member.member_assignment).partitions if found.protocol_type == CONSUMER else [],
            )
            for member in found.members
        ]
        group = GroupDescription(found.group_id, found.group_state, found.protocol_type, found.protocol_data, members)
        allowed = operation_words(found.authorized_operations)
        yield DescribedGroup(found.error_code, found.error_message, group._replace(authorized_operations=allowed))


def _read_consumer(answer: ConsumerGroupDescribeResponse) -> Iterator[DescribedGroup]:
    for found in answer.groups:
        members = [
            _with_subscription(
                _member(
                    member, member.instance_id, _partitions(member.assignment), is_classic=member.member_type == CLASSIC_MEMBER
                ),
                member,
            )
            for member in found.members
        ]
        yield _describe(found, CONSUMER, CONSUMER, members)


def _read_share(answer: ShareGroupDescribeResponse) -> Iterator[DescribedGroup]:
    for found in answer.groups:
        members = [
            _with_subscription(_member(member, None, _partitions(member.assignment), is_classic=False), member)
            for member in found.members
        ]
        yield _describe(found, SHARE, SHARE, members)


def _read_streams(answer: StreamsGroupDescribeResponse) -> Iterator[DescribedGroup]:
    for found in answer.groups:
        parts = (found.topology.subtopologies or []) if found.topology is not None else []
        topics = {
            part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)] for part in parts
        }
        members = [
            _member(member, member.instance_id, _read_by(member.assignment, topics), is_classic=member.is_classic)._replace(
                target_assignment=_read_by(member.target_assignment, topics),
                tasks=_tasks(member.assignment),
                streams=_streams_details(member),
            )
            for member in found.members
        ]
        described = _describe(found, STREAMS, STREAMS, members)
        yield described._replace(group=described.group._replace(topology=tuple(map(_subtopology, parts))))


def _read_by(assignment: StreamsGroupDescribeResponse.Assignment, topics: Mapping[str, list[str]]) -> list[TopicPartition]:
    """Return the partitions that the active tasks of an assignment read. `topics` are those of each subtopology."""
    return [
        TopicPartition(topic, index)
        for task in assignment.active_tasks
        for topic in topics.get(task.subtopology_id, [])
        for index in task.partitions
    ]


def _tasks(assignment: StreamsGroupDescribeResponse.Assignment) -> StreamsTasks:
    kinds = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return StreamsTasks(*({task.subtopology_id: task.partitions for task in tasks} for tasks in kinds))


def _streams_details(member: StreamsGroupDescribeResponse.Member) -> StreamsMemberDetails:
    endpoint = member.user_endpoint
    ends = {(each.subtopology_id, each.partition): each.offset for each in member.task_end_offsets}
    offsets = {(each.subtopology_id, each.partition): each.offset for each in member.task_offsets}
    return StreamsMemberDetails(
        member.process_id,
        "" if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        {tag.key: tag.value for tag in member.client_tags},
        member.topology_epoch,
        _tasks(member.target_assignment),
        {task: max(end - offsets[task], 0) for task, end in ends.items() if task in offsets},
    )


def _subtopology(part: StreamsGroupDescribeResponse.Subtopology) -> Subtopology:
    sources, changelogs = ([topic.name for topic in each] for each in (part.repartition_source_topics, part.state_changelog_topics))
    return Subtopology(part.subtopology_id, part.source_topics, sources, part.repartition_sink_topics, changelogs)


def _partitions(assignment: ConsumerGroupDescribeResponse.Assignment) -> list[TopicPartition]:
    return [TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions]


def _member(found: Any, instance_id: str | None, assignment: list[TopicPartition], *, is_classic: bool) -> GroupMember:
    identity = (found.member_id, instance_id, found.client_id, found.client_host)
    return GroupMember(*identity, b"", assignment, found.member_epoch, found.rack_id, is_classic)


def _with_subscription(member: GroupMember, found: Any) -> GroupMember:
    """Return a member of a consumer or share group with its topics, and with the assignment that it moves to."""
    target = _partitions(found.target_assignment) if hasattr(found, "target_assignment") else member.assignment
    return member._replace(subscribed_topics=tuple(found.subscribed_topic_names), target_assignment=target)


def _describe(found: Any, group_type: str, protocol_type: str, members: list[GroupMember]) -> DescribedGroup:
    assignor = found.assignor_name or ""
    group = GroupDescription(found.group_id, found.group_state, protocol_type, assignor, members, group_type)
    described = group._replace(
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        authorized_operations=operation_words(found.authorized_operations),
    )
    return DescribedGroup(found.error_code, found.error_message, described)


Describing = tuple[Callable[[list[str], bool], Message], Callable[[Any], Iterator[DescribedGroup]]]
DESCRIPTIONS: tuple[Describing, ...] = (
    (lambda names, allowed: DescribeGroupsRequest(groups=names, include_authorized_operations=allowed), _read_classic),
    (lambda names, allowed: ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=allowed), _read_consumer),
    (lambda names, allowed: StreamsGroupDescribeRequest(group_ids=names, include_authorized_operations=allowed), _read_streams),
    (lambda names, allowed: ShareGroupDescribeRequest(group_ids=names, include_authorized_operations=allowed), _read_share),
)
"""For each kind of groups, the request that describes groups, and the reader of its answer.

Each is for the groups that the ones before it did not find.
"""


def share_offsets_request(
    group_ids: Iterable[str], partitions: Iterable[TopicPartition] | None = None
) -> DescribeShareGroupOffsetsRequest:
    """Build the request for the positions of share groups in some partitions; None means in all their partitions (KIP-932)."""
    group, topic = (
        DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup,
        DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic,
    )
    topics = None if partitions is None else [topic(topic_name=name, partitions=some) for name, some in indexes(partitions)]
    return DescribeShareGroupOffsetsRequest(groups=[group(group_id=name, topics=topics) for name in group_ids])


def read_share_offsets(
    answer: DescribeShareGroupOffsetsResponse,
) -> Iterator[tuple[str, dict[TopicPartition, ShareOffset] | KafkaError]]:
    """Yield (group, its offsets by partition, or its error) for each share group in the answer."""
    for group in answer.groups:
        if group.error_code:
            yield group.group_id, broker_error(group.error_code, f"Group {group.group_id}", group.error_message)
        else:
            yield group.group_id, _share_offsets(group)


def _share_offsets(
    group: DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup,
) -> dict[TopicPartition, ShareOffset] | KafkaError:
    offsets: dict[TopicPartition, ShareOffset] = {}
    for topic in group.topics:
        for part in topic.partitions:
            where = TopicPartition(topic.topic_name, part.partition_index)
            if part.error_code:
                context = f"Share group {group.group_id} in {where.topic}-{where.partition}"
                return broker_error(part.error_code, context, part.error_message)
            offsets[where] = ShareOffset(part.start_offset, part.lag, part.leader_epoch)
    return offsets


def alter_share_offsets_request(group_id: str, offsets: Mapping[TopicPartition, int]) -> AlterShareGroupOffsetsRequest:
    """Build the request that sets the start offsets of a share group."""
    made = AlterShareGroupOffsetsRequest
    topics = [
        made.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                made.AlterShareGroupOffsetsRequestPartition(partition_index=where.partition, start_offset=offsets[where])
                for where in some
            ],
        )
        for name, some in by_topic(offsets)
    ]
    return made(group_id=group_id, topics=topics)


def read_altered_share_offsets(
    answer: AlterShareGroupOffsetsResponse, group_id: str
) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
    """Yield (partition, its error or None) for each partition in the answer. Raises `BrokerError` if the group was refused."""
    raise_for(answer.error_code, f"Group {group_id}", answer.error_message)
    for topic in answer.responses:
        for part in topic.partitions:
            where = TopicPartition(topic.topic_name, part.partition_index)
            context = f"Start offset of share group {group_id} in {where.topic}-{where.partition}"
            yield where, outcome(part.error_code, None, context, part.error_message)


def delete_share_offsets_request(group_id: str, topics: Iterable[str]) -> DeleteShareGroupOffsetsRequest:
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    return DeleteShareGroupOffsetsRequest(group_id=group_id, topics=[topic(topic_name=name) for name in topics])


def read_deleted_share_offsets(answer: DeleteShareGroupOffsetsResponse, group_id: str) -> Iterator[tuple[str, KafkaError | None]]:
    """Yield (topic, its error or None) for each topic in the answer. Raises `BrokerError` if the group was refused."""
    raise_for(answer.error_code, f"Group {group_id}", answer.error_message)
    for topic in answer.responses:
        context = f"Start offsets of share group {group_id} in topic {topic.topic_name}"
        yield topic.topic_name, outcome(topic.error_code, None, context, topic.error_message)


def offsets_of_groups_request(
    group_ids: Iterable[str], partitions: Iterable[TopicPartition] | None, *, require_stable: bool
) -> OffsetFetchRequest:
    """Build the request for the committed offsets of several groups (KIP-709); `partitions` None means of all partitions."""
    group, topic = OffsetFetchRequest.OffsetFetchRequestGroup, OffsetFetchRequest.OffsetFetchRequestTopics
    topics = None if partitions is None else [topic(name=name, partition_indexes=some) for name, some in indexes(partitions)]
    return OffsetFetchRequest(groups=[group(group_id=name, topics=topics) for name in group_ids], require_stable=require_stable)


def read_offsets_of_groups(
    answer: OffsetFetchResponse,
) -> Iterator[tuple[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError]]:
    """Yield (group, its committed offsets by partition, or its error) for each group in the answer."""
    for group in answer.groups:
        if group.error_code:
            yield group.group_id, broker_error(group.error_code, f"Group {group.group_id}")
        else:
            yield group.group_id, committed(read_fetch_offsets(group))


def committed(
    found: Iterable[tuple[TopicPartition, int, OffsetAndMetadata]],
) -> dict[TopicPartition, OffsetAndMetadata] | KafkaError:
    """Return the committed offsets among (partition, error code, offset), or the first error."""
    offsets: Offsets = {}
    for where, code, offset in found:
        if code:
            return broker_error(code, f"Committed offset of {where.topic}-{where.partition}")
        if offset.offset != NOTHING_COMMITTED:
            offsets[where] = offset
    return offsets


def leave_request(group_id: str, members: Iterable[GroupMember], reason: str) -> LeaveGroupRequest:
    """Build the request that removes members with the classic protocol; brokers before Kafka 2.4 take one at a time."""
    identity = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=group_id,
        members=[identity(member_id=member.member_id, group_instance_id=None, reason=reason) for member in members],
    )


def read_left(answer: LeaveGroupResponse, group_id: str) -> Iterator[tuple[str, KafkaError | None]]:
    """Yield (member id, its error or None) for each member in the answer. Raises `BrokerError` if the group was refused."""
    raise_for(answer.error_code, f"Group {group_id}")
    for member in answer.members:
        yield member.member_id, outcome(member.error_code, None, f"Member {member.member_id} of group {group_id}")


def heartbeat_of_leaving(group_id: str, member: GroupMember) -> ConsumerGroupHeartbeatRequest:
    """Build the heartbeat by which a member with the consumer protocol leaves. LeaveGroup refuses such members."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member.member_id, member_epoch=LEAVES_FOR_GOOD, instance_id=member.group_instance_id
    )


def delete_offsets_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """Build the request that deletes committed offsets (KIP-496)."""
    topic, partition = OffsetDeleteRequest.OffsetDeleteRequestTopic, OffsetDeleteRequest.OffsetDeleteRequestPartition
    topics = [
        topic(name=name, partitions=[partition(partition_index=index) for index in some]) for name, some in indexes(partitions)
    ]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)


def read_deleted_offsets(answer: OffsetDeleteResponse, group_id: str) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
    """Yield (partition, its error or None) for each partition in the answer. Raises `BrokerError` if the group was refused."""
    raise_for(answer.error_code, f"Group {group_id}")
    for topic in answer.topics:
        for part in topic.partitions:
            context = f"Committed offset of group {group_id} for {topic.name}-{part.partition_index}"
            yield TopicPartition(topic.name, part.partition_index), outcome(part.error_code, None, context)
