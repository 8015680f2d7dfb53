"""Deadlines by key: a heap that forgets cancelled entries lazily. Knows monotonic milliseconds, not the clock."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Hashable

from ottla.broker.failures import EXPECTED
from ottla.ports import Now

log = logging.getLogger("ottla.broker")

Due = Callable[[Now], None]


class Timers:
    """At most one deadline per key; setting it anew replaces the former one."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, Due]] = {}
        self._count = 0

    def at(self, key: Hashable, mono_ms: int, due: Due) -> None:
        """Call `due(now)` once the monotonic clock has reached `mono_ms`."""
        self._count += 1
        self._live[key] = (self._count, due)
        heapq.heappush(self._heap, (mono_ms, self._count, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._live):
            self._forget_cancelled()

    def every(self, key: Hashable, period_ms: Callable[[], int], due: Due, now: Now) -> None:
        """Call `due(now)` again and again, every `period_ms()`; whatever comes of a call, the next one follows."""

        def again(now: Now) -> None:
            self.every(key, period_ms, due, now)
            due(now)

        self.at(key, now.mono_ms + max(1, period_ms()), again)

    def cancel(self, key: Hashable) -> None:
        self._live.pop(key, None)

    def next_ms(self) -> int | None:
        """The earliest deadline, or None if there is none."""
        while self._heap:
            mono_ms, count, key = self._heap[0]
            live = self._live.get(key)
            if live is not None and live[0] == count:
                return mono_ms
            heapq.heappop(self._heap)
        return None

    def run_due(self, now: Now) -> None:
        """Call everything whose deadline has passed, in order of the deadlines. What one of them is refused keeps no other back."""
        while (mono_ms := self.next_ms()) is not None and mono_ms <= now.mono_ms:
            _, _, key = heapq.heappop(self._heap)
            _, due = self._live.pop(key)
            try:
                due(now)
            except EXPECTED as failure:
                log.error("%s did not come to its end: %s", key, failure)

    def _forget_cancelled(self) -> None:
        self._heap = [entry for entry in self._heap if self._live.get(entry[2], (0,))[0] == entry[1]]
        heapq.heapify(self._heap)
