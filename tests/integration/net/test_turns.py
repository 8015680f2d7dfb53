"""Whose turn it is: who asks for little waits for a slice or two, whoever asks for much is never forgotten."""

from __future__ import annotations

from threading import Event

import pytest

import ottla
from ottla.broker.serving.request import Peer
from ottla.net.server import turns as module
from ottla.net.server.turns import SLICE_NS, TURN_NS, Turns
from ottla.ports import Buffer, Now
from tests.support.frames import API_VERSIONS, METADATA, Raw, metadata_v1, request

MS = 1_000_000
WAIT_S = 30


class ClockByHand:
    def __init__(self) -> None:
        self.ns = 10**12

    def __call__(self) -> int:
        return self.ns


class Asker:
    """One that asks for pieces of work of the same cost; `done` has whose pieces were done, in order."""

    def __init__(self, name: str, piece_ns: int, clock: ClockByHand, turns: Turns, done: list[str]) -> None:
        self.clear_ns = 0
        self.waits = False
        self.name, self.piece_ns, self.clock, self.turns, self.done = name, piece_ns, clock, turns, done
        self.left = 0

    def ask(self, pieces: int = 1) -> None:
        self.left += pieces
        if not self.waits and self.turns.begin(self):
            self.run()
            self.turns.end(self)

    def run(self) -> None:
        count, pace = 0, 1
        while self.left:
            if not pace:
                pace = self.turns.pace(count)
            if not pace:
                self.waits = True
                return
            self.done.append(self.name)
            self.clock.ns += self.piece_ns
            self.left, count, pace = self.left - 1, count + 1, pace - 1


class Crowd:
    def __init__(self) -> None:
        self.clock = ClockByHand()
        self.turns = Turns(self.clock)
        self.done: list[str] = []

    def client(self, name: str, piece_ns: int) -> Asker:
        return Asker(name, piece_ns, self.clock, self.turns, self.done)

    def warm(self) -> None:
        """Let it be known who asks for much."""
        for _ in range(10):
            self.turns.run_queued()


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def test_who_asks_for_much_at_once_works_for_a_slice_of_each_turn(crowd: Crowd) -> None:
    crowd.client("much", MS // 10).ask(1000)
    crowd.warm()
    for _ in range(50):
        before = len(crowd.done)
        crowd.turns.run_queued()
        assert 0 < len(crowd.done) - before <= SLICE_NS // (MS // 10) + module.PIECES


def test_who_asks_for_little_is_served_at_once_beside_who_asks_for_much(crowd: Crowd) -> None:
    much = [crowd.client(f"much {number}", MS // 2) for number in range(8)]
    little = crowd.client("little", MS // 20)
    for client in much:
        client.ask(10_000)
    crowd.warm()
    for _ in range(100):
        crowd.clock.ns += MS
        little.ask()
        assert crowd.done[-1] == "little"
        crowd.turns.run_queued()


def test_who_asks_for_dear_pieces_one_at_a_time_waits_behind_who_asks_for_cheap_ones(crowd: Crowd) -> None:
    dear, cheap = crowd.client("dear", 5 * MS), crowd.client("cheap", MS // 10)
    for _ in range(10):
        dear.ask()
        crowd.turns.run_queued()
    crowd.client("inline", TURN_NS).ask()  # from here on everybody waits for the next turn
    dear.ask()
    cheap.ask()
    del crowd.done[:]
    crowd.turns.run_queued()
    assert crowd.done[0] == "cheap"


def test_of_many_who_ask_for_little_no_turn_serves_all_and_they_are_served_by_age(crowd: Crowd) -> None:
    names = [f"{number}" for number in range(1000)]
    for name in names:
        crowd.client(name, MS // 10).ask()
    assert len(crowd.done) <= TURN_NS // (MS // 10)
    before, turns = len(crowd.done), 0
    while crowd.turns.run_queued():
        turns += 1
        assert len(crowd.done) - before <= TURN_NS // (MS // 10)
        before = len(crowd.done)
    assert crowd.done == names
    assert turns > 20


def test_many_who_come_at_once_work_for_a_slice_of_each_turn_beside_who_was_there(crowd: Crowd) -> None:
    little = crowd.client("little", MS // 20)
    for number in range(64):
        newcomer = crowd.client(f"new {number}", MS)
        newcomer.clear_ns = crowd.turns.of_newcomers()
        newcomer.ask()
    assert len(crowd.done) == 1, "the others wait"
    while crowd.turns.run_queued():
        before = len(crowd.done)
        little.ask()
        assert crowd.done[before:] == ["little"]
    assert crowd.done.count("little") >= 60, "one of them in each turn"


def test_who_came_a_while_ago_is_served_at_once_though_others_wait(crowd: Crowd) -> None:
    former = crowd.client("former", MS // 10)
    former.clear_ns = crowd.turns.of_newcomers()
    crowd.clock.ns += module.NEW_NS
    crowd.client("dear", 2 * MS).ask(3)
    crowd.turns.run_queued()
    former.ask()
    assert crowd.done == ["dear", "dear", "former"]


def test_nobody_who_waits_is_overtaken_for_ever(crowd: Crowd) -> None:
    """Clients that come and go have no debt, but the time that an older one waited counts."""
    old = crowd.client("old", 2 * MS)
    old.ask(1000)
    for number in range(200):
        crowd.client(f"new {number}", 2 * MS).ask(2)
        crowd.turns.run_queued()
    while crowd.turns.run_queued():
        pass
    waits = [0]
    for name in crowd.done:
        waits = [*waits, 0] if name == "old" else [*waits[:-1], waits[-1] + 1]
    assert max(waits) <= 200


def test_a_debt_is_paid_after_a_while(crowd: Crowd) -> None:
    dear = crowd.client("dear", 60_000 * MS)
    dear.ask()
    crowd.turns.run_queued()
    crowd.clock.ns += module.LONGEST_DEBT_NS
    assert dear.clear_ns <= crowd.clock.ns


def test_a_client_that_pipelines_is_interrupted_for_another() -> None:
    """Each look at the clock takes a millisecond here, so that a request is a slice of its own.

    The broker stands still in its first request until the other client's has been sent: what follows is the broker's choice alone.
    """
    frames = 5000
    with ottla.Broker() as broker:
        assert broker._running is not None
        server = broker._running.server
        clock, served, begun, sent = ClockByHand(), list[str](), Event(), Event()
        serve = server.door.receive

        def slow() -> int:
            clock.ns += MS
            return clock.ns

        def noted(frame: Buffer, peer: Peer, now: Now, owned: bool = False) -> object:
            served.append(str(peer))
            begun.set()
            sent.wait(WAIT_S)
            return serve(frame, peer, now, owned)

        server.turns._clock_ns = slow
        server.door.receive = noted  # type: ignore[method-assign,assignment]  # the same, and it takes notes
        with Raw(broker.address) as much, Raw(broker.address) as little:  # no earlier, as a connection keeps the method
            much.send(b"".join(request(METADATA, 1, number, metadata_v1("none")) for number in range(frames)))
            assert begun.wait(WAIT_S)
            little.send(request(API_VERSIONS, 0, 1))
            sent.set()
            assert little.frame()
            me = "{}:{}".format(*little.socket.getsockname())
            assert served.count(me) == 1
            assert served.index(me) < frames - 1
            answers = 0
            while answers < frames:
                assert much.frame()
                answers += 1
