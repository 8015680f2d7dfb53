"""The current assignment of a member of a consumer group (KIP-848)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i32, message, since, struct


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
