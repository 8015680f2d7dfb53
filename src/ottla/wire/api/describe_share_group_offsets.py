"""DescribeShareGroupOffsets (API key 90): the start offsets of share groups.

KIP-932. Version 1 adds the lag (KIP-1226).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, message, since, struct


@message(key=90, valid="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Message):
    """The groups and partitions."""

    @struct
    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = since()
        partitions: list[i32] = since()

    @struct
    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str = since()
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = since()

    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = since()


@message(key=90, valid="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    """The start offset of each partition."""

    @struct
    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: i32 = since()
        start_offset: i64 = since()
        leader_epoch: i32 = since()
        lag: i64 = since("1+", default=-1, ignorable=True)
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    @struct
    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = since()
        topic_id: Uuid = since()
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = since()

    @struct
    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str = since()
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    throttle_time_ms: i32 = since()
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = since()
