"""OffsetDelete (API key 47): a group's stored offsets are deleted. KIP-496."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class OffsetDeleteRequest(Message, key=47, valid="0"):
    """A request to delete the committed offsets of a group in some partitions."""

    class OffsetDeleteRequestPartition(Struct):
        partition_index: i32 = since()

    class OffsetDeleteRequestTopic(Struct):
        name: str = since()
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = since()

    group_id: str = since()
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = since()


class OffsetDeleteResponse(Message, key=47, valid="0"):
    """The answer to an OffsetDelete request: an error code for each partition."""

    class OffsetDeleteResponsePartition(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()

    class OffsetDeleteResponseTopic(Struct):
        name: str = since()
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = since()

    error_code: i16 = since()
    throttle_time_ms: i32 = since(ignorable=True)
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = since()
