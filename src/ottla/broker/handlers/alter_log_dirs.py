"""AlterReplicaLogDirs: replicas move to other log directories of this broker (KIP-113). Versions differ in encoding only.

The response says which moves have begun; DescribeLogDirs shows how far they are. The directory of a partition that this broker does
not hold is remembered for its creation.
"""

from __future__ import annotations

from ottla.broker.partitions.replica_moves import ReplicaMoves
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.acls import CLUSTER_NAME
from ottla.ports import Steps
from ottla.wire.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from ottla.wire.errors import CLUSTER_AUTHORIZATION_FAILED

TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult

AT_ONCE = 20
"""Moves begun between two pauses: each makes a directory."""


@serves(
    AlterReplicaLogDirsRequest,
    parts=Parts(((("dirs", "topics", "partitions"), ("results", "partitions")),)),
)
def alter_log_dirs(request: Request[AlterReplicaLogDirsRequest], moves: ReplicaMoves, rights: Rights) -> Steps[Reply]:
    """Begin the moves. If a partition is named twice, the last directory counts."""
    may_move = rights.check(request.peer, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, request.api.name, request.now)
    wanted = {
        (topic.name, index): directory.path
        for directory in request.body.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, list[PartitionResult]] = {}
    for number, ((name, index), path) in enumerate(wanted.items(), 1):
        error_code = moves.alter(name, index, path) if may_move else CLUSTER_AUTHORIZATION_FAILED
        results.setdefault(name, []).append(PartitionResult(partition_index=index, error_code=error_code))
        if number % AT_ONCE == 0:
            yield None
    return AlterReplicaLogDirsResponse(results=[TopicResult(topic_name=name, partitions=parts) for name, parts in results.items()])
