"""Brokers of a simulated cluster that come back without their data directory, or with an older one, beside replicas in sync."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from ottla.broker.serving.request import Peer
from ottla.cluster import layout
from ottla.cluster.controller_rules import entries
from ottla.cluster.controller_rules.context import LeaderAndIsr, ReplicaAssignment
from ottla.ports import Change
from ottla.records.batches.builder import build
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.world import World
from tests.support.producing import request

SESSION_MS = 3_000
RECORDS = 20
TOPIC = "t"


class Cluster:
    """Three brokers and a topic of one partition, led by the controller, in which all replicas have all records."""

    def __init__(self) -> None:
        self.world = World(0)
        self.ensemble = SimEnsemble(self.world, timeout_ms=SESSION_MS)
        self.network = SimNetwork(self.world)
        settings = {"replica.lag.time.max.ms": "3000", "min.insync.replicas": "2"}
        self.hosts = dict[int, ClusterHost]()
        for node_id in (1, 2, 3):
            self.hosts[node_id] = ClusterHost(self.world, settings, node_id, self.ensemble, self.network)
            self.world.run(1_000)
        value = entries.topic_value(bytes(range(16)), {0: ReplicaAssignment((1, 2, 3))})
        self.ensemble.put(Change(layout.topic_path(TOPIC), value))
        self.world.run(2_000)
        self.produce()
        self.world.run(2_000)
        assert self.controller == 1
        assert self.state == LeaderAndIsr(1, 0, (1, 2, 3), controller_epoch=1)
        assert set(self.ends.values()) == {RECORDS}

    @property
    def state(self) -> LeaderAndIsr:
        entry = self.ensemble.get(layout.state_path(TOPIC, 0))
        assert entry is not None, "the topic is made"
        return entries.state(entry)

    @property
    def controller(self) -> int | None:
        entry = self.ensemble.get(layout.CONTROLLER)
        return None if entry is None else entries.controller(entry.value)

    @property
    def registered(self) -> list[str]:
        return self.ensemble.children(layout.BROKERS)

    @property
    def ends(self) -> dict[int, int]:
        """Where the log of each replica ends."""
        found = {node: host.broker.partitions.get(TOPIC, 0) for node, host in self.hosts.items() if host.broker is not None}
        return {node: one.log.log_end_offset for node, one in found.items() if one is not None}

    def produce(self) -> None:
        body = request(build(None, [b"v"] * RECORDS, 0))
        answers: list[Any] = []
        self.hosts[1].receive(0, 9, body, Peer(1, "10.0.0.1", 1, "broker-1", 9092), answers.append)
        self.world.run(3_000, lambda: bool(answers))
        assert answers[0].responses[0].partition_responses[0].error_code == 0

    def kill(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.hosts[node_id].die(power_cut=False)

    def heals(self) -> bool:
        return self.world.run(60_000, lambda: len(self.state.isr) == 3 and self.state.leader > 0 and len(self.ends) == 3)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    logging.disable(logging.CRITICAL)
    yield Cluster()
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("node_id", [1, 3])
def test_a_broker_that_comes_back_at_once_without_its_directory_copies_what_the_others_have(cluster: Cluster, node_id: int) -> None:
    cluster.kill(node_id)
    cluster.hosts[node_id].lose_disk()
    cluster.hosts[node_id].session.expire()
    cluster.hosts[node_id].start()
    assert cluster.heals()
    cluster.world.run(2_000)
    assert cluster.ends == {1: RECORDS, 2: RECORDS, 3: RECORDS}


def test_a_broker_without_its_directory_that_is_the_first_after_all_died_waits_for_others_in_sync(cluster: Cluster) -> None:
    cluster.kill(1, 2, 3)
    cluster.hosts[1].lose_disk()
    cluster.world.run(2 * SESSION_MS)
    cluster.hosts[1].start()
    cluster.world.run(10 * SESSION_MS)
    assert cluster.registered == []
    cluster.hosts[2].start()
    cluster.hosts[3].start()
    assert cluster.heals()
    cluster.world.run(2_000)
    assert cluster.ends == {1: RECORDS, 2: RECORDS, 3: RECORDS}


def test_an_older_directory_is_as_good_as_a_lost_one(cluster: Cluster) -> None:
    cluster.kill(1)
    older = deepcopy(cluster.hosts[1].disk)
    cluster.world.run(2 * SESSION_MS)
    cluster.hosts[1].start()
    assert cluster.heals()
    cluster.kill(1, 2, 3)
    cluster.world.run(2 * SESSION_MS)
    cluster.hosts[1].disk = older
    cluster.hosts[1].start()
    cluster.world.run(10 * SESSION_MS)
    assert cluster.registered == []


def test_an_accepted_loss_lets_a_broker_in_and_leaves_what_it_lost_to_others(cluster: Cluster) -> None:
    cluster.kill(1, 2, 3)
    cluster.hosts[1].lose_disk()
    cluster.ensemble.put(Change(layout.accepted_loss_path(1), b""))
    cluster.hosts[1].start()
    cluster.world.run(4 * SESSION_MS)
    assert cluster.registered == ["1"]
    assert cluster.state.isr == (2, 3)
    assert cluster.ensemble.get(layout.accepted_loss_path(1)) is None
    cluster.hosts[2].start()
    assert cluster.world.run(30_000, lambda: cluster.state.leader == 2)
    cluster.hosts[3].start()
    assert cluster.heals()
    cluster.world.run(2_000)
    assert cluster.ends == {1: RECORDS, 2: RECORDS, 3: RECORDS}


def test_a_leader_that_began_anew_before_a_controller_took_office_leads_in_a_new_epoch_or_not_at_all(cluster: Cluster) -> None:
    cluster.kill(1)
    cluster.hosts[1].session.expire()
    cluster.hosts[2].pause(1_500)
    cluster.hosts[3].pause(1_500)
    cluster.hosts[1].start()
    cluster.world.run(4_000)
    assert cluster.registered == ["1", "2", "3"]
    assert cluster.state.leader_epoch > 0
    assert cluster.state.leader in (2, 3)
