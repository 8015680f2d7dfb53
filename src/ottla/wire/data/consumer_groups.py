"""The records of consumer groups (KIP-848) in `__consumer_offsets`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i32, i64, message, since, struct


@message(key=3, valid="0")
class ConsumerGroupMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=3, valid="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """The group epoch, and a hash of the metadata of the subscribed topics."""

    epoch: i32 = since()
    metadata_hash: i64 = since(tag=0)


@message(key=4, valid="0")
class ConsumerGroupPartitionMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=4, valid="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics that the group is subscribed to, with their partitions and racks."""

    @struct
    class PartitionMetadata(Struct):
        partition: i32 = since()
        racks: list[str] = since()

    @struct
    class TopicMetadata(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()
        num_partitions: i32 = since()
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = since()

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = since()


@message(key=5, valid="0")
class ConsumerGroupMemberMetadataKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=5, valid="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    """The member's fields from its heartbeats, and its classic protocol metadata if it has any."""

    @struct
    class ClassicProtocol(Struct):
        name: str = since()
        metadata: bytes = since()

    @struct
    class ClassicMemberMetadata(Struct):
        session_timeout_ms: i32 = since()
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = since()

    instance_id: str | None = since()
    rack_id: str | None = since()
    client_id: str = since()
    client_host: str = since()
    subscribed_topic_names: list[str] = since()
    subscribed_topic_regex: str | None = since()
    rebalance_timeout_ms: i32 = since(default=-1)
    server_assignor: str | None = since()
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = since(tag=0, null="0+")


@message(key=6, valid="0")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=6, valid="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)


@message(key=7, valid="0")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=7, valid="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The partitions of the member's target assignment."""

    @struct
    class TopicPartition(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = since()


@message(key=8, valid="0")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=8, valid="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """Epochs, state, assigned partitions and partitions to revoke."""

    @struct
    class TopicPartitions(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()
        assignment_epochs: list[i32] | None = since(tag=0)

    member_epoch: i32 = since()
    previous_member_epoch: i32 = since()
    state: i8 = since()
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = since()
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = since()


@message(key=16, valid="0")
class ConsumerGroupRegularExpressionKey(Message):
    """Group and pattern."""

    group_id: str = since("0")
    regular_expression: str = since("0")


@message(key=16, valid="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that match, and the version and time of the metadata in which they were found."""

    topics: list[str] = since()
    version: i64 = since()
    timestamp: i64 = since()
