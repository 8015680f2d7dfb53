"""A world of events that happen one by one at simulated times. The seed decides their order. Brokers are unknown here."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from ottla.ports import Now
from ottla.sim.clock import SimClock


class Timed(Protocol):
    """An object with deadlines, such as a broker."""

    def next_ms(self) -> int | None:
        """Return the next deadline in milliseconds of the monotonic clock, or None without one."""
        ...

    def run_due(self, now: Now) -> None:
        """Run everything whose deadline has passed at `now`."""
        ...


@dataclass(slots=True)
class Delays:
    """Delays in ms: `least_ms`, or with the probability `delay` a random one below `longest_ms`."""

    least_ms: int = 1
    longest_ms: int = 2
    delay: float = 0.0

    def draw_ms(self, world: World) -> int:
        """Return the delay of one message."""
        return world.random.randrange(self.least_ms, self.longest_ms) if world.chance(self.delay) else self.least_ms


class World:
    """The clock, the scheduled events, and the only source of randomness. `happened` is the number of events so far."""

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
        """Return the simulation's monotonic time in milliseconds."""
        return self.clock.now().mono_ms

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def after(self, ms: int, call: Callable[[], None]) -> None:
        """Schedule a call after `ms`. Calls that are due at the same time run in the order of their scheduling."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + max(0, ms), self._count, call))

    def run(self, ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let `ms` pass, but stop as soon as `until()` returns True. Return the last result of `until()`.

        `until` is called after every event.
        """
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
