"""The target assignment of a member of a share group (KIP-932)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i32, message, since, struct


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
