"""The target assignment of a member of a consumer group (KIP-848)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i32, message, since, struct


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
