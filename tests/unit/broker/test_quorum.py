"""The metadata quorum and the registrations of a lone broker, as Apache Kafka 4.3 describes those of one node."""

from __future__ import annotations

import pytest

from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.api.unregister_broker import UnregisterBrokerRequest
from ottla.wire.errors import BROKER_ID_NOT_REGISTERED, INVALID_REQUEST, NONE, UNKNOWN_TOPIC_OR_PARTITION
from tests.support.machine import Machine
from tests.support.messages import request
from tests.support.routes import all_routes

QUORUM, UNREGISTER = DescribeQuorumRequest.WIRE.key, UnregisterBrokerRequest.WIRE.key


def described(machine: Machine, *topics: tuple[str, list[int]], version: int = 2) -> DescribeQuorumResponse:
    named = [{"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]} for name, indexes in topics]
    response = machine.ask(QUORUM, version, request(QUORUM, version, topics=named))
    assert isinstance(response, DescribeQuorumResponse)
    return response


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_lone_broker_is_the_leader_and_only_voter(version: int) -> None:
    machine = Machine()
    response = described(machine, ("__cluster_metadata", [0]), version=version)
    (partition,) = response.topics[0].partitions
    (voter,) = partition.current_voters
    assert (response.error_code, partition.error_code, partition.leader_id, partition.observers) == (NONE, NONE, 1, [])
    assert (voter.replica_id, voter.log_end_offset) == (1, partition.high_watermark)
    now_ms = machine.clock.now().wall_ms
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == ((now_ms, now_ms) if version else (-1, -1))
    nodes = [(node.node_id, [(at.name, at.host, at.port) for at in node.listeners]) for node in response.nodes]
    assert nodes == ([(1, [("PLAINTEXT", "127.0.0.1", 9092)])] if version == 2 else [])


def test_the_high_watermark_grows_with_each_change_of_metadata_and_the_epoch_with_each_start() -> None:
    machine = Machine()
    (before,) = described(machine, ("__cluster_metadata", [0])).topics[0].partitions
    wanted = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    machine.ask(19, 7, CreateTopicsRequest(topics=[wanted]))
    (after,) = described(machine, ("__cluster_metadata", [0])).topics[0].partitions
    assert after.high_watermark > before.high_watermark > 0
    machine.restart()
    (later,) = described(machine, ("__cluster_metadata", [0])).topics[0].partitions
    assert later.leader_epoch > after.leader_epoch == before.leader_epoch
    assert later.high_watermark > after.high_watermark


@pytest.mark.parametrize(
    "named",
    [
        [("other", [0])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [0]), ("other", [0])],
        [("__cluster_metadata", [])],
        [],
    ],
)
def test_a_request_for_anything_else_describes_nothing(named: list[tuple[str, list[int]]]) -> None:
    response = described(Machine(), *named)
    assert [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in response.topics] == named
    assert {one.error_code for topic in response.topics for one in topic.partitions} <= {UNKNOWN_TOPIC_OR_PARTITION}
    assert response.nodes == []


@pytest.mark.parametrize(("node_id", "code"), [(1, INVALID_REQUEST), (2, BROKER_ID_NOT_REGISTERED), (-1, BROKER_ID_NOT_REGISTERED)])
def test_no_broker_can_be_unregistered(node_id: int, code: int) -> None:
    machine = Machine()
    response = machine.ask(UNREGISTER, 0, request(UNREGISTER, 0, broker_id=node_id))
    assert response.error_code == code
    assert str(node_id) in response.error_message
    assert described(machine, ("__cluster_metadata", [0])).topics[0].partitions[0].leader_id == 1


def test_members_of_a_cluster_serve_neither_as_kafka_over_zookeeper_did() -> None:
    assert {QUORUM, UNREGISTER} <= set(all_routes())
    assert not {QUORUM, UNREGISTER} & set(all_routes(for_brokers=True))
