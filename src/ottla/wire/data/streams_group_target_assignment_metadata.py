"""The epoch of a streams group's target assignment (KIP-1071)."""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=20, valid="0")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=20, valid="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)
