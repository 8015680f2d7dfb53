"""`ottla registry check` of registries that brokers share: what is damaged in them, and what nobody can understand."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from ottla.cli.main import main
from ottla.net.sqlite.tables import FILE
from ottla.ports import Change
from tests.support.shared_users import HostUser
from tests.support.zookeeper import started

LONG_MS = 60_000


def check(capsys: pytest.CaptureFixture[str], address: str, *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["registry", "check", address, *words])
    said = capsys.readouterr()
    return code, said.out + said.err


def at(folder: Path) -> dict[str, Any]:
    """The settings of a broker whose registry is in a folder."""
    return {"ottla_registry_directory": str(folder), "controlled_shutdown_enable": "false"}


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """That of a broker which has run."""
    folder = tmp_path / "registry"
    with Broker(str(tmp_path / "1"), node_id=1, **at(folder)):
        pass
    return folder


def test_a_whole_registry_is_in_order_while_brokers_run_and_after(registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, f"sqlite:{registry}") == (0, "Nothing is damaged.\n")
    with Broker(str(registry.parent / "1"), **at(registry)):
        assert check(capsys, f"sqlite:{registry}") == (0, "Nothing is damaged.\n")


def test_every_entry_that_is_damaged_or_cannot_be_understood_is_named(registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(HostUser(registry, LONG_MS).begun()) as user:
        user.commit(Change("/brokers/topics/t", b"no JSON"), Change("/config/topics/a", b"1"), Change("/config/topics/b", b"2"))
    with closing(sqlite3.connect(registry / FILE, isolation_level=None)) as database:
        database.execute("UPDATE entry SET value = x'33' WHERE path LIKE '/config/topics/_'")
    code, said = check(capsys, f"sqlite:{registry}", "--json")
    found = [json.loads(line) for line in said.splitlines()]
    assert code == 1
    assert [(one["kind"], one["path"]) for one in found] == [
        ("damaged", "/config/topics/a"),
        ("damaged", "/config/topics/b"),
        ("strange", "/brokers/topics/t"),
    ]
    assert all("restore a backup of" in one["sentence"] for one in found)


def test_what_is_no_registry_of_a_host_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no registry.sqlite: name the directory" in check(capsys, f"sqlite:{tmp_path}")[1]
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    code, said = check(capsys, f"sqlite:{tmp_path}")
    assert (code, said.count("\n")) == (1, 1)
    assert "cannot be read (file is not a database): if it is damaged, restore a backup" in said
    assert sorted(file.name for file in tmp_path.iterdir()) == [FILE]


@pytest.mark.java
def test_entries_of_zookeeper_that_cannot_be_understood_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
    from tests.support.sessions import RegistryUser

    with started(tmp_path / "zookeeper") as server:
        address = f"zookeeper://{server.address}/kafka"
        given: dict[str, Any] = {"zookeeper_connect": address, "controlled_shutdown_enable": "false"}
        with Broker(str(tmp_path / "1"), node_id=1, **given):
            assert check(capsys, address) == (0, "Nothing is damaged.\n")
        with closing(RegistryUser(address, LONG_MS).begun()) as user:
            user.commit(
                Change("/brokers/topics/t/partitions/x/state", b"{}"), Change("/brokers/topics/t", b'{"partitions":{"1":[]}}')
            )
        code, said = check(capsys, address)
    assert code == 1
    assert "/brokers/topics/t: it cannot be parsed (the partitions of topic t are not numbered" in said
    assert "repair it with ZooKeeper's own tools" in said
