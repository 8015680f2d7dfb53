"""StopReplica: the controller tells this broker to stop replicas, and to delete some of them."""

from __future__ import annotations

from ottla.broker.replication.controller_words import stops
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.scheduler import Steps
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import LaterReplies, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.wire.api.stop_replica import StopReplicaRequest, StopReplicaResponse

PartitionError = StopReplicaResponse.StopReplicaPartitionError


@serves(StopReplicaRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True)
def stop_replica(request: Request[StopReplicaRequest], replicas: ReplicaManager, later: LaterReplies) -> Reply:
    """Stop all replicas, and say which could not be stopped or deleted."""
    return later.computed(_stopped(request.body, replicas), to_the_end=True)


def _stopped(body: StopReplicaRequest, replicas: ReplicaManager) -> Steps[Reply]:
    told = list(stops(body))
    errors = yield from replicas.in_turn(body.controller_epoch, body.broker_epoch, lambda: replicas.stop_replicas(told))
    if isinstance(errors, int):
        return StopReplicaResponse(error_code=errors)
    parts = [PartitionError(topic_name=topic, partition_index=index, error_code=code) for (topic, index), code in errors.items()]
    return StopReplicaResponse(partition_errors=parts)
