"""Housekeeping in slices of a millisecond or two, so that it never shows in what a request takes; knows iterators and timers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ottla.broker.failures import EXPECTED
from ottla.broker.timers import Timers
from ottla.ports import Clock, Now

log = logging.getLogger("ottla.broker")

SLICE_MS = 2
MOST_STEPS = 256
"""A slice ends with either: a clock that stands still, in a simulation, does not make it endless."""


class Chores:
    """Each chore is an iterator that works a little with each step. At most one of a name is under way.

    One that is refused something ends there, and can be begun again.
    """

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
        try:
            goes_on = self._work(steps, began_ms)
        except EXPECTED as failure:
            log.error("%s did not come to its end: %s; it begins anew when it is due", name, failure)
            goes_on = False
        if not goes_on:
            self._under_way.discard(name)
            return

        def go_on(now: Now) -> None:
            self._slice(name, steps)

        now_ms = self._clock.now().mono_ms
        self._timers.at(("chore", name), now_ms + max(1, now_ms - began_ms), go_on)

    def _work(self, steps: Iterator[object], began_ms: int) -> bool:
        """Do a slice of it; whether there is more."""
        until_ms = began_ms + SLICE_MS
        return any(number == MOST_STEPS or self._clock.now().mono_ms >= until_ms for number, _ in enumerate(steps, 1))
