"""Committed offsets in `__consumer_offsets`."""

from __future__ import annotations

from ottla.wire.schema import Message, Uuid, i32, i64, since


class LegacyOffsetCommitKey(Message, key=0, valid="0"):
    """The key of a committed offset in the oldest format: group id, topic and partition."""

    group: str = since("0")
    topic: str = since("0")
    partition: i32 = since("0")


class LegacyOffsetCommitValue(Message, key=0, valid="0"):
    """The value of a committed offset in the oldest format: offset, metadata and time."""

    offset: i64 = since("0")
    metadata: str = since("0")
    commit_timestamp: i64 = since("0")


class OffsetCommitKey(Message, key=1, valid="0"):
    """The key of a committed offset in __consumer_offsets: group id, topic and partition."""

    group: str = since("0")
    topic: str = since("0")
    partition: i32 = since("0")


class OffsetCommitValue(Message, key=1, valid="0-4", flexible="4+"):
    """A committed offset with its metadata.

    Only version 1 has an expiry time. Version 3 adds the leader epoch, version 4 tagged fields (KIP-915).
    """

    offset: i64 = since()
    leader_epoch: i32 = since("3+", default=-1, ignorable=True)
    metadata: str = since()
    commit_timestamp: i64 = since()
    expire_timestamp: i64 = since("1", default=-1, ignorable=True)
    topic_id: Uuid = since("4+", tag=0, ignorable=True)
