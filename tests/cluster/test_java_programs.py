"""Kafka Streams, Kafka Connect and MirrorMaker 2 on three brokers over a real ZooKeeper, of which one after another is killed.

Each takes minutes: they run with `--java-programs`, as `make torture-cluster` does.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from bench.apache_kafka import free_port, java
from ottla import ConfigResource, OffsetAndMetadata, TopicPartition
from ottla.testing import Cluster
from tests.support import jars
from tests.support.java import LIGHT
from tests.support.java_programs import (
    Committed,
    connect_worker,
    create_connector,
    file_source,
    had,
    running,
    states,
    write,
    write_properties,
)
from tests.support.streams_programs import application
from tests.support.waiting import eventually
from tests.support.zookeeper import started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]
PATIENCE_S = 180
SETTINGS = {
    "zookeeper.session.timeout.ms": 4000,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "controlled.shutdown.retry.backoff.ms": 100,
}
COORDINATED = ("__consumer_offsets", "__transaction_state")
"""Of one partition each: who leads it coordinates all groups, or all transactions."""


@pytest.fixture(autouse=True)
def _takes_long(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--java-programs"):
        pytest.skip("takes long: make torture-cluster, or --java-programs")


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[str]:
    with started(tmp_path / "zookeeper") as server:
        yield server.address


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: str) -> Iterator[Cluster]:
    with Cluster(f"zookeeper://{zookeeper}/programs", 3, SETTINGS, home=tmp_path / "brokers") as cluster:
        yield cluster


def create(cluster: Cluster, *topics: str, partitions: int) -> None:
    with cluster.admin() as admin:
        for topic in topics:
            admin.create_topic(topic, partitions, 3)
    cluster.wait_in_sync(*topics, timeout_s=PATIENCE_S)


def kill_in_turn(cluster: Cluster, topic: str, goes_on: Callable[[], None]) -> None:
    """Kill who leads a topic, who coordinates, and who controls. Each is started again once all goes on."""
    led = [name for name in (topic, *COORDINATED) if name in topics_of(cluster)]
    victims: list[Callable[[], int]] = [*(partial(cluster.leader, name, 0) for name in led), cluster.controller]
    for victim in victims:
        dead = victim()
        cluster.kill(dead)
        goes_on()
        cluster.start(dead)
        cluster.wait_in_sync(*topics_of(cluster), timeout_s=PATIENCE_S)


def topics_of(cluster: Cluster) -> list[str]:
    with cluster.admin() as admin:
        return admin.list_topics(internal=True)


class Fed(threading.Thread):
    """Gives somebody lines, numbered, a few at a time until `end`."""

    def __init__(self, give: Callable[[Sequence[str]], None]) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self._give = give
        self.ended = threading.Event()
        self._failure: Exception | None = None

    def run(self) -> None:
        while not self.ended.wait(0.05):
            more = [f"all word{number % 7} line{number}" for number in range(len(self.lines), len(self.lines) + 12)]
            try:
                self._give(more)
            except Exception as failure:
                self._failure = failure
                return
            self.lines += more

    def end(self) -> None:
        """Return when nothing more is given. Raises what giving failed with."""
        self.ended.set()
        self.join()
        if self._failure is not None:
            raise self._failure


@pytest.fixture
def feed() -> Iterator[Callable[[Callable[[Sequence[str]], None]], Fed]]:
    with ExitStack() as stack:

        def begin(give: Callable[[Sequence[str]], None]) -> Fed:
            fed = Fed(give)
            stack.callback(fed.ended.set)
            fed.start()
            return fed

        yield begin


Feed = Callable[[Callable[[Sequence[str]], None]], Fed]


class FetchedReplica:
    """What a program commits to a topic, and whether that goes on."""

    def __init__(self, cluster: Cluster, topic: str, program: Popen[Any], log: Path) -> None:
        self._committed = Committed(cluster.address, topic, timeout_s=PATIENCE_S)
        self._program, self._log = program, log

    def goes_on(self) -> None:
        self.wait_for(len(self._committed.pairs) + 300)

    def wait_for(self, count: int) -> None:
        self._committed.wait_for(count, self._program, self._log)

    def values(self) -> list[str]:
        """All that was committed, of each partition in order; nothing more is read."""
        self._committed.close()
        return [value for _, value in self._committed.pairs]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return self._committed.pairs


def test_streams_counts_each_word_once_while_brokers_are_killed(cluster: Cluster, tmp_path: Path, feed: Feed) -> None:
    command = had(lambda: jars.program("WordCount", jars.streams(), tmp_path / "classes"))
    create(cluster, "lines", "counts", partitions=3)
    settings = ["num.standby.replicas=1", "transaction.timeout.ms=10000", "session.timeout.ms=10000"]
    log = tmp_path / "streams.log"

    def instance(number: int) -> list[str]:
        state = str(tmp_path / f"state-{number}")
        return [*command, cluster.address, state, "lines", "counts", *settings, f"group.instance.id=counter-{number}"]

    fed = feed(partial(write, cluster.address, "lines"))
    with running(instance(1), log), running(instance(2), log) as program:
        counts = FetchedReplica(cluster, "counts", program, log)
        counts.wait_for(300)
        kill_in_turn(cluster, "count-lines-counts-changelog", counts.goes_on)
        fed.end()
        wanted = Counter(word for line in fed.lines for word in line.split())
        counts.wait_for(wanted.total())
    counts.values()
    for word, count in wanted.items():
        assert [value for key, value in counts.pairs if key == word] == [str(number) for number in range(1, count + 1)]


def test_a_streams_group_counts_each_word_once_while_brokers_and_an_instance_are_killed(
    cluster: Cluster, tmp_path: Path, feed: Feed
) -> None:
    create(cluster, "lines", "counts", partitions=3)
    fed = feed(partial(write, cluster.address, "lines"))
    with application(cluster.address, tmp_path, transaction_timeout_ms=10_000) as app:
        lost, instance = app.start("one"), app.start("two")
        counts = FetchedReplica(cluster, "counts", instance.process, instance.log)
        counts.wait_for(300)
        kill_in_turn(cluster, f"{app.group}-counts-changelog", counts.goes_on)
        lost.kill()
        counts.goes_on()
        fed.end()
        wanted = Counter(word for line in fed.lines for word in line.split())
        counts.wait_for(wanted.total())
    counts.values()
    for word, count in wanted.items():
        assert [value for key, value in counts.pairs if key == word] == [str(number) for number in range(1, count + 1)]


def test_connectors_on_two_workers_copy_each_line_while_brokers_and_a_worker_are_killed(
    cluster: Cluster, tmp_path: Path, feed: Feed
) -> None:
    ports, file, copy, log = [free_port(), free_port()], tmp_path / "lines.txt", tmp_path / "copy.txt", tmp_path / "connect.log"
    first, second = (had(partial(connect_worker, cluster.address, tmp_path, port, replicas=3)) for port in ports)
    create(cluster, "lines", partitions=1)
    file.touch()
    sink = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(copy),
        "topics": "lines",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.session.timeout.ms": "6000",
    }

    def append(lines: Sequence[str]) -> None:
        with file.open("a") as out:
            out.writelines(f"{line}\n" for line in lines)

    with running(first, log) as program, running(second, log) as other:
        for name, config in (("source", file_source(file, "lines")), ("sink", sink)):
            eventually(partial(create_connector, ports[0], name, config), timeout_s=PATIENCE_S, what=f"the worker takes {name}")
        fed = feed(append)
        lines = FetchedReplica(cluster, "lines", program, log)
        lines.wait_for(100)
        kill_in_turn(cluster, "connect-config", lines.goes_on)
        other.kill()
        lines.goes_on()
        fed.end()
        lines.wait_for(len(fed.lines))
        eventually(
            lambda: set(copy.read_text().splitlines()) == set(fed.lines), timeout_s=PATIENCE_S, what="the sink has all lines"
        )
        running_all = {"source": ["RUNNING"] * 2, "sink": ["RUNNING"] * 2}
        eventually(lambda: states(ports[0]) == running_all, timeout_s=PATIENCE_S, what="all connectors run")
    assert lines.values() == fed.lines


def test_mirror_maker_copies_records_settings_and_offsets_while_brokers_of_both_sides_are_killed(
    cluster: Cluster, zookeeper: str, tmp_path: Path, feed: Feed
) -> None:
    library, log = had(lambda: [jars.mirror()])[0], tmp_path / "mirror.log"
    with Cluster(f"zookeeper://{zookeeper}/origin", 3, SETTINGS, home=tmp_path / "origin") as origin:
        create(origin, "flights", partitions=3)
        with origin.admin() as admin:
            admin.alter_configs(ConfigResource.topic("flights"), set={"retention.ms": 7654321})
        settings = tmp_path / "mirror.properties"
        write_properties(settings, mirror_settings(origin, cluster))
        command = [java(), *LIGHT, "-cp", library, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
        fed = feed(partial(write, origin.address, "flights"))
        with running(command, log) as program:
            eventually(lambda: MIRRORED in topics_of(cluster), timeout_s=PATIENCE_S, what="the topic is mirrored")
            mirrored = FetchedReplica(cluster, MIRRORED, program, log)
            mirrored.wait_for(100)
            kill_in_turn(cluster, MIRRORED, mirrored.goes_on)
            kill_in_turn(origin, "flights", mirrored.goes_on)
            fed.end()
            mirrored.wait_for(len(fed.lines))
            with origin.admin() as admin:
                admin.alter_group_offsets("readers", {("flights", index): len(fed.lines) // 3 for index in range(3)})
            places = {TopicPartition(MIRRORED, index) for index in range(3)}
            eventually(lambda: places <= set(offsets_of(cluster)), timeout_s=PATIENCE_S, what="the group's offsets are mirrored")
            eventually(lambda: retention_of(cluster) == "7654321", timeout_s=PATIENCE_S, what="the topic's settings are mirrored")
        assert all(told.offset > 0 for told in offsets_of(cluster).values())
        values = mirrored.values()
        assert len(values) == len(fed.lines)
        for index in range(3):
            written = fed.lines[index::3]
            assert [value for value in values if value in set(written)] == written


MIRRORED = "origin.flights"


def offsets_of(cluster: Cluster) -> dict[TopicPartition, OffsetAndMetadata]:
    with cluster.admin() as admin:
        return admin.list_group_offsets("readers")


def retention_of(cluster: Cluster) -> str | None:
    with cluster.admin() as admin:
        return admin.describe_configs(ConfigResource.topic(MIRRORED))["retention.ms"].value


def mirror_settings(origin: Cluster, target: Cluster) -> dict[str, object]:
    """Of MirrorMaker as a program of its own, which writes each record once and looks for news all the time."""
    often = ("sync.group.offsets", "emit.checkpoints", "refresh.topics", "refresh.groups", "sync.topic.configs", "emit.heartbeats")
    kept = (
        "",
        "offset-syncs.topic.",
        "checkpoints.topic.",
        "heartbeats.topic.",
        "offset.storage.",
        "status.storage.",
        "config.storage.",
    )
    return {
        "clusters": "origin,target",
        "origin.bootstrap.servers": origin.address,
        "target.bootstrap.servers": target.address,
        "origin->target.enabled": "true",
        "origin->target.topics": "flights",
        "origin->target.groups": "readers",
        "target->origin.enabled": "false",
        "target.exactly.once.source.support": "enabled",
        "target.scheduled.rebalance.max.delay.ms": 0,
        "origin.consumer.isolation.level": "read_committed",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "sync.group.offsets.enabled": "true",
        "sync.topic.acls.enabled": "false",
        "offset.lag.max": 10,
        "offset.flush.interval.ms": 500,
        **{f"{what}.interval.seconds": 1 for what in often},
        **{f"{what}replication.factor": 3 for what in kept},
    }
