"""The epoch of a consumer group's target assignment (KIP-848)."""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=6, valid="0")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=6, valid="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)
