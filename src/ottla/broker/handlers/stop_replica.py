"""StopReplica: the controller tells this broker to stop replicas, and to delete some of them."""

from __future__ import annotations

from ottla.broker.replication.controller_words import stops
from ottla.broker.replication.replica_manager import Errors, ReplicaManager
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Encoded, Request
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices
from ottla.ports import Steps
from ottla.wire.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.codec.blocks import BlockWriter

PartitionError = StopReplicaResponse.StopReplicaPartitionError


ERRORS = ("partition_errors",)
SLICES = Slices(
    (
        (("topic_states", "partition_states"), ERRORS),
        (("topics", "partition_indexes"), ERRORS),
        (("ungrouped_partitions",), ERRORS),
    ),
    things=2000,
    whole_bytes=8192,
    asked_whole=True,
)


@serves(StopReplicaRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True, slices=SLICES)
def stop_replica(request: Request[StopReplicaRequest], replicas: ReplicaManager, purgatory: Purgatory) -> Reply:
    """Stop all replicas, and say which could not be stopped or deleted."""
    return purgatory.run(_stopped(request, replicas), to_the_end=True)


def _stopped(request: Request[StopReplicaRequest], replicas: ReplicaManager) -> Steps[Reply]:
    body, writer = request.body, BlockWriter(request.version, ERRORS)

    def stopped() -> Steps[None]:
        for part in request.parts():
            writer.add(_response((yield from replicas.stop_replicas(stops(part)))))
            yield None

    error_code = yield from replicas.in_turn(body.controller_epoch, body.broker_epoch, stopped)
    return StopReplicaResponse(error_code=error_code) if error_code else Encoded(writer.parts())


def _response(errors: Errors) -> StopReplicaResponse:
    parts = [PartitionError(topic_name=topic, partition_index=index, error_code=code) for (topic, index), code in errors.items()]
    return StopReplicaResponse(partition_errors=parts)
