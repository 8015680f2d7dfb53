"""The current assignment of a member of a share group (KIP-932)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i32, message, since, struct


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
