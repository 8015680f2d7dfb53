"""AlterReplicaLogDirs (API key 34): replicas move between a broker's directories. KIP-113."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class AlterReplicaLogDirsRequest(Message, key=34, valid="0-2", flexible="2+"):
    """A request to move replicas on a broker to other log directories."""

    class AlterReplicaLogDirTopic(Struct):
        name: str = since()
        partitions: list[i32] = since()

    class AlterReplicaLogDir(Struct):
        path: str = since()
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = since()

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = since()


class AlterReplicaLogDirsResponse(Message, key=34, valid="0-2", flexible="2+"):
    """The answer to an AlterReplicaLogDirs request: an error code for each replica."""

    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = since()
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = since()

    throttle_time_ms: i32 = since()
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = since()
