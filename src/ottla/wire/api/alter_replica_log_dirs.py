"""AlterReplicaLogDirs (API key 34): replicas move between a broker's directories.

KIP-113.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, message, since, struct


@message(key=34, valid="0-2", flexible="2+")
class AlterReplicaLogDirsRequest(Message):
    """The new directory of each replica."""

    @struct
    class AlterReplicaLogDirTopic(Struct):
        name: str = since()
        partitions: list[i32] = since()

    @struct
    class AlterReplicaLogDir(Struct):
        path: str = since()
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = since()

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = since()


@message(key=34, valid="0-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    """The error of each replica."""

    @struct
    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()

    @struct
    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = since()
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = since()

    throttle_time_ms: i32 = since()
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = since()
