"""The clusters that `bench.cluster` measures: three brokers each, of Ottla and of Apache Kafka, over one ZooKeeper.

Knows how each is started, and what it uses of the machine. Brokers reach each other and ZooKeeper directly: the ways of
`ottla.testing.Cluster` that can be cut pass through a Python process, which would be what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from bench.apache_kafka import JVM_OPTIONS
from ottla.testing.cluster import Cluster, ClusterMember, ClusterSeat, ottla_member
from tests.support.kafka_members import KafkaMember

BROKERS: Final = 3
RELEASE: Final = "3.9.1"
SESSION_MS: Final = 6000
SETTINGS: Final[Mapping[str, object]] = {
    "min.insync.replicas": 2,
    "zookeeper.session.timeout.ms": SESSION_MS,
    "group.initial.rebalance.delay.ms": 0,
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": 1000,
}
KAFKAS_OWN: Final[Mapping[str, object]] = {"num.network.threads": 3, "num.io.threads": 8}
"""Kafka's defaults, where `KafkaMember` has less for tests."""


class Side(NamedTuple):
    """One of the clusters, and where its files are.

    `cached` are the settings of topics that are acknowledged from the page cache, None if all are.
    """

    name: str
    cluster: Cluster
    home: Path
    cached: Mapping[str, str] | None


def ottla(registry: str, home: Path) -> Side:
    """Ottla's brokers; `registry` is HOST:PORT of ZooKeeper."""
    cluster = _cluster(f"{registry}/ottla", home / "ottla", ottla_member, SETTINGS)
    return Side("Ottla", cluster, home / "ottla", {"ottla.acks.all.sync": "false"})


def apache_kafka(registry: str, home: Path) -> Side:
    """Apache Kafka's. Raises `Unavailable`."""

    def member(seat: ClusterSeat) -> ClusterMember:
        return KafkaMember(seat, RELEASE, JVM_OPTIONS)

    cluster = _cluster(f"{registry}/kafka", home / "kafka", member, {**SETTINGS, **KAFKAS_OWN})
    return Side(f"Apache Kafka {RELEASE}", cluster, home / "kafka", None)


def _cluster(registry: str, home: Path, make: Callable[[ClusterSeat], ClusterMember], settings: Mapping[str, object]) -> Cluster:
    def direct(seat: ClusterSeat) -> ClusterMember:
        return make(seat._replace(registry=registry, told_port=seat.internal_port))

    home.mkdir()
    members = dict.fromkeys(range(1, BROKERS + 1), direct)
    return Cluster(f"zookeeper://{registry}", BROKERS, settings, home=home, members=members)


def cpu_s(cluster: Cluster, *, without: int | None = None) -> float:
    """CPU seconds so far of all brokers that run, or of all but one."""
    times = [process.cpu_times() for process in _processes(cluster, without)]
    return float(sum(used.user + used.system for used in times))


def resident_mb(cluster: Cluster) -> float:
    return float(sum(process.memory_info().rss for process in _processes(cluster, None))) / 1e6


def _processes(cluster: Cluster, without: int | None) -> list[psutil.Process]:
    """Of brokers that run, and what they have started."""
    members = [member for node_id, member in cluster.members.items() if member.is_running and node_id != without]
    found = [psutil.Process(member.pid) for member in members]
    return [process for one in found for process in (one, *one.children(recursive=True))]
