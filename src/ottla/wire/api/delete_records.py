"""DeleteRecords (API key 21): records before an offset are deleted.

KIP-107.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, message, since, struct


@message(key=21, valid="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    """The new log start offset of each partition; -1 is the high watermark."""

    @struct
    class DeleteRecordsPartition(Struct):
        partition_index: i32 = since()
        offset: i64 = since()

    @struct
    class DeleteRecordsTopic(Struct):
        name: str = since()
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = since()

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = since()
    timeout_ms: i32 = since()


@message(key=21, valid="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """The new low watermark, or the error, of each partition."""

    @struct
    class DeleteRecordsPartitionResult(Struct):
        partition_index: i32 = since()
        low_watermark: i64 = since()
        error_code: i16 = since()

    @struct
    class DeleteRecordsTopicResult(Struct):
        name: str = since()
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = since()

    throttle_time_ms: i32 = since()
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = since()
