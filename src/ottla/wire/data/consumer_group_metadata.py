"""A consumer group's epoch in `__consumer_offsets` (KIP-848)."""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=3, valid="0")
class ConsumerGroupMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=3, valid="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """The group epoch, and a hash of the metadata of the subscribed topics."""

    epoch: i32 = since()
    metadata_hash: i64 = since(tag=0)
