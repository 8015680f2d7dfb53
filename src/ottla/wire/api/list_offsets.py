"""ListOffsets (API key 2): the offsets of timestamps, or the first and last offsets, are found.

Version 1 returns one offset by timestamp (KIP-79), 2 adds isolation levels (KIP-98), 4 leader epochs (KIP-320), 7 finds the largest
timestamp (KIP-734), 8 the local start (KIP-405), 9 the end of the tiered part (KIP-1005), 10 adds a timeout (KIP-1075).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, i64, since


class ListOffsetsRequest(Message, key=2, valid="0-11", flexible="6+"):
    """A request for the offset at a timestamp of each partition.

    Timestamp -2 means the earliest offset, -1 the latest offset. Lower numbers are special too.
    """

    class ListOffsetsPartition(Struct):
        partition_index: i32 = since()
        current_leader_epoch: i32 = since("4+", default=-1, ignorable=True)
        timestamp: i64 = since()
        max_num_offsets: i32 = since("0", default=1)

    class ListOffsetsTopic(Struct):
        name: str = since()
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = since()

    replica_id: i32 = since()
    isolation_level: i8 = since("2+")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = since()
    timeout_ms: i32 = since("10+", ignorable=True)


class ListOffsetsResponse(Message, key=2, valid="0-11", flexible="6+"):
    """The offset, timestamp and leader epoch found for each partition. Version 0 returns a list of segments' base offsets."""

    class ListOffsetsPartitionResponse(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        old_style_offsets: list[i64] = since("0")
        timestamp: i64 = since("1+", default=-1)
        offset: i64 = since("1+", default=-1)
        leader_epoch: i32 = since("4+", default=-1)

    class ListOffsetsTopicResponse(Struct):
        name: str = since()
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = since()

    throttle_time_ms: i32 = since("2+", ignorable=True)
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = since()
