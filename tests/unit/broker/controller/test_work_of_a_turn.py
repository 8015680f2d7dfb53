"""The controller of thousands of partitions does a bounded piece of work at a time, whatever it sees to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.cluster.controller_rules.entries import DELETIONS, LOG_DIR_EVENTS
from ottla.ports import NEW, Change
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest
from tests.support.controllers import TIMEOUT_MS, ControlledCluster
from tests.support.work import Work, measured

TOPICS = [f"t{number}" for number in range(20)]
EACH = 100
PARTITIONS = [(name, index) for name in TOPICS for index in range(EACH)]
LONG_MS = 20_000
MOST_CALLS, MOST_OBJECTS = 8_000, 4_000


@pytest.fixture
def cluster() -> ControlledCluster:
    cluster = ControlledCluster(auto_leader_rebalance_enable="false")
    for number, name in enumerate(TOPICS, 1):
        replicas = [(1 + index % 3, 1 + (index + 1) % 3) for index in range(EACH)]
        cluster.create(name, *replicas, topic_id=number.to_bytes(16, "big"))
    cluster.settle(LONG_MS)
    assert all(cluster.state(*one) is not None for one in PARTITIONS)
    return cluster


@pytest.fixture
def work(cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    """All that is done in a test; each piece of it has to be small."""
    with measured(monkeypatch) as work:
        yield work
    assert len(work.pieces) > len(PARTITIONS) // 200
    assert work.most_calls.calls < MOST_CALLS, work.most_calls
    assert work.most_objects.objects < MOST_OBJECTS, work.most_objects


def epoch_of(cluster: ControlledCluster, node_id: int) -> int:
    objects = cluster.controller.controller._objects
    assert objects is not None
    return objects.term.context.brokers[node_id].epoch


def test_a_controller_dies_and_comes_back(cluster: ControlledCluster, work: Work) -> None:
    cluster.controller.end()
    cluster.settle(3 * TIMEOUT_MS)
    back = cluster.join(1)
    cluster.settle(LONG_MS)
    assert len(back.metadata) == len(PARTITIONS)
    controller = cluster.controller.controller
    found = cluster.ask(controller.elect(None, is_unclean=False))
    assert len(found) == len(PARTITIONS)
    assert len(cluster.ask(controller.elect(None, is_unclean=True))) == len(PARTITIONS)
    controller.settings_changed()
    cluster.settle(LONG_MS)


@pytest.mark.slow
def test_all_partitions_move_and_the_moves_are_taken_back(cluster: ControlledCluster, work: Work) -> None:
    controller = cluster.controller.controller
    targets = {(name, index): (1 + (index + 1) % 3, 1 + (index + 2) % 3) for name, index in PARTITIONS}
    assert len(cluster.ask(controller.alter_reassignments(targets, may_resize=True))) == len(PARTITIONS)
    assert len(cluster.ask(controller.reassignments(None))) == len(PARTITIONS)
    assert len(cluster.ask(controller.alter_reassignments(dict.fromkeys(targets), may_resize=True))) == len(PARTITIONS)
    assert not cluster.ask(controller.reassignments(None))


def test_a_broker_stops_in_good_order(cluster: ControlledCluster, work: Work) -> None:
    asked = ControlledShutdownRequest(broker_id=3, broker_epoch=epoch_of(cluster, 3))
    assert cluster.ask(cluster.controller.controller.stop(asked)) == (0, [])


@pytest.mark.slow
def test_a_log_directory_with_all_replicas_fails(cluster: ControlledCluster, work: Work) -> None:
    cluster.nodes[2].failed = set(PARTITIONS)
    cluster.ensemble.put(Change(f"{LOG_DIR_EVENTS}/log_dir_event_0000000000", b'{"version":1,"broker":2,"event":1}', NEW))
    cluster.settle(LONG_MS)
    assert all(state is not None and state.leader in (1, 3) for state in (cluster.state(*one) for one in PARTITIONS))


def test_all_topics_are_deleted(cluster: ControlledCluster, work: Work) -> None:
    for name in TOPICS:
        cluster.ensemble.put(Change(f"{DELETIONS}/{name}", b"", NEW))
    cluster.settle(3 * LONG_MS)
    assert not any(cluster.state(*one) for one in PARTITIONS)
    assert not any(node.roles for node in cluster.nodes.values())
