"""Clusters whose brokers speak the oldest versions that there are to each other, and do the same as today's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.broker import BrokerMachine
from ottla.broker.releases.interbroker_versions import ProtocolVersion
from ottla.cluster.controller_rules.context import ReplicaAssignment
from ottla.cluster.controller_rules.entries import state, topic_value
from ottla.ports import Change
from ottla.sim.cluster_host import PORT, ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.world import World
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.errors import NONE
from tests.support.fort import batch

SESSION_MS, PATIENCE_MS = 2_000, 30_000
CONTROL = LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
SPOKEN = {
    "0.8.2": (0, 0, 0),
    "0.9.0": (0, 0, 1),
    "0.10.0": (0, 0, 2),
    "0.10.2": (0, 0, 3),
    "1.0": (1, 0, 4),
    "2.2": (2, 1, 5),
}
"""Protocol version -> the versions in which the controller speaks."""


class Cluster:
    """Three brokers of one protocol version, the first of which is the controller."""

    def __init__(self, version: str) -> None:
        self.world = World(0)
        self.ensemble = SimEnsemble(self.world, timeout_ms=SESSION_MS)
        network = SimNetwork(self.world)
        settings = {"inter.broker.protocol.version": version, "controlled.shutdown.enable": "true"}
        self.hosts = [ClusterHost(self.world, settings, node_id, self.ensemble, network) for node_id in (1, 2, 3)]
        self.until(lambda: len(self.ensemble.children("/brokers/ids")) == 3)

    def until(self, happened: Callable[[], bool]) -> None:
        assert self.world.run(PATIENCE_MS, happened), "it does not happen"

    def broker(self, node_id: int) -> BrokerMachine:
        broker = self.hosts[node_id - 1].broker
        assert broker is not None
        return broker

    def leader(self) -> int:
        entry = self.ensemble.get("/brokers/topics/t/partitions/0/state")
        return -1 if entry is None else state(entry).leader

    def is_in_sync(self) -> bool:
        entry = self.ensemble.get("/brokers/topics/t/partitions/0/state")
        return entry is not None and sorted(state(entry).isr) == [2, 3]

    def hear_of(self, leader: int) -> bool:
        """Whether all brokers that are up know who leads."""
        images = [host.broker.image.topics.get("t") for host in self.hosts if host.broker is not None]
        return all(image is not None and image.partitions[0].leader == leader for image in images)

    def is_copied(self) -> bool:
        """Whether replicas on both brokers hold what they should, and say so to readers."""
        held = [self.broker(node_id).partitions.get("t", 0) for node_id in (2, 3)]
        return all(one is not None and one.log.log_end_offset == one.high_watermark == 1 for one in held)

    def produce(self, leader: int) -> None:
        part = ProduceRequest.PartitionProduceData(index=0, records=batch())
        topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[part])]
        body = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
        heard: list[Any] = []
        channels, address = self.broker(1).channels, (f"broker-{leader}", PORT)
        assert channels is not None
        channels.request(leader, body, 7, heard.append, lane="test", timeout_ms=20_000, address=address)
        self.until(lambda: bool(heard))
        assert heard[0].responses[0].partition_responses[0].error_code == NONE


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("version", "spoken"), SPOKEN.items())
def test_a_topic_is_led_copied_handed_over_and_deleted(version: str, spoken: tuple[int, ...]) -> None:
    assert tuple(ProtocolVersion(version).version(request) for request in CONTROL) == spoken
    cluster = Cluster(version)
    cluster.ensemble.put(Change("/brokers/topics/t", topic_value(None, {0: ReplicaAssignment((2, 3))})))
    cluster.until(lambda: cluster.leader() == 2 and cluster.hear_of(2))
    cluster.produce(2)
    cluster.until(cluster.is_copied)
    stopped: list[None] = []
    cluster.hosts[1].leave(lambda: stopped.append(None))
    cluster.until(lambda: bool(stopped))
    assert cluster.leader() == 3
    cluster.until(lambda: cluster.hear_of(3))
    cluster.hosts[1].start()
    cluster.until(lambda: cluster.is_in_sync() and cluster.is_copied())
    cluster.ensemble.put(Change("/admin/delete_topics/t", b""))
    cluster.until(lambda: cluster.ensemble.get("/brokers/topics/t") is None)
    assert not any(cluster.broker(node_id).partitions.get("t", 0) for node_id in (2, 3))
    cluster.until(lambda: not any("t" in cluster.broker(node_id).image.topics for node_id in (1, 2, 3)))
