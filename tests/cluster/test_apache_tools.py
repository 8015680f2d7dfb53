"""Apache Kafka's own command-line tools on a cluster of three over a real ZooKeeper: of today, and those that go to ZooKeeper.

`--peer=apache-kafka` runs them on brokers of Apache Kafka 3.9.1, and `--tools=3.9.1` are those of that release.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from ottla import Consumer, Producer
from ottla.client.connection.metadata import PartitionInfo
from ottla.testing import Cluster
from tests.support.kafka_members import kafka_member
from tests.support.toolbox import IN_BROKER, Toolbox, checked, opened
from tests.support.zookeeper import started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")

pytestmark = [pytest.mark.java, pytest.mark.slow]
PATIENCE_S = 100
OF_KAFKA_MEMBERS = "3.9.1"
SETTINGS = {
    "zookeeper.session.timeout.ms": 4000,
    "min.insync.replicas": 1,
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "controlled.shutdown.retry.backoff.ms": 100,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
Tool = Callable[..., str]
Plan = Callable[[object], str]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, peer_name: str) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("tools")
    members = {number: kafka_member(OF_KAFKA_MEMBERS) for number in (1, 2, 3)} if peer_name == "apache-kafka" else {}
    with (
        started(home / "zookeeper") as zookeeper,
        Cluster(f"zookeeper://{zookeeper.address}/tools", 3, SETTINGS, home=home, members=members) as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster(brokers: Cluster) -> Cluster:
    """All of its brokers run, whatever a test before has left."""
    for node_id in brokers.members:
        if not brokers.members[node_id].is_running:
            brokers.start(node_id)
    brokers.wait_joined(timeout_s=PATIENCE_S)
    return brokers


@pytest.fixture(scope="module")
def toolbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    yield from opened(request.config.getoption("--tools"), tmp_path_factory.mktemp("toolbox"))


@pytest.fixture(scope="module")
def old_toolbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    yield from opened(IN_BROKER, tmp_path_factory.mktemp("toolbox"))


@pytest.fixture
def tool(cluster: Cluster, toolbox: Toolbox) -> Tool:
    """Runs kafka-<name> with arguments as one line, and returns what it said."""

    def run(name: str, arguments: str = "", *, fails: bool = False) -> str:
        return checked(toolbox.run(name, "--bootstrap-server", cluster.address, *arguments.split()), fails=fails)

    return run


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Writes a file of JSON, and returns its path."""

    def write(content: object) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(content))
        return str(path)

    return write


def moves(topic: str, replicas: Mapping[int, Sequence[int]]) -> dict[str, object]:
    """A plan of kafka-reassign-partitions."""
    parts = [{"topic": topic, "partition": index, "replicas": list(nodes)} for index, nodes in replicas.items()]
    return {"version": 1, "partitions": parts}


def rows(described: str, topic: str) -> list[tuple[int, str, str, list[str]]]:
    """(partition, leader, replicas, in-sync replicas in order of their numbers) of each that kafka-topics described."""
    found = re.findall(rf"Topic: {topic}\s+Partition: (\d+)\s+Leader: (\w+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)", described)
    return [(int(index), leader, replicas, sorted(isr.split(","))) for index, leader, replicas, isr in found]


def partitions(cluster: Cluster, topic: str) -> dict[int, PartitionInfo]:
    with cluster.admin() as admin:
        return admin.describe_topics(topic)[topic].partitions


def fill(cluster: Cluster, topic: str, count: int, size: int = 100) -> None:
    """So many records in each partition of a topic."""
    with Producer(cluster.address, acks="all", delivery_timeout_ms=PATIENCE_S * 1000) as producer:
        for index in partitions(cluster, topic):
            for number in range(count):
                producer.send(topic, b"x" * size, key=b"%d" % number, partition=index)


