"""Waiting for records at two brokers, one of which answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition as Where
from ottla.net.client.cluster import ClusterLinks
from ottla.spark.streams.watch import Polls
from ottla.wire.api.metadata import MetadataResponse
from tests.spark.conftest import Topics
from tests.support.peers import start_peer
from tests.support.recorder import Recorder

FETCH = (1).to_bytes(2, "big")
FIRST, SECOND = Where("flights", 0), Where("flights", 1)
LONG_S = 60.0


@pytest.fixture
def sites(peer_name: str, tmp_path: Path) -> Iterator[list[Recorder]]:
    """Two brokers that know nothing of each other, each with all of the topic, behind proxies that keep every request."""
    ports = [free_port(), free_port()]
    first, second = ({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"} for port in ports)
    if peer_name == "ottla":
        second["node.id"] = "2"  # Apache Kafka would not find its controller, and does not check which broker is meant
    with (
        start_peer(peer_name, tmp_path / "first", dict(first)) as one,
        start_peer(peer_name, tmp_path / "second", dict(second)) as two,
    ):
        addresses = [peer.address.rpartition(":") for peer in (one, two)]
        behind = [(host, int(port)) for host, _, port in addresses]
        with Recorder(ports[0], behind[0]) as left, Recorder(ports[1], behind[1]) as right:
            yield [left, right]


def cluster_of(sites: list[Recorder]) -> ClusterLinks:
    """What a client knows of a cluster in which the first leads partition 0 and the second partition 1."""
    cluster = ClusterLinks(ConsumerSettings(bootstrap_servers=sites[0].address, request_timeout_ms=120_000))
    ports = [int(site.address.rpartition(":")[2]) for site in sites]
    partition = MetadataResponse.MetadataResponsePartition
    topic = MetadataResponse.MetadataResponseTopic(
        name="flights", partitions=[partition(partition_index=index, leader_id=1 + index, leader_epoch=-1) for index in range(2)]
    )
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=1 + index, host="127.0.0.1", port=port) for index, port in enumerate(ports)
    ]
    cluster.metadata.update(MetadataResponse(brokers=brokers, topics=[topic]))
    return cluster


def fetches(site: Recorder) -> int:
    return sum(frame[4:6] == FETCH for frame in site.frames)


def test_one_broker_that_answers_is_enough_and_the_other_keeps_its_fetch(sites: list[Recorder]) -> None:
    for site in sites:
        Topics(site.address, str).make(2, name="flights")

    async def work() -> None:
        cluster = cluster_of(sites)
        polls = Polls(cluster, read_committed=False)
        while not all(map(fetches, sites)):
            assert not await polls.wait({FIRST: 0, SECOND: 0}, 0.1)
        await asyncio.to_thread(Topics(sites[1].address, str).produce, "flights", [{"value": "x", "partition": 1}])
        async with asyncio.timeout(LONG_S / 2):
            assert await polls.wait({FIRST: 0, SECOND: 0}, LONG_S)
        assert not await polls.wait({FIRST: 0, SECOND: 1}, 0.1)
        assert fetches(sites[0]) == 1, "nothing has changed for the first"
        assert not await polls.wait({SECOND: 1}, 0.1)
        await asyncio.to_thread(Topics(sites[0].address, str).produce, "flights", [{"value": "x", "partition": 0}])
        async with asyncio.timeout(LONG_S / 2):
            assert await polls.wait({FIRST: 0, SECOND: 1}, LONG_S), "its new fetch does not wait behind the one given up"
        await polls.close()
        await cluster.close()

    asyncio.run(work())


def test_a_broker_that_denies_a_partition_is_not_asked_for_it_again(sites: list[Recorder]) -> None:
    async def work() -> None:
        cluster = cluster_of(sites)
        polls = Polls(cluster, read_committed=False)
        assert await polls.wait({FIRST: 0, SECOND: 0}, LONG_S / 60), "there is no such topic: that is to be asked about"
        for _ in range(5):
            assert await polls.wait({FIRST: 0, SECOND: 0}, 0.0)
        assert all(fetches(site) <= 1 for site in sites), "no leader is known now, so that nobody can be asked"
        await polls.close()
        await cluster.close()

    asyncio.run(work())
