"""Apache Kafka's Java tools that look after a cluster: features, elections, directories, deletions; and its verifiable clients."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import java
from tests.support.clients.confluent import Confluent
from tests.support.clients.face import Row
from tests.support.peers import Peer
from tests.support.toolbox import Toolbox

pytestmark = pytest.mark.java
Unique = Callable[[str], str]
Tool = Callable[..., str]
TOOLS = "org.apache.kafka.tools."
COUNT = 10


@pytest.fixture
def tool(broker: Peer, toolbox: Toolbox) -> Tool:
    """Runs kafka-<name>, and returns what it said."""
    return toolbox.at(broker.address)


@pytest.fixture
def topic(broker: Peer, tool: Tool, unique: Unique) -> str:
    """A topic of three partitions with ten records in the first."""
    name = unique("looked-after")
    tool("topics", "--create", "--topic", name, "--partitions", "3", "--replication-factor", "1")
    Confluent(broker.address).produce(name, [Row(None, b"%d" % number, partition=0) for number in range(COUNT)])
    return name


def verifiable(broker: Peer, name: str, *arguments: str) -> str:
    """What a verifiable client said, in a Java machine of its own: it says some of it when that ends."""
    return java.run(TOOLS + name, "--bootstrap-server", broker.address, *arguments)


def lines(said: str, name: str) -> list[dict[str, object]]:
    """The events of this name that a verifiable client told of, a JSON object in each line."""
    events = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    return [event for event in events if event["name"] == name]


def end_offsets(tool: Tool, topic: str, time: str = "latest") -> list[int]:
    said = tool("get-offsets", "--topic", topic, "--time", time)
    return [int(line.rsplit(":", 1)[1]) for line in said.split()]


def test_the_consumer_protocol_is_a_feature(tool: Tool) -> None:
    said = tool("features", "describe")
    assert re.search(r"group\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 1\s", said)


def test_all_features_are_described_with_their_levels(tool: Tool) -> None:
    said = tool("features", "describe")
    names = {"eligible.leader.replicas.version", "group.version", "kraft.version", "share.version", "streams.version"}
    assert names | {"transaction.version"} <= set(re.findall(r"Feature: (\S+)", said))
    assert re.search(r"transaction\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2\s", said)


def test_a_quorum_of_one_is_described(tool: Tool) -> None:
    status = tool("metadata-quorum", "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", status)
    assert re.search(r"CurrentVoters:\s+\[\{\"id\": 1, .*\"endpoints\": \[\"[A-Z]+://127\.0\.0\.1:\d+\"\]\}\]\n", status)
    (watermark,) = re.findall(r"HighWatermark:\s+(\d+)\n", status)
    assert int(watermark) > 0
    (row,) = re.findall(r"(?m)^1\s+.*$", tool("metadata-quorum", "describe", "--replication"))
    assert row.split()[-1] == "Leader"


def test_nobody_else_can_be_unregistered(broker: Peer, toolbox: Toolbox) -> None:
    said = toolbox.run("cluster", "unregister", "--bootstrap-server", broker.address, "--id", "99")
    assert "Broker ID 99 is not" in said.text


def test_levels_of_loggers_are_listed_changed_and_reset(tool: Tool) -> None:
    loggers = ("configs", "--entity-type", "broker-loggers", "--entity-name", "1")
    (name, level), *_ = re.findall(
        r"(?m)^\s*(\S+)=(TRACE|DEBUG|INFO|WARN|ERROR|FATAL) sensitive=false", tool(*loggers, "--describe")
    )
    other = "ERROR" if level != "ERROR" else "WARN"
    assert "Completed updating config" in tool(*loggers, "--alter", "--add-config", f"{name}={other}")
    assert f"{name}={other} " in tool(*loggers, "--describe")
    assert "Completed updating config" in tool(*loggers, "--alter", "--add-config", f"{name}={level}")
    assert f"{name}={level} " in tool(*loggers, "--describe")
    assert "not a supported log level" in tool(*loggers, "--alter", "--add-config", f"{name}=LOUD", fails=True)


def test_versions_of_apis_are_listed_with_no_unknown_one(tool: Tool) -> None:
    said = tool("broker-api-versions")
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", said)
    assert re.search(r"InitProducerId\(22\): 0 to 5 \[usable: 5\]", said)
    assert "UNKNOWN" not in said


def test_a_described_topic_has_no_other_eligible_leaders(tool: Tool, topic: str) -> None:
    said = tool("topics", "--describe", "--topic", topic, "--partition-size-limit-per-response", "2")
    rows = re.findall(rf"Topic: {topic}\s+Partition: (\d)\s+Leader: 1\s+Replicas: 1\s+Isr: 1\s+Elr: \s*LastKnownElr: \s*\n", said)
    assert rows == ["0", "1", "2"]


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_leaders_need_no_election(tool: Tool, topic: str, kind: str) -> None:
    said = tool("leader-election", "--election-type", kind, "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in said
    assert "Error" not in tool("leader-election", "--election-type", kind, "--all-topic-partitions")


def test_no_leader_is_elected_where_there_is_no_topic(tool: Tool) -> None:
    said = tool("leader-election", "--election-type", "preferred", "--topic", "gone", "--partition", "0", fails=True)
    assert "UnknownTopicOrPartitionException: No such topic as gone" in said


def test_no_reassignment_is_found(tool: Tool) -> None:
    assert "No partition reassignments found." in tool("reassign-partitions", "--list")


def test_records_are_deleted_up_to_an_offset(tool: Tool, topic: str, tmp_path: Path) -> None:
    assert sorted(end_offsets(tool, topic)) == [0, 0, COUNT]
    wanted = [{"topic": topic, "partition": 0, "offset": 2}, {"topic": topic, "partition": 1, "offset": 999}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    said = tool("delete-records", "--offset-json-file", str(plan))
    assert f"partition: {topic}-0\tlow_watermark: 2" in said
    assert re.search(rf"partition: {topic}-1\terror: .*OffsetOutOfRangeException", said)
    assert sorted(end_offsets(tool, topic, "earliest")) == [0, 0, 2]


def test_log_directories_show_the_size_of_each_partition(tool: Tool, topic: str) -> None:
    said = tool("log-dirs", "--describe", "--topic-list", topic)
    (described,) = json.loads(said.rstrip().splitlines()[-1])["brokers"]
    (directory,) = described["logDirs"]
    assert directory["error"] is None
    sizes = {part["partition"]: part["size"] for part in directory["partitions"]}
    assert sizes.keys() == {f"{topic}-{index}" for index in range(3)}
    assert max(sizes.values()) > 0
    assert {part["isFuture"] for part in directory["partitions"]} == {False}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.rows(1)
def test_the_verifiable_consumer_reads_what_the_verifiable_producer_wrote_commits_and_ends(
    broker: Peer, topic: str, unique: Unique, protocol: str
) -> None:
    written = verifiable(broker, "VerifiableProducer", "--topic", topic, "--max-messages", str(COUNT), "--repeating-keys", "1")
    assert len(lines(written, "producer_send_success")) == COUNT
    group = ("--group-id", unique("verified"), "--reset-policy", "earliest", "--group-protocol", protocol)
    said = verifiable(broker, "VerifiableConsumer", "--topic", topic, "--max-messages", str(2 * COUNT), *group)
    assert sum(int(str(event["count"])) for event in lines(said, "records_consumed")) == 2 * COUNT
    assert all(event["success"] for event in lines(said, "offsets_committed"))
    assert lines(said, "partitions_assigned")
    assert lines(said, "shutdown_complete")