@pytest.mark.full(seconds=30)
def test_topics_tell_what_ails_them_while_a_broker_is_down_and_leaders_are_elected_when_it_is_back(
    cluster: Cluster, tool: Tool
) -> None:
    assert "Created topic placed" in tool("topics", "--create --topic placed --replica-assignment 1:2:3,2:3:1,3:1:2")
    tool("topics", "--create --topic needy --replica-assignment 1:2:3 --config min.insync.replicas=3")
    assert "InvalidReplicationFactorException" in tool("topics", "--create --topic many --replication-factor 4", fails=True)
    cluster.wait_in_sync("placed", "needy", timeout_s=PATIENCE_S)
    for ailing in ("under-replicated", "under-min-isr", "unavailable"):
        assert tool("topics", f"--describe --{ailing}-partitions").strip() == ""
    assert rows(tool("topics", "--describe --at-min-isr-partitions"), "needy") == [(0, "1", "1,2,3", ["1", "2", "3"])]

    cluster.kill(3)
    cluster.wait_until(lambda: all(3 not in part.isr and part.leader > 0 for part in partitions(cluster, "placed").values()))
    cluster.wait_until(lambda: 3 not in partitions(cluster, "needy")[0].isr)
    expected = [(0, "1", "1,2,3", ["1", "2"]), (1, "2", "2,3,1", ["1", "2"]), (2, "1", "3,1,2", ["1", "2"])]
    assert rows(tool("topics", "--describe --under-replicated-partitions --topic placed"), "placed") == expected
    assert rows(tool("topics", "--describe --under-min-isr-partitions"), "needy") == [(0, "1", "1,2,3", ["1", "2"])]
    wanted = "--election-type preferred --topic placed --partition 2"
    assert "PreferredLeaderNotAvailableException" in tool("leader-election", wanted, fails=True)

    cluster.start(3)
    cluster.wait_in_sync("placed", "needy", timeout_s=PATIENCE_S)
    said = tool("leader-election", wanted)
    assert "Successfully completed leader election (PREFERRED) for partitions placed-2" in said
    assert cluster.leader("placed", 2) == 3
    assert "Valid replica already elected for partitions placed-2" in tool("leader-election", wanted)
    tool("topics", "--alter --topic placed --partitions 5 --replica-assignment 1:2:3,2:3:1,3:1:2,3:2:1,1:3:2")
    cluster.wait_in_sync("placed", timeout_s=PATIENCE_S)
    assert [row[2] for row in rows(tool("topics", "--describe --topic placed"), "placed")][3:] == ["3,2,1", "1,3,2"]
    tool("topics", "--delete --topic needy")
    assert "needy" not in tool("topics", "--list").split()


@pytest.mark.full(seconds=12)
def test_a_replica_out_of_sync_is_elected_only_where_that_is_asked_for(cluster: Cluster, tool: Tool) -> None:
    tool("topics", "--create --topic risky --replica-assignment 1:2")
    cluster.wait_in_sync("risky", timeout_s=PATIENCE_S)
    cluster.stop(2)
    cluster.wait_until(lambda: partitions(cluster, "risky")[0].isr == [1], timeout_s=PATIENCE_S)
    cluster.stop(1)
    cluster.start(2)
    cluster.wait_joined(timeout_s=PATIENCE_S)
    cluster.wait_until(lambda: cluster.leader("risky", 0) == -1, timeout_s=PATIENCE_S)
    assert rows(tool("topics", "--describe --unavailable-partitions --topic risky"), "risky") == [(0, "none", "1,2", ["1"])]
    tool("leader-election", "--election-type preferred --topic risky --partition 0", fails=True)
    said = tool("leader-election", "--election-type unclean --topic risky --partition 0")
    assert "Successfully completed leader election (UNCLEAN) for partitions risky-0" in said
    assert rows(tool("topics", "--describe --topic risky"), "risky") == [(0, "2", "1,2", ["2"])]


