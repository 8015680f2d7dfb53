"""The description of a consumer group in ConsumerGroupDescribe. It only reads the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coord.consumer.group import NO_TARGET, ConsumerGroup
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.names import in_order
from ottla.coord.consumer.topics import KnownTopics
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND
from ottla.wire.schema import Uuid

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1

Described = ConsumerGroupDescribeResponse.DescribedGroup
DescribedMember = ConsumerGroupDescribeResponse.Member
Assignment = ConsumerGroupDescribeResponse.Assignment


def described(group: ConsumerGroup, topics: KnownTopics, assignor: str) -> Described:
    return Described(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def not_found(group_id: str, message: str) -> Described:
    return Described(group_id=group_id, error_code=GROUP_ID_NOT_FOUND, error_message=message)


def _member(group: ConsumerGroup, member: ConsumerMember, topics: KnownTopics) -> DescribedMember:
    """Return a member's description. Its assignment includes the partitions to revoke, which the member still reads."""
    held: dict[Uuid, set[int]] = {}
    for part in (member.assigned, member.revoking):
        for topic_id, partitions in part.items():
            held.setdefault(topic_id, set()).update(partitions)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=in_order(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(held, topics),
        target_assignment=_assignment(group.targets.get(member.member_id, NO_TARGET), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], topics: KnownTopics) -> Assignment:
    """Return an assignment with topic names. Deleted topics are left out, because their names are unknown."""
    named = ((topics.with_id(topic_id), indexes) for topic_id, indexes in partitions.items())
    return Assignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse.TopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(indexes)
            )
            for topic, indexes in named
            if topic is not None
        ]
    )
