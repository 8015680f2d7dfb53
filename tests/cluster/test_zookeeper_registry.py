"""The shared registry on a real ZooKeeper: transactions, watches, sessions that live on, end and begin anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from time import monotonic_ns

import pytest

from ottla.ports import NEW, Change, RegistryAway, SessionEvent, Steps, StorageFailed
from tests.support.zookeeper import ZooKeeper, started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from ottla.net.zookeeper.batch import Ask
from ottla.net.zookeeper.handler import ZooKeeperAnswer
from tests.support.sessions import RegistryUser, end_elsewhere

pytestmark = [pytest.mark.java]
SHORT_MS, LONG_MS = 1_000, 60_000
MANY = [f"/many/{number}" for number in range(300)]
CHROOTS = count(1)
SETTINGS = {"maxSessionTimeout": LONG_MS}
"""A server agrees to twenty of its ticks at most unless it is told otherwise."""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with started(tmp_path_factory.mktemp("zookeeper"), SETTINGS) as server:
        yield server


@pytest.fixture
def users(zookeeper: ZooKeeper) -> Iterator[Callable[..., RegistryUser]]:
    """Makes users of one empty tree."""
    made: list[RegistryUser] = []
    chroot = f"/tests/{next(CHROOTS)}"

    def make(timeout_ms: int = SHORT_MS) -> RegistryUser:
        made.append(RegistryUser(f"zookeeper://{zookeeper.address}{chroot}", timeout_ms).begun())
        return made[-1]

    yield make
    for user in made:
        user.close()


@pytest.fixture
def user(users: Callable[..., RegistryUser]) -> RegistryUser:
    return users()


def test_an_entry_without_a_value_holds_nothing_as_kafka_expects_it(zookeeper: ZooKeeper, user: RegistryUser) -> None:
    user.commit(Change("/a/empty", b"", NEW))
    (found,) = user.read("/a/empty")
    assert (found.value, found.version) == (b"", 0)
    client = KazooClient(zookeeper.address)
    client.start()
    try:
        root = user.session.root
        assert [client.get(root + path)[0] for path in ("/a/empty", "/a")] == [None, None]
    finally:
        client.stop()
        client.close()


def test_what_is_too_large_to_be_removed_at_once_is_removed_all_the_same(users: Callable[..., RegistryUser]) -> None:
    user, name = users(LONG_MS), "n" * 200
    for start in range(0, 6_000, 1_500):
        user.commit(*(Change(f"/t/{name}{index}", b"", NEW) for index in range(start, start + 1_500)))
    user.commit(Change("/t", None))
    assert user.list("/t") == [None]


def test_what_is_below_many_removed_entries_is_asked_for_at_once(
    users: Callable[..., RegistryUser], monkeypatch: pytest.MonkeyPatch
) -> None:
    user = users(LONG_MS)
    user.commit(*(Change(f"{path}/state/deep", b"", NEW) for path in MANY), Change("/many/bare", b"", NEW))
    asked: list[int] = []
    ask = user.session.request

    def counted(asks: Sequence[Ask]) -> Steps[list[ZooKeeperAnswer]]:
        asked.append(len(asks))
        return ask(asks)

    monkeypatch.setattr(user.session, "request", counted)
    user.commit(*(Change(path, None) for path in (*MANY, "/many/bare")))
    assert len(asked) < 10
    assert user.list("/many") == [[]]


@pytest.mark.parametrize(("release", "reads_many"), [("3.8.4", True), ("3.5.10", False)])
def test_a_session_lives_on_when_the_server_is_gone_for_a_moment(tmp_path: Path, release: str, reads_many: bool) -> None:
    """Servers before 3.6 close the connection that asks for many entries at once: it is noticed, and told to nobody."""
    with started(tmp_path / "zookeeper", SETTINGS, release=release) as server:
        user = RegistryUser(server.address, LONG_MS).begun()
        user.commit(Change("/a", b"", NEW, ephemeral=True), *(Change(path, path.encode(), NEW) for path in MANY))
        user.read("/a", watch=True)
        server.kill()
        user.run(lambda: SessionEvent.AWAY in user.events)
        user.run(lambda: user.changed == ["/a"])
        with pytest.raises(RegistryAway):
            user.read(*MANY)
        server.start()
        user.run(lambda: SessionEvent.BACK in user.events)
        assert user.read("/a") != [None]
        assert [entry.value.decode() for entry in user.read(*MANY)] == MANY
        assert user.session.reads_many is reads_many
        assert user.events == [SessionEvent.BEGUN, SessionEvent.AWAY, SessionEvent.BACK]
        user.close()


def test_a_server_that_falls_silent_is_left(tmp_path: Path) -> None:
    with started(tmp_path / "zookeeper", SETTINGS) as server:
        user = RegistryUser(server.address, SHORT_MS).begun()
        server.pause()
        user.run(lambda: SessionEvent.AWAY in user.events)
        with pytest.raises(RegistryAway):
            user.read("/a")
        server.go_on()
        user.run(lambda: user.events[-1] in (SessionEvent.BACK, SessionEvent.BEGUN))
        user.close()


def test_a_server_that_dies_while_many_entries_are_read_is_not_reached(tmp_path: Path) -> None:
    with started(tmp_path / "zookeeper", SETTINGS) as server:
        user = RegistryUser(server.address, LONG_MS).begun()
        user.commit(*(Change(path, b"", NEW) for path in MANY))
        server.pause()
        reading = user.registry.read(MANY * 100)
        assert next(reading) is None, "more is to be sent"
        server.kill()
        with pytest.raises(RegistryAway):
            user.done(reading)
        server.start()
        user.run(lambda: SessionEvent.BACK in user.events)
        assert len(user.read(*MANY)) == len(MANY)
        user.close()


def test_many_entries_are_read_and_listed_by_few_requests_between_which_others_are_answered(
    zookeeper: ZooKeeper, users: Callable[..., RegistryUser]
) -> None:
    user = users(LONG_MS)
    user.commit(*(Change(f"{path}/{name}", b"", NEW) for path in MANY[::2] for name in "ba"))
    assert user.session.reads_many
    before, paths = requests_of(zookeeper), MANY * 10
    assert user.list(*paths) == [["a", "b"] if index % 2 == 0 else None for index in range(len(paths))]
    assert [entry is None for entry in user.read(*paths)] == [index % 2 == 1 for index in range(len(paths))]
    assert requests_of(zookeeper) - before < len(paths) // 10
    assert user.read() == []


def test_an_entry_among_many_that_may_not_be_read_is_named(zookeeper: ZooKeeper, user: RegistryUser) -> None:
    user.commit(*(Change(path, b"", NEW) for path in MANY))
    client = KazooClient(zookeeper.address)
    client.start()
    try:
        client.set_acls(user.session.root + MANY[7], [make_digest_acl("somebody", "else", read=True)])
    finally:
        client.stop()
        client.close()
    with pytest.raises(StorageFailed, match=f"{MANY[7]}.*does not permit"):
        user.read(*MANY)
    assert len(user.read(*MANY[8:])) == len(MANY) - 8


def requests_of(server: ZooKeeper) -> int:
    """How many packets the server has received so far."""
    (received,) = [line for line in server.ask("srvr").splitlines() if line.startswith("Received: ")]
    return int(received.split()[1])


def test_a_session_that_ended_is_followed_by_another_one(users: Callable[..., RegistryUser]) -> None:
    user, other = users(LONG_MS), users(LONG_MS)
    user.commit(Change("/a", b"", NEW, ephemeral=True))
    other.read("/a", watch=True)
    end_elsewhere(user.session)
    user.run(lambda: user.events.count(SessionEvent.BEGUN) == 2)
    assert user.events == [SessionEvent.BEGUN, SessionEvent.AWAY, SessionEvent.ENDED, SessionEvent.BEGUN]
    other.run(lambda: other.changed == ["/a"])
    assert user.read("/a") == [None]


def test_the_time_until_which_a_session_lives_grows_while_it_is_kept_up(user: RegistryUser) -> None:
    user.run(lambda: user.registry.session_end_ms() > 0)
    first = user.registry.session_end_ms()
    user.run(lambda: user.registry.session_end_ms() > first)
    assert user.registry.session_end_ms() <= monotonic_ns() // 1_000_000 + user.registry.timeout_ms
