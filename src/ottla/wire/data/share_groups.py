"""The records of share groups (KIP-932) in `__consumer_offsets`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i32, i64, since


class ShareGroupPartitionMetadataKey(Message, valid="9"):
    """The key of the record with the topics of a share group: the group id."""

    group_id: str = since("9")


class ShareGroupPartitionMetadataValue(Message, valid="0", flexible="0+"):
    """The topics that the group is subscribed to, in a format that only Kafka 3.9 stored."""

    class TopicPartitionsInfo(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()
        partitions: list[i32] = since()

    class TopicInfo(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()

    initialized_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo] = since()
    deleting_topics: list[ShareGroupPartitionMetadataValue.TopicInfo] = since()


class ShareGroupMemberMetadataKey(Message, key=10, valid="0"):
    """The key of a member's record in a share group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class ShareGroupMemberMetadataValue(Message, key=10, valid="0", flexible="0+"):
    """The value of a member's record in a share group: the fields from its heartbeats."""

    rack_id: str | None = since()
    client_id: str = since()
    client_host: str = since()
    subscribed_topic_names: list[str] = since()


class ShareGroupMetadataKey(Message, key=11, valid="0"):
    """The key of a share group's metadata record in __consumer_offsets: the group id."""

    group_id: str = since("0")


class ShareGroupMetadataValue(Message, key=11, valid="0", flexible="0+"):
    """The value of a share group's metadata record: the group epoch, and a hash of the metadata of the subscribed topics."""

    epoch: i32 = since()
    metadata_hash: i64 = since()


class ShareGroupTargetAssignmentMetadataKey(Message, key=12, valid="0"):
    """The key of the record of a share group's target assignment: the group id."""

    group_id: str = since("0")


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, valid="0", flexible="0+"):
    """The value of the record of a share group's target assignment: the assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Message, key=13, valid="0"):
    """The key of a member's record in the target assignment of a share group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class ShareGroupTargetAssignmentMemberValue(Message, key=13, valid="0", flexible="0+"):
    """The partitions of the member's target assignment."""

    class TopicPartition(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = since()


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, valid="0"):
    """The key of the record of a member's current assignment in a share group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, valid="0", flexible="0+"):
    """The current assignment of a member of a share group: epochs, state and partitions."""

    class TopicPartitions(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    member_epoch: i32 = since()
    previous_member_epoch: i32 = since()
    state: i8 = since()
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = since()


class ShareGroupStatePartitionMetadataKey(Message, key=15, valid="0"):
    """The key of the record of the partitions for which a share group has state: the group id."""

    group_id: str = since("0")


class ShareGroupStatePartitionMetadataValue(Message, key=15, valid="0", flexible="0+"):
    """The partitions for which a share group has state or initializes it, and the topics whose state is being deleted."""

    initializing_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo] = since()
    initialized_topics: list[ShareGroupPartitionMetadataValue.TopicPartitionsInfo] = since()
    deleting_topics: list[ShareGroupPartitionMetadataValue.TopicInfo] = since()
