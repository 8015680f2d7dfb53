"""DescribeCluster: the live brokers and the controller."""

from __future__ import annotations

from ottla.broker.identity import BrokerIdentity
from ottla.broker.security.rights import NOT_ASKED, Rights
from ottla.broker.serving.addresses import Addresses
from ottla.broker.serving.metadata_waits import MetadataWaits
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.errors import MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE

BROKERS, CONTROLLERS = 1, 2


@serves(DescribeClusterRequest)
def describe_cluster(
    request: Request[DescribeClusterRequest],
    identity: BrokerIdentity,
    cluster: ClusterImage,
    addresses: Addresses,
    rights: Rights,
    metadata_waits: MetadataWaits,
) -> Reply:
    """Describe the brokers that have the client's listener. Controllers are not described, because they have no listeners."""
    body = request.body
    if body.endpoint_type == CONTROLLERS:
        sentence = "This listener is for clients of brokers: request the endpoint type of brokers."
        return DescribeClusterResponse(error_code=MISMATCHED_ENDPOINT_TYPE, error_message=sentence)
    if body.endpoint_type != BROKERS:
        sentence = f"There is no endpoint type {body.endpoint_type}: use brokers ({BROKERS})."
        return DescribeClusterResponse(error_code=UNSUPPORTED_ENDPOINT_TYPE, error_message=sentence)
    asks = body.include_cluster_authorized_operations

    def described() -> Reply:
        return DescribeClusterResponse(
            cluster_id=identity.cluster_id,
            controller_id=cluster.controller_id,
            brokers=[
                DescribeClusterResponse.DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack)
                for node_id, host, port, rack in addresses.all(request.peer)
            ],
            cluster_authorized_operations=rights.cluster_operations(request.peer) if asks else NOT_ASKED,
        )

    return metadata_waits.delay(request.now, described)
