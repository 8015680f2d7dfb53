"""DeleteRecords (API key 21): records before an offset are deleted. KIP-107."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class DeleteRecordsRequest(Message, key=21, valid="0-2", flexible="2+"):
    """A request to delete the records before a given offset of each partition; -1 stands for the high watermark."""

    class DeleteRecordsPartition(Struct):
        partition_index: i32 = since()
        offset: i64 = since()

    class DeleteRecordsTopic(Struct):
        name: str = since()
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = since()

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = since()
    timeout_ms: i32 = since()


class DeleteRecordsResponse(Message, key=21, valid="0-2", flexible="2+"):
    """The answer to a DeleteRecords request: the new low watermark, or an error code, of each partition."""

    class DeleteRecordsPartitionResult(Struct):
        partition_index: i32 = since()
        low_watermark: i64 = since()
        error_code: i16 = since()

    class DeleteRecordsTopicResult(Struct):
        name: str = since()
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = since()

    throttle_time_ms: i32 = since()
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = since()
