"""AssignReplicasToDirs (API key 73): a broker reports the log directories of its replicas to the controller.

KIP-858.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, message, since, struct


@message(key=73, valid="0", flexible="0+")
class AssignReplicasToDirsRequest(Message):
    """Partitions by directory."""

    @struct
    class PartitionData(Struct):
        partition_index: i32 = since()

    @struct
    class TopicData(Struct):
        topic_id: Uuid = since()
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = since()

    @struct
    class DirectoryData(Struct):
        id: Uuid = since()
        topics: list[AssignReplicasToDirsRequest.TopicData] = since()

    broker_id: i32 = since()
    broker_epoch: i64 = since(default=-1)
    directories: list[AssignReplicasToDirsRequest.DirectoryData] = since()


@message(key=73, valid="0", flexible="0+")
class AssignReplicasToDirsResponse(Message):
    """The error of each partition."""

    @struct
    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()

    @struct
    class TopicData(Struct):
        topic_id: Uuid = since()
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = since()

    @struct
    class DirectoryData(Struct):
        id: Uuid = since()
        topics: list[AssignReplicasToDirsResponse.TopicData] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    directories: list[AssignReplicasToDirsResponse.DirectoryData] = since()
