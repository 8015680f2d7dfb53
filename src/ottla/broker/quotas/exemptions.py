"""Requests of brokers, which are exempt from client quotas (KIP-124), because a throttled broker could not replicate in time."""

from __future__ import annotations

from typing import Final

from ottla.broker.security.rights import Rights
from ottla.broker.serving.request import Request
from ottla.cluster.acls import CLUSTER_NAME, Operation, Resource
from ottla.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.api.alter_partition import AlterPartitionRequest
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.schema import Message

OF_BROKERS: Final = frozenset(
    message.WIRE.key
    for message in (
        LeaderAndIsrRequest,
        StopReplicaRequest,
        UpdateMetadataRequest,
        ControlledShutdownRequest,
        WriteTxnMarkersRequest,
        AlterPartitionRequest,
        AllocateProducerIdsRequest,
    )
)


def replica_id(body: FetchRequest) -> int:
    """Return the broker id of a follower's fetch; a negative number for a consumer's."""
    return body.replica_id if body.replica_state is None else max(body.replica_id, body.replica_state.replica_id)


class RequestsOfBrokers:
    """A filter for requests of brokers. A peer without permission for cluster actions counts as a client."""

    def __init__(self, rights: Rights) -> None:
        self._rights = rights

    def have(self, request: Request[Message]) -> bool:
        """Return whether a request is from another broker that is authorized for cluster actions."""
        body = request.body
        if request.api.key not in OF_BROKERS and not (isinstance(body, FetchRequest) and replica_id(body) >= 0):
            return False
        return self._rights.may(request.peer, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
