"""The share partitions of a group that have state (KIP-932)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i32, message, since, struct


@message(key=15, valid="0")
class ShareGroupStatePartitionMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=15, valid="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    """Partitions being initialized, initialized partitions, and topics being deleted."""

    @struct
    class TopicPartitionsInfo(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()
        partitions: list[i32] = since()

    @struct
    class TopicInfo(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()

    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = since()
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = since()
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = since()
