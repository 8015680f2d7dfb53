"""share_group_metadata: …"""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=11, valid="0")
class ShareGroupMetadataKey(Message):
    """Data."""

    group_id: str = since("0")


@message(key=11, valid="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    """Data."""

    epoch: i32 = since()
    metadata_hash: i64 = since()
