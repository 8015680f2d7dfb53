"""The shared registry on a real ZooKeeper: transactions, watches, sessions that live on, end and begin anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import monotonic_ns

import pytest

from ottla.ports import NEW, Change, Condition, EntryExists, NoEntry, RegistryAway, SessionEvent, StorageFailed, VersionConflict
from tests.support.zookeeper import ZooKeeper, started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
from kazoo.client import KazooClient

from tests.support.sessions import RegistryUser, end_elsewhere

pytestmark = [pytest.mark.java]
SHORT_MS, LONG_MS = 1_000, 60_000
CHROOTS = count(1)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with started(tmp_path_factory.mktemp("zookeeper")) as server:
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


def test_what_is_committed_is_read_with_its_version_and_the_number_of_its_transaction(user: RegistryUser) -> None:
    user.commit(Change("/a/b", b"1", NEW))
    user.commit(Change("/a/c", b"2"), Change("/a/b", b"3", 0))
    b, c, none = user.read("/a/b", "/a/c", "/a/d")
    assert (b.value, b.version, c.value, c.version, none) == (b"3", 1, b"2", 0, None)
    assert c.created > b.created > 0
    assert user.list("/a", "/a/b", "/x") == [["b", "c"], [], None]


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


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (Change("/a", b"2", NEW), EntryExists),
        (Change("/a", b"2", 7), VersionConflict),
        (Change("/x", b"2", 0), NoEntry),
        (Change("/x", None), NoEntry),
        (Condition("/a", 1), VersionConflict),
        (Condition("/a", NEW), EntryExists),
        (Condition("/x", 0), NoEntry),
        (Change("/x", bytes(2_000_000)), StorageFailed),
    ],
)
def test_all_changes_are_made_or_none(user: RegistryUser, refused: Change | Condition, why: type[Exception]) -> None:
    user.commit(Change("/a", b"1", NEW))
    with pytest.raises(why):
        user.commit(Change("/b", b"", NEW), refused)
    assert [entry and entry.value for entry in user.read("/a", "/b")] == [b"1", None]


def test_conditions_that_hold_change_nothing(user: RegistryUser) -> None:
    user.commit(Change("/a", b"1", NEW))
    user.commit(Condition("/a", 0), Condition("/x/y", NEW), Change("/b", b"2"))
    a, x, b = user.read("/a", "/x/y", "/b")
    assert (a.version, x, b.value) == (0, None, b"2")


def test_removing_an_entry_removes_all_below_it(user: RegistryUser) -> None:
    user.commit(*(Change(f"/t/{name}/{depth}", b"", NEW) for name in "abc" for depth in range(3)), Change("/u", b"", NEW))
    user.commit(Change("/t", None), Change("/u", b"1"))
    assert user.list("/t", "/") == [None, ["u"]]


def test_what_is_too_large_to_be_removed_at_once_is_removed_all_the_same(user: RegistryUser) -> None:
    name = "n" * 200
    for start in range(0, 6_000, 1_500):
        user.commit(*(Change(f"/t/{name}{index}", b"", NEW) for index in range(start, start + 1_500)))
    user.commit(Change("/t", None))
    assert user.list("/t") == [None]


def test_sequential_entries_are_numbered(user: RegistryUser) -> None:
    for value in (b"1", b"2"):
        user.commit(Change("/changes/change_", value, sequential=True))
    assert user.list("/changes") == [["change_0000000000", "change_0000000001"]]


def test_a_thousand_entries_are_read_in_order(user: RegistryUser) -> None:
    paths = [f"/t/{index}" for index in range(1_000)]
    user.commit(*(Change(path, path.encode(), NEW) for path in paths))
    assert [entry.value.decode() for entry in user.read(*paths)] == paths


def test_a_watch_is_told_once_of_what_another_did(users: Callable[..., RegistryUser]) -> None:
    one, other = users(LONG_MS), users(LONG_MS)
    one.commit(Change("/a", b"", NEW), Change("/b", b"", NEW))
    for _ in range(2):
        one.read("/a", "/missing", watch=True)
        one.list("/b", "/none", watch=True)
    other.commit(Change("/a", b"1"), Change("/missing", b"1"), Change("/b/c", b""), Change("/none", b""))
    other.commit(Change("/a", b"2"), Change("/b/d", b""))
    one.run(lambda: len(one.changed) >= 4)
    one.read("/a")
    assert sorted(one.changed) == ["/a", "/b", "/missing", "/none"]


def test_an_ephemeral_entry_goes_when_its_session_is_closed(users: Callable[..., RegistryUser]) -> None:
    one, other = users(LONG_MS), users(LONG_MS)
    one.commit(Change("/ids/1", b"", NEW, ephemeral=True))
    assert other.list("/ids", watch=True) == [["1"]]
    one.registry.close()
    other.run(lambda: other.changed == ["/ids"])
    assert other.list("/ids") == [[]]


def test_a_session_lives_on_when_the_server_is_gone_for_a_moment(tmp_path: Path) -> None:
    with started(tmp_path / "zookeeper") as server:
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
