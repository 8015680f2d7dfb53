"""The findings of `ottla doctor` about releases, partitions and disks, which need no broker."""

from __future__ import annotations

import pytest

from ottla.cli.doctor.cluster_state import check_clock, check_directory, check_partitions
from ottla.cli.doctor.disk import judge
from ottla.cli.doctor.disk_costs import APPEND, DIRECT, ONE_BY_ONE, ROOM, THREADS, DiskCost
from ottla.cli.doctor.findings import FAIL, OK, WARN
from ottla.client.admin.quorum import QuorumDescription, QuorumReplica
from ottla.client.admin.replicas import LogDir, ReplicaOnDisk
from ottla.client.connection.metadata import Metadata, PartitionInfo, TopicInfo
from ottla.client.types import TopicPartition
from ottla.wire import releases


@pytest.mark.parametrize("name", releases.NAMES)
def test_each_release_is_known_by_its_versions(name: str) -> None:
    found = releases.release_like(releases.highest(name))
    assert found is not None
    assert releases.highest(found) == releases.highest(name)


def test_a_broker_that_lacks_apis_or_is_newer_is_like_the_nearest_release() -> None:
    newer = {key: version + 1 for key, version in releases.highest(releases.NAMES[-1]).items()}
    assert releases.release_like(newer) == releases.NAMES[-1]
    without_controllers = {
        key: version for key, version in releases.highest("3.9").items() if key not in (4, 5, 6, 7, 52, 53, 54, 56)
    }
    assert releases.release_like(without_controllers) == "3.9"
    assert releases.release_like({0: -1}) is None


@pytest.mark.parametrize(
    ("then_ms", "status", "said"),
    [
        (100_500, OK, "agrees"),
        (98_500, OK, "agrees"),
        (161_000, WARN, "60 s ahead of"),
        (40_000, WARN, "60 s behind"),
        (-1, OK, "not checked"),
    ],
)
def test_the_clock_of_the_controller(then_ms: int, status: str, said: str) -> None:
    voters = [QuorumReplica(1, 5, then_ms, then_ms, bytes(16)), QuorumReplica(2, 5, 0, 0, bytes(16))]
    found = check_clock(QuorumDescription(1, 3, 5, voters, [], {}), 100.0, 101.0)
    assert (found.status, said in found.sentence) == (status, True)


def metadata(*partitions: PartitionInfo) -> Metadata:
    made = Metadata()
    made.topics = {"t": TopicInfo("t", bytes(16), 0, False, {each.partition: each for each in partitions})}
    return made


@pytest.mark.parametrize(
    ("partitions", "found"),
    [
        ([], [(OK, "none yet.")]),
        ([PartitionInfo(0, 1, 0, 0, [1, 2], [2, 1])], [(OK, "all 1 partitions of 1 topics have a leader")]),
        ([PartitionInfo(0, 1, 0, 0, [1, 2], [1])], [(WARN, "under-replicated: t-0. ")]),
        ([PartitionInfo(0, -1, 0, 5, [1, 2], [1])], [(FAIL, "without a leader: t-0. ")]),
        ([PartitionInfo(0, -1, 0, 5, [1], []), PartitionInfo(1, 1, 0, 0, [1, 2], [1])], [(FAIL, "without"), (WARN, "under-repl")]),
        ([PartitionInfo(n, -1, 0, 5, [1], []) for n in range(7)], [(FAIL, "without a leader: t-0, t-1, t-2, t-3, t-4 and 2 more")]),
    ],
)  # fmt: skip
def test_partitions(partitions: list[PartitionInfo], found: list[tuple[str, str]]) -> None:
    findings = list(check_partitions(metadata(*partitions)))
    assert [each.status for each in findings] == [status for status, _ in found]
    assert all(each.sentence.startswith(words) for each, (_, words) in zip(findings, found, strict=True))


@pytest.mark.parametrize(
    ("error", "total", "usable", "status"),
    [(0, 100, 50, OK), (0, 100, 14, WARN), (0, 100, 4, FAIL), (56, -1, -1, FAIL), (0, -1, -1, OK), (0, 0, 0, OK)],
)
def test_directories(error: int, total: int, usable: int, status: str) -> None:
    replicas = {TopicPartition("t", 0): ReplicaOnDisk(1000, 0, False)}
    finding = check_directory(1, LogDir("/data", error, total, usable, replicas))
    assert finding.status == status
    assert "/data of broker 1" in finding.sentence


def costs(**p50_ms: float) -> dict[str, DiskCost]:
    ways = {"append": APPEND, "room": ROOM, "direct": DIRECT, "one_by_one": ONE_BY_ONE, "threads": THREADS}
    return {ways[name]: DiskCost(ways[name], ms, 9.0, 100) for name, ms in p50_ms.items()}


def test_the_cost_of_a_disk_is_that_of_one_write_in_the_journal() -> None:
    found = judge(costs(append=1.19, room=0.9, direct=0.11223, one_by_one=9.9, threads=12.0))
    assert found.status == OK
    assert found.sentence == (
        "acks=all takes about 0.112 ms here for all partitions together, by one direct write in the journal; "
        "without it, one partition takes 1.19 ms and 50 take 9.9 ms."
    )
    found = judge(costs(append=12.0, room=9.0, one_by_one=600.0, threads=123.4))
    assert "9.0 ms here for all partitions together, by one write and one sync in the journal" in found.sentence
    assert found.sentence.endswith("one partition takes 12.0 ms and 50 take 123.0 ms.")


def test_a_disk_that_syncs_in_no_time_is_none() -> None:
    found = judge(costs(append=0.0012, room=0.001, direct=0.001, one_by_one=0.05, threads=0.5))
    assert (found.status, "1.2 µs" in found.sentence) == (WARN, True)