@pytest.mark.full(seconds=15)
def test_partitions_move_throttled_are_taken_back_and_move_again(cluster: Cluster, tool: Tool, plan: Plan) -> None:
    tool("topics", "--create --topic moving --replica-assignment 1:2,1:2")
    cluster.wait_in_sync("moving", timeout_s=PATIENCE_S)
    fill(cluster, "moving", 200, 10_000)
    topics = plan({"version": 1, "topics": [{"topic": "moving"}]})
    said = tool("reassign-partitions", f"--generate --topics-to-move-json-file {topics} --broker-list 2,3")
    proposed = json.loads(said.splitlines()[-1] or said.splitlines()[-2])
    assert all(sorted(part["replicas"]) == [2, 3] for part in proposed["partitions"])

    wanted = plan(moves("moving", {0: [2, 3], 1: [3, 1]}))
    said = tool("reassign-partitions", f"--execute --reassignment-json-file {wanted} --throttle 1000")
    assert "Successfully started partition reassignments for moving-0,moving-1" in said
    said = tool("reassign-partitions", "--list")
    assert re.search(r"moving-0: replicas: 2,3,1. adding: 3. removing: 1.", said)
    assert "there is an existing partition assignment" in tool(
        "reassign-partitions", f"--execute --reassignment-json-file {wanted}", fails=True
    )
    said = tool("reassign-partitions", f"--verify --reassignment-json-file {wanted} --preserve-throttles")
    assert "Reassignment of partition moving-1 is still in progress." in said
    assert "throttled.rate=1000 " in tool("configs", "--describe --entity-type brokers --entity-name 3")
    assert "throttled.replicas=0:3,1:3 " in tool("configs", "--describe --entity-type topics --entity-name moving")
    said = tool("reassign-partitions", f"--cancel --reassignment-json-file {wanted}")
    assert "Successfully cancelled partition reassignments for: moving-0,moving-1" in said
    assert "No partition reassignments found." in tool("reassign-partitions", "--list")
    assert [sorted(part.replicas) for part in partitions(cluster, "moving").values()] == [[1, 2], [1, 2]]

    tool("reassign-partitions", f"--execute --reassignment-json-file {wanted} --throttle 100000000")
    cluster.wait_until(
        lambda: [part.replicas for part in partitions(cluster, "moving").values()] == [[2, 3], [3, 1]], timeout_s=PATIENCE_S
    )
    said = tool("reassign-partitions", f"--verify --reassignment-json-file {wanted}")
    assert said.count("is completed.") == 2
    assert "Clearing broker-level throttles on brokers 1,2,3" in said
    for kind, name in (("brokers", "3"), ("topics", "moving")):
        assert "throttled" not in tool("configs", f"--describe --entity-type {kind} --entity-name {name}")
    refused = plan(moves("moving", {7: [2, 1]}))
    assert "Unable to find partition: moving-7" in tool(
        "reassign-partitions", f"--execute --reassignment-json-file {refused}", fails=True
    )


def test_settings_changed_at_one_broker_are_told_by_all(cluster: Cluster, tool: Tool, toolbox: Toolbox) -> None:
    tool("configs", "--alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2")
    tool("configs", "--alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000")
    tool("configs", "--alter --entity-type users --entity-name ann --add-config SCRAM-SHA-256=[iterations=8192,password=hush]")
    tool("configs", "--alter --entity-type users --entity-name ann --add-config producer_byte_rate=1000000")
    tool("configs", "--alter --entity-type clients --entity-name app --add-config request_percentage=150")

    def told(node_id: int, arguments: str) -> str:
        address = cluster.members[node_id].address
        return checked(toolbox.run("configs", "--bootstrap-server", address, "--describe", *arguments.split()))

    def has_heard(node_id: int) -> bool:
        return "request_percentage=150.0" in told(node_id, "--entity-type clients")

    for node_id in cluster.members:
        cluster.wait_until(partial(has_heard, node_id))
        users = told(node_id, "--entity-type users --entity-name ann")
        assert "producer_byte_rate=1000000.0" in users
        assert "SCRAM credential configs for user-principal 'ann' are SCRAM-SHA-256=iterations=8192" in users
        assert "message.max.bytes=2000000" in told(node_id, "--entity-type brokers --entity-default")
        assert "log.cleaner.threads=2" in told(node_id, "--entity-type brokers --entity-name 1")
    assert "Cannot update" in tool("configs", "--alter --entity-type brokers --entity-name 1 --add-config broker.id=7", fails=True)
    tool("configs", "--alter --entity-type brokers --entity-name 1 --delete-config log.cleaner.threads")
    tool("configs", "--alter --entity-type brokers --entity-default --delete-config message.max.bytes")


