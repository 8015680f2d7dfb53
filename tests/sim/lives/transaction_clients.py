"""Simulated clients of transactions: how a script of requests runs in a bad world. Knows links and time; knows no transactions.

A client is a generator that yields what it waits for: a pause, or requests, whose responses it gets. It may stand still at any
point and go on long afterwards. What it sends to coordinators, to leaders and to a group's coordinator goes over a connection each,
as if these were different brokers; one on which an answer was late is given up, and what was sent on it may still arrive, unless
the client's protocol has no remedy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ottla.sim.network import RequestLink, Watch
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.schema import Message
from tests.sim.seeds import Violation

REQUEST_TIMEOUT_MS = 1_500
RETRY_MS = 50

COORDINATOR, LEADER, GROUP = "coordinator", "leader", "group"

RETRIABLE = frozenset(
    (
        codes.CONCURRENT_TRANSACTIONS,
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.FENCED_LEADER_EPOCH,
        codes.KAFKA_STORAGE_ERROR,
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_COORDINATOR,
        codes.NOT_ENOUGH_REPLICAS,
        codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.OFFSET_NOT_AVAILABLE,
        codes.REQUEST_TIMED_OUT,
        codes.UNKNOWN_LEADER_EPOCH,
        codes.UNSTABLE_OFFSET_COMMIT,
    )
)
ASKED_AGAIN = RETRIABLE | {codes.UNKNOWN_TOPIC_OR_PARTITION}
"""Where nobody deletes a topic, a broker of a cluster may not know it yet."""
FENCED = frozenset((codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH, codes.INVALID_PRODUCER_ID_MAPPING))


class SimRequest(NamedTuple):
    """A request. `to` names the connection; `watch` sees it arrive, and its answer leave."""

    to: str
    key: int
    version: int
    body: Message
    watch: Watch | None = None
    timeout_ms: int = REQUEST_TIMEOUT_MS


class Rest(NamedTuple):
    """A pause."""

    ms: int


class ClientEnded(Exception):
    """The client cannot go on: another has taken its place, or it was aborted."""


Script = Generator[Rest | Sequence[SimRequest], list[Any], Any]


class SimClient(ABC):
    """A client process that follows its `script`."""

    def __init__(self, world: World, name: str, connect: Callable[[], RequestLink]) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.ended_by = ""
        self._connect = connect
        self._links = {to: connect() for to in (COORDINATOR, LEADER, GROUP)}
        self._still_until_ms = 0
        self._script = self.script()
        self._begun = False
        world.after(0, partial(self._go_on, []))

    @property
    def cuts(self) -> frozenset[str]:
        """Those connections on which nothing arrives any more once they are given up."""
        return frozenset()

    @abstractmethod
    def script(self) -> Script:
        """What it does, until it has nothing more to do."""

    def die(self) -> None:
        """End without a word. What it has sent may still arrive."""
        self.alive = False

    def stand_still(self, ms: int) -> None:
        """Do nothing for so long, as a process does that is suspended."""
        self._still_until_ms = self.world.now_ms + ms

    def _go_on(self, answers: list[Any]) -> None:
        if not self.alive:
            return
        left_ms = self._still_until_ms - self.world.now_ms
        if left_ms > 0:
            self.world.after(left_ms, partial(self._go_on, answers))
            return
        try:
            step = self._script.send(answers if self._begun else None)  # type: ignore[arg-type]  # a generator begins with None
            self._begun = True
        except (StopIteration, ClientEnded) as end:
            self.ended_by = str(end)
            self.alive = False
            return
        if isinstance(step, Rest):
            self.world.after(step.ms, partial(self._go_on, []))
        else:
            self._ask_all(step)

    def _ask_all(self, asks: Sequence[SimRequest]) -> None:
        answers: list[Any] = [None] * len(asks)
        missing = len(asks)

        def answered(at: int, response: Any) -> None:
            nonlocal missing
            answers[at] = response
            missing -= 1
            if response is None and self._links[asks[at].to] is links[at]:
                self._links[asks[at].to] = self._connect()
                if asks[at].to in self.cuts:
                    links[at].cut()
            if not missing:
                self._go_on(answers)

        links = [self._links[ask.to] for ask in asks]
        for at, ask in enumerate(asks):
            links[at].request(ask.key, ask.version, ask.body, partial(answered, at), ask.timeout_ms, ask.watch)

    def send(self, ask: SimRequest) -> None:
        """Send a request whose answer nobody waits for."""
        self._links[ask.to].request(ask.key, ask.version, ask.body, lambda response: None, ask.timeout_ms, ask.watch)

    def insist(self, ask: SimRequest, code_of: Callable[[Any], int], *expected: int) -> Script:
        """Ask until there is an answer; returns it. Raises `ClientEnded` if others have taken this producer's place."""
        while True:
            (response,) = yield [ask]
            code = codes.NOT_COORDINATOR if response is None else code_of(response)
            if code == codes.NONE or code in expected:
                return response
            if code in FENCED:
                raise ClientEnded(codes.error_name(code))
            if code not in ASKED_AGAIN:
                raise Violation(f"no error without a cause: {self.name} got {codes.error_name(code)} for {type(ask.body).__name__}")
            yield Rest(RETRY_MS)
