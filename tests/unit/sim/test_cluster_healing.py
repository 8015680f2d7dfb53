"""Simulated clusters that were not well again by themselves once, are."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.broker.partitions.partition import LEADER
from ottla.ports import Change
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.shared_registry import RegistryFaults
from ottla.sim.world import World
from tests.sim.lives.cluster_life import SESSION_MS, SETTINGS

TOPIC = b'{"version":1,"partitions":{"0":[1]}}'
PATIENCE_MS = 20_000


class Cluster:
    """Three brokers, the first of which leads the only partition, and another one is the controller."""

    def __init__(self) -> None:
        self.world = World(0)
        self.ensemble = SimEnsemble(self.world, timeout_ms=SESSION_MS)
        self.network = SimNetwork(self.world)
        self.hosts = {}
        for node_id in (3, 2, 1):
            self.hosts[node_id] = ClusterHost(self.world, SETTINGS, node_id, self.ensemble, self.network)
            self.world.run(2_000)
        self.ensemble.put(Change("/brokers/topics/t", TOPIC))
        assert self.world.run(PATIENCE_MS, self.leads)

    def leads(self) -> bool:
        """Whether the first broker leads the partition."""
        broker = self.hosts[1].broker
        partition = None if broker is None else broker.partitions.get("t", 0)
        return partition is not None and partition.role is LEADER


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    logging.disable(logging.CRITICAL)
    yield Cluster()
    logging.disable(logging.NOTSET)


def test_a_leader_that_the_controller_hears_of_before_it_knows_of_its_own_registration_leads(cluster: Cluster) -> None:
    cluster.hosts[1].set_faults(RegistryFaults(least_ms=300))
    cluster.hosts[1].session.expire()
    cluster.world.run(2_000)
    assert cluster.world.run(PATIENCE_MS, cluster.leads)


def test_a_log_that_nobody_opened_since_a_power_cut_is_not_taken_for_one_that_a_kill_left(cluster: Cluster) -> None:
    host = cluster.hosts[1]
    host.disk.run_syncs()
    host.die(power_cut=True)
    host.disk.open("t-0/00000000000000000000.log", create=True).append([b"left by the power cut" * 10])
    cluster.ensemble.is_down = True  # so that it is given no role, and opens no log
    host.start()
    cluster.world.run(5_000)
    host.die(power_cut=False)
    cluster.ensemble.restore_quorum()
    host.start()
    assert cluster.world.run(PATIENCE_MS, cluster.leads)


def test_damage_is_damage_in_a_log_that_was_opened_since_and_that_a_kill_left(cluster: Cluster) -> None:
    host = cluster.hosts[1]
    cluster.world.run(5_000)
    host.die(power_cut=False)
    host.disk.open("t-0/00000000000000000000.log", create=True).append([b"no kill leaves this" * 10])
    host.start()
    cluster.world.run(PATIENCE_MS)
    assert host.broker is not None
    assert [partition.offline is None for partition in host.broker.partitions] == [False]
