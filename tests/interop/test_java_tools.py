"""Apache Kafka's own Java tools against the broker: topics, console producer and consumer, groups, performance."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from tests.support import java
from tests.support.peers import Peer
from tests.support.waiting import eventually

pytestmark = pytest.mark.java
Unique = Callable[[str], str]


@pytest.fixture(autouse=True)
def _have_java() -> None:
    java.java_tools()


def topics(broker: Peer, *arguments: str) -> str:
    return java.run(java.TOPICS, "--bootstrap-server", broker.address, *arguments)


def groups(broker: Peer, *arguments: str) -> str:
    return java.run(java.GROUPS, "--bootstrap-server", broker.address, *arguments)


def consume(broker: Peer, topic: str, count: int, *arguments: str) -> list[str]:
    limits = ("--max-messages", str(count), "--timeout-ms", "20000")
    return java.run(java.CONSUME, "--bootstrap-server", broker.address, "--topic", topic, *limits, *arguments).splitlines()


def produce(broker: Peer, topic: str, lines: list[str], *arguments: str) -> None:
    java.run(
        java.PRODUCE, "--bootstrap-server", broker.address, "--topic", topic, *arguments, stdin="".join(f"{n}\n" for n in lines)
    )


def test_topic_command_creates_describes_alters_and_deletes(broker: Peer, unique: Unique) -> None:
    topic = unique("java")
    create = ("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1")
    assert f"Created topic {topic}" in topics(broker, *create, "--config", "retention.ms=3600000")
    assert topic in topics(broker, "--list").split()
    described = topics(broker, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=3600000" in described
    assert len(re.findall(r"Partition: \d+\s+Leader: \d+", described)) == 3
    topics(broker, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in topics(broker, "--describe", "--topic", topic)
    topics(broker, "--delete", "--topic", topic)
    assert topic not in topics(broker, "--list").split()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer_carry_lines(broker: Peer, unique: Unique, codec: str) -> None:
    topic, lines = unique("console"), [f"key{n}:line {n}" for n in range(50)]
    topics(broker, "--create", "--topic", topic)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    produce(broker, topic, lines, "--compression-codec", codec, *keyed)
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    assert consume(broker, topic, 50, "--from-beginning", *shown) == lines


def test_consumer_group_command_sees_moves_and_deletes_a_group(broker: Peer, unique: Unique) -> None:
    topic, group = unique("grouped"), unique("java-group")
    topics(broker, "--create", "--topic", topic, "--partitions", "1")
    produce(broker, topic, [str(n) for n in range(20)])
    assert consume(broker, topic, 20, "--from-beginning", "--group", group) == [str(n) for n in range(20)]
    assert group in groups(broker, "--list").split()
    assert re.search(rf"{topic}\s+0\s+20\s+20\s+0", groups(broker, "--describe", "--group", group))
    assert "Empty" in groups(broker, "--describe", "--group", group, "--state")
    groups(broker, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "5", "--execute")
    assert re.search(rf"{topic}\s+0\s+5\s+20\s+15", groups(broker, "--describe", "--group", group))
    assert consume(broker, topic, 15, "--group", group) == [str(n) for n in range(5, 20)]
    groups(broker, "--delete", "--group", group)
    assert group not in groups(broker, "--list").split()


def test_two_java_consumers_share_a_group(broker: Peer, unique: Unique) -> None:
    topic, group = unique("java-pair"), unique("java-group")
    topics(broker, "--create", "--topic", topic, "--partitions", "4")
    arguments = ["--bootstrap-server", broker.address, "--topic", topic, "--group", group]
    running = [subprocess.Popen([*java.java_tools(), java.CONSUME, *arguments], stdout=subprocess.DEVNULL) for _ in range(2)]
    try:
        assert eventually(
            lambda: members_with_two(groups(broker, "--describe", "--group", group, "--members"), group), timeout_s=40
        )
    finally:
        for process in running:
            process.terminate()
            process.wait(20)


def members_with_two(described: str, group: str) -> bool:
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    return [row[-1] for row in rows] == ["2", "2"]


def test_performance_tools_run_to_their_end(broker: Peer, unique: Unique) -> None:
    topic = unique("performance")
    topics(broker, "--create", "--topic", topic, "--partitions", "2")
    load = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    settings = ("--producer-props", f"bootstrap.servers={broker.address}", "acks=all", "compression.type=lz4")
    assert "20000 records sent" in java.run(java.PRODUCER_PERFORMANCE, "--topic", topic, *load, *settings)
    reading = ("--bootstrap-server", broker.address, "--topic", topic, "--timeout", "20000")
    java.run(java.CONSUMER_PERFORMANCE, *reading, "--messages", "20000")
    offsets = java.run(java.OFFSETS, "--bootstrap-server", broker.address, "--topic", topic)
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.split()) == 20000


def test_feature_command_describes_lowers_and_raises_levels(broker: Peer) -> None:
    def features(*arguments: str) -> str:
        return java.run(java.FEATURES, "--bootstrap-server", broker.address, *arguments)

    assert "transaction.version was downgraded to 1" in features("downgrade", "--feature", "transaction.version=1")
    described = features("describe")
    assert re.search(r"transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 1", described)
    assert "transaction.version can be upgraded to 2" in features("upgrade", "--feature", "transaction.version=2", "--dry-run")
    assert "transaction.version was upgraded to 2" in features("upgrade", "--feature", "transaction.version=2")
