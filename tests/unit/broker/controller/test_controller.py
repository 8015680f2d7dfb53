"""The controller of a simulated cluster: what it writes and whom it tells what, while brokers come and go."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ottla.cluster import layout
from ottla.cluster.controller_rules import entries
from ottla.cluster.controller_rules.context import LeaderAndIsr, ReplicaAssignment
from ottla.cluster.controller_rules.entries import DELETIONS, ISR_CHANGES, LOG_DIR_EVENTS
from ottla.ports import NEW, Change
from ottla.wire.api.alter_partition import AlterPartitionRequest
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    FENCED_LEADER_EPOCH,
    INELIGIBLE_REPLICA,
    NONE,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    error_name,
)
from tests.support.controllers import TIMEOUT_MS, Candidate, ControlledCluster

GONE_MS = 2 * TIMEOUT_MS
TOPIC_ID = bytes(range(16))
NO_EPOCHS: Mapping[int, int] = {}


@pytest.fixture
def cluster() -> ControlledCluster:
    return ControlledCluster()


def test_one_broker_is_elected_and_tells_all_who_is_there(cluster: ControlledCluster) -> None:
    assert cluster.controller.node_id == 1
    entry = cluster.ensemble.get(layout.CONTROLLER_EPOCH)
    assert entry is not None
    assert entry.value == b"1"
    for node in cluster.nodes.values():
        told = node.heard[-1]
        assert (told.controller_id, told.controller_epoch) == (1, 1)
        assert sorted(broker.id for broker in told.live_brokers) == [1, 2, 3]


def test_a_new_topic_gets_an_id_and_leaders(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2, 3), (2, 3, 1))
    cluster.settle()
    entry = cluster.ensemble.get(layout.topic_path("t"))
    assert entry is not None
    assert entries.topic(entry).topic_id is not None
    assert cluster.state("t", 0) == LeaderAndIsr(1, 0, (1, 2, 3), controller_epoch=1)
    assert cluster.state("t", 1) == LeaderAndIsr(2, 0, (2, 3, 1), controller_epoch=1)
    for node in cluster.nodes.values():
        assert node.roles == {("t", 0): (1, 0), ("t", 1): (2, 0)}
        assert node.metadata == {("t", 0): 1, ("t", 1): 2}


def test_a_topic_that_grows_gets_leaders_for_what_is_new(cluster: ControlledCluster) -> None:
    cluster.create("t", (1,), topic_id=TOPIC_ID)
    cluster.settle()
    assignments = {0: ReplicaAssignment((1,)), 1: ReplicaAssignment((3,))}
    cluster.ensemble.put(Change(layout.topic_path("t"), entries.topic_value(TOPIC_ID, assignments)))
    cluster.settle()
    assert cluster.nodes[3].roles == {("t", 1): (3, 0)}


def test_a_dead_leader_is_followed_by_a_replica_in_sync(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3), (3, 2), (2,))
    cluster.settle()
    cluster.nodes[2].end()
    cluster.settle(GONE_MS)
    assert cluster.state("t", 0) == LeaderAndIsr(3, 1, (3,), 0, 1, 1)
    assert cluster.state("t", 1) == LeaderAndIsr(3, 1, (3,), 0, 1, 1)
    assert cluster.state("t", 2) == LeaderAndIsr(-1, 1, (2,), 0, 1, 1)
    assert cluster.nodes[3].roles == {("t", 0): (3, 1), ("t", 1): (3, 1)}
    assert cluster.nodes[1].metadata == {("t", 0): 3, ("t", 1): 3, ("t", 2): -1}


def test_a_broker_that_comes_back_hears_everything_and_leads_what_nobody_led(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3), (2,))
    cluster.settle()
    cluster.nodes[2].end()
    cluster.settle(GONE_MS)
    back = cluster.join(2)
    cluster.settle()
    assert cluster.state("t", 1) == LeaderAndIsr(2, 2, (2,), 0, 1, 2)
    assert back.roles == {("t", 0): (3, 1), ("t", 1): (2, 2)}
    first = next(heard for heard in back.heard if isinstance(heard, LeaderAndIsrRequest))
    assert sum(len(topic.partition_states) for topic in first.topic_states) == 2
    assert back.metadata == {("t", 0): 3, ("t", 1): 2}


def known_before_roles(heard: list[Any]) -> set[tuple[str, int]]:
    """The partitions that a broker was told of before it was to lead or follow any."""
    first = next(at for at, each in enumerate(heard) if isinstance(each, LeaderAndIsrRequest))
    return {
        (topic.topic_name, one.partition_index)
        for each in heard[:first]
        for topic in each.topic_states
        for one in topic.partition_states
    }


def test_a_broker_that_comes_back_knows_all_partitions_before_it_leads_one(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3), (1,))
    cluster.settle()
    cluster.nodes[2].leave()
    cluster.settle()
    back = cluster.join(2)
    cluster.settle()
    assert known_before_roles(back.heard) == {("t", 0), ("t", 1)}


def test_a_new_controller_tells_brokers_all_partitions_before_they_lead_one(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3), (1,))
    cluster.settle()
    cluster.nodes[1].end()
    cluster.nodes[2].leave()
    back = cluster.join(2)
    cluster.settle(GONE_MS)
    assert {each.controller_epoch for each in back.heard if isinstance(each, LeaderAndIsrRequest)} == {2}
    assert known_before_roles([each for each in back.heard if each.controller_epoch == 2]) == {("t", 0), ("t", 1)}


def test_another_life_of_a_broker_loses_what_the_former_led(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3))
    cluster.settle()
    cluster.nodes[2].leave()
    back = cluster.join(2)
    cluster.settle()
    assert cluster.state("t") == LeaderAndIsr(3, 1, (3,), 0, 1, 1)
    assert back.roles == {("t", 0): (3, 1)}


def test_another_broker_is_elected_when_the_controller_dies(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.settle()
    cluster.nodes[1].end()
    cluster.settle(GONE_MS)
    assert cluster.controller.node_id in (2, 3)
    assert cluster.state("t") == LeaderAndIsr(2, 1, (2, 3), 0, 2, 1)
    assert cluster.nodes[3].roles == {("t", 0): (2, 1)}


@pytest.mark.parametrize("after_ms", range(6))
def test_a_broker_that_is_deposed_as_soon_as_it_is_elected_is_no_controller_of_the_next_epoch(
    cluster: ControlledCluster, after_ms: int
) -> None:
    taken = list[int]()

    def depose() -> None:
        epoch = cluster.ensemble.get(layout.CONTROLLER_EPOCH)
        assert epoch is not None
        taken.append(int(epoch.value) + 1)
        cluster.ensemble.put(Change(layout.CONTROLLER, None))
        claim = Change(layout.CONTROLLER, layout.controller_json(9, 0), NEW)
        cluster.ensemble.put(claim, Change(layout.CONTROLLER_EPOCH, b"%d" % taken[0]))

    def committed(paths: Iterable[str]) -> None:
        if layout.CONTROLLER_EPOCH in paths:
            cluster.ensemble.after_commit.clear()
            cluster.world.after(after_ms, depose)

    cluster.ensemble.after_commit.append(committed)
    cluster.ensemble.put(Change(layout.CONTROLLER, None))
    assert not cluster.world.run(GONE_MS, lambda: any(node.controller.epoch in taken for node in cluster.nodes.values()))
    assert taken


def test_a_controller_that_slept_through_its_session_writes_nothing_more(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.settle()
    sleeper = cluster.nodes[1]
    sleeper.process.pause(GONE_MS)
    cluster.settle(GONE_MS - 10)
    cluster.create("u", (2, 3))
    cluster.settle()
    assert not sleeper.controller.is_active
    assert cluster.controller.node_id in (2, 3)
    state = cluster.state("u")
    assert state is not None
    assert state.controller_epoch == 2


def test_a_connection_that_breaks_costs_no_event(cluster: ControlledCluster) -> None:
    cluster.controller.registry.lose_connection()
    cluster.create("t", (1, 2, 3))
    cluster.settle(TIMEOUT_MS)
    assert cluster.state("t") == LeaderAndIsr(1, 0, (1, 2, 3), controller_epoch=1)
    assert cluster.nodes[3].roles == {("t", 0): (1, 0)}


def test_a_term_that_begins_because_an_answer_was_lost_has_an_epoch_of_its_own(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.ensemble.before_commit.append(cluster.controller.registry.lose_connection)
    cluster.settle(TIMEOUT_MS)
    assert not cluster.ensemble.before_commit
    assert cluster.controller.node_id == 1
    assert cluster.controller.controller.epoch == 2
    assert {node.heard[-1].controller_epoch for node in cluster.nodes.values()} == {2}  # what was told in epoch 1 may come late
    cluster.create("u", (3, 2, 1))
    cluster.settle()
    assert cluster.state("u") == LeaderAndIsr(3, 0, (3, 2, 1), controller_epoch=2)


def test_a_controller_whose_entry_was_removed_is_elected_anew(cluster: ControlledCluster) -> None:
    cluster.ensemble.put(Change(layout.CONTROLLER, None))
    cluster.settle(TIMEOUT_MS)
    assert cluster.controller.controller.epoch == 2


@pytest.mark.parametrize("seed", range(12))
def test_answers_that_get_lost_leave_brokers_and_registry_of_one_mind(seed: int) -> None:
    cluster = ControlledCluster(seed=seed)
    for node in cluster.nodes.values():
        node.registry.faults.lose_answer = 0.2
    for number in range(6):
        cluster.create(f"t{number}", (1, 2, 3), (2, 3), (3, 1))
        cluster.settle(700)
    for node in cluster.nodes.values():
        node.registry.faults.lose_answer = 0.0
    cluster.settle(GONE_MS)
    for number in range(6):
        for index in range(3):
            state = cluster.state(f"t{number}", index)
            assert state is not None
            assert state.leader > 0
            for node_id in state.isr:
                assert cluster.nodes[node_id].roles[f"t{number}", index] == (state.leader, state.leader_epoch)


def test_an_unclean_leader_is_elected_only_where_the_topic_says_so(cluster: ControlledCluster) -> None:
    cluster.ensemble.put(
        Change(layout.topic_config_path("loose"), layout.config_json({"unclean.leader.election.enable": "true"}), NEW)
    )
    for name in ("strict", "loose"):
        cluster.create(name, (2, 3), topic_id=name.encode().ljust(16))
        cluster.settle()
        state = cluster.state(name)
        assert state is not None
        cluster.ensemble.put(Change(layout.state_path(name, 0), entries.state_value(state._replace(isr=(2,)))))
        cluster.ensemble.put(
            _notification(ISR_CHANGES, b'{"version":1,"partitions":[{"topic":"%s","partition":0}]}' % name.encode())
        )
    cluster.settle()
    cluster.nodes[2].end()
    cluster.settle(GONE_MS)
    assert cluster.state("strict") == LeaderAndIsr(-1, 1, (2,), 0, 1, 2)
    assert cluster.state("loose") == LeaderAndIsr(3, 1, (3,), 1, 1, 2)


def test_a_topic_that_would_rather_lose_records_from_now_on_gets_a_leader_at_once(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3))
    cluster.settle()
    cluster.nodes[3].end()
    cluster.settle(GONE_MS)
    cluster.nodes[2].end()
    cluster.settle(GONE_MS)
    cluster.join(3)
    cluster.settle()
    assert cluster.state("t") == LeaderAndIsr(-1, 2, (2,), 0, 1, 2)
    cluster.ensemble.put(Change(layout.topic_config_path("t"), layout.config_json({"unclean.leader.election.enable": "true"}), NEW))
    cluster.controller.controller.settings_changed()
    cluster.settle()
    assert cluster.state("t") == LeaderAndIsr(3, 3, (3,), 1, 1, 3)
    assert cluster.nodes[3].roles == {("t", 0): (3, 3)}


def test_a_leader_that_wrote_its_in_sync_replicas_wins_the_race_and_is_read_again(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3, 1))
    cluster.settle()
    state = cluster.state("t")
    assert state is not None
    cluster.ensemble.put(Change(layout.state_path("t", 0), entries.state_value(state._replace(isr=(2, 1)))))
    cluster.nodes[2].end()
    cluster.settle(GONE_MS)
    assert cluster.state("t") == LeaderAndIsr(1, 1, (1,), 0, 1, 2)


def test_a_broker_that_is_lost_leaves_the_in_sync_replicas_that_its_leader_wrote_and_nobody_has_told_of_yet(
    cluster: ControlledCluster,
) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.settle()
    cluster.nodes[3].end()
    cluster.settle(GONE_MS)
    cluster.join(3)
    cluster.settle()
    state = cluster.state("t")
    assert state is not None
    assert state.isr == (1, 2)
    cluster.ensemble.put(Change(layout.state_path("t", 0), entries.state_value(state._replace(isr=(1, 2, 3)))))
    cluster.nodes[3].end()
    cluster.settle(GONE_MS)
    state = cluster.state("t")
    assert state is not None
    assert state.isr == (1, 2)


def test_a_replica_that_was_let_in_after_its_broker_was_lost_leaves_again(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2))
    cluster.settle()
    cluster.nodes[2].end()
    cluster.settle(GONE_MS)
    state = cluster.state("t")
    assert state is not None
    assert state.isr == (1,)
    cluster.ensemble.put(Change(layout.state_path("t", 0), entries.state_value(state._replace(isr=(1, 2)))))
    cluster.ensemble.put(_notification(ISR_CHANGES, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'))
    cluster.settle()
    state = cluster.state("t")
    assert state is not None
    assert state.isr == (1,)


def test_notified_changes_of_in_sync_replicas_reach_all_brokers_and_the_notes_go(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2))
    cluster.settle()
    before = len(cluster.nodes[3].heard)
    cluster.ensemble.put(_notification(ISR_CHANGES, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'))
    cluster.settle()
    assert cluster.ensemble.children(ISR_CHANGES) == []
    (told,) = cluster.nodes[3].heard[before:]
    assert told.topic_states[0].partition_states[0].isr == [1, 2]


@pytest.mark.parametrize("is_there", [True, False], ids=["the controller is there", "the next one finds them"])
def test_notifications_that_are_more_than_one_commit_can_remove_go(cluster: ControlledCluster, is_there: bool) -> None:
    if not is_there:
        cluster.nodes[1].end()
    for _ in range(25):
        cluster.ensemble.put(*[_notification(LOG_DIR_EVENTS, b'{"version":1,"broker":2,"event":1}') for _ in range(1000)])
    cluster.settle(2 * GONE_MS)
    assert cluster.ensemble.children(LOG_DIR_EVENTS) == []
    cluster.create("t", (3, 2))
    cluster.settle()
    assert cluster.nodes[3].roles == {("t", 0): (3, 0)}


def test_a_topic_is_deleted_once_every_broker_has_deleted_its_replicas(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2), (2, 1))
    cluster.settle()
    cluster.ensemble.put(Change(layout.topic_config_path("t"), layout.config_json({}), NEW))
    cluster.ensemble.put(Change(f"{DELETIONS}/t", b"", NEW))
    cluster.settle()
    assert cluster.ensemble.get(layout.topic_path("t")) is None
    assert cluster.ensemble.get(layout.topic_config_path("t")) is None
    assert cluster.ensemble.children(DELETIONS) == []
    assert cluster.nodes[1].roles == {}
    assert cluster.nodes[3].metadata == {("t", 0): -2, ("t", 1): -2}


def test_a_deletion_waits_for_a_broker_that_is_gone_and_survives_the_controller(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3))
    cluster.settle()
    cluster.nodes[3].end()
    cluster.settle(GONE_MS)
    cluster.ensemble.put(Change(f"{DELETIONS}/t", b"", NEW))
    cluster.settle()
    assert cluster.nodes[2].roles == {}
    assert cluster.ensemble.get(layout.topic_path("t")) is not None
    cluster.nodes[1].end()
    cluster.settle(GONE_MS)
    cluster.join(3)
    cluster.settle()
    assert cluster.ensemble.get(layout.topic_path("t")) is None


def test_a_note_to_delete_what_is_not_there_goes(cluster: ControlledCluster) -> None:
    cluster.ensemble.put(Change(f"{DELETIONS}/nothing", b"", NEW))
    cluster.settle()
    assert cluster.ensemble.children(DELETIONS) == []


def test_nothing_is_deleted_where_the_setting_says_so() -> None:
    cluster = ControlledCluster(delete_topic_enable="false")
    cluster.create("t", (1,))
    cluster.settle()
    cluster.ensemble.put(Change(f"{DELETIONS}/t", b"", NEW))
    cluster.settle()
    assert cluster.ensemble.children(DELETIONS) == []
    assert cluster.nodes[1].roles == {("t", 0): (1, 0)}


def test_a_broker_that_is_about_to_stop_hands_over_all_that_others_hold(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3), (3, 2), (2,))
    cluster.settle()
    code, left = cluster.ask(cluster.controller.controller.stop(_stop(cluster, 2)))
    cluster.settle()
    assert (code, left) == (NONE, [])
    assert cluster.state("t", 0) == LeaderAndIsr(3, 1, (3,), 0, 1, 1)
    assert cluster.state("t", 1) == LeaderAndIsr(3, 1, (3,), 0, 1, 1)
    assert cluster.state("t", 2) == LeaderAndIsr(2, 0, (2,), 0, 1, 0)
    assert cluster.nodes[3].roles == {("t", 0): (3, 1), ("t", 1): (3, 1)}


def test_what_nobody_else_in_sync_holds_is_told_to_who_wants_to_stop(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3))
    cluster.settle()
    cluster.nodes[3].end()
    cluster.settle(GONE_MS)
    assert cluster.ask(cluster.controller.controller.stop(_stop(cluster, 2))) == (NONE, [("t", 0)])
    late = ControlledShutdownRequest(broker_id=2, broker_epoch=1)
    assert cluster.ask(cluster.controller.controller.stop(late)) == (STALE_BROKER_EPOCH, [])
    assert cluster.ask(cluster.nodes[2].controller.stop(_stop(cluster, 2))) == (NOT_CONTROLLER, [])


def test_replicas_of_a_log_directory_that_failed_are_offline(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3), (2, 3))
    cluster.settle()
    cluster.nodes[2].failed = {("t", 1)}
    cluster.ensemble.put(_notification(LOG_DIR_EVENTS, b'{"version":1,"broker":2,"event":1}'))
    cluster.settle()
    assert cluster.state("t", 0) == LeaderAndIsr(2, 0, (2, 3), 0, 1, 0)
    assert cluster.state("t", 1) == LeaderAndIsr(3, 1, (3,), 0, 1, 1)
    assert cluster.ensemble.children(LOG_DIR_EVENTS) == []


def test_a_leader_changes_its_in_sync_replicas_through_the_controller(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3, 1), topic_id=TOPIC_ID)
    cluster.settle()
    assert _altered(cluster, 2, isr=(2, 3)) == (NONE, [2, 3], 1)
    assert cluster.state("t") == LeaderAndIsr(2, 0, (2, 3), 0, 1, 1)
    assert _altered(cluster, 2, isr=(2, 3), partition_epoch=0) == (NONE, [2, 3], 1)
    assert _altered(cluster, 2, isr=(2,), leader_epoch=-1)[0] == FENCED_LEADER_EPOCH
    assert _altered(cluster, 2, isr=(2,), partition_epoch=7)[0] == NOT_CONTROLLER
    assert _altered(cluster, 2, isr=(2, 9), partition_epoch=1)[0] == INELIGIBLE_REPLICA


def test_a_replica_that_has_begun_anew_since_it_fetched_is_not_let_in(cluster: ControlledCluster) -> None:
    """What it had may be lost with its disk; the leader asks again once it fetches as the broker that it is now (KIP-903)."""
    cluster.create("t", (2, 3), topic_id=TOPIC_ID)
    cluster.settle()
    assert _altered(cluster, 2, isr=(2,)) == (NONE, [2], 1)
    former, present = _epoch(cluster, 3) - 1, _epoch(cluster, 3)
    assert _altered(cluster, 2, isr=(2, 3), epochs={3: former}, partition_epoch=1)[0] == INELIGIBLE_REPLICA
    assert _altered(cluster, 2, isr=(2, 3), epochs={3: present}, partition_epoch=1) == (NONE, [2, 3], 2)


def test_a_replica_in_sync_stays_though_its_leader_has_not_heard_of_its_new_life(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2, 3), topic_id=TOPIC_ID)
    cluster.settle()
    assert _altered(cluster, 1, isr=(1, 2), epochs={2: _epoch(cluster, 2) - 1}) == (NONE, [1, 2], 1)


def test_requests_of_a_former_life_are_refused(cluster: ControlledCluster) -> None:
    response = cluster.ask(cluster.controller.controller.alter_partition(AlterPartitionRequest(broker_id=2, broker_epoch=1), 3))
    assert response.error_code == STALE_BROKER_EPOCH


@pytest.mark.parametrize("code", [STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH])
def test_who_has_registered_anew_or_knows_a_later_controller_may_refuse_what_it_is_told(
    cluster: ControlledCluster, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster.nodes[3].refusal = code
    cluster.create("t", (1, 2, 3))
    cluster.settle()
    told = [record.levelname for record in caplog.records if error_name(code) in record.getMessage()]
    assert told, "the refusal is in the log"
    assert set(told) == {"INFO"}


@pytest.mark.expects_errors("refused")
def test_any_other_refusal_is_an_error(cluster: ControlledCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.nodes[3].refusal = CLUSTER_AUTHORIZATION_FAILED
    cluster.create("t", (1, 2, 3))
    cluster.settle()
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "broker 3 refused its roles: CLUSTER_AUTHORIZATION_FAILED" in told
    assert "broker 3 refused metadata: CLUSTER_AUTHORIZATION_FAILED" in told


def test_a_broker_that_does_not_answer_hears_the_newest_later(cluster: ControlledCluster) -> None:
    cluster.nodes[3].is_deaf = True
    for number in range(5):
        cluster.create(f"t{number}", (1, 2))
        cluster.settle(200)
    cluster.nodes[3].is_deaf = False
    cluster.nodes[3].heard.clear()
    cluster.settle(40_000)
    assert cluster.nodes[3].metadata == {(f"t{number}", 0): 1 for number in range(5)}
    assert len(cluster.nodes[3].heard) == 2


def test_a_controller_writes_nothing_once_another_epoch_has_begun(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2, 3), topic_id=TOPIC_ID)
    cluster.ensemble.before_commit.append(lambda: cluster.ensemble.put(Change(layout.CONTROLLER_EPOCH, b"2")))
    cluster.settle(400)
    assert cluster.state("t") is None
    assert not cluster.nodes[1].controller.is_active
    assert not cluster.ensemble.before_commit


def _notification(path: str, value: bytes) -> Change:
    return Change(f"{path}/change_", value, NEW, sequential=True)


def _stop(cluster: ControlledCluster, node_id: int) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(broker_id=node_id, broker_epoch=_epoch(cluster, node_id))


def _epoch(cluster: ControlledCluster, node_id: int) -> int:
    entry = cluster.ensemble.get(layout.broker_path(node_id))
    assert entry is not None
    return entry.created


def _altered(
    cluster: ControlledCluster,
    node_id: int,
    isr: tuple[int, ...],
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    epochs: Mapping[int, int] = NO_EPOCHS,
) -> tuple[int, list[int], int]:
    partition = AlterPartitionRequest.PartitionData(
        partition_index=0,
        leader_epoch=leader_epoch,
        new_isr_with_epochs=[AlterPartitionRequest.BrokerState(broker_id=node, broker_epoch=epochs.get(node, -1)) for node in isr],
        partition_epoch=partition_epoch,
    )
    topic = AlterPartitionRequest.TopicData(topic_id=TOPIC_ID, partitions=[partition])
    request = AlterPartitionRequest(broker_id=node_id, broker_epoch=_epoch(cluster, node_id), topics=[topic])
    controller: Candidate = cluster.controller
    response = cluster.ask(controller.controller.alter_partition(request, 3))
    assert response.error_code == NONE
    (result,) = response.topics[0].partitions
    return result.error_code, result.isr, result.partition_epoch


def test_a_replica_that_can_be_used_again_leads_what_nobody_leads(cluster: ControlledCluster) -> None:
    cluster.create("t", (2,), (2, 3))
    cluster.settle()
    cluster.nodes[2].failed = {("t", 0), ("t", 1)}
    event = Change(f"{LOG_DIR_EVENTS}/log_dir_event_0000000000", b'{"version":1,"broker":2,"event":1}', NEW)
    cluster.ensemble.put(event)
    cluster.settle()
    assert [state.leader for index in (0, 1) if (state := cluster.state("t", index))] == [-1, 3]
    cluster.nodes[2].failed = set()
    cluster.ensemble.put(event)
    cluster.settle()
    assert [state.leader for index in (0, 1) if (state := cluster.state("t", index))] == [2, 3]
    assert cluster.nodes[1].metadata == {("t", 0): 2, ("t", 1): 3}
