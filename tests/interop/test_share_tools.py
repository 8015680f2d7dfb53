"""Apache Kafka's tools for share groups and streams groups: their commands, and the share consumers on a console."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.support import java
from tests.support.clients.confluent import Confluent
from tests.support.clients.face import Row
from tests.support.messages import request
from tests.support.peers import GROUPS_STAY, Peer, start_peer
from tests.support.share_world import Lines
from tests.support.streams_cases import SETTINGS as STREAMS
from tests.support.streams_cases import TOPOLOGIES, named_for
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]
Tool = Callable[..., str]
SETTINGS: dict[str, object] = {
    **STREAMS,
    **GROUPS_STAY,
    "group.share.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
}
COUNT = 10
STREAMS_HEARTBEAT, COMMIT = 88, 8


@pytest.fixture(scope="module")
def share_broker(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with start_peer(peer_name, tmp_path_factory.mktemp("tools"), SETTINGS) as broker:
        yield broker


@pytest.fixture
def tool(share_broker: Peer, toolbox: Toolbox) -> Tool:
    """Runs a tool on the broker, and returns what it said."""
    return toolbox.at(share_broker.address)


@pytest.fixture
def lines(share_broker: Peer) -> Iterator[Lines]:
    with Lines(share_broker.address) as lines:
        lines.wait_for_coordinator()
        yield lines


@pytest.fixture
def shared(share_broker: Peer, tool: Tool, unique: Callable[[str], str]) -> tuple[str, str]:
    """A topic with ten records, and the name of a share group that begins with the first."""
    topic, group = unique("tools"), unique("sharers")
    client = Confluent(share_broker.address)
    client.create_topic(topic)
    client.produce(topic, [Row(None, b"%d" % number) for number in range(COUNT)])
    tool(
        "configs", "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", "share.auto.offset.reset=earliest"
    )
    return topic, group


def consume(broker: Peer, topic: str, group: str, *arguments: str) -> list[str]:
    """Return the lines of kafka-console-share-consumer."""
    where = ("--bootstrap-server", broker.address, "--topic", topic, "--group", group)
    return java.run(java.SHARE_CONSUME, *where, "--max-messages", str(COUNT), "--timeout-ms", "60000", *arguments).splitlines()


def test_the_console_consumer_prints_records_that_others_released(share_broker: Peer, shared: tuple[str, str]) -> None:
    topic, group = shared
    values = sorted(str(number) for number in range(COUNT))
    assert sorted(consume(share_broker, topic, group, "--release")) == values
    shown = consume(share_broker, topic, group, "--formatter-property", "print.delivery=true")
    assert sorted(line.split("\t")[-1] for line in shown) == values
    assert {line.split("\t")[0] for line in shown} == {"Delivery:2"}


@pytest.mark.full(seconds=12)
def test_the_verifiable_consumer_acknowledges_what_it_gets(share_broker: Peer, shared: tuple[str, str]) -> None:
    topic, group = shared
    where = ("--bootstrap-server", share_broker.address, "--topic", topic, "--group-id", group)
    limits = ("--max-messages", str(COUNT), "--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest")
    events = [json.loads(line) for line in java.run(java.VERIFIABLE_SHARE, *where, *limits).splitlines() if line.startswith("{")]
    got = sum(event["count"] for event in events if event["name"] == "records_consumed")
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert got == COUNT
    assert sum(event["count"] for event in acknowledged) == COUNT
    assert all(event["success"] for event in acknowledged)


@pytest.mark.full(seconds=10)
def test_the_performance_tool_reads_all(share_broker: Peer, shared: tuple[str, str]) -> None:
    topic, group = shared
    where = ("--bootstrap-server", share_broker.address, "--topic", topic, "--group", group)
    said = java.run(java.SHARE_PERFORMANCE, *where, "--num-records", str(COUNT), "--timeout", "60000")
    assert re.search(rf"\b{COUNT}\b", said)


def test_share_groups_are_listed_described_reset_and_deleted(share_broker: Peer, shared: tuple[str, str], tool: Tool) -> None:
    topic, group = shared
    run = partial(tool, "share-groups")
    consume(share_broker, topic, group)
    assert group in run("--list").split()
    eventually(lambda: re.search(rf"{group}\s+{topic}\s+0\s+\d+\s+0\b", run("--describe", "--group", group)), timeout_s=30)
    assert re.search(rf"{group}\s+\S+\s+\(\d\)\s+Empty\s+0", run("--describe", "--group", group, "--state"))
    assert "no active members" in run("--describe", "--group", group, "--members")
    said = run("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert re.search(rf"{topic}\s+0\s+0\b", said)
    assert len(consume(share_broker, topic, group)) == COUNT
    assert "Successful" in run("--delete-offsets", "--group", group, "--topic", topic)
    assert "successful" in run("--delete", "--group", group)
    assert group not in run("--list").split()


def test_streams_groups_are_listed_described_reset_and_deleted(
    lines: Lines, shared: tuple[str, str], tool: Tool, unique: Callable[[str], str]
) -> None:
    topic, _ = shared
    group, run = unique("streams"), partial(tool, "streams-groups")
    member = {"group_id": group, "member_id": "m", "process_id": "p", "rebalance_timeout_ms": 60_000, "client_tags": []}
    tasks: dict[str, list[object]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    subtopologies = named_for(TOPOLOGIES["changelog"], group)
    subtopologies[0]["source_topics"] = [topic]
    topology = {"epoch": 0, "subtopologies": subtopologies}
    joins = request(STREAMS_HEARTBEAT, 0, **member, **tasks, member_epoch=0, topology=topology)
    assert not lines.ask("m", STREAMS_HEARTBEAT, 0, joins).error_code
    parts = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    leaves = request(STREAMS_HEARTBEAT, 0, group_id=group, member_id="m", member_epoch=-1)
    assert re.search(rf"{group}\s+NotReady|{group}\s+Stable", run("--list", "--state"))
    assert re.search(rf"{group}\s+0?.*\bm\b", run("--describe", "--group", group, "--members"))
    assert not lines.ask("m", STREAMS_HEARTBEAT, 0, leaves).error_code
    committed = request(COMMIT, 8, group_id=group, topics=[{"name": topic, "partitions": parts}])
    assert not lines.ask("m", COMMIT, 8, committed).topics[0].partitions[0].error_code
    said = run("--reset-offsets", "--group", group, "--input-topic", topic, "--to-earliest", "--execute")
    assert re.search(rf"{topic}\s+0\s+0\b", said)
    assert "successful" in run("--delete", "--group", group)
    assert group not in run("--list").split()
