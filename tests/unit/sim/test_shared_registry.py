"""The simulated shared registry: compare-and-set, watches, sessions that outlive connections, and what faults leave unknown."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.ports import NEW, Change, Condition, EntryExists, NoEntry, RegistryAway, SessionEvent, StorageFailed, VersionConflict
from ottla.sim.ensemble import MOST_BYTES, SimEnsemble
from ottla.sim.process import Cuts, SimProcess
from ottla.sim.shared_registry import REGISTRY, RegistryWeather, SimSharedRegistry
from ottla.sim.world import World
from tests.support.simulated import completed

TIMEOUT_MS = 6_000


class Client:
    """A session, and what it was told."""

    def __init__(self, ensemble: SimEnsemble, name: str = "a", cuts: Cuts | None = None, **more: Any) -> None:
        self.process = SimProcess(ensemble.world, name)
        self.registry = SimSharedRegistry(ensemble, self.process, cuts=cuts, **more)
        self.events: list[SessionEvent] = []
        self.changed: list[str] = []
        self.registry.on_session(self.events.append)
        self.world = ensemble.world

    def read(self, *paths: str, watch: bool = False) -> Any:
        return completed(self.world, self.registry.read(paths, changed=self.changed.append if watch else None))

    def list(self, *paths: str, watch: bool = False) -> Any:
        return completed(self.world, self.registry.list(paths, changed=self.changed.append if watch else None))

    def commit(self, *changes: Change | Condition) -> None:
        completed(self.world, self.registry.commit(changes))


@pytest.fixture
def ensemble() -> SimEnsemble:
    return SimEnsemble(World(0), timeout_ms=TIMEOUT_MS)


@pytest.fixture
def cuts() -> Cuts:
    return Cuts()


@pytest.fixture
def client(ensemble: SimEnsemble, cuts: Cuts) -> Client:
    client = Client(ensemble, cuts=cuts)
    ensemble.world.run(1_000)
    return client


def test_what_is_committed_is_read_with_its_version_and_the_number_of_its_transaction(client: Client) -> None:
    client.commit(Change("/a/b", b"1", NEW))
    client.commit(Change("/a/c", b"2"), Change("/a/b", b"3", 0))
    b, c, none = client.read("/a/b", "/a/c", "/a/d")
    assert (b.value, b.version, c.value, c.version, none) == (b"3", 1, b"2", 0, None)
    assert c.created > b.created > 0
    assert client.list("/a", "/a/b", "/x") == [["b", "c"], [], None]


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
        (Change("/x", bytes(MOST_BYTES)), StorageFailed),
    ],
)
def test_all_changes_are_made_or_none(client: Client, refused: Change | Condition, why: type[Exception]) -> None:
    client.commit(Change("/a", b"1", NEW))
    with pytest.raises(why):
        client.commit(Change("/other", b"", NEW), refused)
    assert client.list("/") == [["a"]]


def test_a_commit_may_rest_on_an_entry_that_it_does_not_change(client: Client) -> None:
    client.commit(Change("/epoch", b"1", NEW))
    client.commit(Condition("/epoch", 0), Condition("/state", NEW), Change("/x", b"1"))
    assert client.read("/x")[0].value == b"1"


def test_sequential_entries_are_always_new(client: Client) -> None:
    for _ in range(2):
        client.commit(Change("/config/changes/config_change_", b"x", sequential=True))
    client.commit(Change("/config/changes/config_change_0000000001", None))
    client.commit(Change("/config/changes/config_change_", b"x", sequential=True))
    assert client.list("/config/changes") == [["config_change_0000000000", "config_change_0000000002"]]


def test_removing_an_entry_removes_what_is_below_it(client: Client) -> None:
    client.commit(Change("/a/b/c", b""), Change("/a/d", b""))
    client.commit(Change("/a", None))
    assert client.list("/a", "/") == [None, []]


def test_a_watch_is_called_once_for_each_path_and_function(client: Client, ensemble: SimEnsemble) -> None:
    client.read("/a", "/b", watch=True)
    client.read("/a", watch=True)
    ensemble.put(Change("/a", b"1"))
    ensemble.put(Change("/a", b"2"))
    client.world.run(10)
    assert client.changed == ["/a"]
    client.read("/a", watch=True)
    ensemble.put(Change("/a", None), Change("/b", b""))
    client.world.run(10)
    assert client.changed == ["/a", "/a", "/b"]


def test_a_watch_of_children_tells_of_those_that_come_and_go_and_not_of_values(client: Client, ensemble: SimEnsemble) -> None:
    client.list("/a", watch=True)
    ensemble.put(Change("/a", b""))
    client.world.run(10)
    assert client.changed == ["/a"]
    client.list("/a", watch=True)
    ensemble.put(Change("/a", b"2"))
    client.world.run(10)
    assert client.changed == ["/a"]
    ensemble.put(Change("/a/b", b""))
    client.world.run(10)
    assert client.changed == ["/a", "/a"]


def test_an_older_watch_that_is_told_while_another_is_asked_for_does_not_use_that_up(client: Client, ensemble: SimEnsemble) -> None:
    client.read("/a", watch=True)
    later: list[str] = []
    steps = client.registry.read(["/a"], changed=later.append)
    ensemble.put(Change("/a", b"1"))
    completed(client.world, steps)
    ensemble.put(Change("/a", b"2"))
    client.world.run(10)
    assert (client.changed, later) == (["/a"], ["/a"])


def test_the_first_session_begins_by_itself_and_lives_while_it_is_heard(client: Client, ensemble: SimEnsemble) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    client.world.run(10 * TIMEOUT_MS)
    assert client.events == [SessionEvent.BEGUN]
    assert client.registry.lives_until_ms() > client.world.now_ms
    assert ensemble.get("/brokers/ids/1") is not None


def test_closing_ends_the_session_at_once(client: Client, ensemble: SimEnsemble) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    client.registry.close()
    assert ensemble.get("/brokers/ids/1") is None
    client.world.run(3 * TIMEOUT_MS)
    assert not ensemble.sessions


def test_a_killed_process_is_missed_when_its_session_is_over(client: Client, ensemble: SimEnsemble) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    other = Client(ensemble, "b")
    client.world.run(1_000)
    other.list("/brokers/ids", watch=True)
    client.process.end()
    client.world.run(TIMEOUT_MS // 2)
    assert ensemble.get("/brokers/ids/1") is not None
    client.world.run(TIMEOUT_MS)
    assert other.changed == ["/brokers/ids"]
    assert other.list("/brokers/ids") == [[]]


def test_a_short_cut_leaves_the_session_alive_and_calls_every_watch(client: Client, cuts: Cuts, ensemble: SimEnsemble) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    client.read("/a", watch=True)
    client.registry.lose_connection()
    with pytest.raises(RegistryAway):
        client.read("/b")
    client.world.run(TIMEOUT_MS)
    assert client.events == [SessionEvent.BEGUN, SessionEvent.AWAY, SessionEvent.BACK]
    assert client.changed == ["/a"]
    assert ensemble.get("/brokers/ids/1") is not None


@pytest.mark.parametrize("both", [True, False])
def test_a_long_cut_ends_the_session_no_sooner_than_the_client_could_know(
    client: Client, cuts: Cuts, ensemble: SimEnsemble, both: bool
) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    cuts.cut(client.process.name, REGISTRY, both=both)
    while ensemble.get("/brokers/ids/1") is not None:
        client.world.run(10)
    assert client.world.now_ms > client.registry.lives_until_ms() > 0
    assert SessionEvent.ENDED not in client.events, "nobody can tell it yet"
    cuts.heal_all()
    client.world.run(2 * TIMEOUT_MS)
    assert client.events == [SessionEvent.BEGUN, SessionEvent.AWAY, SessionEvent.ENDED, SessionEvent.BEGUN]


def test_an_expired_session_is_told_and_another_begins(client: Client, ensemble: SimEnsemble) -> None:
    client.commit(Change("/controller", b"", NEW, ephemeral=True))
    client.read("/controller", watch=True)
    client.registry.expire()
    assert ensemble.get("/controller") is None
    client.world.run(1_000)
    assert client.events[-2:] == [SessionEvent.ENDED, SessionEvent.BEGUN]
    assert "/controller" in client.changed
    client.commit(Change("/controller", b"", NEW, ephemeral=True))


def test_a_commit_whose_answer_is_lost_was_made(ensemble: SimEnsemble) -> None:
    client = Client(ensemble, weather=RegistryWeather(lose_answer=1.0))
    client.world.run(1_000)
    with pytest.raises(RegistryAway):
        client.commit(Change("/a", b"1", NEW))
    assert ensemble.get("/a") is not None


def test_a_process_that_stands_still_hears_of_everything_afterwards(client: Client, ensemble: SimEnsemble) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    client.process.stand_still(2 * TIMEOUT_MS)
    client.world.run(2 * TIMEOUT_MS - 1)
    assert ensemble.get("/brokers/ids/1") is None
    assert client.events == [SessionEvent.BEGUN]
    assert client.registry.lives_until_ms() < client.world.now_ms
    client.world.run(TIMEOUT_MS)
    assert client.events[-2:] == [SessionEvent.ENDED, SessionEvent.BEGUN]


def test_without_a_quorum_nobody_is_answered_and_no_session_ends(client: Client, ensemble: SimEnsemble) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    ensemble.is_down = True
    client.world.run(5 * TIMEOUT_MS)
    assert client.registry.lives_until_ms() < client.world.now_ms
    ensemble.come_back()
    client.world.run(TIMEOUT_MS)
    assert client.events[-1] == SessionEvent.BACK
    assert ensemble.get("/brokers/ids/1") is not None


def test_a_rival_can_be_quicker(client: Client, ensemble: SimEnsemble) -> None:
    ensemble.before_commit.append(lambda: ensemble.put(Change("/controller", b"2", NEW)))
    with pytest.raises(EntryExists):
        client.commit(Change("/controller", b"1", NEW, ephemeral=True))
