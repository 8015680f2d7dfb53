"""Housekeeping in slices of a millisecond or two, so that it never shows in what a request takes; knows iterators and timers."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.timers import Timers
from ottla.ports import Clock, Now

SLICE_MS = 2
MOST_STEPS = 256
"""A slice ends with either: a clock that stands still, in a simulation, does not make it endless."""


class Chores:
    """Each chore is an iterator that works a little with each step. At most one of a name is under way."""

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._under_way: set[str] = set()

    def begin(self, name: str, steps: Iterator[object]) -> bool:
        """Do the first slice of it; False, and nothing is begun, while the one before is under way."""
        if name in self._under_way:
            return False
        self._under_way.add(name)
        self._slice(name, steps)
        return True

    def _slice(self, name: str, steps: Iterator[object]) -> None:
        began_ms = self._clock.now().mono_ms
        now_ms = began_ms
        for number, _ in enumerate(steps, 1):
            now_ms = self._clock.now().mono_ms
            if now_ms >= began_ms + SLICE_MS or number == MOST_STEPS:
                break
        else:
            self._under_way.discard(name)
            return

        def go_on(now: Now) -> None:
            self._slice(name, steps)

        self._timers.at(("chore", name), now_ms + max(1, now_ms - began_ms), go_on)
