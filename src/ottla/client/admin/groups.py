"""An admin client's requests about groups of all kinds: classic, consumer (KIP-848), share (KIP-932) and streams (KIP-1071).

The module sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ottla.client.consumer.list_offsets import indexes
from ottla.client.consumer.subscription_bytes import decode_assignment
from ottla.client.errors import raise_for
from ottla.client.types import TopicPartition
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.delete_groups import DeleteGroupsResponse
from ottla.wire.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.api.list_groups import ListGroupsResponse
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.wire.schema import Message

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


class GroupMember(NamedTuple):
    """A member of a group.

    `group_instance_id` is the name of a static member (KIP-345). `assignment` are the partitions of a consumer, or the partitions
    that the active tasks of a streams member read. `member_assignment` is the assignment in bytes, as the leader of a classic group
    wrote it. Its format depends on the protocol; Kafka Connect uses another one than consumers. `member_epoch` is -1 in a classic
    group. `is_classic` means that the member uses the classic protocol, in a consumer group, too.
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


class GroupDescription(NamedTuple):
    """A group with its members. `protocol` is the assignor in use, or empty. A group that does not exist has the state Dead.

    `group_type` is classic, consumer, share or streams; `group_epoch` is -1 in a classic group.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: list[GroupMember]
    group_type: str = CLASSIC
    coordinator_id: int = -1
    group_epoch: int = -1


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


def check_groups(answer: DeleteGroupsResponse) -> None:
    """Raise an exception for the first group in the answer that was not deleted."""
    for result in answer.results:
        raise_for(result.error_code, f"Group {result.group_id}")


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
        yield DescribedGroup(found.error_code, found.error_message, group)


def _read_consumer(answer: ConsumerGroupDescribeResponse) -> Iterator[DescribedGroup]:
    for found in answer.groups:
        members = [
            _member(member, member.instance_id, _partitions(member.assignment), is_classic=member.member_type == CLASSIC_MEMBER)
            for member in found.members
        ]
        yield _describe(found, CONSUMER, CONSUMER, members)


def _read_share(answer: ShareGroupDescribeResponse) -> Iterator[DescribedGroup]:
    for found in answer.groups:
        members = [_member(member, None, _partitions(member.assignment), is_classic=False) for member in found.members]
        yield _describe(found, SHARE, SHARE, members)


def _read_streams(answer: StreamsGroupDescribeResponse) -> Iterator[DescribedGroup]:
    for found in answer.groups:
        parts = (found.topology.subtopologies or []) if found.topology is not None else []
        topics = {
            part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)] for part in parts
        }
        members = [
            _member(
                member,
                member.instance_id,
                [
                    TopicPartition(topic, index)
                    for task in member.assignment.active_tasks
                    for topic in topics.get(task.subtopology_id, [])
                    for index in task.partitions
                ],
                is_classic=member.is_classic,
            )
            for member in found.members
        ]
        yield _describe(found, STREAMS, STREAMS, members)


def _partitions(assignment: ConsumerGroupDescribeResponse.Assignment) -> list[TopicPartition]:
    return [TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions]


def _member(found: Any, instance_id: str | None, assignment: list[TopicPartition], *, is_classic: bool) -> GroupMember:
    identity = (found.member_id, instance_id, found.client_id, found.client_host)
    return GroupMember(*identity, b"", assignment, found.member_epoch, found.rack_id, is_classic)


def _describe(found: Any, group_type: str, protocol_type: str, members: list[GroupMember]) -> DescribedGroup:
    assignor = found.assignor_name or ""
    group = GroupDescription(found.group_id, found.group_state, protocol_type, assignor, members, group_type)
    return DescribedGroup(found.error_code, found.error_message, group._replace(group_epoch=found.group_epoch))


Describing = tuple[Callable[[list[str]], Message], Callable[[Any], Iterator[DescribedGroup]]]
DESCRIPTIONS: tuple[Describing, ...] = (
    (lambda names: DescribeGroupsRequest(groups=names), _read_classic),
    (lambda names: ConsumerGroupDescribeRequest(group_ids=names), _read_consumer),
    (lambda names: StreamsGroupDescribeRequest(group_ids=names), _read_streams),
    (lambda names: ShareGroupDescribeRequest(group_ids=names), _read_share),
)
"""For each kind of groups, the request that describes groups, and the reader of its answer.

Each is for the groups that the ones before it did not find.
"""


def share_offsets_request(group_ids: Iterable[str]) -> DescribeShareGroupOffsetsRequest:
    """Build the request for the positions of share groups in all their partitions (KIP-932)."""
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    return DescribeShareGroupOffsetsRequest(groups=[group(group_id=name, topics=None) for name in group_ids])


def read_share_offsets(answer: DescribeShareGroupOffsetsResponse) -> dict[str, dict[TopicPartition, ShareOffset]]:
    """Return the share groups' offsets, by group id and partition. Raises `BrokerError`."""
    found: dict[str, dict[TopicPartition, ShareOffset]] = {}
    for group in answer.groups:
        raise_for(group.error_code, f"Group {group.group_id}", group.error_message)
        offsets = found[group.group_id] = {}
        for topic in group.topics:
            for part in topic.partitions:
                where = TopicPartition(topic.topic_name, part.partition_index)
                raise_for(part.error_code, f"Share group {group.group_id} in {where.topic}-{where.partition}", part.error_message)
                offsets[where] = ShareOffset(part.start_offset, part.lag, part.leader_epoch)
    return found


def leave_request(group_id: str, members: Iterable[GroupMember], reason: str) -> LeaveGroupRequest:
    """Build the request that removes members with the classic protocol; brokers before Kafka 2.4 take one at a time."""
    identity = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=group_id,
        members=[identity(member_id=member.member_id, group_instance_id=None, reason=reason) for member in members],
    )


def check_left(answer: LeaveGroupResponse, group_id: str) -> None:
    """Raise an exception for the first member that the coordinator did not remove."""
    raise_for(answer.error_code, f"Group {group_id}")
    for member in answer.members:
        raise_for(member.error_code, f"Member {member.member_id} of group {group_id}")


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


def check_deleted_offsets(answer: OffsetDeleteResponse, group_id: str) -> None:
    """Raise an exception if the group, or else the first partition with an error code, was refused."""
    raise_for(answer.error_code, f"Group {group_id}")
    for topic in answer.topics:
        for part in topic.partitions:
            raise_for(part.error_code, f"Committed offset of group {group_id} for {topic.name}-{part.partition_index}")
