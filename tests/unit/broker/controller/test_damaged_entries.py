"""Entries of ZooKeeper that say what no request could tell: they are named and left, and the controller does its work."""

from __future__ import annotations

import pytest

from ottla.cluster import layout
from ottla.ports import NEW, Change
from tests.support.controllers import TIMEOUT_MS, ControlledCluster

GONE_MS = 2 * TIMEOUT_MS
DAMAGED = [
    b"no json",
    b"[" * 100_000,
    b'{"version":2,"partitions":{"0":[99999999999]}}',
    b'{"version":2,"partitions":{"0":["1"]}}',
    b'{"version":2,"partitions":{"0":[1,1]}}',
    b'{"version":2,"partitions":{"99999999999":[1]}}',
]


@pytest.fixture
def cluster() -> ControlledCluster:
    return ControlledCluster()


@pytest.mark.expects_errors("cannot be parsed")
@pytest.mark.parametrize("damaged", DAMAGED)
def test_an_entry_that_can_not_be_read_harms_nothing_else(
    cluster: ControlledCluster, caplog: pytest.LogCaptureFixture, damaged: bytes
) -> None:
    cluster.ensemble.put(Change(layout.topic_path("bad"), damaged, NEW))
    cluster.create("t", (1, 2, 3))
    cluster.settle()
    assert cluster.nodes[3].roles == {("t", 0): (1, 0)}
    assert "/brokers/topics/bad cannot be parsed" in caplog.text
    entry = cluster.ensemble.get(layout.topic_path("bad"))
    assert entry is not None
    assert entry.value == damaged


@pytest.mark.expects_errors("cannot be parsed", "change all the time")
@pytest.mark.parametrize(
    "damaged",
    [
        b"[" * 100_000,
        b'{"controller_epoch":1,"leader":"1","version":1,"leader_epoch":1,"isr":["1"]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":2147483647,"isr":[1,2]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1e400,"isr":[1,2]}',
        b'{"controller_epoch":1,"leader":99999999999,"version":1,"leader_epoch":1,"isr":[1,2]}',
    ],
)
def test_a_damaged_state_is_left_as_it_is_and_ends_no_controller(cluster: ControlledCluster, damaged: bytes) -> None:
    cluster.create("bad", (1, 2))
    cluster.create("t", (1, 2, 3))
    cluster.settle()
    cluster.ensemble.put(Change(layout.state_path("bad", 0), damaged))
    cluster.nodes[1].end()
    cluster.settle(GONE_MS)
    assert cluster.nodes[3].roles["t", 0] == (2, 1)
    entry = cluster.ensemble.get(layout.state_path("bad", 0))
    assert entry is not None
    assert entry.value == damaged


@pytest.mark.expects_errors("controller_epoch is not a number")
@pytest.mark.parametrize("epoch", [b"many", b"-7", b"2147483647", b"99999999999999999999"])
def test_an_epoch_that_is_no_number_is_left_as_it_is_until_somebody_mends_it(cluster: ControlledCluster, epoch: bytes) -> None:
    cluster.ensemble.put(Change(layout.CONTROLLER_EPOCH, epoch))
    cluster.nodes[1].end()
    cluster.settle(GONE_MS)
    assert not any(cluster.nodes[node].controller.is_active for node in (2, 3))
    cluster.ensemble.put(Change(layout.CONTROLLER_EPOCH, b"5"))
    cluster.settle()
    state = cluster.ensemble.get(layout.CONTROLLER_EPOCH)
    assert state is not None
    assert state.value == b"6"
