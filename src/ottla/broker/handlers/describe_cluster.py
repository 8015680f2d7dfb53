"""DescribeCluster: the brokers that are up and the controller."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.serving.addresses import addresses
from ottla.broker.serving.authorized import NOT_ASKED, ON_CLUSTER
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.errors import MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE

BROKERS, CONTROLLERS = 1, 2


def handle_describe_cluster(broker: Broker, request: Request) -> Reply:
    body: DescribeClusterRequest = request.body
    if body.endpoint_type == CONTROLLERS:
        sentence = "This listener is for clients of brokers: controllers have none of their own, so ask for brokers."
        return DescribeClusterResponse(error_code=MISMATCHED_ENDPOINT_TYPE, error_message=sentence)
    if body.endpoint_type != BROKERS:
        sentence = f"There is no endpoint type {body.endpoint_type}: ask for brokers ({BROKERS})."
        return DescribeClusterResponse(error_code=UNSUPPORTED_ENDPOINT_TYPE, error_message=sentence)
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.topics.image.controller_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in addresses(broker, request.peer)
        ],
        cluster_authorized_operations=ON_CLUSTER if body.include_cluster_authorized_operations else NOT_ASKED,
    )


HANDLERS: Handlers = {60: (range(3), handle_describe_cluster)}
