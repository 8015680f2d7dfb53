"""AssignReplicasToDirs (API key 73): a broker reports the log directories of its replicas to the controller. KIP-858."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since


class AssignReplicasToDirsRequest(Message, key=73, valid="0", flexible="0+"):
    """A broker's message to the controller: which of its log directories contains which partitions."""

    class PartitionData(Struct):
        partition_index: i32 = since()

    class TopicData(Struct):
        topic_id: Uuid = since()
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = since()

    class DirectoryData(Struct):
        id: Uuid = since()
        topics: list[AssignReplicasToDirsRequest.TopicData] = since()

    broker_id: i32 = since()
    broker_epoch: i64 = since(default=-1)
    directories: list[AssignReplicasToDirsRequest.DirectoryData] = since()


class AssignReplicasToDirsResponse(Message, key=73, valid="0", flexible="0+"):
    """The answer to an AssignReplicasToDirs request: an error code for each partition."""

    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()

    class TopicData(Struct):
        topic_id: Uuid = since()
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = since()

    class DirectoryData(Struct):
        id: Uuid = since()
        topics: list[AssignReplicasToDirsResponse.TopicData] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    directories: list[AssignReplicasToDirsResponse.DirectoryData] = since()
