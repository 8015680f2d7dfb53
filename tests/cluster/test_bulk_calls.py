"""Calls of an admin client about many items of three brokers: each broker gets one request with all of its items."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.client.types import LATEST_TIMESTAMP
from ottla.testing import Cluster
from tests.support.sent_requests import SentRequests, count_requests

BROKERS = 3
NAMES = [f"group-{number}" for number in range(30)]
SETTINGS = {"offsets.topic.num.partitions": 12, "group.initial.rebalance.delay.ms": 0}


@pytest.fixture
def admin() -> Iterator[ottla.Admin]:
    with Cluster(brokers=BROKERS, settings=SETTINGS) as cluster, ottla.Admin(cluster.address) as client:
        client.create_topic("flights", 6, 3)
        for name in NAMES:
            client.alter_group_offsets(name, {("flights", 0): 0})
        yield client


def of_api(sent: SentRequests, name: str) -> list[int]:
    """The number of requests that each broker got."""
    return sorted(count for (_, api), count in sent.items() if api == name)


@pytest.mark.full(seconds=15)
def test_each_coordinator_and_each_leader_gets_one_request(admin: ottla.Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {f"{node.host}:{node.port}" for node in admin.describe_cluster().nodes}
    assert len(addresses) == BROKERS
    sent = count_requests(monkeypatch)

    assert list(admin.list_offsets_of_groups(*NAMES)) == NAMES
    assert of_api(sent, "OffsetFetch") == [1] * BROKERS
    assert {where for where, api in sent if api == "OffsetFetch"} == addresses
    assert of_api(sent, "FindCoordinator") == [1], "one request finds the coordinators of all groups"

    assert {each.state for each in admin.describe_groups(*NAMES).values()} == {"Empty"}
    assert of_api(sent, "DescribeGroups") == [1] * BROKERS

    partitions = {("flights", number): LATEST_TIMESTAMP for number in range(6)}
    assert len(admin.list_offsets(partitions)) == len(partitions)
    assert of_api(sent, "ListOffsets") == [1] * BROKERS

    deleted = admin.delete_groups(*NAMES, "none", check=False)
    assert (list(deleted), list(deleted.errors)) == (NAMES, ["none"])
    assert of_api(sent, "DeleteGroups") == [1] * BROKERS