def test_rules_of_access_are_added_listed_and_removed(cluster: Cluster, tool: Tool) -> None:
    added = "--add --allow-principal User:ann --operation Read --topic guarded --group readers"
    assert "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=guarded" in tool("acls", added)
    rule = "(principal=User:ann, host=*, operation=READ, permissionType=ALLOW)"
    cluster.wait_until(lambda: tool("acls", "--list").count(rule) == 2)
    tool("acls", "--remove --topic guarded --resource-pattern-type match --force")
    cluster.wait_until(lambda: tool("acls", "--list").count(rule) == 1)


@pytest.mark.full(seconds=11)
def test_groups_transactions_and_logs_are_described_wherever_they_are(
    cluster: Cluster, tool: Tool, toolbox: Toolbox, plan: Plan, peer_name: str
) -> None:
    tool("topics", "--create --topic data --replica-assignment 1:2:3,2:3:1,3:1:2")
    cluster.wait_in_sync("data", timeout_s=PATIENCE_S)
    fill(cluster, "data", 100)
    assert tool("get-offsets", "--topic data").split() == ["data:0:100", "data:1:100", "data:2:100"]
    cut = [{"topic": "data", "partition": 0, "offset": 40}, {"topic": "data", "partition": 2, "offset": -1}]
    said = tool("delete-records", f"--offset-json-file {plan({'version': 1, 'partitions': cut})}")
    assert "partition: data-0\tlow_watermark: 40" in said
    assert "partition: data-2\tlow_watermark: 100" in said
    assert tool("get-offsets", "--topic data --time earliest").split() == ["data:0:40", "data:1:0", "data:2:100"]

    with Consumer("data", bootstrap_servers=cluster.address, group_id="readers", auto_offset_reset="earliest") as consumer:
        read = 0
        while read < 160:
            read += len(consumer.poll(PATIENCE_S * 1000))
        consumer.commit()
        assert re.search(
            r"readers\s+127.0.0.1:\d+\s+\(\d\)\s+range\s+Stable\s+1", tool("consumer-groups", "--describe --group readers --state")
        )
    assert re.search(r"readers\s+data\s+1\s+100\s+100\s+0", tool("consumer-groups", "--describe --group readers"))
    said = tool("consumer-groups", "--reset-offsets --group readers --topic data:1 --shift-by -10 --execute")
    assert re.search(r"readers\s+data\s+1\s+90", said)
    assert "Deletion of requested consumer groups ('readers') was successful." in tool(
        "consumer-groups", "--delete --group readers"
    )

    with Producer(cluster.address, transactional_id="tx", transaction_timeout_ms=600_000) as producer:
        producer.begin_transaction()
        producer.send("data", b"open", partition=1).result(PATIENCE_S)
        assert re.search(r"tx\s+[123]\s+\d+\s+Ongoing", tool("transactions", "list"))
        for node_id in cluster.members:  # followers know as well as leaders who produces
            said = tool("transactions", f"describe-producers --topic data --partition 1 --broker-id {node_id}")
            assert re.search(r"\s100\s*$", said, re.MULTILINE), said
            assert "ProducerId" in tool("transactions", f"find-hanging --broker-id {node_id}")
        producer.abort_transaction()

    cluster.wait_until(lambda: are_alike(tool("log-dirs", "--describe --topic-list data")), timeout_s=PATIENCE_S)
    assert "UNKNOWN" not in tool("broker-api-versions")
    assert "Cluster ID: " in checked(toolbox.run("cluster", "cluster-id", "--bootstrap-server", cluster.address))
    assert "Feature: " in tool("features", "describe") or peer_name == "apache-kafka"


def are_alike(told: str) -> bool:
    """Whether all brokers have as many bytes of each partition that kafka-log-dirs told of."""
    (line,) = [one for one in told.splitlines() if one.startswith("{")]
    sizes: dict[str, list[int]] = {}
    for of_broker in json.loads(line)["brokers"]:
        for part in (part for directory in of_broker["logDirs"] for part in directory["partitions"]):
            sizes.setdefault(part["partition"], []).append(part["size"])
    return len(sizes) == 3 and all(len(found) == 3 and len(set(found)) == 1 for found in sizes.values())


