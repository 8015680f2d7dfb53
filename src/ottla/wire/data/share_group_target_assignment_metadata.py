"""The epoch of a share group's target assignment (KIP-932)."""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=12, valid="0")
class ShareGroupTargetAssignmentMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=12, valid="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)
