"""A share group's epoch in `__consumer_offsets` (KIP-932)."""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=11, valid="0")
class ShareGroupMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=11, valid="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    """The group epoch, and a hash of the metadata of the subscribed topics."""

    epoch: i32 = since()
    metadata_hash: i64 = since()
