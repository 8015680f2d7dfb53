"""DescribeShareGroupOffsets (API key 90): the start offsets of share groups. KIP-932. Version 1 adds the lag (KIP-1226)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since


class DescribeShareGroupOffsetsRequest(Message, key=90, valid="0-1", flexible="0+"):
    """A request for the start offsets of share groups in some partitions."""

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = since()
        partitions: list[i32] = since()

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str = since()
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = since()

    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = since()


class DescribeShareGroupOffsetsResponse(Message, key=90, valid="0-1", flexible="0+"):
    """The start offset of each requested partition of a share group."""

    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: i32 = since()
        start_offset: i64 = since()
        leader_epoch: i32 = since()
        lag: i64 = since("1+", default=-1, ignorable=True)
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = since()
        topic_id: Uuid = since()
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = since()

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str = since()
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    throttle_time_ms: i32 = since()
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = since()
