"""consumer_group_metadata: …"""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=3, valid="0")
class ConsumerGroupMetadataKey(Message):
    """Data."""

    group_id: str = since("0")


@message(key=3, valid="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """Data."""

    epoch: i32 = since()
    metadata_hash: i64 = since(tag=0)
