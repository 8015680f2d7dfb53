"""Simulated brokers of a cluster: they register, are missed when they are gone, and reach each other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.serving.request import Peer
from ottla.cluster.controller_rules.context import LeaderAndIsr, ReplicaAssignment
from ottla.cluster.controller_rules.entries import LOG_DIR_EVENTS, state, topic_value
from ottla.ports import Change, StorageFailed
from ottla.sim.cluster_host import PORT, ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.process import MOST_DRIFT
from ottla.sim.world import World
from ottla.wire.api.api_versions import ApiVersionsRequest

SESSION_MS = 3_000


class Cluster:
    """Three brokers, the last of which has a fast clock."""

    def __init__(self) -> None:
        self.world = World(0)
        self.ensemble = SimEnsemble(self.world, timeout_ms=SESSION_MS)
        self.network = SimNetwork(self.world)
        self.hosts = [
            ClusterHost(self.world, {}, node_id, self.ensemble, self.network, drift=MOST_DRIFT * (node_id == 3))
            for node_id in (1, 2, 3)
        ]
        self.world.run(2_000)

    @property
    def registered(self) -> list[str]:
        return self.ensemble.children("/brokers/ids")

    def states(self, topic: str) -> list[LeaderAndIsr]:
        """Who leads each of the two partitions of a topic."""
        entries = (self.ensemble.get(f"/brokers/topics/{topic}/partitions/{index}/state") for index in range(2))
        return [state(entry) for entry in entries if entry is not None]

    def ask(self, asking: int, asked: int) -> Any:
        """What a broker hears from another one."""
        broker = self.hosts[asking - 1].broker
        assert broker is not None
        assert broker.channels is not None
        heard: list[Any] = []
        address = (f"broker-{asked}", PORT)
        broker.channels.request(asked, ApiVersionsRequest(), 0, heard.append, lane="test", timeout_ms=1_000, address=address)
        self.world.run(5_000, lambda: bool(heard))
        return heard[0]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    logging.disable(logging.CRITICAL)
    yield Cluster()
    logging.disable(logging.NOTSET)


def test_brokers_register_and_reach_each_other(cluster: Cluster) -> None:
    assert cluster.registered == ["1", "2", "3"]
    assert cluster.ask(1, 2).api_keys


def test_a_killed_broker_is_missed_and_comes_back(cluster: Cluster) -> None:
    cluster.hosts[0].die(power_cut=False)
    cluster.world.run(2 * SESSION_MS)
    assert cluster.registered == ["2", "3"]
    assert cluster.ask(2, 1) is None
    cluster.hosts[0].start()
    cluster.world.run(SESSION_MS)
    assert cluster.registered == ["1", "2", "3"]
    assert cluster.ask(2, 1).api_keys


def test_a_broker_that_stands_still_answers_afterwards(cluster: Cluster) -> None:
    cluster.hosts[1].pause(500)
    assert cluster.ask(1, 2).api_keys
    assert cluster.world.now_ms >= 2_500


@pytest.mark.parametrize("still_ms", range(SESSION_MS - 400, SESSION_MS + 500, 100))
def test_a_broker_that_stood_still_for_about_its_session_may_lead_again(cluster: Cluster, still_ms: int) -> None:
    broker = cluster.hosts[0].broker
    assert broker is not None
    assert broker.membership is not None
    told: list[str] = []
    broker.membership.silenced.append(lambda now: told.append("silent"))
    for tell in (broker.membership.woken, broker.membership.entered):
        tell.append(lambda now: told.append("leads"))
    cluster.hosts[0].process.pause(still_ms)
    cluster.world.run(still_ms + 3 * SESSION_MS)
    assert told[-1:] in ([], ["leads"])
    assert broker.membership.is_member(broker.clock.now())


def test_a_broker_that_stands_still_for_long_registers_anew(cluster: Cluster) -> None:
    first = cluster.ensemble.get("/brokers/ids/2")
    cluster.hosts[1].pause(2 * SESSION_MS)
    cluster.world.run(2 * SESSION_MS - 10)
    assert cluster.registered == ["1", "3"]
    cluster.world.run(SESSION_MS)
    second = cluster.ensemble.get("/brokers/ids/2")
    assert first is not None
    assert second is not None
    assert second.created > first.created


def test_a_cut_keeps_brokers_from_each_other_and_nobody_from_the_registry(cluster: Cluster) -> None:
    cluster.network.cuts.cut("broker-1", "broker-2", both=False)
    assert cluster.ask(1, 2) is None
    assert cluster.ask(3, 2).api_keys
    assert cluster.registered == ["1", "2", "3"]


def test_a_broker_whose_disk_fails_a_partition_leads_it_no_more(cluster: Cluster) -> None:
    placed = ReplicaAssignment((2, 3))
    cluster.ensemble.put(Change("/brokers/topics/t", topic_value(bytes(15) + b"\5", {0: placed, 1: placed})))
    cluster.world.run(1_000)
    assert [(one.leader, one.isr) for one in cluster.states("t")] == [(2, (2, 3)), (2, (2, 3))]
    broker = cluster.hosts[1].broker
    assert broker is not None
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    partition.fail(StorageFailed("t-0", "no such device"))
    cluster.world.run(1_000)
    assert [(one.leader, one.isr) for one in cluster.states("t")] == [(3, (3,)), (2, (2, 3))]
    assert cluster.ensemble.children(LOG_DIR_EVENTS) == []


def test_a_broker_that_is_started_while_it_runs_goes_on_serving_its_clients(cluster: Cluster) -> None:
    heard: list[Any] = []
    cluster.hosts[0].start()
    cluster.hosts[0].receive(18, 0, ApiVersionsRequest(), Peer(1, "10.0.0.1", 40_000, "broker-1", PORT), heard.append)
    assert heard[0] is not None
    assert heard[0].error_code == 0


def epoch(cluster: Cluster, node_id: int) -> int:
    entry = cluster.ensemble.get(f"/brokers/ids/{node_id}")
    return -1 if entry is None else entry.created


def known_epoch(cluster: Cluster, node_id: int) -> int:
    broker = cluster.hosts[node_id - 1].broker
    assert broker is not None
    assert broker.membership is not None
    return broker.membership.broker_epoch


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_a_registration_that_is_removed_while_its_session_lives_is_made_again(cluster: Cluster, node_id: int) -> None:
    epochs = [epoch(cluster, node_id)]
    for _ in range(2):
        cluster.ensemble.put(Change(f"/brokers/ids/{node_id}", None))
        assert cluster.world.run(SESSION_MS, lambda: epochs[-1] < epoch(cluster, node_id) == known_epoch(cluster, node_id))
        epochs.append(epoch(cluster, node_id))
    assert cluster.registered == ["1", "2", "3"]


def test_a_registration_that_is_removed_as_the_registry_goes_is_made_again(cluster: Cluster) -> None:
    before = epoch(cluster, 2)
    cluster.ensemble.put(Change("/brokers/ids/2", None))
    cluster.hosts[1].session.lose_connection()
    assert cluster.world.run(2 * SESSION_MS, lambda: before < epoch(cluster, 2) == known_epoch(cluster, 2))
