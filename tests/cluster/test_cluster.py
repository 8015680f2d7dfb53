"""A cluster of Ottla's brokers as processes over a real ZooKeeper, as its users and their tests see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ottla import Admin, Consumer, Producer, TopicPartition
from ottla.cli.admin import cluster_reassign, cluster_throttles
from ottla.cli.main import main
from ottla.testing import Cluster
from tests.support.zookeeper import started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")

pytestmark = [pytest.mark.java, pytest.mark.slow]
SESSION_MS = 4000
PATIENCE_S = 100
SETTINGS = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 3,
    "group.initial.rebalance.delay.ms": 0,
    "controlled.shutdown.retry.backoff.ms": 100,
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    with (
        started(home / "zookeeper") as zookeeper,
        Cluster(f"zookeeper://{zookeeper.address}/it", 3, SETTINGS, home=home) as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster(brokers: Cluster) -> Cluster:
    """All of its brokers run, whatever a test before has left."""
    brokers.mend()
    for node_id in brokers.members:
        brokers.start(node_id)
    brokers.wait_joined(timeout_s=PATIENCE_S)
    return brokers


def write(cluster: Cluster, topic: str, *values: bytes, address: str = "") -> None:
    with Producer(address or cluster.address, acks="all", delivery_timeout_ms=PATIENCE_S * 1000) as producer:
        for value in values:
            producer.send(topic, value).result(PATIENCE_S)


def read(cluster: Cluster, topic: str, count: int, group_id: str = "") -> list[bytes | None]:
    """So many values of a topic of one partition, read as a group of its own unless one is named."""
    found: list[bytes | None] = []
    group_id = group_id or f"readers-of-{topic}"
    with Consumer(topic, bootstrap_servers=cluster.address, group_id=group_id, auto_offset_reset="earliest") as consumer:
        while len(found) < count:
            found += [record.value for record in consumer.poll(PATIENCE_S * 1000)]
        consumer.commit()
    return found


def test_what_a_dead_leader_acknowledged_is_read_from_its_successor(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        admin.create_topic("kept", 1, 3)
    cluster.wait_in_sync("kept", timeout_s=PATIENCE_S)
    write(cluster, "kept", b"before")
    assert read(cluster, "kept", 1, "early readers") == [b"before"]
    dead = cluster.leader("kept", 0)
    cluster.kill(dead)
    cluster.wait_until(lambda: cluster.leader("kept", 0) not in (-1, dead), timeout_s=PATIENCE_S)
    write(cluster, "kept", b"meanwhile")
    assert read(cluster, "kept", 2) == [b"before", b"meanwhile"]
    assert read(cluster, "kept", 1, "early readers") == [b"meanwhile"]
    cluster.start(dead)
    cluster.wait_in_sync("kept", timeout_s=PATIENCE_S)


def test_a_broker_that_stops_hands_over_first_and_catches_up_when_it_is_back(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        admin.create_topic("handed", 1, 3)
    cluster.wait_in_sync("handed", timeout_s=PATIENCE_S)
    leader = cluster.leader("handed", 0)
    assert cluster.stop(leader) == 0
    assert cluster.leader("handed", 0) not in (-1, leader)
    write(cluster, "handed", b"without it")
    cluster.start(leader)
    cluster.wait_in_sync("handed", timeout_s=PATIENCE_S)
    assert read(cluster, "handed", 1) == [b"without it"]


def test_a_follower_that_is_cut_off_leaves_the_replicas_in_sync_until_the_cut_is_mended(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        admin.create_topic("cut", 1, 3)
    cluster.wait_in_sync("cut", timeout_s=PATIENCE_S)
    leader, controller = cluster.leader("cut", 0), cluster.controller()
    follower = next(node_id for node_id in cluster.members if node_id not in (leader, controller))
    cluster.cut(follower, 0)
    cluster.wait_until(lambda: follower not in in_sync(cluster, leader, "cut"), timeout_s=PATIENCE_S)
    by_way_of_it = f"{cluster.members[follower].address},{cluster.members[leader].address}"
    write(cluster, "cut", b"without it", address=by_way_of_it)  # it has no producer ids to give: another broker is asked
    cluster.mend()
    cluster.wait_in_sync("cut", timeout_s=PATIENCE_S)
    assert sorted(in_sync(cluster, leader, "cut")) == sorted(cluster.members)


def in_sync(cluster: Cluster, node_id: int, topic: str) -> list[int]:
    """What one broker knows of a topic's only partition: one that is cut off hears nothing new."""
    with Admin(cluster.members[node_id].address) as admin:
        return admin.describe_topics(topic)[topic].partitions[0].isr


def test_a_broker_is_drained_of_topics_that_are_made_meanwhile_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds: list[set[str]] = []
    follow = cluster_throttles.follow

    def followed(admin: Admin, partitions: Sequence[TopicPartition], **fields: Any) -> None:
        rounds.append({where.topic for where in partitions})
        if len(rounds) == 1:
            admin.create_topic("meanwhile", 4, 2)
            assert 3 in holders(admin)
        follow(admin, partitions, **fields)

    monkeypatch.setattr(cluster_reassign, "follow", followed)
    with cluster.admin() as admin:
        admin.delete_topics(*admin.list_topics(internal=True))  # those that all brokers hold cannot leave one
        admin.create_topic("before", 4, 2)
        cluster.wait_in_sync("before", timeout_s=PATIENCE_S)
        assert main(["cluster", "drain", "3", "--bootstrap-server", cluster.address]) == 0
        assert "Broker 3 has no replicas. Stop it now" in capsys.readouterr().out
        assert len(rounds) == 2
        assert "before" in rounds[0]
        assert rounds[1] == {"meanwhile"}
        cluster.wait_until(lambda: holders(admin) == {1, 2}, timeout_s=PATIENCE_S)


def holders(admin: Admin) -> set[int]:
    """The brokers that hold anything."""
    topics = admin.describe_topics(*admin.list_topics(internal=True))
    return {node_id for topic in topics.values() for part in topic.partitions.values() for node_id in part.replicas}
