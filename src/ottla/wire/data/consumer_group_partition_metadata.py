"""The topics that a consumer group is subscribed to (KIP-848)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i32, message, since, struct


@message(key=4, valid="0")
class ConsumerGroupPartitionMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=4, valid="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    """Topics with their partitions and racks."""

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
