"""The records of a share group in `__consumer_offsets`, as values and as bytes in Kafka's formats (KIP-932).

Their effects are elsewhere. The first field of each record is the group id. Records named `…Forgotten` are tombstones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.coord.consumer.assign import Partitions
from ottla.coord.consumer.names import in_order
from ottla.coord.record_kinds import OF_GROUP, RecordKind, RecordKinds
from ottla.wire.data import share_groups as data
from ottla.wire.schema import Uuid

STABLE: Final = 0
"""The number of the only state that a member of a share group has: it never waits for another member's partitions."""


class ShareEpochStored(NamedTuple):
    """The record of a group's epoch, and of the hash of its subscribed topics' metadata."""

    group_id: str
    epoch: int
    metadata_hash: int


class ShareEpochForgotten(NamedTuple):
    """A tombstone: the group was deleted."""

    group_id: str


class ShareMemberStored(NamedTuple):
    """The record of what a member has reported: its subscription and client."""

    group_id: str
    member_id: str
    rack_id: str | None
    client_id: str
    client_host: str
    topics: frozenset[str]


class ShareMemberForgotten(NamedTuple):
    group_id: str
    member_id: str


class ShareTargetEpochStored(NamedTuple):
    """The group epoch of the target assignment, and the wall time at which it was computed (0 if unknown)."""

    group_id: str
    epoch: int
    wall_ms: int


class ShareTargetEpochForgotten(NamedTuple):
    group_id: str


class ShareTargetStored(NamedTuple):
    """The target assignment of a member."""

    group_id: str
    member_id: str
    partitions: Partitions


class ShareTargetForgotten(NamedTuple):
    group_id: str
    member_id: str


class ShareCurrentStored(NamedTuple):
    """A member's epochs and its assignment."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    assigned: Partitions


class ShareCurrentForgotten(NamedTuple):
    group_id: str
    member_id: str


class NamedPartitions(NamedTuple):
    """Partitions of one topic, with the topic's name when they were stored."""

    name: str
    partitions: frozenset[int]


PartitionsByTopic = Mapping[Uuid, NamedPartitions]
"""Partitions by topic id."""


class ShareStateStored(NamedTuple):
    """The share partitions whose state is being initialized or is initialized, and the topics whose state is being deleted."""

    group_id: str
    initializing: PartitionsByTopic
    initialized: PartitionsByTopic
    deleting: Mapping[Uuid, str]


class ShareStateForgotten(NamedTuple):
    group_id: str


ShareStored = (
    ShareEpochStored
    | ShareEpochForgotten
    | ShareMemberStored
    | ShareMemberForgotten
    | ShareTargetEpochStored
    | ShareTargetEpochForgotten
    | ShareTargetStored
    | ShareTargetForgotten
    | ShareCurrentStored
    | ShareCurrentForgotten
    | ShareStateStored
    | ShareStateForgotten
)


def _member_value(record: ShareMemberStored) -> data.ShareGroupMemberMetadataValue:
    return data.ShareGroupMemberMetadataValue(
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        subscribed_topic_names=in_order(record.topics),
    )


def _read_member(value: data.ShareGroupMemberMetadataValue, group_id: str, member_id: str) -> ShareMemberStored:
    topics = frozenset(value.subscribed_topic_names)
    return ShareMemberStored(group_id, member_id, value.rack_id, value.client_id, value.client_host, topics)


def _target_value(record: ShareTargetStored) -> data.ShareGroupTargetAssignmentMemberValue:
    value = data.ShareGroupTargetAssignmentMemberValue
    topics = record.partitions.items()
    return value(
        topic_partitions=[value.TopicPartition(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in topics]
    )


def _read_target(value: data.ShareGroupTargetAssignmentMemberValue, group_id: str, member_id: str) -> ShareTargetStored:
    partitions = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.topic_partitions}
    return ShareTargetStored(group_id, member_id, partitions)


def _current_value(record: ShareCurrentStored) -> data.ShareGroupCurrentMemberAssignmentValue:
    value = data.ShareGroupCurrentMemberAssignmentValue
    topics = record.assigned.items()
    return value(
        member_epoch=record.epoch,
        previous_member_epoch=record.previous_epoch,
        state=STABLE,
        assigned_partitions=[value.TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in topics],
    )


def _read_current(value: data.ShareGroupCurrentMemberAssignmentValue, group_id: str, member_id: str) -> ShareCurrentStored:
    partitions = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.assigned_partitions}
    return ShareCurrentStored(group_id, member_id, value.member_epoch, value.previous_member_epoch, partitions)


_Info = data.ShareGroupPartitionMetadataValue.TopicPartitionsInfo


def _state_value(record: ShareStateStored) -> data.ShareGroupStatePartitionMetadataValue:
    of = data.ShareGroupPartitionMetadataValue.TopicInfo
    return data.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(record.initializing),
        initialized_topics=_infos(record.initialized),
        deleting_topics=[of(topic_id=topic_id, topic_name=name) for topic_id, name in record.deleting.items()],
    )


def _infos(topics: PartitionsByTopic) -> list[_Info]:
    return [_Info(topic_id=topic_id, topic_name=held.name, partitions=sorted(held.partitions)) for topic_id, held in topics.items()]


def _read_state(value: data.ShareGroupStatePartitionMetadataValue, group_id: str) -> ShareStateStored:
    return ShareStateStored(
        group_id,
        _read_infos(value.initializing_topics),
        _read_infos(value.initialized_topics),
        {bytes(topic.topic_id): topic.topic_name for topic in value.deleting_topics},
    )


def _read_infos(infos: list[_Info]) -> dict[bytes, NamedPartitions]:
    return {bytes(info.topic_id): NamedPartitions(info.topic_name, frozenset(info.partitions)) for info in infos}


KINDS: Final = RecordKinds(
    RecordKind(
        data.ShareGroupMetadataKey,
        data.ShareGroupMetadataValue,
        ShareEpochStored,
        ShareEpochForgotten,
        lambda record: data.ShareGroupMetadataValue(epoch=record.epoch, metadata_hash=record.metadata_hash),
        lambda value, group_id: ShareEpochStored(group_id, value.epoch, value.metadata_hash),
        OF_GROUP,
    ),
    RecordKind(
        data.ShareGroupMemberMetadataKey,
        data.ShareGroupMemberMetadataValue,
        ShareMemberStored,
        ShareMemberForgotten,
        _member_value,
        _read_member,
    ),
    RecordKind(
        data.ShareGroupTargetAssignmentMetadataKey,
        data.ShareGroupTargetAssignmentMetadataValue,
        ShareTargetEpochStored,
        ShareTargetEpochForgotten,
        lambda record: data.ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=record.epoch, assignment_timestamp=record.wall_ms
        ),
        lambda value, group_id: ShareTargetEpochStored(group_id, value.assignment_epoch, value.assignment_timestamp),
        OF_GROUP,
    ),
    RecordKind(
        data.ShareGroupTargetAssignmentMemberKey,
        data.ShareGroupTargetAssignmentMemberValue,
        ShareTargetStored,
        ShareTargetForgotten,
        _target_value,
        _read_target,
    ),
    RecordKind(
        data.ShareGroupCurrentMemberAssignmentKey,
        data.ShareGroupCurrentMemberAssignmentValue,
        ShareCurrentStored,
        ShareCurrentForgotten,
        _current_value,
        _read_current,
    ),
    RecordKind(
        data.ShareGroupStatePartitionMetadataKey,
        data.ShareGroupStatePartitionMetadataValue,
        ShareStateStored,
        ShareStateForgotten,
        _state_value,
        _read_state,
        OF_GROUP,
    ),
)
