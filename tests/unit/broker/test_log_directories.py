"""A broker with several directories of logs: where partitions are put, and that they are found again after every end."""

from __future__ import annotations

import random

import pytest

from ottla.errors import SettingError
from ottla.log.names import set_aside_name
from ottla.ports import StorageFailed
from ottla.sim.disk import SimDisk
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.errors import INVALID_REPLICATION_FACTOR, INVALID_REQUEST, KAFKA_STORAGE_ERROR, NONE
from tests.support.machine import Machine
from tests.support.messages import request
from tests.support.producing import create, delete, fetch, produce, values

CREATE, LOG_DIRS, GROW, ALTER_CONFIGS = 19, 35, 37, 44
Result = DescribeLogDirsResponse.DescribeLogDirsResult


class SpreadMachine(Machine):
    """A broker with the directories DIR, d2 and d3."""

    _log_dirs = ("d2", "d3")

    def described(self, version: int = 5, topics: list[str] | None = None) -> list[Result]:
        asked = DescribeLogDirsRequest.DescribableLogDirTopic
        wanted = None if topics is None else [asked(topic=topic, partitions=list(range(9))) for topic in topics]
        results: list[Result] = self.ask(LOG_DIRS, version, DescribeLogDirsRequest(topics=wanted)).results
        return results


@pytest.fixture
def machine() -> SpreadMachine:
    return SpreadMachine(log_dirs="/data,d2,d3")


def held(results: list[Result]) -> dict[str, list[tuple[str, int]]]:
    return {
        one.log_dir: [(topic.name, part.partition_index) for topic in one.topics for part in topic.partitions] for one in results
    }


def present(machine: Machine, path: str) -> list[str]:
    return [name for name in machine.disk.list(path) if name.startswith("t")]


def test_new_partitions_are_put_where_the_fewest_are(machine: SpreadMachine) -> None:
    create(machine, "t", 4)
    create(machine, "u", 2)
    assert held(machine.described()) == {"/data": [("t", 0), ("t", 3)], "d2": [("t", 1), ("u", 0)], "d3": [("t", 2), ("u", 1)]}
    assert present(machine, "d2") == ["t-1"]
    delete(machine, "u")
    create(machine, "v", 1)
    assert held(machine.described(topics=["v", "nowhere"])) == {"/data": [], "d2": [("v", 0)], "d3": []}
    assert machine.disk.list("d3") == ["t-2"]


def test_a_start_finds_partitions_where_they_are(machine: SpreadMachine) -> None:
    create(machine, "t", 6)
    for index in range(6):
        produce(machine, b"%d" % index, index=index)
    places = held(machine.described())
    for again in (machine.restart, machine.kill, lambda: machine.cut_power(1)):
        again()
        assert held(machine.described()) == places
        assert [values(machine, index=index) for index in range(6)] == [[b"%d" % index] for index in range(6)]
        assert machine.broker.partitions.are_all_online


def test_a_directory_that_somebody_moved_between_starts_is_found(machine: SpreadMachine) -> None:
    create(machine, "t", 2)
    produce(machine, b"0")
    assert machine.broker.close()
    machine.disk.rename("t-0", "d3/t-0")
    machine.disk.kill()
    machine.broker = machine._start(clean=True)
    assert values(machine) == [b"0"]
    assert held(machine.described()) == {"/data": [], "d2": [("t", 1)], "d3": [("t", 0)]}


def test_a_partition_in_two_places_stops_the_start(machine: SpreadMachine) -> None:
    create(machine, "t", 2)
    machine.disk.make_dir("d3/t-1")
    with pytest.raises(StorageFailed, match="d3/t-1: this partition is also in d2/t-1: move the wrong one elsewhere"):
        machine.kill()


