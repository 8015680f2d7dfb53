"""Turns: how much of the broker's thread each connection has used, and whose turn it is next. Knows time, nothing of bytes.

The loop polls the sockets, hears every connection that has input, and polls again: that is one turn. A connection that has used
little lately is served at once. One that has used more than its share, or has just come, is served at once only while nobody waits
and the turn is young; otherwise it waits in a queue, of which each turn serves one slice. So whoever asks for little waits for a
slice or two, whatever the others ask for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

SLICE_NS = 1_000_000
"""After so much work at one go the next connection has its turn."""

TURN_NS = 4_000_000
"""After so much work in one turn even light connections wait for the next one: there may be thousands."""

SHARE = 50
"""A connection that uses no more than one part in so many of the thread is light, always."""

LIGHT_NS = SHARE * 2_000_000
"""A debt of two milliseconds' work still counts as light."""

NEW_NS = 200_000_000
"""For so long after it came, a connection counts as one that has used much: hundreds may come at once."""

PIECES = 4
"""So many pieces of cheap work are done between two looks at the clock."""

LONGEST_DEBT_NS = 1_000_000_000
"""Whatever a connection has used, after so long it counts as light again."""


class TurnTaker(Protocol):
    """What works in turns.

    `clear_ns`: when all that it has used will be no more than its share. `waits`: it is in the queue; set by a worker that has not
    done all when the turn is over.
    """

    clear_ns: int
    waits: bool

    def go_on(self) -> None:
        """Work until `pace` says 0: those who came before had their turns."""


class Turns:
    """Decides who works now. `begin` comes before a worker's work and `end` after it, never two at a time.

    `used_ns` is what all have used in this turn. In the queue those go first whose debt is paid first. The time they wait counts,
    so nobody waits for ever.
    """

    def __init__(self, clock_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self.meter: Callable[[TurnTaker, int], None] | None = None
        """Hears what each worker has used, where that is limited."""
        self.used_ns = 0
        self._began_ns = 0
        self._deadline_ns = 0
        self._count = 0
        self.queue: list[tuple[int, int, TurnTaker]] = []

    def of_newcomers(self) -> int:
        """`clear_ns` of a worker that begins now."""
        return self._clock_ns() + LIGHT_NS + NEW_NS

    def pace(self, done: int) -> int:
        """How many more pieces of work, after `done`, the worker may do before it asks again; 0: others have to go on."""
        now_ns = self._clock_ns()
        left_ns = self._deadline_ns - now_ns
        if left_ns <= 0:
            return 0
        return PIECES if left_ns * done > (now_ns - self._began_ns) * PIECES else 1

    def begin(self, worker: TurnTaker) -> bool:
        """Whether a worker may work now. If not, it goes on in a later turn."""
        began_ns = self._began_ns = self._clock_ns()
        is_light = worker.clear_ns - began_ns <= LIGHT_NS
        left_ns = (TURN_NS if is_light else 0 if self.queue else SLICE_NS) - self.used_ns
        self._deadline_ns = began_ns + (left_ns if left_ns < SLICE_NS else SLICE_NS)
        if left_ns > 0:
            return True
        worker.waits = True
        self._add(worker)
        return False

    def wait(self, worker: TurnTaker) -> None:
        """Let a worker that does not work now go on in a later turn."""
        if not worker.waits:
            worker.waits = True
            self._add(worker)

    def end(self, worker: TurnTaker) -> None:
        """Charge a worker for what it did since `begin`; if it `waits`, it goes on in a later turn."""
        began_ns = self._began_ns
        used_ns = self._clock_ns() - began_ns
        self.used_ns += used_ns
        before_ns = worker.clear_ns
        clear_ns = (before_ns if before_ns > began_ns else began_ns) + SHARE * used_ns
        worker.clear_ns = clear_ns if clear_ns - began_ns < LONGEST_DEBT_NS else began_ns + LONGEST_DEBT_NS
        if worker.waits:
            self._add(worker)
        if self.meter is not None:
            self.meter(worker, used_ns)

    def take(self) -> bool:
        """Begin a turn: those who come next in the queue go on, for one slice together, or longer while they are light.

        Whether anybody still waits.
        """
        self.used_ns = 0
        while self.queue and self.used_ns < TURN_NS:
            now_ns = self._clock_ns()
            worker = self.queue[0][2]
            if self.used_ns >= SLICE_NS and worker.clear_ns - now_ns > LIGHT_NS:
                break
            heapq.heappop(self.queue)
            worker.waits = False
            self._began_ns, self._deadline_ns = now_ns, now_ns + SLICE_NS
            worker.go_on()
            self.end(worker)
        return bool(self.queue)

    def _add(self, worker: TurnTaker) -> None:
        self._count += 1
        heapq.heappush(self.queue, (max(worker.clear_ns, self._began_ns), self._count, worker))
