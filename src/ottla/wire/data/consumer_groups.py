"""The records of consumer groups (KIP-848) in `__consumer_offsets`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i32, i64, since


class ConsumerGroupMetadataKey(Message, key=3, valid="0"):
    """The key of a consumer group's metadata record in __consumer_offsets: the group id."""

    group_id: str = since("0")


class ConsumerGroupMetadataValue(Message, key=3, valid="0", flexible="0+"):
    """The value of a consumer group's metadata record: the group epoch, and a hash of the metadata of the subscribed topics."""

    epoch: i32 = since()
    metadata_hash: i64 = since(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, valid="0"):
    """The key of the record with the topics of a consumer group: the group id."""

    group_id: str = since("0")


class ConsumerGroupPartitionMetadataValue(Message, key=4, valid="0", flexible="0+"):
    """The topics that a consumer group subscribes to, with their partitions and racks."""

    class PartitionMetadata(Struct):
        partition: i32 = since()
        racks: list[str] = since()

    class TopicMetadata(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()
        num_partitions: i32 = since()
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = since()

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = since()


class ConsumerGroupMemberMetadataKey(Message, key=5, valid="0"):
    """The key of a member's record in a consumer group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class ConsumerGroupMemberMetadataValue(Message, key=5, valid="0", flexible="0+"):
    """The value of a member's record: the fields from its heartbeats, and its classic protocol metadata if it has any."""

    class ClassicProtocol(Struct):
        name: str = since()
        metadata: bytes = since()

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


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, valid="0"):
    """The key of the record of a consumer group's target assignment: the group id."""

    group_id: str = since("0")


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, valid="0", flexible="0+"):
    """The value of the record of a consumer group's target assignment: the assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, valid="0"):
    """The key of a member's record in the target assignment of a consumer group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, valid="0", flexible="0+"):
    """The partitions of the member's target assignment."""

    class TopicPartition(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = since()


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, valid="0"):
    """The key of the record of a member's current assignment in a consumer group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, valid="0", flexible="0+"):
    """The current assignment of a member: epochs, state, assigned partitions, and partitions that the member must revoke."""

    class TopicPartitions(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()
        assignment_epochs: list[i32] | None = since(tag=0)

    member_epoch: i32 = since()
    previous_member_epoch: i32 = since()
    state: i8 = since()
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = since()
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = since()


class ConsumerGroupRegularExpressionKey(Message, key=16, valid="0"):
    """The key of the record of a regular expression to which members subscribe: group id and pattern."""

    group_id: str = since("0")
    regular_expression: str = since("0")


class ConsumerGroupRegularExpressionValue(Message, key=16, valid="0", flexible="0+"):
    """The topics that a regular expression matches, and the version and time of the metadata in which they were found."""

    topics: list[str] = since()
    version: i64 = since()
    timestamp: i64 = since()
