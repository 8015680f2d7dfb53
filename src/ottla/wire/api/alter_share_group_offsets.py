"""AlterShareGroupOffsets (API key 91): the start offsets of a share group are changed. KIP-932."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since


class AlterShareGroupOffsetsRequest(Message, key=91, valid="0", flexible="0+"):
    """A request to set the start offsets of a share group's partitions."""

    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: i32 = since()
        start_offset: i64 = since()

    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = since()
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = since()

    group_id: str = since()
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = since()


class AlterShareGroupOffsetsResponse(Message, key=91, valid="0", flexible="0+"):
    """The answer to an AlterShareGroupOffsets request: an error code for each partition."""

    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = since()
        topic_id: Uuid = since()
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = since()
