"""Levels of features in a simulated cluster: who notes the first ones, and what all brokers can serve."""

from __future__ import annotations

import pytest

from ottla.cluster import layout
from ottla.cluster.features import NEWEST, OFFERED
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from tests.support.controllers import ControlledCluster


@pytest.mark.parametrize(
    ("protocol", "value"),
    [
        ("", layout.features_json(NEWEST)),
        ("3.9", b'{"features":{},"version":2,"status":1}'),
        ("2.8", b'{"features":{},"version":1,"status":1}'),
        ("2.6", None),
    ],
)
def test_the_first_controller_notes_the_newest_levels_unless_older_brokers_may_come(protocol: str, value: bytes | None) -> None:
    settings = {"inter_broker_protocol_version": protocol} if protocol else {}
    cluster = ControlledCluster((1,), 0, **settings)
    entry = cluster.ensemble.get(layout.FEATURES)
    assert (None if entry is None else entry.value) == value


def test_a_later_controller_leaves_the_levels_as_they_are() -> None:
    cluster = ControlledCluster((1, 2))
    cluster.nodes[1].leave()
    cluster.settle()
    entry = cluster.ensemble.get(layout.FEATURES)
    assert entry is not None
    assert (cluster.controller.node_id, entry.version) == (2, 0)


def test_the_first_levels_are_those_that_every_broker_serves() -> None:
    cluster = ControlledCluster((), 0)
    cluster.features[1], cluster.features[2] = {"transaction.version": 1}, {}
    cluster.join(1)
    cluster.settle()
    entry = cluster.ensemble.get(layout.FEATURES)
    assert entry is not None
    assert entry.value == layout.features_json({"transaction.version": 1})
    cluster.join(2)
    cluster.settle()
    assert known(cluster) == {1}


def test_what_one_broker_cannot_serve_nobody_is_offered() -> None:
    cluster = ControlledCluster((1, 2), inter_broker_protocol_version="3.9")
    assert cluster.ask(cluster.controller.controller.served_by_all(OFFERED)) == OFFERED
    cluster.features[3] = {"transaction.version": 1}
    cluster.join(3)
    cluster.settle()
    offered = cluster.ask(cluster.controller.controller.served_by_all(OFFERED))
    assert {name: feature.highest for name, feature in offered.items()} == {
        "group.version": 0,
        "transaction.version": 1,
        "share.version": 0,
        "streams.version": 0,
    }


def test_a_broker_that_does_not_serve_what_is_finalized_is_passed_over_until_it_does(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ControlledCluster((1, 2), 0)
    cluster.features[3] = {"transaction.version": 1}
    cluster.join(3)
    cluster.settle()
    assert known(cluster) == {1, 2}
    assert not cluster.nodes[3].heard
    cluster.join(4)
    cluster.settle()
    assert known(cluster) == {1, 2, 4}
    assert [record.message for record in caplog.records if "passed over" in record.message] == [
        "broker 3 is passed over: it does not serve what the cluster has finalized (group.version=1, transaction.version=2, "
        "share.version=1, streams.version=1); start a newer release there, or lower these with `ottla features downgrade`"
    ]
    cluster.nodes[3].leave()
    del cluster.features[3]
    cluster.join(3)
    cluster.settle()
    assert known(cluster) == {1, 2, 3, 4}


def test_a_new_controller_passes_over_the_same_brokers() -> None:
    cluster = ControlledCluster((1, 2), 0)
    cluster.features[3] = {}
    cluster.join(3)
    cluster.settle()
    cluster.nodes[3].controller.leave(cluster.world.clock.now())  # it does not stand for election
    cluster.nodes[1].leave()
    cluster.settle()
    assert (cluster.controller.node_id, known(cluster)) == (2, {2})


def known(cluster: ControlledCluster) -> set[int]:
    """The brokers that the controller has told of to others."""
    told = [one for one in cluster.controller.heard if isinstance(one, UpdateMetadataRequest)]
    return {broker.id for broker in told[-1].live_brokers}
