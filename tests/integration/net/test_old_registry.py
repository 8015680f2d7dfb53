"""Data directories whose registry is still a SQLite file: it is taken over, or refused, and never begun anew beside records."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import ottla
from ottla.net.disk.disk import RealDisk
from ottla.net.startup.data_directory import OLD_REGISTRY, DataDirectoryError
from ottla.net.startup.old_registry import IMPORTED
from ottla.registry.count import COUNT
from ottla.registry.generations import DIRECTORIES
from ottla.registry.journal import JournalRegistry

SCHEMA = """
CREATE TABLE entry (
    path TEXT PRIMARY KEY, parent TEXT NOT NULL, value BLOB NOT NULL, version INTEGER NOT NULL, ephemeral INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX by_parent ON entry (parent);
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A data directory with a topic, as the version before left it when it was killed: all entries are in the write-ahead log."""
    path = tmp_path / "data"
    with ottla.Broker(str(path)) as broker, ottla.Producer(broker.address) as producer:
        producer.send("t", b"v").result(20)
    with closing(RealDisk(str(path), lambda call: None)) as disk:
        entries = JournalRegistry.open(disk)._tree.entries()
    for name in DIRECTORIES:
        shutil.rmtree(path / name)
    (path / COUNT).unlink()
    with closing(sqlite3.connect(path / OLD_REGISTRY, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(SCHEMA)
        rows = [(name, name.rpartition("/")[0], node.value, node.version, int(node.ephemeral)) for name, node in entries]
        database.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", rows)
        database.execute("INSERT INTO entry VALUES ('/controller', '', x'7b7d', 0, 1)")
        for suffix in ("", "-wal"):
            shutil.copy(path / (OLD_REGISTRY + suffix), tmp_path / ("kept" + suffix))
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / ("kept" + suffix), path / (OLD_REGISTRY + suffix))
    return path


def test_an_old_registry_is_taken_over_with_its_log_and_kept(old: Path) -> None:
    for _ in range(2):
        with ottla.Broker(str(old)) as broker, ottla.Producer(broker.address) as producer:
            assert producer.send("t", b"v", partition=0).result(20).offset >= 1
        assert not (old / OLD_REGISTRY).exists()
        assert (old / IMPORTED).exists()
        assert not list(old.glob("*-stray"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def no_database(at: Path) -> None:
    (at / (OLD_REGISTRY + "-wal")).unlink()
    (at / OLD_REGISTRY).write_bytes(b"no database, and long enough to be looked at" * 100)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda at: flip(at / (OLD_REGISTRY + "-wal"), 100), "partitions such as t-0"),
        (lambda at: (at / (OLD_REGISTRY + "-wal")).unlink(), "partitions such as t-0"),
        (no_database, "not a database"),
    ],
    ids=["a flipped bit in its log", "no log", "no database"],
)
def test_an_old_registry_that_lost_its_topics_is_refused_and_no_directory_renamed(
    old: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    before = sorted(path.name for path in old.glob("t-*"))
    damage(old)
    with pytest.raises(DataDirectoryError, match=sentence):
        ottla.Broker(str(old)).start()
    assert sorted(path.name for path in old.glob("t-*")) == before
