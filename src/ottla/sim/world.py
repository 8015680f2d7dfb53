"""A world in which things happen one by one at simulated times, in an order decided by the seed. Knows no brokers."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Protocol

from ottla.ports import Now
from ottla.sim.clock import SimClock


class Timed(Protocol):
    """Something with deadlines of its own, such as a broker."""

    def next_ms(self) -> int | None:
        """Return its next deadline, in milliseconds of the monotonic clock."""
        ...

    def run_due(self, now: Now) -> None:
        """Do what is due."""
        ...


class World:
    """The clock, the things to happen, and the only source of chance. `happened` counts those that have."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = SimClock()
        self.happened = 0
        self.timed: list[Timed] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    @property
    def now_ms(self) -> int:
        """The monotonic time."""
        return self.clock.now().mono_ms

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def after(self, ms: int, call: Callable[[], None]) -> None:
        """Schedule something; things due at the same time happen in the order in which they were scheduled."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + max(0, ms), self._count, call))

    def run(self, ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, or stop as soon as `until` holds, which is checked after every event; returns whether it holds."""
        end_ms = self.now_ms + ms
        while True:
            deadlines = [due for each in self.timed if (due := each.next_ms()) is not None]
            timer_ms = min(deadlines, default=end_ms + 1)
            event_ms = self._queue[0][0] if self._queue else end_ms + 1
            if min(timer_ms, event_ms) > end_ms:
                self.clock.advance(end_ms - self.now_ms)
                return until()
            self._step(timer_ms, event_ms)
            if until():
                return True

    def _step(self, timer_ms: int, event_ms: int) -> None:
        self.happened += 1
        self.clock.advance(max(0, min(timer_ms, event_ms) - self.now_ms))
        if timer_ms <= event_ms:
            for each in self.timed:
                each.run_due(self.clock.now())
        else:
            heapq.heappop(self._queue)[2]()
