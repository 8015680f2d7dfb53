"""Data directories that are not as a broker left them: mended where a file is derived, refused in one sentence where it is data."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from ottla.testing import BrokerProcess, DidNotStart
from tests.support.frames import Batch, Raw

COUNT = 40
LOG = "00000000000000000000.log"
REGISTRY = ("registry", "registry.copy")
OTHER = "version=1\ncluster.id=other\nnode.id=1\ndirectory.id=x\n"
JOURNAL = "00000000000000000000.journal"
NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR = 6, 56
NOBODY = 65_534
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2

pytestmark = pytest.mark.interop
Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics of one partition, stopped in order."""
    directory = tmp_path_factory.mktemp("good") / "data"
    with BrokerProcess(directory, {"num.partitions": 1}) as broker, Raw(broker.address) as raw:
        for topic in ("a", "b"):
            assert raw.create_topic(topic) == 0
            for number in range(COUNT):
                assert raw.produce(topic, Batch((b"%d" % number * 100,)).encode()) == (0, number)
    return directory


def changed(good: Path, tmp_path: Path, change: Change) -> BrokerProcess:
    shutil.copytree(good, tmp_path / "data")
    change(tmp_path / "data")
    return BrokerProcess(tmp_path / "data")


def count(address: str, topic: str) -> int:
    with Raw(address) as raw:
        code, high_watermark, records = raw.fetch(topic, 0, max_bytes=1 << 20)
        assert code in (0, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR)
        return high_watermark if code == 0 and records else -1


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def zero_last_line(path: Path) -> None:
    data = path.read_bytes()
    begin = data.rindex(b"\n", 0, data.rindex(b"\n")) + 1
    path.write_bytes(data[:begin] + bytes(len(data) - begin))


def unlink(at: Path, pattern: str) -> None:
    for path in at.glob(pattern):
        path.unlink()


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def as_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMLESS: dict[str, Change] = {
    "foreign directories": lambda at: os.mkdir(at / "a-0" / "mine"),
    "foreign files": lambda at: [(at / name).write_text("mine") for name in ("notes.txt", "a-0/notes.txt", LOG, "a-x")],
    "no indexes": lambda at: unlink(at, "a-0/*index"),
    "empty indexes": lambda at: [path.write_bytes(b"") for path in (at / "a-0").glob("*index")],
    "indexes of a wrong size": lambda at: [path.write_bytes(b"x" * 13) for path in (at / "a-0").glob("*index")],
    "a torn snapshot": lambda at: [path.write_bytes(b"x" * 5) for path in (at / "a-0").glob("*.snapshot")],
    "no snapshot": lambda at: unlink(at, "a-0/*.snapshot"),
    "spoilt epochs": lambda at: (at / "a-0" / "leader-epoch-checkpoint").write_bytes(b"\xff\x00"),
    "a spoilt topic id": lambda at: (at / "a-0" / "partition.metadata").write_bytes(b"\xff\x00"),
    "spoilt checkpoints": lambda at: [path.write_bytes(b"\xff") for path in at.glob("*-checkpoint")],
    "checkpoints of tomorrow": lambda at: [path.write_bytes(b"9\n1\na 0 1 2\n") for path in at.glob("*-checkpoint")],
    "half a registry": lambda at: shutil.rmtree(at / "registry"),
    "the other half of a registry": lambda at: os.truncate(at / "registry.copy" / JOURNAL, 100),
    "a flipped bit in the registry": lambda at: flip(at / "registry" / JOURNAL, 200),
    "a leftover of a deleted topic": lambda at: os.mkdir(at / f"gone-0.{'0' * 32}-delete"),
}


@pytest.mark.parametrize("what", HARMLESS)
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.rows(2, seconds=1)
def test_what_is_derived_or_foreign_does_no_harm(good: Path, tmp_path: Path, what: str, clean: bool) -> None:
    broker = changed(good, tmp_path, HARMLESS[what])
    if not clean:
        (broker.data_dir / ".kafka_cleanshutdown").unlink()
    with broker:
        assert [count(broker.address, topic) for topic in ("a", "b")] == [COUNT, COUNT]
        assert "Traceback" not in broker.log
        assert "ERROR" not in broker.log
    assert not list(broker.data_dir.glob("*-stray"))


OFFLINE: dict[str, tuple[Change, str]] = {
    "a log cut short": (lambda at: os.truncate(at / "a-0" / LOG, 1000), "a-0/00000000000000000000.log: at byte "),
    "a log with more": (
        lambda at: (at / "a-0" / LOG).write_bytes((at / "a-0" / LOG).read_bytes() + b"x" * 70),
        "the last batch is incomplete",
    ),
    "an empty log": (lambda at: (at / "a-0" / LOG).write_bytes(b""), "everything below 40 had been synced"),
    "no log": (lambda at: os.unlink(at / "a-0" / LOG), "everything below 40 had been synced"),
    "no directory": (lambda at: shutil.rmtree(at / "a-0"), "the directory is missing, though it held records below offset 40"),
    "a file as directory": (lambda at: as_file(at / "a-0"), "a-0: Not a directory"),
    "a directory as log": (lambda at: as_directory(at / "a-0" / LOG), f"a-0/{LOG}: Is a directory"),
    "another topic's directory": (
        lambda at: shutil.copy(at / "b-0" / "partition.metadata", at / "a-0"),
        "the directory belongs to another topic of that name",
    ),
    "a partition of tomorrow": (
        lambda at: (at / "a-0" / "partition.metadata").write_text("version: 3\ntopic_id: x\n"),
        "the partition has format 3, newer than 0: use the newer version that wrote it.",
    ),
    "a batch of tomorrow": (lambda at: flip(at / "a-0" / LOG, 16), "batches have format 3, newer than 2"),
}


