"""The controller's requests to every broker: LeaderAndIsr, StopReplica and UpdateMetadata.

An outdated controller epoch is refused.

LeaderAndIsr assigns the partitions that this broker leads and follows. Version 2 groups partitions by topic, and 5 names topics
by id in the response; 6 added the leader's recovery state (KIP-704).

StopReplica names the replicas that this broker stops, and the replicas that it also deletes. Version 1 groups partitions by
topic, 3 has a deletion flag and a leader epoch for each partition.

UpdateMetadata has topics, leaders and brokers of the cluster. Version 5 groups partitions by topic, and 7 added topic ids.
"""

from __future__ import annotations

from ottla.broker.coordination.groups import GroupCoordinators
from ottla.broker.replication.controller_messages import Nodes, read_brokers, read_roles, read_stops, read_topics
from ottla.broker.replication.image_updates import ImageUpdates
from ottla.broker.replication.metadata_publisher import MetadataPublisher
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.metadata import Errors, ReplicasStopped
from ottla.ports import Steps
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.wire.errors import KAFKA_STORAGE_ERROR

BY_TOPIC_ID_FROM = 5

RoleError = LeaderAndIsrResponse.LeaderAndIsrPartitionError
TopicError = LeaderAndIsrResponse.LeaderAndIsrTopicError

BY_ID, BY_NAME = ("topics", "partition_errors"), ("partition_errors",)
ROLE_PARTS = Parts(
    ((("topic_states", "partition_states"), BY_NAME), (("ungrouped_partition_states",), BY_NAME)),
    whole_bytes=8192,
    together=True,
)

METADATA_PARTS = Parts(
    ((("topic_states", "partition_states"), ()), (("ungrouped_partition_states",), ())), whole_bytes=8192, together=True
)

StopError = StopReplicaResponse.StopReplicaPartitionError

ERRORS = ("partition_errors",)
STOP_PARTS = Parts(
    (
        (("topic_states", "partition_states"), ERRORS),
        (("topics", "partition_indexes"), ERRORS),
        (("ungrouped_partitions",), ERRORS),
    ),
    things=2000,
    whole_bytes=8192,
    together=True,
)


@serves(
    LeaderAndIsrRequest,
    Need(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    parts=ROLE_PARTS,
    to_the_end=True,
)
def leader_and_isr(request: Request[LeaderAndIsrRequest], replicas: ReplicaManager, updates: ImageUpdates) -> Steps[Reply]:
    """Take all assigned roles, open the logs, and return an error code per partition."""
    body, version = request.body, request.version
    writer = ResponseWriter(request, BY_ID if version >= BY_TOPIC_ID_FROM else BY_NAME)

    def apply() -> Steps[None]:
        replicas.leader_addresses.update({each.broker_id: (each.host_name, each.port) for each in body.live_leaders})
        for part in request.parts():
            told = list(read_roles(part.body, version))
            errors = yield from updates.apply_roles(told)
            writer.add(_response(errors, {role.topic: role.topic_id for role in told}, version))
            yield None

    error_code = yield from replicas.run_in_order(body.controller_epoch, body.broker_epoch, apply)
    return LeaderAndIsrResponse(error_code=error_code) if error_code else writer.reply()


def _response(errors: Errors, topic_ids: dict[str, bytes], version: int) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse()
    topics: dict[str, TopicError] = {}
    for (topic, index), error_code in errors.items():
        if version < BY_TOPIC_ID_FROM:
            response.partition_errors.append(RoleError(topic_name=topic, partition_index=index, error_code=error_code))
            continue
        if topic not in topics:
            topics[topic] = TopicError(topic_id=topic_ids[topic])
        topics[topic].partition_errors.append(RoleError(partition_index=index, error_code=error_code))
    response.topics = list(topics.values())
    return response


@serves(StopReplicaRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), parts=STOP_PARTS, to_the_end=True)
def stop_replica(
    request: Request[StopReplicaRequest], replicas: ReplicaManager, publisher: MetadataPublisher, groups: GroupCoordinators
) -> Steps[Reply]:
    """Stop all given replicas, and return an error per partition."""
    body, writer = request.body, ResponseWriter(request, ERRORS)

    def apply() -> Steps[None]:
        for part in request.parts():
            errors = yield from publisher.apply_events(ReplicasStopped(read_stops(part.body)))
            gone = {stop.topic for stop in read_stops(part.body) if stop.is_deleted}
            yield from groups.awaits_forgotten(gone)
            errors |= {one: KAFKA_STORAGE_ERROR for one in errors if one[0] in gone and groups.is_forgetting(one[0])}
            writer.add(_stop_response(errors))
            yield None

    error_code = yield from replicas.run_in_order(body.controller_epoch, body.broker_epoch, apply)
    return StopReplicaResponse(error_code=error_code) if error_code else writer.reply()


def _stop_response(errors: Errors) -> StopReplicaResponse:
    parts = [StopError(topic_name=topic, partition_index=index, error_code=code) for (topic, index), code in errors.items()]
    return StopReplicaResponse(partition_errors=parts)


@serves(
    UpdateMetadataRequest,
    Need(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    parts=METADATA_PARTS,
    to_the_end=True,
)
def update_metadata(request: Request[UpdateMetadataRequest], updates: ImageUpdates) -> Steps[Reply]:
    """Apply the brokers and topics of the request to this broker's cluster image."""
    body, version = request.body, request.version
    nodes = Nodes()
    live, told = read_brokers(body, version), (read_topics(part.body, version, nodes) for part in request.parts())
    error_code = yield from updates.apply(body.controller_epoch, body.broker_epoch, body.controller_id, live, told)
    return UpdateMetadataResponse(error_code=error_code)
