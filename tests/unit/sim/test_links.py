"""The simulated network between brokers: order on a connection, none between two, and what nobody knows after a break."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.sim.links import LinkFaults, SimLink, SimNetwork
from ottla.sim.process import SimProcess
from ottla.sim.world import World

TIMEOUT_MS = 1_000
Answered = Callable[[memoryview | None], None]


class Server:
    """Answers each frame with itself, or keeps it for later."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def serve(self, frame: memoryview, answered: Answered) -> None:
        self._place.seen.append(bytes(frame))
        if self._place.keeps:
            self._place.kept.append((bytes(frame), answered))
        else:
            answered(frame)

    def close(self) -> None:
        self._place.gone += 1


class Place:
    """A process that listens, and what has reached it."""

    def __init__(self, network: SimNetwork, name: str) -> None:
        self.process = SimProcess(network.world, name)
        self.seen: list[bytes] = []
        self.kept: list[tuple[bytes, Answered]] = []
        self.keeps = False
        self.gone = 0
        network.listen(name, 9092, self.process, lambda: Server(self))


class Sender:
    """A process that sends to a place, and what it was answered."""

    def __init__(self, network: SimNetwork) -> None:
        self.world = network.world
        self.process = SimProcess(network.world, "a")
        self.link: SimLink = network.links(self.process).open("b", 9092, -1)
        self.answers: list[bytes | None] = []

    def send(self, *texts: bytes) -> None:
        for text in texts:
            self.link.send([len(text).to_bytes(4, "big"), text], TIMEOUT_MS, self._answered)

    def _answered(self, frame: memoryview | None) -> None:
        self.answers.append(None if frame is None else bytes(frame))


@pytest.fixture
def network() -> SimNetwork:
    return SimNetwork(World(0))


@pytest.fixture
def b(network: SimNetwork) -> Place:
    return Place(network, "b")


@pytest.fixture
def a(network: SimNetwork) -> Sender:
    return Sender(network)


def test_requests_and_answers_keep_their_order(a: Sender, b: Place, network: SimNetwork) -> None:
    network.faults = LinkFaults(delay=0.5, longest_ms=100)
    sent = [b"%d" % number for number in range(20)]
    a.send(*sent)
    a.world.run(TIMEOUT_MS)
    assert b.seen == a.answers == sent


def test_an_answer_that_is_ready_early_waits_for_those_before_it(a: Sender, b: Place) -> None:
    b.keeps = True
    a.send(b"1", b"2")
    a.world.run(10)
    for text, answered in reversed(b.kept):
        answered(memoryview(text))
    a.world.run(10)
    assert a.answers == [b"1", b"2"]


def test_nobody_listens(network: SimNetwork) -> None:
    a = Sender(network)
    a.send(b"1")
    a.world.run(10)
    assert a.answers == [None]


def test_what_comes_too_late_is_not_answered_and_breaks_the_connection(a: Sender, b: Place) -> None:
    b.keeps = True
    a.send(b"1", b"2")
    a.world.run(TIMEOUT_MS + 10)
    assert (a.answers, b.gone) == ([None, None], 1)
    b.keeps = False
    for _, answered in b.kept:
        answered(memoryview(b"late"))
    a.send(b"3")
    a.world.run(10)
    assert a.answers == [None, None, b"3"]


@pytest.mark.parametrize(("source", "target", "arrives"), [("a", "b", False), ("b", "a", True)])
def test_a_way_that_is_cut_leaves_the_sender_without_an_answer(
    a: Sender, b: Place, network: SimNetwork, source: str, target: str, arrives: bool
) -> None:
    network.cuts.cut(source, target, both=False)
    a.send(b"1")
    a.world.run(TIMEOUT_MS + 10)
    assert (a.answers, b.seen) == ([None], [b"1"] if arrives else [])
    network.cuts.heal_all()
    a.send(b"2")
    a.world.run(TIMEOUT_MS)
    assert a.answers == [None, b"2"]


def test_what_is_sent_again_over_another_connection_may_come_first_and_twice(a: Sender, b: Place, network: SimNetwork) -> None:
    network.faults = LinkFaults(least_ms=300, longest_ms=301)
    a.send(b"1")
    a.link.close()
    network.faults = LinkFaults()
    again = Sender(network)
    again.send(b"1", b"2")
    a.world.run(TIMEOUT_MS)
    assert b.seen == [b"1", b"2", b"1"]
    assert a.answers == [None]


def test_a_connection_that_breaks_at_a_frame_brings_it_or_not(a: Sender, b: Place, network: SimNetwork) -> None:
    network.faults = LinkFaults(lose=1.0)
    for number in range(20):
        a.send(b"%d" % number)
        a.world.run(TIMEOUT_MS)
    assert a.answers == [None] * 20
    assert 0 < len(b.seen) < 20


def test_a_process_that_ends_resets_its_connections(a: Sender, b: Place, network: SimNetwork) -> None:
    b.keeps = True
    a.send(b"1")
    a.world.run(10)
    b.process.end()
    network.reset(b.process)
    a.world.run(10)
    assert a.answers == [None]


def test_a_process_that_stands_still_serves_afterwards(a: Sender, b: Place) -> None:
    b.process.pause(500)
    a.send(b"1")
    a.world.run(400)
    assert b.seen == []
    a.world.run(200)
    assert a.answers == [b"1"]


def test_a_closed_link_answers_nothing(a: Sender, b: Place) -> None:
    a.link.close()
    a.send(b"1")
    a.world.run(10)
    assert (a.answers, b.seen) == ([None], [])
