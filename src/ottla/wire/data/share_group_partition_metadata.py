"""The topics to which a share group subscribes, in a format that only Kafka 3.9 stored (KIP-932)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i32, message, since, struct


@message(valid="9")
class ShareGroupPartitionMetadataKey(Message):
    """The group."""

    group_id: str = since("9")


@message(valid="0", flexible="0+")
class ShareGroupPartitionMetadataValue(Message):
    """Topics with their partitions and racks."""

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
