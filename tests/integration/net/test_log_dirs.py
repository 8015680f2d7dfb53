"""Brokers with several directories of logs on real disks: starts and ends, refusals, and what tools find there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main
from ottla.client.errors import BrokerError
from ottla.net.startup.data_directory import LOG_DIRS, DataDirectory, DataDirectoryError, read_properties
from ottla.testing.process import BrokerProcess
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE
from tests.support.waiting import eventually

PARTITIONS = 6


@contextmanager
def broker(home: Path, *names: str) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(home / "data"), log_dirs=",".join(str(home / name) for name in names)) as running:
        yield running


def fill(address: str) -> None:
    with ottla.Admin(address) as admin:
        admin.create_topic("t", PARTITIONS)
    with ottla.Producer(address) as producer:
        for index in range(PARTITIONS):
            producer.send("t", b"%d" % index, partition=index).result(20)


def read(address: str) -> list[bytes | None]:
    with ottla.Consumer("t", bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        found: list[bytes | None] = []
        while len(found) < PARTITIONS:
            found += [record.value for record in consumer.poll(5000)]
        return sorted(found, key=str)


def partitions_in(path: Path) -> int:
    return len(list(path.glob("t-*")))


ALL = [b"%d" % index for index in range(PARTITIONS)]


def test_partitions_are_spread_and_found_after_a_stop_and_a_kill(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("data", "d2", "d3")]
    wanted = {"log.dirs": f"{homes[1]},{homes[2]}"}
    with BrokerProcess(homes[0], settings=wanted) as running:
        fill(running.address)
        assert [partitions_in(home) for home in homes] == [2, 2, 2]
        running.kill()
        running.start()
        assert read(running.address) == ALL
        with ottla.Admin(running.address) as admin:
            [found] = admin.describe_log_dirs().values()
            assert [(one.path, len(one.replicas)) for one in found] == [(str(home), 2) for home in homes]
            assert {one.total_bytes > 0 for one in found} == {True}
            assert admin.describe_broker_configs(1)["log.dirs"].value == ",".join(map(str, homes))
    ids = [read_properties(str(home)) for home in homes]
    assert len({one["directory.id"] for one in ids}) == 3
    assert {(one["cluster.id"], one["node.id"]) for one in ids} == {(ids[0]["cluster.id"], "1")}


def test_a_broker_of_a_cluster_has_several_directories(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("data", "d2")]
    arguments = ("--registry", f"sqlite:{tmp_path / 'registry'}", "--node-id", "3")
    with BrokerProcess(homes[0], {"log.dirs": homes[1]}, arguments=arguments) as running:
        fill(running.address)
        assert [partitions_in(home) for home in homes] == [3, 3]
        running.restart(kill=True)
        assert read(running.address) == ALL
        with ottla.Admin(running.address) as admin:
            admin.delete_topics("t")
            eventually(lambda: [partitions_in(home) for home in homes] == [0, 0])
        fill(running.address)
        assert read(running.address) == ALL
    assert [read_properties(str(home))["broker.id"] for home in homes] == ["3", "3"]


def test_a_directory_that_holds_partitions_must_be_there(tmp_path: Path) -> None:
    with broker(tmp_path, "d2") as running:
        fill(running.address)
    for names in ((), ("d3",)):
        with pytest.raises(
            DataDirectoryError, match=r"has partitions in .*/d2, which is not in log.dirs or not the same directory"
        ):
            broker(tmp_path, *names).__enter__()
    shutil.move(tmp_path / "d2", tmp_path / "elsewhere")
    with pytest.raises(DataDirectoryError, match="name or mount it, or if it is lost, remove its line from"):
        broker(tmp_path, "d2").__enter__()
    assert not (tmp_path / "d2" / "meta.properties").exists(), "what is mounted there later has its own"
    with broker(tmp_path, "elsewhere") as running:
        assert read(running.address) == ALL


@pytest.mark.expects_errors("another directory has its place")
def test_a_directory_below_an_unmounted_disk_gets_no_partitions(tmp_path: Path) -> None:
    with broker(tmp_path, "d2") as running, ottla.Admin(running.address) as admin:
        (tmp_path / "d2").rename(tmp_path / "unmounted")
        (tmp_path / "d2").mkdir()
        fill(running.address)
        assert (partitions_in(tmp_path / "data"), list((tmp_path / "d2").iterdir())) == (PARTITIONS, [])
        with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
            admin.alter_replica_log_dirs(1, {("t", 0): str(tmp_path / "d2")}, timeout_ms=2_000)
        [found] = admin.describe_log_dirs().values()
        assert [each.error_code for each in found] == [NONE, KAFKA_STORAGE_ERROR]
        shutil.rmtree(tmp_path / "d2")
        (tmp_path / "unmounted").rename(tmp_path / "d2")
        admin.alter_replica_log_dirs(1, {("t", 0): str(tmp_path / "d2")})
        eventually(lambda: partitions_in(tmp_path / "d2") == 1)
        assert read(running.address) == ALL


def test_an_empty_directory_may_leave_after_an_orderly_stop(tmp_path: Path) -> None:
    with broker(tmp_path, "d2") as running:
        fill(running.address)
        with ottla.Admin(running.address) as admin:
            admin.delete_topics("t")
    assert (tmp_path / "data" / LOG_DIRS).read_text() == ""
    with broker(tmp_path) as running:
        fill(running.address)
    assert partitions_in(tmp_path / "data") == PARTITIONS


def test_directories_of_others_are_refused_and_left_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        first = DataDirectory.open(str(tmp_path / name), node_id=1)
        first.open_log_dirs([str(tmp_path / f"{name}-2")])
        first.close()
    (tmp_path / "with" / "registry").mkdir(parents=True)
    before = (tmp_path / "two-2" / "meta.properties").read_bytes()
    first = DataDirectory.open(str(tmp_path / "one"))
    for name, sentence in (
        ("two-2", "in log.dirs belongs to cluster.id"),
        ("with", "has a registry of its own: name it with --data-dir"),
    ):
        with pytest.raises(DataDirectoryError, match=sentence):
            first.open_log_dirs([str(tmp_path / name)])
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="it is a file; choose a directory"):
        first.open_log_dirs([str(tmp_path / "file")])
    first.release()
    assert (tmp_path / "two-2" / "meta.properties").read_bytes() == before
    with pytest.raises(DataDirectoryError, match=r"two-2 is in the log.dirs of the data directory .*/two: name that one"):
        DataDirectory.open(str(tmp_path / "two-2"))


def test_all_directories_are_locked_and_let_go(tmp_path: Path) -> None:
    first = DataDirectory.open(str(tmp_path / "one"))
    first.open_log_dirs([str(tmp_path / "two"), str(tmp_path / "two" / "."), str(tmp_path / "one")])
    assert first.log_dirs == [str(tmp_path / "two" / ".").rstrip("/.")]
    other = DataDirectory.open(str(tmp_path / "other"))
    with pytest.raises(DataDirectoryError, match="in use by another broker"):
        other.open_log_dirs([str(tmp_path / "two")])
    first.close()
    other.release()
    again = DataDirectory.open(str(tmp_path / "one"))
    again.open_log_dirs([str(tmp_path / "two")])
    again.close()


def test_tools_find_what_is_in_all_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with broker(tmp_path, "d2") as running:
        fill(running.address)
    data = str(tmp_path / "data")
    assert main(["log", "check", data]) == 0
    assert main(["registry", "check", data]) == 0
    assert main(["log", "check", str(tmp_path / "d2")]) == 1
    assert "is in the log.dirs of the data directory" in capsys.readouterr().err
    place, other = list((tmp_path / "d2").glob("t-*"))[:2]
    segment = place / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-1] + b"~")
    assert main(["log", "check", data]) == 1
    assert f"damaged: {segment}" in capsys.readouterr().out
    assert main(["log", "check", "--repair", data]) == 0
    shutil.rmtree(other)
    assert main(["registry", "check", data]) == 1


def test_brokers_of_one_command_do_not_share_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "serve",
        "--data-dir",
        str(tmp_path),
        "--processes",
        "2",
        "--listen",
        "127.0.0.1:0",
        "--set",
        f"log.dirs={tmp_path / 'd2'}",
    ]
    assert main(words) == 2
    assert "--processes cannot share log.dirs among brokers" in capsys.readouterr().err
