"""OffsetFetch (API key 9): a group's stored offsets are read.

Version 2 can request all topics (KIP-88), 5 adds leader epochs (KIP-320), 7 can require stable offsets (KIP-447), 8 requests
several groups (KIP-709), 9 adds member epochs (KIP-848), 10 names topics by id (KIP-848).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since


class OffsetFetchRequest(Message, key=9, valid="0-10", flexible="6+"):
    """A request for the committed offsets of groups in some topics; null means all topics."""

    class OffsetFetchRequestTopic(Struct):
        name: str = since("0-7")
        partition_indexes: list[i32] = since("0-7")

    class OffsetFetchRequestTopics(Struct):
        name: str = since("8-9", ignorable=True)
        topic_id: Uuid = since("10+", ignorable=True)
        partition_indexes: list[i32] = since("8+")

    class OffsetFetchRequestGroup(Struct):
        group_id: str = since("8+")
        member_id: str | None = since("9+", default=None, ignorable=True)
        member_epoch: i32 = since("9+", default=-1, ignorable=True)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = since("8+")

    group_id: str = since("0-7")
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = since("0-7", null="2-7")
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = since("8+")
    require_stable: bool = since("7+")


class OffsetFetchResponse(Message, key=9, valid="0-10", flexible="6+"):
    """The committed offset, leader epoch and metadata of each partition. The offset is -1 if none is committed."""

    class OffsetFetchResponsePartition(Struct):
        partition_index: i32 = since("0-7")
        committed_offset: i64 = since("0-7")
        committed_leader_epoch: i32 = since("5-7", default=-1, ignorable=True)
        metadata: str | None = since("0-7")
        error_code: i16 = since("0-7")

    class OffsetFetchResponseTopic(Struct):
        name: str = since("0-7")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = since("0-7")

    class OffsetFetchResponsePartitions(Struct):
        partition_index: i32 = since("8+")
        committed_offset: i64 = since("8+")
        committed_leader_epoch: i32 = since("8+", default=-1, ignorable=True)
        metadata: str | None = since("8+")
        error_code: i16 = since("8+")

    class OffsetFetchResponseTopics(Struct):
        name: str = since("8-9", ignorable=True)
        topic_id: Uuid = since("10+", ignorable=True)
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = since("8+")

    class OffsetFetchResponseGroup(Struct):
        group_id: str = since("8+")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = since("8+")
        error_code: i16 = since("8+")

    throttle_time_ms: i32 = since("3+", ignorable=True)
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = since("0-7")
    error_code: i16 = since("2-7", ignorable=True)
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = since("8+")
