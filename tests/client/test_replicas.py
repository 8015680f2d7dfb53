"""What an admin client and `ottla cluster` say about replicas, leaders and directories: on one broker, where nothing can move."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main
from tests.support.peers import Peer

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(broker: Peer, capsys: pytest.CaptureFixture[str]) -> Run:
    """`ottla cluster` with these words: exit code, output, errors."""

    def command(*words: object) -> tuple[int, str, str]:
        code = main(["cluster", *map(str, words), "--bootstrap-server", broker.address])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def test_a_brokers_directories_tell_what_they_hold(admin: ottla.Admin, topic: str, broker: Peer) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send(topic, b"x" * 1000, partition=1).result(20)
    [(node_id, [directory])] = admin.describe_log_dirs(partitions=[(topic, 0), (topic, 1)]).items()
    assert (directory.error_code, node_id) == (0, admin.describe_cluster().nodes[0].node_id)
    assert directory.replicas[ottla.TopicPartition(topic, 0)] == ottla.ReplicaOnDisk(0, 0, False)
    assert directory.replicas[ottla.TopicPartition(topic, 1)].size_bytes > 1000
    assert set(directory.replicas) == {(topic, 0), (topic, 1)}


def test_no_leader_changes_where_the_first_replicas_lead(admin: ottla.Admin, topic: str) -> None:
    assert admin.elect_leaders([(topic, 0), (topic, 1)]) == []
    assert admin.elect_leaders() == []
    with pytest.raises(ottla.UnknownTopic):
        admin.elect_leaders([(topic, 99)])


def test_nothing_is_on_the_move(admin: ottla.Admin, topic: str) -> None:
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([(topic, 0)]) == {}


def test_the_status_counts_what_is_there(run: Run, topic: str) -> None:
    code, out, _ = run("status", "--json")
    [row] = map(json.loads, out.splitlines())
    assert code == 0
    assert (row["brokers"], row["offline_partitions"], row["moving_partitions"]) == (1, 0, 0)
    assert row["partitions"] == row["replicas"] >= 3
    assert "under-replicated partitions         0" in run("status")[1]


def test_brokers_tell_what_they_lead_and_hold(run: Run, topic: str, broker: Peer) -> None:
    [row] = map(json.loads, run("brokers", "--json")[1].splitlines())
    assert f"{row['host']}:{row['port']}" == broker.address
    assert (row["is_controller"], row["out_of_sync"]) == (True, 0)
    assert row["leads"] == row["replicas"] >= 3
    assert "IS CONTROLLER" in run("brokers")[1]


def test_a_broker_that_is_not_there_cannot_be_drained(run: Run) -> None:
    code, out, err = run("drain", "77")
    assert (code, out) == (2, "")
    assert err.startswith("ottla: Broker 77 is not alive and has no replica: choose among ")


def test_a_property_that_no_client_has_is_refused(run: Run) -> None:
    code, out, err = run("status", "--command-property", "foo=bar")
    assert (code, out) == (2, "")
    assert err == "ottla: -X: clients of commands have no setting foo; leave it out.\n"


def test_partitions_are_filtered_by_what_is_wrong_with_them(run: Run, topic: str) -> None:
    rows = [json.loads(line) for line in run("partitions", "--topic", topic, "--json")[1].splitlines()]
    assert [(row["topic"], row["partition"], row["replicas"] == row["isr"]) for row in rows] == [
        (topic, at, True) for at in range(3)
    ]
    none = "None of 3 partitions is under-replicated or offline.\n"
    assert run("partitions", "--topic", topic, "--under-replicated", "--offline") == (0, none, "")


def test_moves_that_cannot_be_are_told_in_one_sentence(run: Run, topic: str, tmp_path: Path) -> None:
    node_id = json.loads(run("brokers", "--json")[1])["broker"]
    code, _, err = run("drain", node_id)
    assert (code, err.count("\n")) == (2, 1)
    assert "brokers, and 0 are available" in err
    assert run("reassign", "--topic", topic, "--brokers", "4711")[2].startswith("ottla: Broker 4711 is not alive")
    assert run("reassign", "--topic", topic)[1] == "No replica has to be moved.\n"
    assert run("reassign") == (0, "Nothing moves.\n", "")
    plan = tmp_path / "plan.json"
    plan.write_text("[]")
    assert "is not a plan of reassignments: write JSON like" in run("reassign", "--plan", plan)[2]
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 17, "replicas": [node_id]}]}))
    assert f"There is no partition {topic}-17" in run("reassign", "--plan", plan)[2]


def test_leaders_are_elected_of_topics_and_of_partitions(run: Run, topic: str) -> None:
    assert run("elect", "--topic", topic, "--topic", f"{topic}:0") == (0, "0 partitions have a new leader.\n", "")
    assert run("elect", "--topic", f"{topic}:x")[2] == f"ottla: '{topic}:x' is not a partition: write {topic}:0.\n"
