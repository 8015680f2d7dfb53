"""The registry that brokers share: a simulated one, that of a host, and a real ZooKeeper keep one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from ottla.ports import NEW, Change, Condition, DuplicateEntry, NoEntry, RegistryAway, SessionEvent, StorageFailed, VersionConflict
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.world import World
from tests.support.shared_users import HostUser, SharedUser, SimulatedUser

TIMEOUT_MS = 60_000
Users = Callable[[], SharedUser]


@pytest.fixture(scope="module")
def zookeeper_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], SharedUser]]:
    pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
    from tests.support.sessions import RegistryUser
    from tests.support.zookeeper import started

    with started(tmp_path_factory.mktemp("zookeeper")) as server:
        yield lambda number: RegistryUser(f"zookeeper://{server.address}/contract/{number}", TIMEOUT_MS)


TREES = count(1)


@pytest.fixture(params=["simulated", "host", pytest.param("zookeeper", marks=pytest.mark.java)])
def users(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Users]:
    """Makes users of one empty tree, whose sessions have begun."""
    made: list[SharedUser] = []
    tree = next(TREES)
    ensemble = SimEnsemble(World(0), timeout_ms=TIMEOUT_MS)

    def make() -> SharedUser:
        if request.param == "simulated":
            made.append(SimulatedUser(ensemble, str(len(made))))
        elif request.param == "host":
            made.append(HostUser(tmp_path, TIMEOUT_MS))
        else:
            made.append(request.getfixturevalue("zookeeper_users")(tree))
        return made[-1].begun()

    yield make
    for user in made:
        user.close()


@pytest.fixture
def user(users: Users) -> SharedUser:
    return users()


def test_what_is_committed_is_read_with_its_version_and_the_number_of_its_transaction(user: SharedUser) -> None:
    user.commit(Change("/a/b", b"1", NEW))
    user.commit(Change("/a/c", b"2"), Change("/a/b", b"3", 0))
    b, c, none = user.read("/a/b", "/a/c", "/a/d")
    assert (b.value, b.version, c.value, c.version, none) == (b"3", 1, b"2", 0, None)
    assert c.created > b.created > 0
    assert user.list("/a", "/a/b", "/x") == [["b", "c"], [], None]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (Change("/a", b"2", NEW), DuplicateEntry),
        (Change("/a", b"2", 7), VersionConflict),
        (Change("/x", b"2", 0), NoEntry),
        (Change("/x", None), NoEntry),
        (Condition("/a", 1), VersionConflict),
        (Condition("/a", NEW), DuplicateEntry),
        (Condition("/x", 0), NoEntry),
        (Change("/x", bytes(2_000_000)), StorageFailed),
    ],
)
def test_all_changes_are_made_or_none(user: SharedUser, refused: Change | Condition, why: type[Exception]) -> None:
    user.commit(Change("/a", b"1", NEW))
    with pytest.raises(why):
        user.commit(Change("/b", b"", NEW), refused)
    assert [entry and entry.value for entry in user.read("/a", "/b")] == [b"1", None]


def test_conditions_that_hold_change_nothing(user: SharedUser) -> None:
    user.commit(Change("/a", b"1", NEW))
    user.commit(Condition("/a", 0), Condition("/x/y", NEW), Change("/b", b"2"))
    a, x, b = user.read("/a", "/x/y", "/b")
    assert (a.version, x, b.value) == (0, None, b"2")


def test_an_entry_can_be_changed_twice_and_made_and_removed_in_one_commit(user: SharedUser) -> None:
    user.commit(Change("/new", b"1", NEW), Change("/new", b"2", 0), Change("/gone", b"", NEW), Change("/gone", None, 0))
    new, gone = user.read("/new", "/gone")
    assert (new.value, new.version, gone) == (b"2", 1, None)


def test_removing_an_entry_removes_all_below_it_and_nothing_beside_it(user: SharedUser) -> None:
    user.commit(*(Change(f"/t/{name}/{depth}", b"", NEW) for name in "abc" for depth in range(3)))
    user.commit(*(Change(path, b"", NEW) for path in ("/t.a", "/t0", "/tt")))
    user.commit(Change("/t", None), Change("/tt", b"1"))
    assert [user.list("/t")[0], [name for name in user.list("/")[0] if name[0] == "t"]] == [None, ["t.a", "t0", "tt"]]


def test_an_entry_is_removed_on_conditions_about_what_is_below_it(users: Users) -> None:
    one, two = users(), users()
    one.commit(Change("/u", b"1", NEW))
    two.commit(Change("/u/below/c", b"", NEW))
    with pytest.raises(DuplicateEntry):
        one.commit(Condition("/u/below", NEW), Change("/u", None, 0))
    one.commit(Condition("/u/below", 0), Condition("/u/below/c", 0), Change("/u", None, 0))
    one.commit(Change("/u", b"1", NEW))
    one.commit(Condition("/u/below", NEW), Change("/u", None, 0))
    assert one.read("/u") == [None]


def test_sequential_entries_are_numbered_and_always_new(user: SharedUser) -> None:
    for value in (b"1", b"2"):
        user.commit(Change("/changes/change_", value, sequential=True))
    user.commit(Change("/changes/change_0000000000", None))
    assert user.list("/changes") == [["change_0000000001"]]
    user.commit(Change("/changes/change_", b"", sequential=True))
    assert len(user.list("/changes")[0]) == 2


def test_a_thousand_entries_are_read_in_order(user: SharedUser) -> None:
    paths = [f"/t/{index}" for index in range(1_000)]
    user.commit(*(Change(path, path.encode(), NEW) for path in paths))
    assert [entry.value.decode() for entry in user.read(*paths)] == paths


def test_an_entry_of_a_session_has_none_below_it(user: SharedUser) -> None:
    user.commit(Change("/ids/1", b"", NEW, ephemeral=True))
    with pytest.raises(StorageFailed):
        user.commit(Change("/ids/1/x", b"", NEW))


def test_a_watch_is_told_once_of_what_another_did(users: Users) -> None:
    one, other = users(), users()
    one.commit(Change("/a", b"", NEW), Change("/b", b"", NEW))
    for _ in range(2):
        one.read("/a", "/missing", watch=True)
        one.list("/b", "/none", watch=True)
    other.commit(Change("/a", b"1"), Change("/missing", b"1"), Change("/b/c", b""), Change("/none", b""))
    other.commit(Change("/a", b"2"), Change("/b/d", b""))
    one.run(lambda: len(one.changed) >= 4)
    one.read("/a")
    assert sorted(one.changed) == ["/a", "/b", "/missing", "/none"]


def test_a_watch_of_children_tells_of_those_that_come_and_go_and_not_of_values(users: Users) -> None:
    one, other = users(), users()
    other.commit(Change("/a/b", b""))
    one.list("/a", watch=True)
    other.commit(Change("/a", b"2"), Change("/a/b", b"2"))
    other.commit(Change("/a/c", b""))
    one.run(lambda: bool(one.changed))
    one.list("/a", watch=True)
    other.commit(Change("/a/c", None))
    one.run(lambda: len(one.changed) == 2)
    assert one.changed == ["/a", "/a"]


def test_a_watch_tells_its_own_session_too(user: SharedUser) -> None:
    user.commit(Change("/a", b""))
    user.read("/a", watch=True)
    user.commit(Change("/a", b"1"))
    user.run(lambda: bool(user.changed))
    assert user.changed == ["/a"]


def test_an_ephemeral_entry_goes_when_its_session_is_closed(users: Users) -> None:
    one, other = users(), users()
    one.commit(Change("/ids/1", b"", NEW, ephemeral=True))
    assert other.list("/ids", watch=True) == [["1"]]
    one.registry.close()
    other.run(lambda: other.changed == ["/ids"])
    assert other.list("/ids") == [[]]
    with pytest.raises(RegistryAway):
        one.read("/ids")


def test_the_time_until_which_a_session_lives_is_known_while_there_is_one(user: SharedUser) -> None:
    assert user.events == [SessionEvent.BEGUN]
    user.run(lambda: user.registry.session_end_ms() > 0)
    user.registry.close()
    user.run(lambda: user.registry.session_end_ms() == 0)
