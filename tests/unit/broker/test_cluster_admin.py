"""What an admin client asks brokers of a simulated cluster about replicas and leaders: who may answer, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.request import Peer
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.world import World
from ottla.wire.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.elect_leaders import ElectLeadersRequest
from ottla.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.errors import (
    ELECTION_NOT_NEEDED,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    NOT_CONTROLLER,
)

CREATE_TOPICS, CREATE_PARTITIONS, ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 19, 37, 43, 45, 46
SESSION_MS = 3_000
Moved = AlterPartitionReassignmentsRequest.ReassignablePartition


class AdminCluster:
    """Three brokers, of which the first is the controller, and a topic t of two partitions on brokers 1 and 2."""

    def __init__(self) -> None:
        self.world = World(0)
        ensemble, network = SimEnsemble(self.world, timeout_ms=SESSION_MS), SimNetwork(self.world)
        self.hosts = {}
        for node_id in (1, 2, 3):
            self.hosts[node_id] = ClusterHost(self.world, {}, node_id, ensemble, network)
            self.world.run(2_000)
        assignment = CreateTopicsRequest.CreatableReplicaAssignment
        placed = [assignment(partition_index=index, broker_ids=[1, 2]) for index in (0, 1)]
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=placed)
        made = self.ask(1, CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert [each.error_code for each in made.topics] == [NONE]

    def ask(self, node_id: int, key: int, version: int, body: Any) -> Any:
        """What a broker answers a client."""
        heard: list[Any] = []
        self.hosts[node_id].receive(key, version, body, Peer(7, "10.0.0.1", 50_000, f"broker-{node_id}", 9092), heard.append)
        assert self.world.run(30_000, lambda: bool(heard)), "nobody answers"
        assert heard[0] is not None, "the connection was closed"
        return heard[0]

    def move(self, *partitions: Moved, node_id: int = 1, version: int = 1, **fields: Any) -> Any:
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="t", partitions=list(partitions))
        return self.ask(node_id, ALTER_REASSIGNMENTS, version, AlterPartitionReassignmentsRequest(topics=[topic], **fields))

    def moving(self, node_id: int = 1) -> Any:
        return self.ask(node_id, LIST_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest())


@pytest.fixture
def cluster() -> AdminCluster:
    return AdminCluster()


def test_a_move_is_asked_for_listed_and_taken_back(cluster: AdminCluster) -> None:
    answer = cluster.move(Moved(partition_index=0, replicas=[2, 9]), Moved(partition_index=1, replicas=None))
    codes = [(part.partition_index, part.error_code) for part in answer.responses[0].partitions]
    assert codes == [(0, 39), (1, NO_REASSIGNMENT_IN_PROGRESS)]
    assert "9" in answer.responses[0].partitions[0].error_message
    cluster.hosts[3].pause(1_000)
    assert cluster.move(Moved(partition_index=0, replicas=[2, 3])).responses[0].partitions[0].error_code == NONE
    [topic] = cluster.moving().topics
    [part] = topic.partitions
    assert (topic.name, part.replicas, part.adding_replicas, part.removing_replicas) == ("t", [2, 3, 1], [3], [1])
    assert cluster.move(Moved(partition_index=0, replicas=None)).responses[0].partitions[0].error_code == NONE
    assert cluster.moving().topics == []


def test_only_the_controller_moves_lists_and_elects(cluster: AdminCluster) -> None:
    assert cluster.move(Moved(partition_index=0, replicas=[2, 1]), node_id=2).error_code == NOT_CONTROLLER
    assert cluster.moving(node_id=3).error_code == NOT_CONTROLLER
    assert cluster.ask(2, ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None)).error_code == NOT_CONTROLLER


def test_the_number_of_replicas_stays_where_that_is_asked_for(cluster: AdminCluster) -> None:
    answer = cluster.move(Moved(partition_index=0, replicas=[1]), allow_replication_factor_change=False)
    assert answer.responses[0].partitions[0].error_code == INVALID_REPLICATION_FACTOR


def test_a_partition_that_is_named_twice_moves_nowhere(cluster: AdminCluster) -> None:
    twice = Moved(partition_index=0, replicas=[2, 1])
    assert cluster.move(twice, twice).error_code == INVALID_REQUEST


def elected(cluster: AdminCluster, *indexes: int, kind: int = 0) -> Any:
    asked = [ElectLeadersRequest.TopicPartitions(topic="t", partitions=list(indexes))] if indexes else None
    return cluster.ask(1, ELECT_LEADERS, 2, ElectLeadersRequest(election_type=kind, topic_partitions=asked))


def test_elections_tell_of_each_partition_asked_about_and_of_all_only_what_changed(cluster: AdminCluster) -> None:
    [topic] = elected(cluster, 0, 1).replica_election_results
    assert [part.error_code for part in topic.partition_result] == [ELECTION_NOT_NEEDED] * 2
    assert elected(cluster).replica_election_results == []
    assert elected(cluster, kind=5).error_code == INVALID_REQUEST


def test_another_order_makes_another_first_replica_that_can_be_elected(cluster: AdminCluster) -> None:
    assert cluster.move(Moved(partition_index=1, replicas=[2, 1])).responses[0].partitions[0].error_code == NONE
    cluster.world.run(1_000)
    [topic] = elected(cluster).replica_election_results
    assert [(part.partition_id, part.error_code) for part in topic.partition_result] == [(1, NONE)]
    cluster.world.run(1_000)
    broker = cluster.hosts[3].broker
    assert broker is not None
    assert [part.leader for part in broker.image.topics["t"].partitions][:2] == [1, 2]


def test_a_topic_gets_more_partitions(cluster: AdminCluster) -> None:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=4, assignments=None)
    answer = cluster.ask(1, CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[topic], timeout_ms=10_000))
    assert [result.error_code for result in answer.results] == [NONE]
    broker = cluster.hosts[2].broker
    assert broker is not None
    assert cluster.world.run(1_000, lambda: len(broker.image.topics["t"].partitions) == 4)
