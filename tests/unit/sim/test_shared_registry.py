"""The simulated shared registry: compare-and-set, watches, sessions that outlive connections, and what faults leave unknown."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.ports import NEW, Change, Condition, DuplicateEntry, RegistryAway, SessionEvent
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.process import Cuts, SimProcess
from ottla.sim.shared_registry import REGISTRY, RegistryFaults, SimSharedRegistry
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
    assert client.registry.session_end_ms() > client.world.now_ms
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
    assert client.world.now_ms > client.registry.session_end_ms() > 0
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
    client = Client(ensemble, faults=RegistryFaults(lose_answer=1.0))
    client.world.run(1_000)
    with pytest.raises(RegistryAway):
        client.commit(Change("/a", b"1", NEW))
    assert ensemble.get("/a") is not None


def test_a_process_that_stands_still_hears_of_everything_afterwards(client: Client, ensemble: SimEnsemble) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    client.process.pause(2 * TIMEOUT_MS)
    client.world.run(2 * TIMEOUT_MS - 1)
    assert ensemble.get("/brokers/ids/1") is None
    assert client.events == [SessionEvent.BEGUN]
    assert client.registry.session_end_ms() < client.world.now_ms
    client.world.run(TIMEOUT_MS)
    assert client.events[-2:] == [SessionEvent.ENDED, SessionEvent.BEGUN]


def test_without_a_quorum_nobody_is_answered_and_no_session_ends(client: Client, ensemble: SimEnsemble) -> None:
    client.commit(Change("/brokers/ids/1", b"", NEW, ephemeral=True))
    ensemble.is_down = True
    client.world.run(5 * TIMEOUT_MS)
    assert client.registry.session_end_ms() < client.world.now_ms
    ensemble.restore_quorum()
    client.world.run(TIMEOUT_MS)
    assert client.events[-1] == SessionEvent.BACK
    assert ensemble.get("/brokers/ids/1") is not None


def test_a_rival_can_be_quicker(client: Client, ensemble: SimEnsemble) -> None:
    ensemble.before_commit.append(lambda: ensemble.put(Change("/controller", b"2", NEW)))
    with pytest.raises(DuplicateEntry):
        client.commit(Change("/controller", b"1", NEW, ephemeral=True))


def test_a_server_that_lags_shows_what_was_and_tells_of_the_rest_in_order_when_it_catches_up(
    client: Client, ensemble: SimEnsemble
) -> None:
    ensemble.put(Change("/d/a", b"1"))
    client.registry.lag(1_000)
    ensemble.put(Change("/d/a", b"2"))
    ensemble.put(Change("/d/b", b"new"))
    ensemble.put(Change("/d/a", None))
    (known, unknown) = client.read("/d/a", "/d/b", watch=True)
    assert (known.value, unknown) == (b"1", None)
    assert client.list("/d", watch=True) == [["a"]]
    assert client.changed == []
    client.world.run(1_000)
    assert client.changed == ["/d/a", "/d/b", "/d"]
    assert client.list("/d") == [["b"]]
    assert client.read("/d/a") == [None]


def test_who_writes_sees_all_that_went_before_it(client: Client, ensemble: SimEnsemble) -> None:
    client.registry.lag(60_000)
    ensemble.put(Change("/a", b"1"))
    assert client.read("/a", watch=True) == [None]
    client.commit(Change("/b", b"2"))
    assert client.changed == ["/a"]
    assert client.read("/a")[0].value == b"1"


def test_who_is_refused_sees_why(client: Client, ensemble: SimEnsemble) -> None:
    client.registry.lag(60_000)
    ensemble.put(Change("/a", b"1"))
    with pytest.raises(DuplicateEntry):
        client.commit(Change("/a", b"2", NEW))
    assert client.read("/a")[0].value == b"1"
