"""Levels of features in a simulated cluster: who notes the first ones, and what all brokers can serve."""

from __future__ import annotations

import pytest

from ottla.cluster import layout
from ottla.cluster.features import NEWEST, OFFERED
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


def test_what_one_broker_cannot_serve_nobody_is_offered() -> None:
    cluster = ControlledCluster((1, 2))
    assert cluster.ask(cluster.controller.controller.served_by_all(OFFERED)) == OFFERED
    cluster.features[3] = {"transaction.version": 1}
    cluster.join(3)
    cluster.settle()
    offered = cluster.ask(cluster.controller.controller.served_by_all(OFFERED))
    assert {name: feature.highest for name, feature in offered.items()} == {"group.version": 0, "transaction.version": 1}
