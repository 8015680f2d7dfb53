"""The shared registry on a real ZooKeeper: transactions, watches, sessions that live on, end and begin anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import monotonic_ns

import pytest

from ottla.ports import NEW, Change, RegistryAway, SessionEvent
from tests.support.zookeeper import ZooKeeper, started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
from kazoo.client import KazooClient

from tests.support.sessions import RegistryUser, end_elsewhere

pytestmark = [pytest.mark.java]
SHORT_MS, LONG_MS = 1_000, 60_000
CHROOTS = count(1)
SETTINGS = {"maxSessionTimeout": LONG_MS}


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


def test_a_session_lives_on_when_the_server_is_gone_for_a_moment(tmp_path: Path) -> None:
    with started(tmp_path / "zookeeper", SETTINGS) as server:
        user = RegistryUser(server.address, LONG_MS).begun()
        user.commit(Change("/a", b"", NEW, ephemeral=True))
        user.read("/a", watch=True)
        server.kill()
        user.run(lambda: SessionEvent.AWAY in user.events)
        user.run(lambda: user.changed == ["/a"])
        with pytest.raises(RegistryAway):
            user.read("/a")
        server.start()
        user.run(lambda: SessionEvent.BACK in user.events)
        assert user.read("/a") != [None]
        assert user.events == [SessionEvent.BEGUN, SessionEvent.AWAY, SessionEvent.BACK]
        user.close()


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
    user.run(lambda: user.registry.lives_until_ms() > 0)
    first = user.registry.lives_until_ms()
    user.run(lambda: user.registry.lives_until_ms() > first)
    assert user.registry.lives_until_ms() <= monotonic_ns() // 1_000_000 + user.registry.timeout_ms
