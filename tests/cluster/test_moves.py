"""Replicas that move between brokers by `ottla cluster`: throttled, taken back, drained, and under a controller that dies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ottla import Admin, Consumer, Producer
from ottla.cli.main import main
from ottla.testing import Cluster

pytestmark = pytest.mark.slow
PATIENCE_S = 100
COUNT = 60
SIZE = 10_000
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": 100,
}
SLOWLY = "1000"
"""Bytes a second: a move of what `filled` wrote does not end while a test looks."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home: Path = tmp_path_factory.mktemp("moves")
    with Cluster(brokers=3, settings=SETTINGS, home=home) as cluster:
        yield cluster


@pytest.fixture
def cluster(brokers: Cluster) -> Cluster:
    """All of its brokers run, whatever a test before has left."""
    for node_id, member in brokers.members.items():
        if not member.is_running:
            brokers.start(node_id)
    brokers.wait_joined(timeout_s=PATIENCE_S)
    return brokers


def run(cluster: Cluster, *arguments: str) -> int:
    return main(["cluster", *arguments, "--bootstrap-server", cluster.address])


def filled(cluster: Cluster, topic: str, partitions: int, replicas: int) -> None:
    """Make a topic with so many records in each partition."""
    with cluster.admin() as admin:
        admin.create_topic(topic, partitions, replicas)
    cluster.wait_in_sync(topic, timeout_s=PATIENCE_S)
    with Producer(cluster.address, acks="all", delivery_timeout_ms=PATIENCE_S * 1000) as producer:
        for index in range(partitions):
            for number in range(COUNT):
                producer.send(topic, b"%d" % number * SIZE, partition=index)


def begin(cluster: Cluster, wanted: str) -> None:
    """Begin throttled moves by a command that is killed while they are under way: they go on."""
    command = [sys.executable, "-m", "ottla", "cluster", "reassign", "--plan", wanted, "--throttle", SLOWLY]
    with subprocess.Popen([*command, "--bootstrap-server", cluster.address], stdout=subprocess.DEVNULL) as process:
        try:
            cluster.wait_until(lambda: bool(under_way(cluster)), timeout_s=PATIENCE_S)
        finally:
            process.kill()


def under_way(cluster: Cluster) -> int:
    """How many partitions move."""
    with cluster.admin() as admin:
        return len(admin.list_partition_reassignments())


def replicas_of(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    with cluster.admin() as admin:
        return {index: part.replicas for index, part in admin.describe_topics(topic)[topic].partitions.items()}


def plan(path: Path, topic: str, targets: Mapping[int, Sequence[int]]) -> str:
    parts = [{"topic": topic, "partition": index, "replicas": list(nodes)} for index, nodes in targets.items()]
    path.write_text(json.dumps({"version": 1, "partitions": parts}))
    return str(path)


def check_that_all_is_there(cluster: Cluster, topic: str, partitions: int) -> None:
    found: dict[int, list[int]] = {index: [] for index in range(partitions)}
    with Consumer(topic, bootstrap_servers=cluster.address, auto_offset_reset="earliest") as consumer:
        while sum(map(len, found.values())) < partitions * COUNT:
            for record in consumer.poll(PATIENCE_S * 1000):
                assert record.value
                found[record.partition].append(int(record.value[: len(record.value) // SIZE]))
    assert all(numbers == list(range(COUNT)) for numbers in found.values())


def test_a_throttled_move_is_taken_back_and_nothing_has_changed(cluster: Cluster, tmp_path: Path) -> None:
    filled(cluster, "back", 1, 1)
    ((here,),) = replicas_of(cluster, "back").values()
    there = next(node for node in cluster.members if node != here)
    wanted = plan(tmp_path / "plan.json", "back", {0: [there]})
    begin(cluster, wanted)
    assert sorted(replicas_of(cluster, "back")[0]) == sorted((here, there))
    with cluster.admin() as admin:
        assert admin.describe_broker_configs(there)["follower.replication.throttled.rate"].value == SLOWLY
    assert run(cluster, "reassign", "--cancel") == 0
    cluster.wait_until(lambda: replicas_of(cluster, "back") == {0: [here]}, timeout_s=PATIENCE_S)
    assert run(cluster, "reassign", "--lift-throttles") == 0
    with cluster.admin() as admin:
        assert "follower.replication.throttled.rate" not in admin.describe_broker_configs(there)
    check_that_all_is_there(cluster, "back", 1)


def test_a_move_goes_on_when_the_controller_is_killed_in_its_middle(cluster: Cluster, tmp_path: Path) -> None:
    filled(cluster, "going", 3, 1)
    dead = cluster.controller()
    here, there = (node for node in cluster.members if node != dead)
    start = plan(tmp_path / "start.json", "going", {index: [here] for index in range(3)})
    assert run(cluster, "reassign", "--plan", start) == 0
    wanted = plan(tmp_path / "plan.json", "going", {index: [there] for index in range(3)})
    begin(cluster, wanted)
    cluster.kill(dead)
    cluster.wait_until(lambda: cluster.controller() not in (-1, dead), timeout_s=PATIENCE_S)
    assert under_way(cluster) == 3
    assert run(cluster, "reassign", "--lift-throttles") == 0
    cluster.wait_until(lambda: replicas_of(cluster, "going") == {index: [there] for index in range(3)}, timeout_s=PATIENCE_S)
    check_that_all_is_there(cluster, "going", 3)
    cluster.start(dead)
    cluster.wait_in_sync("going", timeout_s=PATIENCE_S)
    assert not under_way(cluster)


def test_a_drained_broker_holds_nothing_any_more_and_can_be_stopped(cluster: Cluster) -> None:
    filled(cluster, "drained", 3, 2)
    assert run(cluster, "drain", "3") == 0
    with cluster.admin() as admin:
        topics = admin.describe_topics(*admin.list_topics(internal=True))
    assert all(3 not in part.replicas for topic in topics.values() for part in topic.partitions.values())
    assert all(len(part.replicas) == 2 for part in topics["drained"].partitions.values())
    assert cluster.stop(3) == 0
    assert run(cluster, "status") == 0
    check_that_all_is_there(cluster, "drained", 3)


def wait_until_listed(cluster: Cluster, admin: Admin, topic: str) -> None:
    cluster.wait_until(lambda: topic in admin.list_topics(), lambda: f"nobody has heard of {topic}", PATIENCE_S)


def test_an_admin_waits_for_the_next_controller(cluster: Cluster) -> None:
    for number in range(3):
        with cluster.admin() as admin:
            controller = admin.describe_cluster().controller_id
            cluster.kill(controller)
            admin.create_topic(f"without-{number}", 1, 2)
            wait_until_listed(cluster, admin, f"without-{number}")
        cluster.start(controller)
        cluster.wait_joined(timeout_s=PATIENCE_S)
    with cluster.admin() as admin:
        made = admin.describe_topics(*(f"without-{number}" for number in range(3)))
    assert [len(topic.partitions[0].replicas) for topic in made.values()] == [2, 2, 2]
