"""Deletions of topics whose replicas a broker's disk refuses to delete: asked for again, ever later, and logged once."""

from __future__ import annotations

import pytest

from ottla.broker.controller.topic_changes import DELETED_AGAIN_MS, MOST_DELETED_AGAIN_MS
from ottla.cluster import layout
from ottla.cluster.controller_rules.entries import DELETIONS
from ottla.ports import NEW, Change
from tests.support.controllers import ControlledCluster


@pytest.fixture
def cluster() -> ControlledCluster:
    return ControlledCluster()


@pytest.mark.expects_errors("broker 2 refused to stop replicas")
def test_a_deletion_that_a_disk_refused_is_asked_again(cluster: ControlledCluster) -> None:
    cluster.create("t", (2, 3))
    cluster.settle()
    cluster.nodes[2].undeletable = 2
    cluster.ensemble.put(Change(f"{DELETIONS}/t", b"", NEW))
    cluster.settle()
    assert cluster.ensemble.get(layout.topic_path("t")) is not None
    cluster.settle(3 * DELETED_AGAIN_MS)
    assert cluster.ensemble.get(layout.topic_path("t")) is None
    assert cluster.nodes[2].undeletable == 0


@pytest.mark.expects_errors("broker 2 refused to stop replicas")
def test_a_deletion_that_a_disk_refuses_for_long_is_asked_for_ever_later_and_told_once(
    cluster: ControlledCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("t", (2, 3))
    cluster.create("u", (3, 2))
    cluster.settle()
    cluster.nodes[2].undeletable = 1_000
    cluster.ensemble.put(Change(f"{DELETIONS}/t", b"", NEW))
    cluster.settle(600_000)
    assert 4 <= 1_000 - cluster.nodes[2].undeletable <= 15
    assert len([message for message in caplog.messages if "broker 2 could not delete" in message]) == 1
    cluster.nodes[2].undeletable = 0
    cluster.settle(MOST_DELETED_AGAIN_MS)
    assert cluster.ensemble.get(layout.topic_path("t")) is None
    cluster.nodes[2].undeletable = 1
    cluster.ensemble.put(Change(f"{DELETIONS}/u", b"", NEW))
    cluster.settle(DELETED_AGAIN_MS + 1_000)
    assert cluster.ensemble.get(layout.topic_path("u")) is None, "the pauses begin anew"


@pytest.mark.expects_errors("broker 2 refused to stop replicas")
def test_deletions_of_others_do_not_put_off_one_that_was_refused(cluster: ControlledCluster) -> None:
    names = [f"other-{number}" for number in range(5)]
    for name in ("t", *names):
        cluster.create(name, (2, 3))
    cluster.settle()
    cluster.nodes[2].undeletable = 1
    cluster.ensemble.put(Change(f"{DELETIONS}/t", b"", NEW))
    cluster.settle()
    for name in names:
        cluster.settle(DELETED_AGAIN_MS // 4)
        cluster.ensemble.put(Change(f"{DELETIONS}/{name}", b"", NEW))
    cluster.settle()
    assert cluster.ensemble.get(layout.topic_path("t")) is None
