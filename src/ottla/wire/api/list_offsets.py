"""ListOffsets (API key 2): …"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, i64, message, since, struct


@message(key=2, valid="0-11", flexible="6+")
class ListOffsetsRequest(Message):
    """Request."""

    @struct
    class ListOffsetsPartition(Struct):
        partition_index: i32 = since()
        current_leader_epoch: i32 = since("4+", default=-1, ignorable=True)
        timestamp: i64 = since()
        max_num_offsets: i32 = since("0", default=1)

    @struct
    class ListOffsetsTopic(Struct):
        name: str = since()
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = since()

    replica_id: i32 = since()
    isolation_level: i8 = since("2+")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = since()
    timeout_ms: i32 = since("10+", ignorable=True)


@message(key=2, valid="0-11", flexible="6+")
class ListOffsetsResponse(Message):
    """Response."""

    @struct
    class ListOffsetsPartitionResponse(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        old_style_offsets: list[i64] = since("0")
        timestamp: i64 = since("1+", default=-1)
        offset: i64 = since("1+", default=-1)
        leader_epoch: i32 = since("4+", default=-1)

    @struct
    class ListOffsetsTopicResponse(Struct):
        name: str = since()
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = since()

    throttle_time_ms: i32 = since("2+", ignorable=True)
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = since()