@pytest.mark.full(seconds=12)
def test_replicas_that_are_compared_do_not_differ(cluster: Cluster, tool: Tool, toolbox: Toolbox) -> None:
    tool("topics", "--create --topic alike --replica-assignment 1:2:3,2:3:1")
    cluster.wait_in_sync("alike", timeout_s=PATIENCE_S)
    fill(cluster, "alike", 50)
    wanted = ("--topics-include", "alike", "--report-interval-ms", "200", "--broker-list", cluster.address, "--time", "-2")
    with subprocess.Popen(
        toolbox.command("replica-verification", *wanted), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        said = [line for line, _ in zip(process.stdout, range(6), strict=False)]
        process.kill()
    assert sum("max lag is 0 for partition alike-" in line for line in said) >= 2, said


# Tools that go to ZooKeeper


@pytest.mark.full(seconds=15)
def test_tools_of_2_8_change_topics_and_settings_in_zookeeper_itself(
    cluster: Cluster, old_toolbox: Toolbox, tool: Tool, plan: Plan
) -> None:
    def old(name: str, arguments: str) -> str:
        return checked(old_toolbox.run(name, "--zookeeper", cluster.registry, *arguments.split()))

    old("topics", "--create --topic old --replica-assignment 1:2:3,3:1:2 --config retention.ms=3600000")
    cluster.wait_until(lambda: len(partitions(cluster, "old")) == 2, timeout_s=PATIENCE_S)
    old("topics", "--alter --topic old --partitions 3 --replica-assignment 1:2:3,3:1:2,2:1:3")
    cluster.wait_until(lambda: len(partitions(cluster, "old")) == 3, timeout_s=PATIENCE_S)
    cluster.wait_in_sync("old", timeout_s=PATIENCE_S)
    assert rows(old("topics", "--describe --topic old"), "old") == [
        (0, "1", "1,2,3", ["1", "2", "3"]),
        (1, "3", "3,1,2", ["1", "2", "3"]),
        (2, "2", "2,1,3", ["1", "2", "3"]),
    ]
    fill(cluster, "old", 10)

    old("configs", "--alter --entity-type topics --entity-name old --add-config retention.ms=7200000")
    old("configs", "--alter --entity-type clients --entity-name older --add-config producer_byte_rate=2000")
    cluster.wait_until(lambda: "retention.ms=7200000" in tool("configs", "--describe --entity-type topics --entity-name old"))
    cluster.wait_until(
        lambda: "producer_byte_rate=2000.0" in tool("configs", "--describe --entity-type clients --entity-name older")
    )

    cluster.stop(3)
    cluster.start(3)
    cluster.wait_in_sync("old", timeout_s=PATIENCE_S)
    assert cluster.leader("old", 1) != 3
    old("preferred-replica-election", f"--path-to-json-file {plan({'partitions': [{'topic': 'old', 'partition': 1}]})}")
    cluster.wait_until(lambda: cluster.leader("old", 1) == 3, timeout_s=PATIENCE_S)

    wanted = plan(moves("old", {0: [3, 2], 1: [2]}))
    old("reassign-partitions", f"--execute --reassignment-json-file {wanted} --throttle 100000000")
    cluster.wait_until(
        lambda: [partitions(cluster, "old")[index].replicas for index in (0, 1)] == [[3, 2], [2]], timeout_s=PATIENCE_S
    )
    cluster.wait_until(
        lambda: "is complete" in old("reassign-partitions", f"--verify --reassignment-json-file {wanted}"), timeout_s=PATIENCE_S
    )
    cluster.wait_until(lambda: "throttled.replicas=0" not in tool("configs", "--describe --entity-type topics --entity-name old"))
    old("topics", "--delete --topic old")
    cluster.wait_until(lambda: "old" not in old("topics", "--list").split(), timeout_s=PATIENCE_S)
