"""Replicas that have moved to other brokers, of which no controller has told who held them: when they go, and when they stay."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster.image import NO_TOPIC_ID
from ottla.cluster.metadata_updates import LEADER_DURING_DELETE
from ottla.wire.errors import NONE, STALE_CONTROLLER_EPOCH
from tests.support.cluster_machine import TOPIC_ID, ClusterMachine, role, told

HELD = 5
"""The leader epoch of the role that the broker has."""


def following() -> ClusterMachine:
    """A machine whose broker follows in t-0."""
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(2, HELD)) == [NONE]
    return machine


@pytest.mark.parametrize("news", [{"leader_epoch": 6}, {"leader_epoch": 0, "leader": LEADER_DURING_DELETE}])
def test_a_replica_that_has_moved_to_others_is_deleted_though_no_controller_stops_it(news: dict[str, int]) -> None:
    machine = following()
    wanted: dict[str, Any] = {"leader": 2, "isr": [2], "replicas": [2, 3]}
    machine.tell_topic(told(0, **wanted | news))
    assert machine.broker.partitions.get("t", 0) is None
    assert not machine.disk.exists("t-0")
    assert machine.stop(leader_epoch=6, delete=True) == NONE  # the controller may say so all the same


@pytest.mark.parametrize(
    ("news", "topic_id"),
    [
        ({"leader_epoch": 5}, TOPIC_ID),
        ({"leader_epoch": 4}, TOPIC_ID),
        ({"isr": [2, 1]}, TOPIC_ID),
        ({"replicas": []}, TOPIC_ID),
        ({"replicas": [2, 1]}, TOPIC_ID),
        ({}, NO_TOPIC_ID),
        ({}, bytes(15) + b"\x07"),
    ],
)
def test_a_replica_stays_where_it_may_not_have_moved(news: dict[str, Any], topic_id: bytes) -> None:
    machine = following()
    wanted: dict[str, Any] = {"leader": 2, "leader_epoch": 6, "isr": [2], "replicas": [2, 3]}
    machine.tell_topic(told(0, **wanted | news), topic_id=topic_id)
    assert machine.replica().is_following
    assert machine.disk.exists("t-0")


def test_a_role_that_comes_late_brings_no_replica_back_that_has_moved() -> None:
    machine = following()
    machine.tell_topic(told(0, 2, leader_epoch=6, isr=[2], replicas=[2, 3]))
    assert machine.stop(leader_epoch=6, delete=True) == NONE
    assert machine.tell_roles(role(2, 5)) == [STALE_CONTROLLER_EPOCH]
    assert machine.broker.partitions.get("t", 0) is None
    assert machine.tell_roles(role(2, 7)) == [NONE]  # it moves back
