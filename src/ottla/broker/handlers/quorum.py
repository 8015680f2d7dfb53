"""DescribeQuorum and UnregisterBroker: the metadata quorum and the registrations of a lone broker (KIP-595, KIP-631).

A lone broker is the quorum's only voter and the only registered broker. The commits of its registry take the place of the metadata
log's offsets. In a cluster over ZooKeeper, neither API is served, as in Kafka until 3.9: brokers' registrations end with their
sessions. Version 1 of DescribeQuorum added times (KIP-836), 2 directories and endpoints (KIP-853).
"""

from __future__ import annotations

from ottla.broker.controller.controller import Controller
from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.addresses import Addresses
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.registry.embedded_registry import EmbeddedRegistry
from ottla.wire.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.errors import BROKER_ID_NOT_REGISTERED, ERRORS, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION

METADATA_TOPIC, METADATA_PARTITION = "__cluster_metadata", 0
MOST_PARTITIONS = 1000
NODES_FROM = 2

Described = DescribeQuorumResponse.TopicData
Partition = DescribeQuorumResponse.PartitionData


@serves(DescribeQuorumRequest, Need(Operation.DESCRIBE, Resource.CLUSTER), most=MOST_PARTITIONS)
def describe_quorum(
    request: Request[DescribeQuorumRequest],
    identity: BrokerIdentity,
    controller: Controller,
    registry: EmbeddedRegistry,
    addresses: Addresses,
) -> Reply:
    """Describe the quorum of the metadata partition. As in Kafka, a request that names anything else describes nothing."""
    named = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.body.topics]
    if named != [(METADATA_TOPIC, [METADATA_PARTITION])]:
        return DescribeQuorumResponse(
            topics=[Described(topic_name=name, partitions=[_unknown(index) for index in indexes]) for name, indexes in named]
        )
    offset, now_ms = registry.store.commits, request.now.wall_ms
    voter = DescribeQuorumResponse.ReplicaState(
        replica_id=identity.node_id,
        log_end_offset=offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = Partition(
        partition_index=METADATA_PARTITION,
        leader_id=identity.node_id,
        leader_epoch=controller.epoch or 0,
        high_watermark=offset,
        current_voters=[voter],
    )
    host, port = addresses.own(request.peer)
    listener = DescribeQuorumResponse.Listener(name=request.peer.listener, host=host, port=port)
    return DescribeQuorumResponse(
        topics=[Described(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[DescribeQuorumResponse.Node(node_id=identity.node_id, listeners=[listener])]
        if request.version >= NODES_FROM
        else [],
    )


def _unknown(index: int) -> Partition:
    error_code = UNKNOWN_TOPIC_OR_PARTITION
    return Partition(partition_index=index, error_code=error_code, error_message=ERRORS[error_code].sentence)


@serves(UnregisterBrokerRequest, Need(Operation.ALTER, Resource.CLUSTER))
def unregister_broker(request: Request[UnregisterBrokerRequest], identity: BrokerIdentity) -> Reply:
    """Refuse to unregister any broker: this one is alive, and no other one is registered.

    Kafka unregisters a live broker, too, which then has to be restarted.
    """
    node_id = request.body.broker_id
    if node_id == identity.node_id:
        sentence = f"Broker ID {node_id} is alive, and the only broker: stop it instead."
        return UnregisterBrokerResponse(error_code=INVALID_REQUEST, error_message=sentence)
    sentence = f"Broker ID {node_id} is not currently registered: this cluster has broker {identity.node_id} alone."
    return UnregisterBrokerResponse(error_code=BROKER_ID_NOT_REGISTERED, error_message=sentence)
