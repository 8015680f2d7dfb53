"""The registry that the brokers of a host share: processes that are killed or stand still, and files that are damaged or gone."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from ottla.broker.membership.membership import NotAMember
from ottla.cluster import layout
from ottla.net.sqlite.registry import HostRegistry
from ottla.net.sqlite.tables import FILE
from ottla.ports import NEW, Change, RegistryDamaged, SessionEvent, Steps, StorageFailed
from tests.support.shared_users import PATIENCE_S, HostUser

ROOT = Path(__file__).parents[2]
SHORT_MS, LONG_MS = 1_000, 600_000
Neighbours = Callable[..., "subprocess.Popen[str]"]
HOLD = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("made", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Neighbours]:
    """Starts a process whose session has made /ids/9."""
    started: list[subprocess.Popen[str]] = []

    def start(
        timeout_ms: int, *how: str, program: Sequence[str] = ("-m", "tests.support.registry_process")
    ) -> subprocess.Popen[str]:
        command = [sys.executable, *program, *(how if program[0] == "-c" else (str(tmp_path), str(timeout_ms), "/ids/9", *how))]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def ids(user: HostUser) -> Steps[list[list[str] | None] | None]:
    """The names below /ids. None: the session of the user itself ended, as it does on a machine that is very slow."""
    try:
        return (yield from user.registry.list(["/ids"]))
    except StorageFailed:
        return None


@pytest.fixture
def user(tmp_path: Path) -> Iterator[HostUser]:
    with closing(HostUser(tmp_path, LONG_MS).begun()) as made:
        yield made


def test_a_killed_process_is_missed_though_its_session_would_live_long(user: HostUser, neighbour: Neighbours) -> None:
    process = neighbour(LONG_MS)
    assert user.list("/ids", watch=True) == [["9"]]
    process.kill()
    user.run(lambda: user.changed == ["/ids"])
    assert user.list("/ids") == [[]]


def test_a_process_that_stands_still_loses_its_session_after_its_timeout_and_hears_of_it(
    tmp_path: Path, neighbour: Neighbours
) -> None:
    process = neighbour(SHORT_MS)
    with closing(HostUser(tmp_path, SHORT_MS).begun()) as user:
        os.kill(process.pid, signal.SIGSTOP)
        user.run(lambda: user.done(ids(user)) == [[]])
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout is not None
        assert process.stdout.readline().split()[:2] == ["begun", "ended"]


def test_what_a_killed_process_left_is_gone_at_the_next_start(tmp_path: Path, neighbour: Neighbours) -> None:
    process = neighbour(LONG_MS)
    process.kill()
    process.wait()
    with closing(HostUser(tmp_path, LONG_MS).begun()) as user:
        user.run(lambda: user.list("/ids") == [[]])
        assert len([*(tmp_path / "processes").iterdir()]) == 2, "its own lock and bell"


def test_a_session_that_was_ended_is_followed_by_another_and_every_watch_is_told(user: HostUser, tmp_path: Path) -> None:
    user.commit(Change("/ids/1", b"", NEW, ephemeral=True))
    user.read("/a", watch=True)
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as database:
        database.execute("DELETE FROM session")
    with pytest.raises(StorageFailed):
        user.commit(Change("/b", b""))
    user.run(lambda: user.events.count(SessionEvent.BEGUN) == 2)
    assert user.events == [SessionEvent.BEGUN, SessionEvent.ENDED, SessionEvent.BEGUN]
    assert user.changed == ["/a"]
    user.commit(Change("/b", b""))


def test_while_a_process_keeps_others_from_writing_the_registry_is_away(tmp_path: Path) -> None:
    with closing(HostUser(tmp_path, SHORT_MS).begun()) as user:
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            user.run(lambda: SessionEvent.AWAY in user.events)
            with pytest.raises(StorageFailed):
                user.commit(Change("/a", b""))
        user.run(lambda: SessionEvent.BACK in user.events)
        user.commit(Change("/a", b""))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a lock is")
def test_a_process_that_stands_still_while_it_writes_is_killed_so_that_the_others_go_on(
    tmp_path: Path, neighbour: Neighbours, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(HostUser(tmp_path, SHORT_MS).begun()) as user:
        process = neighbour(LONG_MS, "stands-still")
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        user.run(lambda: user.done(ids(user)) == [[]])
        user.run(lambda: user.done(made(user, "/a")))
    assert f"process {process.pid} was suspended while it wrote to the registry, which blocked all" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a lock is")
def test_a_process_that_is_no_broker_is_named_where_it_keeps_brokers_from_writing(
    tmp_path: Path, neighbour: Neighbours, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(HostUser(tmp_path, SHORT_MS).begun()) as user:
        process = neighbour(0, str(tmp_path / FILE), program=("-c", HOLD))
        sentence = f"process {process.pid} blocks writes of other processes to the registry: if it does not continue, kill it"
        user.run(lambda: sentence in caplog.text)
        assert process.poll() is None
        process.kill()
        user.run(lambda: user.done(made(user, "/a")))
    assert caplog.text.count(sentence) == 1


def made(user: HostUser, path: str) -> Steps[bool]:
    """Whether an entry could be written."""
    try:
        yield from user.registry.commit([Change(path, b"")])
    except StorageFailed:
        return False
    return True


def test_a_process_that_missed_what_is_no_longer_kept_is_told_by_every_watch(user: HostUser, tmp_path: Path) -> None:
    user.read("/a", watch=True)
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as database:
        database.execute("UPDATE state SET transactions = 500, forgotten = 400")
    user.run(lambda: bool(user.changed))
    assert user.changed == ["/a"]


def test_a_damaged_entry_is_named_and_no_other_one(user: HostUser, tmp_path: Path) -> None:
    user.commit(Change("/a", b"1"), Change("/b", b"2"))
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as database:
        database.execute("UPDATE entry SET value = x'33' WHERE path = '/a'")
    with pytest.raises(StorageFailed, match=r"^/a: the entry was changed since it was written: restore a backup"):
        user.read("/a")
    assert user.read("/b")[0].value == b"2"
    user.close()
    with pytest.raises(RegistryDamaged, match=r"registry.sqlite is damaged \(/a: .* restore a backup of its directory"):
        HostRegistry(tmp_path, LONG_MS, print)


def test_a_file_that_is_no_registry_is_refused_in_one_sentence_and_left_as_it_is(tmp_path: Path) -> None:
    content = b"no database" * 1000
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RegistryDamaged, match=r"registry.sqlite is damaged .*: restore a backup of its directory"):
        HostRegistry(tmp_path, LONG_MS, print)
    assert (tmp_path / FILE).read_bytes() == content


def test_a_registry_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    HostUser(tmp_path, LONG_MS).begun().close()
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        database.execute("PRAGMA user_version = 9")
    with pytest.raises(RegistryDamaged, match="has format 9, newer than 1: start the newer version that wrote it"):
        HostRegistry(tmp_path, LONG_MS, print)


def test_a_broker_joins_by_it_and_is_refused_when_its_registry_is_gone(tmp_path: Path) -> None:
    registry, data = tmp_path / "registry", tmp_path / "1"
    settings: dict[str, Any] = {"node_id": 1, "ottla_registry_directory": str(registry), "controlled_shutdown_enable": "false"}
    with Broker(str(data), **settings) as broker, closing(HostUser(registry, LONG_MS).begun()) as user:
        (entry,) = user.read(layout.broker_path(1))
        assert broker.address in entry.value.decode()
    with closing(HostUser(registry, LONG_MS).begun()) as user:
        assert user.list(layout.BROKERS) == [[]]
    (registry / FILE).unlink()
    with pytest.raises(NotAMember, match=r"is of the cluster .*, and there is none in sqlite:.*registry: name the registry"):
        Broker(str(data), **settings).start()
