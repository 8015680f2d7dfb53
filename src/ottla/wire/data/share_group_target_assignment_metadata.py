"""share_group_target_assignment_metadata: …"""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=12, valid="0")
class ShareGroupTargetAssignmentMetadataKey(Message):
    """Data."""

    group_id: str = since("0")


@message(key=12, valid="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    """Data."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)
