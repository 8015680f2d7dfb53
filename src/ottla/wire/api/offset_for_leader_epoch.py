"""OffsetForLeaderEpoch (API key 23): the end offset of a leader epoch, to find where logs diverge.

Version 1 returns the epoch, 2 checks the current leader epoch (KIP-320), 3 adds the replica id.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class OffsetForLeaderEpochRequest(Message, key=23, valid="0-4", flexible="4+"):
    """A request for the end offset of a given leader epoch in each partition."""

    class OffsetForLeaderPartition(Struct):
        partition: i32 = since()
        current_leader_epoch: i32 = since("2+", default=-1, ignorable=True)
        leader_epoch: i32 = since()

    class OffsetForLeaderTopic(Struct):
        topic: str = since()
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = since()

    replica_id: i32 = since("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = since()


class OffsetForLeaderEpochResponse(Message, key=23, valid="0-4", flexible="4+"):
    """The largest leader epoch that is not above the requested epoch, and its end offset, for each partition."""

    class EpochEndOffset(Struct):
        error_code: i16 = since()
        partition: i32 = since()
        leader_epoch: i32 = since("1+", default=-1, ignorable=True)
        end_offset: i64 = since(default=-1)

    class OffsetForLeaderTopicResult(Struct):
        topic: str = since()
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = since()

    throttle_time_ms: i32 = since("2+", ignorable=True)
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = since()
