"""The division of the broker's thread among connections: the time that each has used, and their order in a queue.

One turn is one iteration of the loop. It polls the sockets, and reads from every connection with input. A connection that has used
little time recently ("light") is served at once. A heavy or new connection is served at once only if no other waits and the turn
has used little time. Otherwise it waits in a queue, of which each turn serves one slice of time. A light connection thus waits for
one or two slices, whatever the others do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

SLICE_NS = 1_000_000
"""The working time, in ns, after which the next connection is served."""

TURN_NS = 4_000_000
"""The working time in one turn, in ns, after which even light connections wait, because there can be thousands."""

SHARE = 50
"""The divisor of a fair share: a connection that uses at most 1/SHARE of the thread's time is always light."""

LIGHT_NS = SHARE * 2_000_000
"""The largest debt of a light connection, in ns: SHARE times two milliseconds of working time."""

NEW_NS = 200_000_000
"""The time, in ns, for which a new connection counts as heavy, because hundreds can connect at once."""

PIECES = 4
"""The number of cheap pieces of work between two readings of the clock."""

LONGEST_DEBT_NS = 1_000_000_000
"""The limit on a connection's debt, in ns, which is the longest time until it is light again."""


class TurnTaker(Protocol):
    """Something that the scheduler `Turns` runs for a limited time, again and again, such as a connection.

    `clear_ns` is the time at which its used time is within its share of the thread. `waits` is whether it is in the queue. It sets
    `waits` itself if work is left when its time is over.
    """

    clear_ns: int
    waits: bool

    def run(self) -> None:
        """Work until `pace` returns 0. The scheduler calls this when the time of this worker begins."""


class Turns:
    """A scheduler that divides the time of the thread fairly among workers. Only one worker works at a time.

    `begin` precedes a worker's work, and `end` follows it. `used_ns` is the time that all workers have used in the current
    iteration of the event loop. The queue is sorted by `clear_ns`. A worker's debt shrinks while the worker waits, so it never
    waits without end.
    """

    def __init__(self, clock_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self.meter: Callable[[TurnTaker, int], None] | None = None
        """A callback that gets each worker and the time that it used, in ns. None if no quota limits that time."""
        self.used_ns = 0
        self._began_ns = 0
        self._deadline_ns = 0
        self._count = 0
        self.queue: list[tuple[int, int, TurnTaker]] = []

    def of_newcomers(self) -> int:
        """Return the `clear_ns` with which a new worker begins."""
        return self._clock_ns() + LIGHT_NS + NEW_NS

    def pace(self, done: int) -> int:
        """Return how many pieces of work the worker may do before the next call; 0 if its turn is over.

        `done` is the number of pieces since `begin`.
        """
        now_ns = self._clock_ns()
        left_ns = self._deadline_ns - now_ns
        if left_ns <= 0:
            return 0
        return PIECES if left_ns * done > (now_ns - self._began_ns) * PIECES else 1

    def begin(self, worker: TurnTaker) -> bool:
        """Return True if a worker may work now. Otherwise queue the worker for a later turn, and return False."""
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
        """Queue a worker that is not working, so that the scheduler runs it later."""
        if not worker.waits:
            worker.waits = True
            self._add(worker)

    def end(self, worker: TurnTaker) -> None:
        """Add the time since `begin` to a worker's debt. If the worker `waits`, queue it for a later turn."""
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

    def run_queued(self) -> bool:
        """Run queued workers for one slice of time in total, or longer while they are light. Return whether any still wait."""
        self.used_ns = 0
        while self.queue and self.used_ns < TURN_NS:
            now_ns = self._clock_ns()
            worker = self.queue[0][2]
            if self.used_ns >= SLICE_NS and worker.clear_ns - now_ns > LIGHT_NS:
                break
            heapq.heappop(self.queue)
            worker.waits = False
            self._began_ns, self._deadline_ns = now_ns, now_ns + SLICE_NS
            worker.run()
            self.end(worker)
        return bool(self.queue)

    def _add(self, worker: TurnTaker) -> None:
        self._count += 1
        heapq.heappush(self.queue, (max(worker.clear_ns, self._began_ns), self._count, worker))
