"""Apache Kafka's Java tools that look after a cluster: features, elections, directories, deletions; and its verifiable clients."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import java
from tests.support.peers import Peer

pytestmark = pytest.mark.java
Unique = Callable[[str], str]
TOOLS = "org.apache.kafka.tools."
COUNT = 10


@pytest.fixture(autouse=True)
def _have_java() -> None:
    java.java_tools()


def tool(broker: Peer, name: str, *arguments: str) -> str:
    return java.run(TOOLS + name, "--bootstrap-server", broker.address, *arguments)


def failing_tool(broker: Peer, name: str, *arguments: str) -> str:
    """All that a tool says that fails."""
    command = [*java.java_tools(), TOOLS + name, "--bootstrap-server", broker.address, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode, done.stdout
    return done.stdout + done.stderr


@pytest.fixture
def topic(broker: Peer, unique: Unique) -> str:
    """A topic of three partitions with ten records in the first."""
    name = unique("looked-after")
    tool(broker, "TopicCommand", "--create", "--topic", name, "--partitions", "3", "--replication-factor", "1")
    said = tool(broker, "VerifiableProducer", "--topic", name, "--max-messages", str(COUNT), "--repeating-keys", "1")
    assert lines(said, "producer_send_success")
    return name


def lines(said: str, name: str) -> list[dict[str, object]]:
    """The events of this name that a verifiable client told of, a JSON object in each line."""
    events = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    return [event for event in events if event["name"] == name]


def end_offsets(broker: Peer, topic: str, time: str = "latest") -> list[int]:
    said = tool(broker, "GetOffsetShell", "--topic", topic, "--time", time)
    return [int(line.rsplit(":", 1)[1]) for line in said.split()]


def test_the_consumer_protocol_is_a_feature(broker: Peer) -> None:
    said = tool(broker, "FeatureCommand", "describe")
    assert re.search(r"group\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 1\s", said)


def test_versions_of_apis_are_listed_with_no_unknown_one(broker: Peer) -> None:
    said = tool(broker, "BrokerApiVersionsCommand")
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", said)
    assert re.search(r"InitProducerId\(22\): 0 to 5 \[usable: 5\]", said)
    assert "UNKNOWN" not in said


def test_a_described_topic_has_no_other_eligible_leaders(broker: Peer, topic: str) -> None:
    said = tool(broker, "TopicCommand", "--describe", "--topic", topic, "--partition-size-limit-per-response", "2")
    rows = re.findall(rf"Topic: {topic}\s+Partition: (\d)\s+Leader: 1\s+Replicas: 1\s+Isr: 1\s+Elr: \s*LastKnownElr: \s*\n", said)
    assert rows == ["0", "1", "2"]


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_leaders_need_no_election(broker: Peer, topic: str, kind: str) -> None:
    said = tool(broker, "LeaderElectionCommand", "--election-type", kind, "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in said
    assert "Error" not in tool(broker, "LeaderElectionCommand", "--election-type", kind, "--all-topic-partitions")


def test_no_leader_is_elected_where_there_is_no_topic(broker: Peer) -> None:
    said = failing_tool(broker, "LeaderElectionCommand", "--election-type", "preferred", "--topic", "gone", "--partition", "0")
    assert "UnknownTopicOrPartitionException: No such topic as gone" in said


def test_no_reassignment_is_found(broker: Peer) -> None:
    assert "No partition reassignments found." in tool(broker, "reassign.ReassignPartitionsCommand", "--list")


def test_records_are_deleted_up_to_an_offset(broker: Peer, topic: str, tmp_path: Path) -> None:
    full = max(range(3), key=lambda index: end_offsets(broker, topic)[index])
    wanted = [{"topic": topic, "partition": full, "offset": 2}, {"topic": topic, "partition": (full + 1) % 3, "offset": 999}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    said = tool(broker, "DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert f"partition: {topic}-{full}\tlow_watermark: 2" in said
    assert re.search(rf"partition: {topic}-{(full + 1) % 3}\terror: .*OffsetOutOfRangeException", said)
    assert sorted(end_offsets(broker, topic, "earliest")) == [0, 0, 2]


def test_log_directories_show_the_size_of_each_partition(broker: Peer, topic: str) -> None:
    said = tool(broker, "LogDirsCommand", "--describe", "--topic-list", topic)
    (described,) = json.loads(said.splitlines()[-1])["brokers"]
    (directory,) = described["logDirs"]
    assert directory["error"] is None
    sizes = {part["partition"]: part["size"] for part in directory["partitions"]}
    assert sizes.keys() == {f"{topic}-{index}" for index in range(3)}
    assert max(sizes.values()) > 0
    assert {part["isFuture"] for part in directory["partitions"]} == {False}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_consumer_reads_commits_and_ends(broker: Peer, topic: str, unique: Unique, protocol: str) -> None:
    group = ("--group-id", unique("verified"), "--reset-policy", "earliest", "--group-protocol", protocol)
    said = tool(broker, "VerifiableConsumer", "--topic", topic, "--max-messages", str(COUNT), *group)
    assert sum(int(str(event["count"])) for event in lines(said, "records_consumed")) == COUNT
    assert all(event["success"] for event in lines(said, "offsets_committed"))
    assert lines(said, "partitions_assigned")
    assert lines(said, "shutdown_complete")
