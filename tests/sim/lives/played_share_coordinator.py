"""A share coordinator in a bad world: the real machine, whose log loses its end, and whose requests and answers get lost.

Requests of one leader arrive in their order. A leader that gets no answer in time goes on with an error.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

from ottla.coord.runtime.machine import Input, KeyAndValue
from ottla.coord.share_state.inputs import (
    InitializeState,
    ReadState,
    SharePartitionKey,
    SharePlace,
    ShareStateSettings,
    StateOperation,
    StateRequest,
    StateResult,
    WriteState,
)
from ottla.coord.share_state.machine import ShareStateMachine
from ottla.coord.share_state.records import decode_record
from ottla.ports import Now
from ottla.share.cells import ACKNOWLEDGED
from ottla.wire.errors import COORDINATOR_NOT_AVAILABLE

GROUP, TOPIC_ID = "workers", bytes(range(16))
KEY = SharePartitionKey(GROUP, TOPIC_ID, 0)
ANSWER_MS = 300
"""How long a leader waits for an answer."""

Done = Callable[[StateResult], None]


class PlayedClock:
    """Milliseconds, and what happens at which of them."""

    def __init__(self) -> None:
        self.ms = 1_000
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    @property
    def now(self) -> Now:
        return Now(self.ms, self.ms)

    def call(self, at_ms: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_ms, next(self._numbers), call))

    def advance(self, ms: int) -> None:
        until = self.ms + ms
        while self._due and self._due[0][0] <= until:
            at_ms, _, call = heapq.heappop(self._due)
            self.ms = max(self.ms, at_ms)
            call()
        self.ms = until


class PlayedShareCoordinator:
    """The coordinator's machine, its log, and the way to it."""

    def __init__(self, random: Random, clock: PlayedClock) -> None:
        self.random, self.clock = random, clock
        self.stored: list[KeyAndValue] = []
        self.durable = 0
        self.life = 0
        """How often it began anew."""
        self._completed: list[tuple[int, set[int]]] = []
        self.losses = 0.1
        """The share of requests and of answers that get lost."""
        self._arrival: dict[int, int] = {}
        self._begin()
        self._decide(StateOperation.INITIALIZE, InitializeState(TOPIC_ID, 0, 1, -1))
        self.durable = len(self.stored)

    def _begin(self) -> None:
        settings = ShareStateSettings(share_coordinator_snapshot_update_records_per_snapshot=self.random.choice((0, 2, 500)))
        self.machine = ShareStateMachine(settings, lambda topic_id: 1, end_offset=lambda: len(self.stored))
        for key, value in self.stored:
            record = decode_record(key, value)
            assert record is not None
            self.machine.apply(record)

    def crash(self) -> None:
        """Lose what is not durable, and begin anew with the rest."""
        kept = self.random.randint(self.durable, len(self.stored))
        del self.stored[kept:]
        self.durable = kept
        self._completed = [(end, offsets) for end, offsets in self._completed if end <= kept]
        self.life += 1
        self._begin()

    def ask(self, sender: int, operation: StateOperation, place: SharePlace, done: Done) -> None:
        """Send a request on its way. `done` is called once, with an error if there is no answer in time."""
        answered: list[StateResult] = []

        def answer(result: StateResult) -> None:
            if not answered:
                answered.append(result)
                done(result)

        arrives_ms = max(self._arrival.get(sender, 0), self.clock.ms + self.random.choice((0, 1, 5, 60)))
        self._arrival[sender] = arrives_ms
        if self.random.random() >= self.losses:
            self.clock.call(arrives_ms, lambda: self._arrive(operation, place, answer))
        self.clock.call(self.clock.ms + ANSWER_MS, lambda: answer(StateResult(COORDINATOR_NOT_AVAILABLE)))

    def _arrive(self, operation: StateOperation, place: SharePlace, answer: Done) -> None:
        result = self._decide(operation, place)
        end, life = len(self.stored), self.life
        if isinstance(place, WriteState) and not result.error_code:
            ranges = [range(first, last + 1) for first, last, state, _ in place.batches if state >= ACKNOWLEDGED]
            self._completed.append((end, {offset for each in ranges for offset in each}))
        is_lost = self.random.random() < self.losses

        def sync() -> None:
            if self.life == life:
                self.durable = max(self.durable, end)
                if not is_lost:
                    answer(result)

        self.clock.call(self.clock.ms + self.random.choice((0, 2, 40)), sync)

    def _decide(self, operation: StateOperation, place: SharePlace) -> StateResult:
        outcome = self.machine.decide(Input(StateRequest(operation, GROUP, [place])), self.clock.now)
        for record in outcome.records:
            self.stored.append(self.machine.encode(record))
            self.machine.apply(record)
        results = outcome.replies[0].message
        assert isinstance(results, list)
        assert isinstance(results[0], StateResult)
        return results[0]

    def completed(self) -> set[int]:
        """Return the offsets that were stored as accepted or archived."""
        return {offset for _, offsets in self._completed for offset in offsets}

    def read(self, leader_epoch: int, done: Done) -> None:
        self.ask(leader_epoch, StateOperation.READ, ReadState(TOPIC_ID, 0, leader_epoch), done)

    def write(self, leader_epoch: int, place: WriteState, done: Done) -> None:
        self.ask(leader_epoch, StateOperation.WRITE, place, done)
