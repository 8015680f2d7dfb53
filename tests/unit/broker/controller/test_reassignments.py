"""Partitions that move in a simulated cluster: what is written, who is told, and what a new controller goes on with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.cluster import layout
from ottla.cluster.controller_rules import entries
from ottla.cluster.controller_rules.context import LeaderAndIsr, ReplicaAssignment, TopicPartition
from ottla.cluster.controller_rules.entries import DELETIONS, ISR_CHANGES
from ottla.cluster.controller_rules.reassignments import PREFERRED_ELECTIONS, REASSIGNMENTS
from ottla.ports import NEW, Change
from ottla.wire.api.alter_partition import AlterPartitionRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.errors import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC_EXCEPTION,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.controllers import TIMEOUT_MS, ControlledCluster

GONE_MS = 2 * TIMEOUT_MS
T: TopicPartition = ("t", 0)


@pytest.fixture
def cluster() -> ControlledCluster:
    """Four brokers, and a topic on the first two of them."""
    made = ControlledCluster((1, 2, 3, 4))
    made.create("t", (1, 2))
    made.settle()
    return made


def alter(cluster: ControlledCluster, target: Sequence[int] | None, where: TopicPartition = T, *, may_resize: bool = True) -> int:
    """Ask for other replicas; the error code."""
    found = cluster.ask(cluster.controller.controller.alter_reassignments({where: target}, may_resize=may_resize))
    return int(found[where][0])


def assigned(cluster: ControlledCluster) -> ReplicaAssignment:
    """The replicas of the partition as the registry says."""
    entry = cluster.ensemble.get(layout.topic_path("t"))
    assert entry is not None
    return entries.topic(entry).assignments[0]


def in_sync(cluster: ControlledCluster, *isr: int) -> None:
    """The leader asks for these replicas in sync; time passes until everybody has heard what comes of it."""
    state = cluster.state("t")
    entry = cluster.ensemble.get(layout.broker_path(state.leader)) if state is not None else None
    assert state is not None
    assert entry is not None
    topic = cluster.ensemble.get(layout.topic_path("t"))
    assert topic is not None
    partition = AlterPartitionRequest.PartitionData(
        partition_index=0, leader_epoch=state.leader_epoch, new_isr=list(isr), partition_epoch=state.partition_epoch
    )
    data = AlterPartitionRequest.TopicData(topic_id=entries.topic(topic).topic_id or b"", partitions=[partition])
    body = AlterPartitionRequest(broker_id=state.leader, broker_epoch=entry.created, topics=[data])
    answer = cluster.ask(cluster.controller.controller.alter_partition(body, 2))
    assert answer.topics[0].partitions[0].error_code == NONE
    cluster.settle()


def deleted(cluster: ControlledCluster, node_id: int) -> bool:
    """Whether a broker was asked to delete its replica."""
    heard = [one for one in cluster.nodes[node_id].heard if isinstance(one, StopReplicaRequest)]
    return any(part.delete_partition for one in heard for topic in one.topic_states for part in topic.partition_states)


def test_a_move_waits_for_new_replicas_then_lets_old_ones_go(cluster: ControlledCluster) -> None:
    assert alter(cluster, (3, 4)) == NONE
    cluster.settle()
    assert assigned(cluster) == ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2))
    assert cluster.state("t") == LeaderAndIsr(1, 1, (1, 2), controller_epoch=1, partition_epoch=1)
    assert all(cluster.nodes[node].roles[T] == (1, 1) for node in (1, 2, 3, 4))
    in_sync(cluster, 1, 2, 3)
    assert assigned(cluster).is_being_reassigned
    in_sync(cluster, 1, 2, 3, 4)
    assert assigned(cluster) == ReplicaAssignment((3, 4))
    state = cluster.state("t")
    assert state is not None
    assert (state.leader, state.leader_epoch, state.isr) == (3, 2, (3, 4))
    assert (cluster.nodes[3].roles[T], cluster.nodes[4].roles[T]) == ((3, 2), (3, 2))
    assert deleted(cluster, 1)
    assert deleted(cluster, 2)
    assert T not in cluster.nodes[1].roles
    assert cluster.nodes[1].metadata[T] == 3


def test_what_moves_is_listed_until_it_has_moved(cluster: ControlledCluster) -> None:
    controller = cluster.controller.controller
    assert cluster.ask(controller.reassignments(None)) == {}
    alter(cluster, (1, 3))
    moving = {T: ReplicaAssignment((1, 3, 2), (3,), (2,))}
    assert cluster.ask(controller.reassignments(None)) == moving
    assert cluster.ask(controller.reassignments([T, ("t", 1), ("u", 0)])) == moving
    in_sync(cluster, 1, 2, 3)
    assert cluster.ask(controller.reassignments(None)) == {}
    state = cluster.state("t")
    assert state is not None
    assert (state.leader, state.isr) == (1, (1, 3)), "a leader that stays goes on"


def test_a_move_is_taken_back(cluster: ControlledCluster) -> None:
    alter(cluster, (3, 4))
    in_sync(cluster, 1, 2, 3)
    assert alter(cluster, None) == NONE
    cluster.settle()
    assert assigned(cluster) == ReplicaAssignment((1, 2))
    state = cluster.state("t")
    assert state is not None
    assert (state.leader, state.isr) == (1, (1, 2))
    assert deleted(cluster, 3)
    assert deleted(cluster, 4)
    assert not deleted(cluster, 2)
    assert alter(cluster, None) == NO_REASSIGNMENT_IN_PROGRESS


def test_another_move_replaces_the_one_under_way(cluster: ControlledCluster) -> None:
    alter(cluster, (3, 2))
    assert alter(cluster, (4, 2)) == NONE
    cluster.settle()
    assert assigned(cluster) == ReplicaAssignment((4, 2, 1), (4,), (1,))
    assert deleted(cluster, 3)
    in_sync(cluster, 1, 2, 4)
    assert assigned(cluster) == ReplicaAssignment((4, 2))


def test_fewer_replicas_or_another_order_are_there_at_once(cluster: ControlledCluster) -> None:
    assert alter(cluster, (2, 1)) == NONE
    assert assigned(cluster) == ReplicaAssignment((2, 1))
    assert alter(cluster, (2,)) == NONE
    cluster.settle()
    state = cluster.state("t")
    assert state is not None
    assert (assigned(cluster), state.leader, state.isr) == (ReplicaAssignment((2,)), 2, (2,))
    assert deleted(cluster, 1)


@pytest.mark.parametrize(
    ("target", "where", "code"),
    [
        ((), T, INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), T, INVALID_REPLICA_ASSIGNMENT),
        ((1, -2), T, INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), T, INVALID_REPLICA_ASSIGNMENT),
        ((1,), ("t", 1), UNKNOWN_TOPIC_OR_PARTITION),
        (None, ("u", 0), UNKNOWN_TOPIC_OR_PARTITION),
        ((1,), T, INVALID_REPLICATION_FACTOR),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    cluster: ControlledCluster, target: Sequence[int] | None, where: TopicPartition, code: int
) -> None:
    assert alter(cluster, target, where, may_resize=code != INVALID_REPLICATION_FACTOR) == code
    assert assigned(cluster) == ReplicaAssignment((1, 2))


def test_a_move_is_not_taken_back_to_replicas_that_lack_records(cluster: ControlledCluster) -> None:
    alter(cluster, (3, 4))
    in_sync(cluster, 1, 2, 3)
    for node_id in (1, 2):
        cluster.nodes[node_id].end()
    cluster.settle(GONE_MS)
    state = cluster.state("t")
    assert state is not None
    assert (state.leader, state.isr) == (3, (3,))
    assert alter(cluster, None) == INVALID_REPLICA_ASSIGNMENT


def test_another_controller_goes_on_with_a_move(cluster: ControlledCluster) -> None:
    alter(cluster, (3, 4))
    cluster.nodes[1].end()
    cluster.settle(GONE_MS)
    assert assigned(cluster).adding == (3, 4)
    in_sync(cluster, 2, 3, 4)
    assert assigned(cluster) == ReplicaAssignment((3, 4))
    state = cluster.state("t")
    assert state is not None
    assert (state.leader, state.isr) == (3, (3, 4))


def test_a_new_replica_that_dies_is_waited_for(cluster: ControlledCluster) -> None:
    alter(cluster, (1, 3))
    cluster.nodes[3].end()
    cluster.settle(GONE_MS)
    assert assigned(cluster).adding == (3,)
    back = cluster.join(3)
    cluster.settle()
    state = cluster.state("t")
    assert state is not None
    assert back.roles[T] == (1, state.leader_epoch)
    in_sync(cluster, 1, 2, 3)
    assert assigned(cluster) == ReplicaAssignment((1, 3))


def test_partitions_that_a_topic_gets_during_a_move_stay(cluster: ControlledCluster) -> None:
    alter(cluster, (3, 4))
    entry = cluster.ensemble.get(layout.topic_path("t"))
    assert entry is not None
    topic = entries.topic(entry)
    grown = topic.assignments | {1: ReplicaAssignment((4,))}
    cluster.ensemble.put(Change(layout.topic_path("t"), entries.topic_value(topic.topic_id, grown), entry.version))
    in_sync(cluster, 1, 2, 3, 4)
    entry = cluster.ensemble.get(layout.topic_path("t"))
    assert entry is not None
    assert entries.topic(entry).assignments == {0: ReplicaAssignment((3, 4)), 1: ReplicaAssignment((4,))}


def test_a_topic_is_not_deleted_before_its_moves_are_over(cluster: ControlledCluster) -> None:
    alter(cluster, (3, 4))
    cluster.ensemble.put(Change(f"{DELETIONS}/t", b"", NEW))
    cluster.settle()
    assert cluster.ensemble.get(layout.topic_path("t")) is not None
    assert alter(cluster, (1, 3)) == UNKNOWN_TOPIC_OR_PARTITION
    in_sync(cluster, 1, 2, 3, 4)
    cluster.settle()
    assert cluster.ensemble.get(layout.topic_path("t")) is None


def test_replicas_in_sync_that_old_leaders_write_end_a_move_too(cluster: ControlledCluster) -> None:
    alter(cluster, (1, 3))
    state = cluster.state("t")
    assert state is not None
    note = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    cluster.ensemble.put(
        Change(layout.state_path("t", 0), entries.state_value(state._replace(isr=(1, 2, 3)))),
        Change(f"{ISR_CHANGES}/isr_change_", note, sequential=True),
    )
    cluster.settle()
    assert assigned(cluster) == ReplicaAssignment((1, 3))


def wanted(*partitions: str) -> bytes:
    return b'{"version":1,"partitions":[%s]}' % ",".join(partitions).encode()


def test_what_older_tools_write_is_moved_and_forgotten_when_it_has_moved(cluster: ControlledCluster) -> None:
    plan = wanted('{"topic":"t","partition":0,"replicas":[2,3]}', '{"topic":"u","partition":0,"replicas":[1]}')
    cluster.ensemble.put(Change(REASSIGNMENTS, plan, NEW))
    cluster.settle()
    assert assigned(cluster) == ReplicaAssignment((2, 3, 1), (3,), (1,))
    entry = cluster.ensemble.get(REASSIGNMENTS)
    assert entry is not None
    assert entry.value == wanted('{"topic":"t","partition":0,"replicas":[2,3]}')
    in_sync(cluster, 1, 2, 3)
    assert assigned(cluster) == ReplicaAssignment((2, 3))
    assert cluster.ensemble.get(REASSIGNMENTS) is None
    cluster.ensemble.put(Change(REASSIGNMENTS, wanted('{"topic":"t","partition":0,"replicas":[2]}'), NEW))
    cluster.settle()
    assert assigned(cluster) == ReplicaAssignment((2,)), "the entry is watched again"


def test_a_request_replaces_what_an_older_tool_wrote(cluster: ControlledCluster) -> None:
    cluster.ensemble.put(Change(REASSIGNMENTS, wanted('{"topic":"t","partition":0,"replicas":[2,3]}'), NEW))
    cluster.settle()
    assert alter(cluster, (1, 4)) == NONE
    cluster.settle()
    assert assigned(cluster) == ReplicaAssignment((1, 4, 2), (4,), (2,))
    assert cluster.ensemble.get(REASSIGNMENTS) is None


@pytest.mark.expects_errors("cannot be parsed")
def test_a_plan_that_is_no_json_moves_nothing_and_stays(cluster: ControlledCluster) -> None:
    cluster.ensemble.put(Change(REASSIGNMENTS, b"junk", NEW))
    cluster.settle()
    assert cluster.ensemble.get(REASSIGNMENTS) is not None
    assert assigned(cluster) == ReplicaAssignment((1, 2))


def elected(cluster: ControlledCluster, *, is_unclean: bool = False, where: TopicPartition = T) -> int:
    return int(cluster.ask(cluster.controller.controller.elect([where], is_unclean=is_unclean))[where][0])


def led_by_two(cluster: ControlledCluster) -> None:
    """Broker 1 dies and comes back, and broker 2 leads."""
    cluster.nodes[1].end()
    cluster.settle(GONE_MS)
    cluster.join(1)
    cluster.settle()


def test_the_first_replica_gets_the_lead_back_when_it_is_in_sync(cluster: ControlledCluster) -> None:
    assert elected(cluster) == ELECTION_NOT_NEEDED
    led_by_two(cluster)
    assert elected(cluster) == PREFERRED_LEADER_NOT_AVAILABLE
    in_sync(cluster, 2, 1)
    assert elected(cluster) == NONE
    cluster.settle()
    assert cluster.nodes[2].metadata[T] == 1
    assert elected(cluster, where=("t", 9)) == UNKNOWN_TOPIC_OR_PARTITION


def test_an_unclean_election_is_for_partitions_that_nobody_leads(cluster: ControlledCluster) -> None:
    assert elected(cluster, is_unclean=True) == ELECTION_NOT_NEEDED
    led_by_two(cluster)
    cluster.nodes[2].end()
    cluster.settle(GONE_MS)
    assert elected(cluster, is_unclean=True) == NONE
    state = cluster.state("t")
    assert state is not None
    assert (state.leader, state.isr) == (1, (1,))
    cluster.nodes[1].end()
    cluster.settle(GONE_MS)
    assert elected(cluster, is_unclean=True) == ELIGIBLE_LEADERS_NOT_AVAILABLE
    cluster.ensemble.put(Change(f"{DELETIONS}/t", b"", NEW))
    cluster.settle()
    assert elected(cluster) == INVALID_TOPIC_EXCEPTION


def test_leaders_are_balanced_by_themselves(cluster: ControlledCluster) -> None:
    led_by_two(cluster)
    in_sync(cluster, 2, 1)
    cluster.settle(300_000)
    state = cluster.state("t")
    assert state is not None
    assert state.leader == 1


def test_leaders_of_partitions_that_are_being_moved_are_not_balanced(cluster: ControlledCluster) -> None:
    assert alter(cluster, (3, 4)) == NONE
    in_sync(cluster, 1, 2, 3)
    before = cluster.state("t")
    cluster.settle(400_000)
    assert cluster.state("t") == before
    in_sync(cluster, 1, 2, 3, 4)
    after = cluster.state("t")
    assert after is not None
    assert after.leader == 3


def test_leaders_stay_out_of_balance_where_that_is_wanted() -> None:
    cluster = ControlledCluster(auto_leader_rebalance_enable="false")
    cluster.create("t", (1, 2))
    cluster.settle()
    led_by_two(cluster)
    in_sync(cluster, 2, 1)
    cluster.settle(400_000)
    state = cluster.state("t")
    assert state is not None
    assert state.leader == 2


def test_what_older_tools_write_about_first_replicas_is_seen_to_and_removed(cluster: ControlledCluster) -> None:
    led_by_two(cluster)
    in_sync(cluster, 2, 1)
    for _ in range(2):
        cluster.ensemble.put(Change(PREFERRED_ELECTIONS, wanted('{"topic":"t","partition":0}'), NEW))
        cluster.settle()
        assert cluster.ensemble.get(PREFERRED_ELECTIONS) is None
    state = cluster.state("t")
    assert state is not None
    assert state.leader == 1


@pytest.mark.parametrize("seed", range(8))
def test_answers_that_get_lost_end_no_move(seed: int) -> None:
    cluster = ControlledCluster((1, 2, 3, 4), seed=seed)
    cluster.create("t", (1, 2))
    cluster.settle()
    for node in cluster.nodes.values():
        node.registry.faults.lose_answer = 0.2
    cluster.ensemble.put(Change(REASSIGNMENTS, wanted('{"topic":"t","partition":0,"replicas":[3,4]}'), NEW))
    cluster.settle(GONE_MS)
    for node in cluster.nodes.values():
        node.registry.faults.lose_answer = 0.0
    cluster.settle(GONE_MS)
    in_sync(cluster, 1, 2, 3, 4)
    cluster.settle(GONE_MS)
    state = cluster.state("t")
    assert state is not None
    assert (assigned(cluster), state.leader, state.isr) == (ReplicaAssignment((3, 4)), 3, (3, 4))
    assert cluster.ensemble.get(REASSIGNMENTS) is None
