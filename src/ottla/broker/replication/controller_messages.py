"""The content of the controller's requests in any version: roles, replicas to stop, and metadata.

Depends on the messages and their versions, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.image import NO_TOPIC_ID, BrokerImage, PartitionImage
from ottla.cluster.metadata import PartitionUpdate, ReplicaRole, ReplicaStop, TopicUpdate
from ottla.cluster.replicas.partition_state import Assigned
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest

NO_EPOCH = -1
"""The leader epoch of a request whose version has no leader epochs."""

EPOCH_DURING_DELETE = -2
"""The leader epoch during the deletion of a topic: newer than any other."""

GROUPED_LEADER_AND_ISR_FROM, GROUPED_METADATA_FROM = 2, 5
LISTENERS_NAMED_FROM = 3
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Nodes(dict[tuple[int, ...], tuple[int, ...]]):
    """A cache of tuples of broker ids, so that partitions with equal lists of replicas share one tuple."""

    def __missing__(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        self[nodes] = nodes
        return nodes


def read_roles(request: LeaderAndIsrRequest, version: int) -> Iterator[ReplicaRole]:
    """Yield the roles that a LeaderAndIsr request assigns to this broker's replicas."""
    if version < GROUPED_LEADER_AND_ISR_FROM:
        for state in request.ungrouped_partition_states:
            yield ReplicaRole(state.topic_name, NO_TOPIC_ID, state.partition_index, _parse_state(state))
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield ReplicaRole(topic.topic_name, topic.topic_id, state.partition_index, _parse_state(state))


def _parse_state(state: LeaderAndIsrRequest.LeaderAndIsrPartitionState) -> Assigned:
    return Assigned(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=tuple(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=tuple(state.replicas),
        adding_replicas=tuple(state.adding_replicas),
        removing_replicas=tuple(state.removing_replicas),
        controller_epoch=state.controller_epoch,
        is_new=state.is_new,
        leader_recovery_state=state.leader_recovery_state,
    )


def read_stops(request: StopReplicaRequest) -> Iterator[ReplicaStop]:
    for one in request.ungrouped_partitions:
        yield ReplicaStop(one.topic_name, one.partition_index, NO_EPOCH, request.delete_partitions)
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield ReplicaStop(topic.name, index, NO_EPOCH, request.delete_partitions)
    for states in request.topic_states:
        for state in states.partition_states:
            yield ReplicaStop(states.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)


def read_brokers(request: UpdateMetadataRequest, version: int) -> dict[int, BrokerImage]:
    """Return all live brokers in an UpdateMetadata request, by id.

    Before version 3, the name of a listener is the name of its security protocol.
    """
    return {each.id: BrokerImage(each.id, _endpoints(each, version), each.rack) for each in request.live_brokers}


def _endpoints(broker: UpdateMetadataRequest.UpdateMetadataBroker, version: int) -> tuple[tuple[str, str, int], ...]:
    if not version:
        return ((SECURITY_PROTOCOLS[0], broker.v0_host, broker.v0_port),)
    if version < LISTENERS_NAMED_FROM:
        return tuple((SECURITY_PROTOCOLS[one.security_protocol], one.host, one.port) for one in broker.endpoints)
    return tuple((one.listener, one.host, one.port) for one in broker.endpoints)


def read_topics(request: UpdateMetadataRequest, version: int, nodes: Nodes) -> list[TopicUpdate]:
    if version >= GROUPED_METADATA_FROM:
        return [
            TopicUpdate(each.topic_name, each.topic_id, [_partition_update(one, nodes) for one in each.partition_states])
            for each in request.topic_states
        ]
    grouped: dict[str, list[PartitionUpdate]] = {}
    for state in request.ungrouped_partition_states:
        grouped.setdefault(state.topic_name, []).append(_partition_update(state, nodes))
    return [TopicUpdate(name, NO_TOPIC_ID, partitions) for name, partitions in grouped.items()]


def _partition_update(state: UpdateMetadataRequest.UpdateMetadataPartitionState, nodes: Nodes) -> PartitionUpdate:
    replicas, isr = nodes[tuple(state.replicas)], nodes[tuple(state.isr)]
    image = PartitionImage(state.partition_index, state.leader, state.leader_epoch, replicas, isr)
    return PartitionUpdate(image, tuple(state.offline_replicas))
