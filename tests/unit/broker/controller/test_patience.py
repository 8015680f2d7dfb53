"""A controller whose connection to the registry breaks for a moment: its term goes on while its session lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.cluster import layout
from ottla.cluster.controller_rules.context import LeaderAndIsr
from ottla.sim.shared_registry import REGISTRY
from tests.support.controllers import TIMEOUT_MS, ControlledCluster

TOPIC_ID = bytes(range(16))


@pytest.fixture
def cluster() -> ControlledCluster:
    return ControlledCluster()


def check_first_term(cluster: ControlledCluster) -> None:
    assert (cluster.controller.node_id, cluster.controller.controller.epoch) == (1, 1)
    assert cluster.state("t") == LeaderAndIsr(1, 0, (1, 2, 3), controller_epoch=1)
    assert all(node.roles == {("t", 0): (1, 0)} for node in cluster.nodes.values())
    assert all(node.metadata[("t", 0)] == 1 for node in cluster.nodes.values())


def test_states_that_were_written_though_the_answer_was_lost_are_told(cluster: ControlledCluster) -> None:
    cluster.create("t", (1, 2, 3), topic_id=TOPIC_ID)
    cluster.ensemble.before_commit.append(cluster.controller.registry.lose_connection)
    cluster.settle(TIMEOUT_MS)
    assert not cluster.ensemble.before_commit
    check_first_term(cluster)


@pytest.mark.parametrize("path", [layout.topic_path("t"), layout.CONTROLLER, layout.broker_path(2)])
def test_what_could_not_be_read_is_read_when_the_registry_is_back(
    cluster: ControlledCluster, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = cluster.controller.registry
    read, lost = registry.read, list[str]()

    def losing(paths: Sequence[str], **watched: Any) -> Any:
        if path in paths and not lost:
            lost.append(path)
            registry.lose_connection()
        return read(paths, **watched)

    monkeypatch.setattr(registry, "read", losing)
    cluster.controller.controller._may_have_moved(layout.CONTROLLER)
    cluster.controller.controller._brokers_changed(layout.BROKERS)
    cluster.create("t", (1, 2, 3), topic_id=TOPIC_ID)
    cluster.settle(TIMEOUT_MS)
    assert lost
    check_first_term(cluster)


def test_a_controller_waits_no_longer_than_its_session_lives(cluster: ControlledCluster) -> None:
    former = cluster.controller
    former.registry._cuts.cut(former.process.name, REGISTRY)
    cluster.create("t", (1, 2, 3), topic_id=TOPIC_ID)
    former.registry.lose_connection()
    former.controller._topics_changed(layout.TOPICS)
    cluster.settle(3 * TIMEOUT_MS)
    assert not former.controller.is_active
    assert cluster.controller.node_id in (2, 3)
    state = cluster.state("t")
    assert state is not None
    assert (state.leader, state.controller_epoch) == (2, 2)
