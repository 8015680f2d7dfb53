"""StopReplica: the replicas that this broker stops, and the replicas that it also deletes, as the controller decides.

An outdated controller epoch is refused. Version 1 groups partitions by topic, 3 has a deletion flag and a leader epoch for each
partition.
"""

from __future__ import annotations

from ottla.broker.coordination.groups import GroupCoordinators
from ottla.broker.replication.controller_messages import read_stops
from ottla.broker.replication.metadata_publisher import MetadataPublisher
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.metadata import Errors, ReplicasStopped
from ottla.ports import Steps
from ottla.wire.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.errors import KAFKA_STORAGE_ERROR

PartitionError = StopReplicaResponse.StopReplicaPartitionError


ERRORS = ("partition_errors",)
PARTS = Parts(
    (
        (("topic_states", "partition_states"), ERRORS),
        (("topics", "partition_indexes"), ERRORS),
        (("ungrouped_partitions",), ERRORS),
    ),
    things=2000,
    whole_bytes=8192,
    together=True,
)


@serves(StopReplicaRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True, parts=PARTS, to_the_end=True)
def stop_replica(
    request: Request[StopReplicaRequest], replicas: ReplicaManager, publisher: MetadataPublisher, groups: GroupCoordinators
) -> Steps[Reply]:
    """Stop all given replicas, and return an error per partition."""
    body, writer = request.body, ResponseWriter(request, ERRORS)

    def stopped() -> Steps[None]:
        for part in request.parts():
            errors = yield from publisher.take(ReplicasStopped(read_stops(part.body)))
            gone = {stop.topic for stop in read_stops(part.body) if stop.is_deleted}
            yield from groups.awaits_forgotten(gone)
            errors |= {one: KAFKA_STORAGE_ERROR for one in errors if one[0] in gone and groups.is_forgetting(one[0])}
            writer.add(_response(errors))
            yield None

    error_code = yield from replicas.run_in_order(body.controller_epoch, body.broker_epoch, stopped)
    return StopReplicaResponse(error_code=error_code) if error_code else writer.reply()


def _response(errors: Errors) -> StopReplicaResponse:
    parts = [PartitionError(topic_name=topic, partition_index=index, error_code=code) for (topic, index), code in errors.items()]
    return StopReplicaResponse(partition_errors=parts)