@pytest.mark.expects_errors("is offline")
@pytest.mark.parametrize("what", OFFLINE)
@pytest.mark.rows(1, seconds=1)
def test_a_partition_whose_data_is_not_as_it_was_is_offline_and_left_alone(good: Path, tmp_path: Path, what: str) -> None:
    change, sentence = OFFLINE[what]
    broker = changed(good, tmp_path, change)
    if what == "a batch of tomorrow":
        (broker.data_dir / ".kafka_cleanshutdown").unlink()
        (broker.data_dir / "recovery-point-offset-checkpoint").unlink()
    before = {path.name: path.read_bytes() for path in broker.data_dir.glob("a-0/*.log") if path.is_file()}
    with broker:
        assert count(broker.address, "b") == COUNT
        assert count(broker.address, "a") == -1
        lines = [line for line in broker.log.splitlines() if "ERROR" in line]
        assert len(lines) == 1, broker.log
        assert "a-0 is offline: " in lines[0]
        assert sentence in lines[0]
        assert "Traceback" not in broker.log
    after = {path.name: path.read_bytes() for path in broker.data_dir.glob("a-0/*.log") if path.is_file()}
    assert after == before


REFUSED: dict[str, tuple[Change, str]] = {
    "an unreadable meta.properties": (
        lambda at: (at / "meta.properties").write_bytes(b"\xff\x00=1\n"),
        "cannot be parsed: restore",
    ),
    "an empty meta.properties": (lambda at: (at / "meta.properties").write_bytes(b""), "is missing or empty, although"),
    "no meta.properties": (lambda at: os.unlink(at / "meta.properties"), "is missing or empty, although"),
    "a format of tomorrow": (
        lambda at: (at / "meta.properties").write_text("version=9\nnode.id=1\n"),
        "has format 9, newer than 1",
    ),
    "another cluster's meta.properties": (
        lambda at: (at / "meta.properties").write_text(f"{OTHER}#crc32={crc32(OTHER.encode()):08x}\n"),
        "its registry belongs to the cluster ",
    ),
    "a flipped bit in meta.properties": (lambda at: flip(at / "meta.properties", 30), "was changed since it was written: restore"),
    "both halves of the registry gone": (
        lambda at: list(map(remove, (at / name for name in REGISTRY))),
        "there is no journal in registry and registry.copy, but registry.commits counts ",
    ),
    "both halves of the registry shorter": (
        lambda at: list(map(zero_last_line, (at / name / JOURNAL for name in REGISTRY))),
        ", but registry.commits counts ",
    ),
    "no registry": (
        lambda at: list(map(remove, (at / name for name in (*REGISTRY, "registry.commits")))),
        "it has partitions such as a-0, and no registry with them",
    ),
    "a spoilt registry": (
        lambda at: [(at / name / JOURNAL).write_bytes(b"x" * 5000) for name in REGISTRY],
        "the registry is damaged twice",
    ),
    "partitions from elsewhere": (
        lambda at: shutil.copytree(at / "a-0", at / "c-0"),
        "it has partitions without an entry in the registry, c-0: move them elsewhere, or adopt them",
    ),
    "a directory as checkpoint": (lambda at: as_directory(at / "recovery-point-offset-checkpoint"), "Is a directory"),
}


def refusal(broker: BrokerProcess) -> str:
    with pytest.raises(DidNotStart) as caught:
        broker.start()
    assert caught.value.code == 1, caught.value.log
    lines = [line for line in caught.value.log.splitlines() if " INFO " not in line]
    assert len(lines) == 1, caught.value.log
    return lines[0]


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.rows(1, seconds=1)
def test_a_directory_that_is_not_known_is_refused_in_one_sentence_and_left_alone(good: Path, tmp_path: Path, what: str) -> None:
    change, sentence = REFUSED[what]
    broker = changed(good, tmp_path, change)
    assert sentence in refusal(broker)
    assert (broker.data_dir / "a-0" / LOG).read_bytes() == (good / "a-0" / LOG).read_bytes()
    assert not list(broker.data_dir.glob("*-stray"))


def without_privileges() -> None:
    """Let permissions bind root, too: what it executes has no capability to pass over them."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.expects_errors("is offline")
@pytest.mark.parametrize("what", ["data", "data/a-0", f"data/a-0/{LOG}", "data/meta.properties", f"data/registry/{JOURNAL}"])
@pytest.mark.rows(2)
def test_files_of_somebody_else_are_told_in_one_sentence(good: Path, tmp_path: Path, what: str) -> None:
    shutil.copytree(good, tmp_path / "data")
    if os.geteuid() == 0:
        os.chown(tmp_path / what, NOBODY, NOBODY)
        (tmp_path / what).chmod(0o700 if (tmp_path / what).is_dir() else 0o600)
    else:
        (tmp_path / what).chmod(0)
    broker = BrokerProcess(tmp_path / "data", prepare=without_privileges)
    try:
        if what.startswith("data/a-0"):
            with broker:
                assert count(broker.address, "b") == COUNT
                [line] = [line for line in broker.log.splitlines() if "ERROR" in line]
                assert "a-0 is offline: " in line
                assert "Permission denied" in line
                assert "Traceback" not in broker.log
        else:
            assert str(broker.data_dir) in refusal(broker)
    finally:
        (tmp_path / what).chmod(0o700)