@pytest.mark.expects_errors("the directory is missing")
def test_a_missing_directory_takes_its_partition_offline_and_no_other(machine: SpreadMachine) -> None:
    create(machine, "t", 3)
    for index in range(3):
        produce(machine, b"%d" % index, index=index)
    assert machine.broker.close()
    machine.disk.remove_tree("d2/t-1")
    machine.disk.kill()
    machine.broker = machine._start(clean=True)
    assert [fetch(machine, index=index)[0] for index in range(3)] == [NONE, KAFKA_STORAGE_ERROR, NONE]
    assert present(machine, "d2") == []
    delete(machine, "t")
    create(machine, "t", 3)
    assert [fetch(machine, index=index)[0] for index in range(3)] == [NONE, NONE, NONE]
    assert sorted(map(len, held(machine.described()).values())) == [1, 1, 1]


def test_leftovers_of_deletions_are_removed_everywhere(machine: SpreadMachine) -> None:
    create(machine, "t", 1)
    gone = set_aside_name("d2/old-7", "0" * 32, "-delete")
    machine.disk.make_dir(gone)
    assert gone == f"d2/old-7.{'0' * 32}-delete"
    machine.restart()
    assert machine.disk.list("d2") == []


def test_the_new_name_of_a_long_topic_in_another_directory_fits() -> None:
    name = set_aside_name(f"/{'d' * 300}/{'t' * 249}-0", "0" * 32, "-delete")
    above, _, last = name.rpartition("/")
    assert (above, len(last)) == (f"/{'d' * 300}", 255)


class FailingDisk(SimDisk):
    """A disk of which one directory fails: neither new names nor syncs are possible there."""

    def may(self, operation: str, path: str, size: int = 0) -> None:
        if operation in ("make_dir", "sync", "sync_dir", "rename") and f"{path}/".startswith("d2/"):
            raise StorageFailed(path, "Input/output error")
        super().may(operation, path, size)


@pytest.mark.expects_errors("Input/output error")
def test_a_directory_that_fails_takes_its_partitions_offline_and_no_others(machine: SpreadMachine) -> None:
    create(machine, "t", 3)
    create(machine, "u", 1)
    delete(machine, "u")
    machine.disk.__class__ = FailingDisk
    codes = [produce(machine, b"v", index=index).error_code for index in range(3)]
    assert codes == [NONE, KAFKA_STORAGE_ERROR, NONE]
    create(machine, "v", 3)
    assert [produce(machine, b"v", topic="v", index=index).error_code for index in range(3)] == [NONE, NONE, NONE]
    assert held(machine.described(topics=["v"]))["d2"] == []
    delete(machine, "v")
    assert [name for name in machine.disk.list("d3") if name.startswith("v")] == []
    machine.disk.__class__ = SimDisk
    machine.kill()
    assert [values(machine, index=index) for index in (0, 2)] == [[b"v"], [b"v"]]
    assert machine.broker.partitions.are_all_online
    assert len(held(machine.described(topics=["t"]))["d2"]) == 1


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_or_doubled_by_power_cuts(seed: int) -> None:
    """Topics come and go in all directories; a name that is deleted in one is used again in another."""
    chance = random.Random(seed)
    machine = SpreadMachine(log_dirs="/data,d2,d3")
    counts: dict[str, list[int]] = {}
    for step in range(25):
        topic = chance.choice("tuv")
        if topic not in counts:
            create(machine, topic, chance.randint(1, 4))
            counts[topic] = [0] * len(machine.broker.image.topics[topic].partitions)
        elif chance.random() < 0.3:
            delete(machine, topic)
            del counts[topic]
        else:
            index = chance.randrange(len(counts[topic]))
            assert produce(machine, b"%d" % step, topic=topic, index=index).error_code == NONE
            counts[topic][index] += 1
        if chance.random() < 0.3:
            machine.cut_power(chance.randrange(1 << 30)) if chance.random() < 0.7 else machine.kill()
            found = {name: [len(values(machine, name, index)) for index in range(len(each))] for name, each in counts.items()}
            assert found == counts
    assert sum(map(len, held(machine.described()).values())) == sum(map(len, counts.values()))


