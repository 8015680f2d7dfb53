"""Apache Kafka's own Java tools against the broker: topics, console producer and consumer, groups, performance."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from functools import partial

import pytest

from tests.support import java
from tests.support.peers import Peer
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.java
Unique = Callable[[str], str]
Tool = Callable[..., str]


@pytest.fixture
def topics(broker: Peer, toolbox: Toolbox) -> Tool:
    """Runs kafka-topics, and returns what it said."""
    return partial(toolbox.at(broker.address), "topics")


@pytest.fixture
def groups(broker: Peer, toolbox: Toolbox) -> Tool:
    """Runs kafka-consumer-groups, and returns what it said."""
    return partial(toolbox.at(broker.address), "consumer-groups")


def consume(broker: Peer, topic: str, count: int, *arguments: str) -> list[str]:
    limits = ("--max-messages", str(count), "--timeout-ms", "120000")
    return java.run(java.CONSUME, "--bootstrap-server", broker.address, "--topic", topic, *limits, *arguments).splitlines()


def produce(broker: Peer, topic: str, lines: list[str], *arguments: str) -> None:
    java.run(
        java.PRODUCE, "--bootstrap-server", broker.address, "--topic", topic, *arguments, stdin="".join(f"{n}\n" for n in lines)
    )


def test_topic_command_creates_describes_alters_and_deletes(topics: Tool, unique: Unique) -> None:
    topic = unique("java")
    create = ("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1")
    assert f"Created topic {topic}" in topics(*create, "--config", "retention.ms=3600000")
    assert topic in topics("--list").split()
    described = topics("--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=3600000" in described
    assert len(re.findall(r"Partition: \d+\s+Leader: \d+", described)) == 3
    topics("--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in topics("--describe", "--topic", topic)
    topics("--delete", "--topic", topic)
    assert topic not in topics("--list").split()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.rows(1)
def test_console_producer_and_consumer_carry_lines(broker: Peer, topics: Tool, unique: Unique, codec: str) -> None:
    topic, lines = unique("console"), [f"key{n}:line {n}" for n in range(50)]
    topics("--create", "--topic", topic)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    produce(broker, topic, lines, "--compression-codec", codec, *keyed)
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    assert consume(broker, topic, 50, "--from-beginning", *shown) == lines


def test_consumer_group_command_sees_moves_and_deletes_a_group(broker: Peer, topics: Tool, groups: Tool, unique: Unique) -> None:
    topic, group = unique("grouped"), unique("java-group")
    topics("--create", "--topic", topic, "--partitions", "1")
    produce(broker, topic, [str(n) for n in range(20)])
    assert consume(broker, topic, 20, "--from-beginning", "--group", group) == [str(n) for n in range(20)]
    assert group in groups("--list").split()
    assert re.search(rf"{topic}\s+0\s+20\s+20\s+0", groups("--describe", "--group", group))
    assert "Empty" in groups("--describe", "--group", group, "--state")
    groups("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "5", "--execute")
    assert re.search(rf"{topic}\s+0\s+5\s+20\s+15", groups("--describe", "--group", group))
    assert consume(broker, topic, 15, "--group", group) == [str(n) for n in range(5, 20)]
    groups("--delete", "--group", group)
    assert group not in groups("--list").split()


@pytest.mark.full(seconds=4)
def test_two_java_consumers_share_a_group(broker: Peer, topics: Tool, groups: Tool, unique: Unique) -> None:
    topic, group = unique("java-pair"), unique("java-group")
    topics("--create", "--topic", topic, "--partitions", "4")
    arguments = ["--bootstrap-server", broker.address, "--topic", topic, "--group", group]
    running = [subprocess.Popen([*java.java_tools(), java.CONSUME, *arguments], stdout=subprocess.DEVNULL) for _ in range(2)]
    try:
        assert eventually(lambda: members_with_two(groups("--describe", "--group", group, "--members"), group), timeout_s=100)
    finally:
        for process in running:
            process.terminate()
            process.wait(60)


def members_with_two(described: str, group: str) -> bool:
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    return [row[-1] for row in rows] == ["2", "2"]


@pytest.mark.full(seconds=5)
def test_performance_tools_run_to_their_end(broker: Peer, topics: Tool, toolbox: Toolbox, unique: Unique) -> None:
    topic = unique("performance")
    topics("--create", "--topic", topic, "--partitions", "2")
    load = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    settings = ("--producer-props", f"bootstrap.servers={broker.address}", "acks=all", "compression.type=lz4")
    assert "20000 records sent" in java.run(java.PRODUCER_PERFORMANCE, "--topic", topic, *load, *settings)
    reading = ("--bootstrap-server", broker.address, "--topic", topic, "--timeout", "120000")
    java.run(java.CONSUMER_PERFORMANCE, *reading, "--messages", "20000")
    offsets = toolbox.at(broker.address)("get-offsets", "--topic", topic)
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.split()) == 20000


def test_feature_command_describes_lowers_and_raises_levels(broker: Peer, toolbox: Toolbox) -> None:
    features = partial(toolbox.at(broker.address), "features")
    assert "transaction.version was downgraded to 1" in features("downgrade", "--feature", "transaction.version=1")
    described = features("describe")
    assert re.search(r"transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 1", described)
    assert "transaction.version can be upgraded to 2" in features("upgrade", "--feature", "transaction.version=2", "--dry-run")
    assert "transaction.version was upgraded to 2" in features("upgrade", "--feature", "transaction.version=2")
