"""A committed offset in `__consumer_offsets`, in the oldest form."""

from __future__ import annotations

from ottla.wire.schema import Message, i32, i64, message, since


@message(key=0, valid="0")
class LegacyOffsetCommitKey(Message):
    """Group and partition."""

    group: str = since("0")
    topic: str = since("0")
    partition: i32 = since("0")


@message(key=0, valid="0")
class LegacyOffsetCommitValue(Message):
    """Offset, metadata and time."""

    offset: i64 = since("0")
    metadata: str = since("0")
    commit_timestamp: i64 = since("0")