def test_cordoned_directories_get_no_new_partitions_while_there_are_others(machine: SpreadMachine) -> None:
    machine = SpreadMachine(log_dirs="/data,d2,d3", cordoned_log_dirs="/data,d3")
    create(machine, "t", 3)
    assert held(machine.described())["d2"] == [("t", 0), ("t", 1), ("t", 2)]
    assert [one.is_cordoned for one in machine.described()] == [True, False, True]
    assert [one.is_cordoned for one in machine.described(version=4)] == [False, False, False]
    assert cordon(machine, "d2") == NONE
    create(machine, "u", 2)
    assert held(machine.described(topics=["u"])) == {"/data": [("u", 0)], "d2": [], "d3": [("u", 1)]}


def cordon(machine: Machine, entries: str) -> int:
    """Set cordoned.log.dirs of the broker, and return the error code."""
    configs = [{"name": "cordoned.log.dirs", "config_operation": 0, "value": entries}]
    asked = request(ALTER_CONFIGS, 1, resources=[{"resource_type": 4, "resource_name": "1", "configs": configs}])
    code: int = machine.ask(ALTER_CONFIGS, 1, asked).responses[0].error_code
    return code


@pytest.mark.parametrize("entries", ["/nowhere", "*,/data", "/data,/nowhere", "/data/", "d2,*"])
def test_a_cordon_names_directories_that_there_are(machine: SpreadMachine, entries: str) -> None:
    assert cordon(machine, "d2") == NONE
    assert cordon(machine, entries) == INVALID_REQUEST
    assert [one.is_cordoned for one in machine.described()] == [False, True, False]
    with pytest.raises(SettingError, match=r"cordoned\.log\.dirs"):
        SpreadMachine(log_dirs="/data,d2,d3", cordoned_log_dirs=entries)


@pytest.mark.parametrize("entries", ["*", "d2,/data,d3"])
def test_with_all_directories_cordoned_new_replicas_are_those_assigned_by_hand(machine: SpreadMachine, entries: str) -> None:
    create(machine, "t", 1)
    assert cordon(machine, entries) == NONE
    by_hand = [{"partition_index": 0, "broker_ids": [1]}]
    for wanted, code in (
        ({"num_partitions": 1, "replication_factor": 1}, INVALID_REPLICATION_FACTOR),
        ({"num_partitions": 1, "replication_factor": 2}, INVALID_REPLICATION_FACTOR),
        ({"num_partitions": -1, "replication_factor": -1, "assignments": by_hand}, NONE),
    ):
        (topic,) = machine.ask(CREATE, 7, request(CREATE, 7, topics=[{"name": "u", **wanted}])).topics
        assert topic.error_code == code, topic.error_message
        assert not code or "cordoned" in topic.error_message
    for count, assignments, code in ((2, None, INVALID_REPLICATION_FACTOR), (2, [{"broker_ids": [1]}], NONE)):
        grown = {"name": "t", "count": count, "assignments": assignments}
        (result,) = machine.ask(GROW, 3, request(GROW, 3, topics=[grown], timeout_ms=1000)).results
        assert result.error_code == code, result.error_message
    assert cordon(machine, "d2") == NONE
    create(machine, "v", 1)


def test_a_directory_that_does_not_answer_is_shown_as_failed(machine: SpreadMachine) -> None:
    create(machine, "t", 3)
    with pytest.MonkeyPatch.context() as patch:

        def room(path: str = "") -> tuple[int, int]:
            if path == "d2":
                raise StorageFailed(path, "Input/output error")
            return 10, 5

        patch.setattr(machine.disk, "room", room)
        results = machine.described()
    assert [(one.error_code, one.total_bytes) for one in results] == [(NONE, 10), (KAFKA_STORAGE_ERROR, -1), (NONE, 10)]
    assert held(results) == {"/data": [("t", 0)], "d2": [], "d3": [("t", 2)]}
