"""The records of share groups (KIP-932) in `__consumer_offsets`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i32, i64, message, since, struct


@message(valid="9")
class ShareGroupPartitionMetadataKey(Message):
    """The group."""

    group_id: str = since("9")


@message(valid="0", flexible="0+")
class ShareGroupPartitionMetadataValue(Message):
    """The topics that the group is subscribed to, in a format that only Kafka 3.9 stored."""

    @struct
    class TopicPartitionsInfo(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()
        partitions: list[i32] = since()

    @struct
    class TopicInfo(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()

    initialized_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo] = since()
    deleting_topics: list[ShareGroupPartitionMetadataValue.TopicInfo] = since()


@message(key=10, valid="0")
class ShareGroupMemberMetadataKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=10, valid="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    """The member's fields from its heartbeats."""

    rack_id: str | None = since()
    client_id: str = since()
    client_host: str = since()
    subscribed_topic_names: list[str] = since()


@message(key=11, valid="0")
class ShareGroupMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=11, valid="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    """The group epoch, and a hash of the metadata of the subscribed topics."""

    epoch: i32 = since()
    metadata_hash: i64 = since()


@message(key=12, valid="0")
class ShareGroupTargetAssignmentMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=12, valid="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)


@message(key=13, valid="0")
class ShareGroupTargetAssignmentMemberKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=13, valid="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    """The partitions of the member's target assignment."""

    @struct
    class TopicPartition(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = since()


@message(key=14, valid="0")
class ShareGroupCurrentMemberAssignmentKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=14, valid="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    """Epochs, state and partitions."""

    @struct
    class TopicPartitions(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    member_epoch: i32 = since()
    previous_member_epoch: i32 = since()
    state: i8 = since()
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = since()


@message(key=15, valid="0")
class ShareGroupStatePartitionMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=15, valid="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    """The partitions that have state or are being initialized, and topics being deleted."""

    initializing_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo] = since()
    initialized_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo] = since()
    deleting_topics: list[ShareGroupPartitionMetadataValue.TopicInfo] = since()
