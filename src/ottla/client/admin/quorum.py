"""An admin client's requests about a KRaft cluster: its metadata quorum and its registered brokers. The module sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.arguments import check_mapping, text
from ottla.client.errors import KafkaError, SettingError, raise_for
from ottla.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.api.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from ottla.wire.errors import CLUSTER_AUTHORIZATION_FAILED

METADATA_TOPIC = "__cluster_metadata"


class QuorumReplica(NamedTuple):
    """A replica of the metadata log. Times are in ms since 1970, -1 if unknown. `directory_id` is zero before Kafka 3.9."""

    node_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    directory_id: bytes


class QuorumDescription(NamedTuple):
    """The metadata quorum (KIP-595): its leader is the active controller. Brokers are observers.

    `endpoints` are the addresses of controllers by node id, as host:port; empty before Kafka 3.9.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    endpoints: dict[int, list[str]]


def quorum_request() -> DescribeQuorumRequest:
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])])


def read_quorum(answer: DescribeQuorumResponse) -> QuorumDescription:
    """Return the quorum of the metadata log. Raises `BrokerError`."""
    raise_for(answer.error_code, "Describing the quorum", answer.error_message)
    endpoints = {node.node_id: [f"{each.host}:{each.port}" for each in node.listeners] for node in answer.nodes}
    for found in (partition for topic in answer.topics for partition in topic.partitions):
        raise_for(found.error_code, "Describing the quorum", found.error_message)
        voters, observers = (
            [
                QuorumReplica(
                    each.replica_id,
                    each.log_end_offset,
                    each.last_fetch_timestamp,
                    each.last_caught_up_timestamp,
                    each.replica_directory_id,
                )
                for each in replicas
            ]
            for replicas in (found.current_voters, found.observers)
        )
        return QuorumDescription(found.leader_id, found.leader_epoch, found.high_watermark, voters, observers, endpoints)
    raise KafkaError("The broker's answer leaves out the quorum that it was asked about.")


def unregister_request(node_id: int) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=node_id)


def unregister_controller_request(node_id: int) -> UnregisterControllerRequest:
    return UnregisterControllerRequest(controller_id=node_id)


def check_unregistered(answer: UnregisterBrokerResponse | UnregisterControllerResponse) -> None:
    """Raise an exception for an error code in the answer. Apache Kafka's message about missing rights is a dump of the request."""
    message = None if answer.error_code == CLUSTER_AUTHORIZATION_FAILED else answer.error_message
    noun = "broker" if isinstance(answer, UnregisterBrokerResponse) else "controller"
    raise_for(answer.error_code, f"Unregistering the {noun}", message)


def add_voter_request(
    cluster_id: str | None, node_id: int, directory_id: bytes, endpoints: Mapping[str, str], timeout_ms: int
) -> AddRaftVoterRequest:
    """Build the request that adds a voter (KIP-853). Raises `TypeError`, and `SettingError` for an endpoint that is no address."""
    listener = DescribeQuorumResponse.Listener
    listeners = []
    for name, address in check_mapping("endpoints", endpoints).items():
        host, _, port = text("An endpoint", address).rpartition(":")
        if not host or not port.isdecimal():
            raise SettingError(f"{address!r} is not an endpoint: write it as host:9093.")
        listeners.append(listener(name=text("The name of a listener", name), host=host.strip("[]"), port=int(port)))
    return AddRaftVoterRequest(
        cluster_id=cluster_id, timeout_ms=timeout_ms, listeners=listeners, voter_id=node_id, voter_directory_id=directory_id
    )


def check_added(answer: AddRaftVoterResponse) -> None:
    raise_for(answer.error_code, "Adding the voter", answer.error_message)


def remove_voter_request(cluster_id: str | None, node_id: int, directory_id: bytes) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id)


def check_removed(answer: RemoveRaftVoterResponse) -> None:
    raise_for(answer.error_code, "Removing the voter", answer.error_message)
