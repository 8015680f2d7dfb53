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
        self.now_ms = self.clock.now().mono_ms
        """The simulation's monotonic time in milliseconds: an attribute, because it is read several times in each event."""
        self.happened = 0
        self.timed: list[Timed] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def after(self, ms: int, call: Callable[[], None]) -> None:
        """Schedule a call after `ms`. Calls that are due at the same time run in the order of their scheduling."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + ms if ms > 0 else self.now_ms, self._count, call))

    def run(self, ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let `ms` pass, but stop as soon as `until()` returns True. Return the last result of `until()`.

        `until` is called after every event.
        """
        end_ms = self.now_ms + ms
        queue, timed = self._queue, self.timed
        while True:
            timer_ms = end_ms + 1
            for each in timed:
                due_ms = each.next_ms()
                if due_ms is not None and due_ms < timer_ms:
                    timer_ms = due_ms
            if queue and queue[0][0] < timer_ms:
                if queue[0][0] > end_ms:
                    break
                self._advance_to(queue[0][0])
                self.happened += 1
                heapq.heappop(queue)[2]()
            elif timer_ms <= end_ms:
                self._advance_to(timer_ms)
                self.happened += 1
                for each in timed:
                    each.run_due(self.clock.now())
            else:
                break
            if until():
                return True
        self._advance_to(end_ms)
        return until()

    def _advance_to(self, ms: int) -> None:
        """Let the clock show `ms`, unless it is later: deadlines may be in the past."""
        if ms > self.now_ms:
            self.now_ms = self.clock.advance(ms - self.now_ms).mono_ms
