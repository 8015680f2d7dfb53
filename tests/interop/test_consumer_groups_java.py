"""Consumer groups of KIP-848 with Apache Kafka's own Java consumer and command-line tools."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.support import java
from tests.support.clients.confluent import Confluent, ConfluentMember
from tests.support.clients.face import Row
from tests.support.peers import Peer, start_peer
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.java
Unique = Callable[[str], str]

QUICK: dict[str, object] = {
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 6000,
    "group.consumer.session.timeout.ms": 6000,
}
NEW, CLASSIC = "group.protocol=consumer", "group.protocol=classic"
CLASSIC_SESSION = ("--command-property", "session.timeout.ms=10000")
"""Who is killed is missed after so long, and by Java's default after 45 s; the broker says it to members of the other protocol."""
Groups = Callable[..., str]


@pytest.fixture(scope="module")
def quick(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    java.java_tools()
    with start_peer(peer_name, tmp_path_factory.mktemp("quick"), QUICK) as peer:
        yield peer


@pytest.fixture
def groups(quick: Peer, toolbox: Toolbox) -> Groups:
    """Runs kafka-consumer-groups, and returns what it said."""
    return partial(toolbox.at(quick.address), "consumer-groups")


def filled(broker: Peer, topic: str, partitions: int, count: int) -> Confluent:
    client = Confluent(broker.address)
    client.create_topic(topic, partitions)
    client.produce(topic, [Row(None, f"row {n}".encode(), partition=n % partitions) for n in range(count)])
    return client


@contextmanager
def consumers(broker: Peer, topic: str, group: str, *protocols: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Console consumers, one for each protocol named; killed with SIGKILL at the end."""
    common = ["--bootstrap-server", broker.address, "--topic", topic, "--group", group, "--from-beginning"]
    running = [
        subprocess.Popen(
            [
                *java.java_tools(),
                java.CONSUME,
                *common,
                *("--command-property", protocol),
                *(CLASSIC_SESSION if protocol == CLASSIC else ()),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for protocol in protocols
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()


def counts(groups: Groups, group: str) -> list[int]:
    """How many partitions each member has, as ConsumerGroupCommand tells it."""
    described = groups("--describe", "--group", group, "--members")
    return sorted(int(match[1]) for match in re.finditer(rf"(?m)^{group} .*\s(\d+)\s*$", described))


def test_a_java_consumer_reads_commits_and_leaves(quick: Peer, toolbox: Toolbox, groups: Groups, unique: Unique) -> None:
    topic, group = unique("java-new"), unique("java-new")
    filled(quick, topic, 2, 20)
    arguments = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "20", "--timeout-ms", "120000"]
    read = java.run(java.CONSUME, "--bootstrap-server", quick.address, *arguments, "--command-property", NEW)
    assert sorted(read.splitlines()) == sorted(f"row {n}" for n in range(20))
    assert re.search(rf"{group}\s+Consumer\s+consumer", toolbox.at(quick.address)("groups", "--list"))
    assert "Empty" in groups("--describe", "--group", group, "--state")
    assert len(re.findall(rf"{topic}\s+\d\s+10\s+10\s+0", groups("--describe", "--group", group))) == 2
    groups("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "5", "--execute")
    assert len(re.findall(rf"{topic}\s+\d\s+5\s+10\s+5", groups("--describe", "--group", group))) == 2
    assert "Successful" in groups("--delete-offsets", "--group", group, "--topic", topic)
    groups("--delete", "--group", group)
    assert group not in groups("--list").split()


@pytest.mark.full(seconds=11)
def test_tools_describe_a_living_group(quick: Peer, groups: Groups, unique: Unique) -> None:
    topic, group = unique("described"), unique("described")
    filled(quick, topic, 4, 40)
    with consumers(quick, topic, group, NEW, NEW):
        eventually(lambda: counts(groups, group) == [2, 2], timeout_s=60)
        members = groups("--describe", "--group", group, "--members", "--verbose")
        assert len(re.findall(rf"{topic}:\d,\d", members)) >= 2
        state = groups("--describe", "--group", group, "--state", "--verbose")
        assert re.search(rf"{group}\s.*uniform\s+Stable", state)
        assert group in groups("--list", "--state", "Stable").split()
        assert group in groups("--list", "--type", "consumer").split()
    eventually(lambda: "Empty" in groups("--describe", "--group", group, "--state"), timeout_s=60, what="killed, both are out")


@pytest.mark.full(seconds=22)
def test_java_and_librdkafka_share_a_group_in_both_protocols(quick: Peer, groups: Groups, unique: Unique) -> None:
    topic, group = unique("java-mixed"), unique("java-mixed")
    client = filled(quick, topic, 6, 60)
    member: ConfluentMember = client.join(topic, group)  # type: ignore[assignment]  # that is what Confluent makes
    eventually(lambda: len(member.assigned) == 6, timeout_s=60)
    with consumers(quick, topic, group, NEW, CLASSIC):
        eventually(lambda: len(member.assigned) == 2 and counts(groups, group) == [2, 2, 2], timeout_s=90)
    eventually(lambda: len(member.assigned) == 6, timeout_s=60, what="killed, both are out, and the group is a classic one again")
    assert member.assigned == set(range(6))
    member.leave()
