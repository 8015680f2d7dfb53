"""Checks of batches that take long: off the broker's thread where there are other threads, and within the memory that there is.

Knows turns, memory and the port of threads; knows nothing of what is checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Final, Generic, TypeVar

from ottla.broker.scheduler import Scheduler
from ottla.ports import Clock, Done, Steps, Workers
from ottla.records.batches.verification import MOST_OPENED_BYTES
from ottla.records.compression.limits import PAUSE_BYTES

T = TypeVar("T")

TURN_PIECES: Final = 8
"""Pieces that are opened in one turn, before the next batch has its own."""

LARGE_BYTES: Final = 8 << 20
"""A batch that needs more memory than this to be opened, or opens to more, is large: others do not wait for it."""

MOST_HELD_BYTES: Final = 2 * LARGE_BYTES
MOST_HELD_BY_LARGE_BYTES: Final = MOST_OPENED_BYTES
"""What all batches together, and all large ones with the large requests that arrive, may take of memory while they are opened."""


class Claim:
    """A claim to memory: granted in the order in which claims were made."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_granted = False
        self.done: Done | None = None

    def wait(self, done: Done) -> None:
        """Call `done(None)` when the claim is granted."""
        self.done = done

    def tell(self) -> None:
        """Tell it to whoever waits."""
        if self.done is not None:
            self.done(None)


class Memory:
    """A number of bytes that may be held at once, by whomever. Who wants more than there is at all has it alone."""

    def __init__(self, most_bytes: int, soon: Callable[[Claim], None]) -> None:
        """`soon` has a claim tell later that it is granted: not from within whoever made room for it."""
        self.free_bytes = most_bytes
        self._most_bytes = most_bytes
        self._soon = soon
        self._waiting: deque[Claim] = deque()

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for what others hold."""
        return bool(self._waiting)

    def claim(self, size: int) -> Claim:
        """A claim that is granted once so many bytes are free, and nobody waits for theirs any longer; perhaps it is already."""
        claim = Claim(min(size, self._most_bytes))
        self._waiting.append(claim)
        self._grant()
        return claim

    def release(self, claim: Claim) -> None:
        """Give back what was granted, or wait for it no longer."""
        if claim.is_granted:
            self.free_bytes += claim.size
        else:
            self._waiting.remove(claim)
        self._grant()

    def holding(self, size: int, steps: Steps[T]) -> Steps[T]:
        """What `steps` return, which are begun when a claim to so many bytes is granted."""
        claim = self.claim(size)
        try:
            while not claim.is_granted:
                yield claim.wait
            return (yield from steps)
        finally:
            self.release(claim)

    def _grant(self) -> None:
        while self._waiting and self._waiting[0].size <= self.free_bytes:
            claim = self._waiting.popleft()
            self.free_bytes -= claim.size
            claim.is_granted = True
            if claim.done is not None:
                self._soon(claim)


class Turn(Generic[T]):
    """A check under way. A call does some pieces of it, on whatever thread: nobody else looks at it meanwhile."""

    def __init__(self, steps: Generator[int, None, T], most_pieces: int) -> None:
        self.room_bytes = 0
        self.pieces = 0
        self.is_over = False
        self.is_dropped = False
        self.failure: Exception | None = None
        self.result: T
        self._steps = steps
        self._most_pieces = most_pieces

    def __call__(self) -> None:
        """Go on until a turn's pieces are done, or until more memory is needed than before."""
        before = self.room_bytes
        try:
            for _ in range(self._most_pieces):
                if self.is_dropped:
                    return
                self.room_bytes = next(self._steps)
                self.pieces += 1
                if self.room_bytes > before:
                    return
        except StopIteration as done:
            self.result, self.is_over = done.value, True
        except Exception as failure:
            self.failure, self.is_over = failure, True

    @property
    def is_large(self) -> bool:
        return self.room_bytes > LARGE_BYTES or self.pieces * PAUSE_BYTES > LARGE_BYTES


class LongChecks:
    """All long checks of a broker. Without `workers` they are done in slices on the broker's own thread."""

    def __init__(self, workers: Workers | None, clock: Clock, scheduler: Scheduler) -> None:
        self.now = clock.now
        self.memory = Memory(MOST_HELD_BYTES, self._soon)
        self.memory_of_large = Memory(MOST_HELD_BY_LARGE_BYTES, self._soon)
        self._workers = workers
        self._scheduler = scheduler

    def run(self, steps: Generator[int, None, T]) -> Steps[T]:
        """What `steps` return, which yield how much memory they take from there on, after each piece and before they take it.

        They must touch nothing that others change. What they raise is raised here.
        """
        turn = Turn(steps, 1 if self._workers is None else TURN_PIECES)
        try:
            while not turn.is_over and not turn.room_bytes:
                yield from self._go_on(turn)
            if not turn.is_over:
                memory = self.memory_of_large if turn.is_large else self.memory
                yield from memory.holding(turn.room_bytes, self._finish(turn))
        finally:
            turn.is_dropped = True
        if turn.failure is not None:
            raise turn.failure
        return turn.result

    def holding(self, size: int, steps: Steps[T]) -> Steps[T]:
        """What `steps` return, which take so much memory."""
        return (self.memory_of_large if size > LARGE_BYTES else self.memory).holding(size, steps)

    def _soon(self, claim: Claim) -> None:
        self._scheduler.at(claim, self.now().mono_ms, lambda _: claim.tell())

    def _finish(self, turn: Turn[T]) -> Steps[None]:
        while not turn.is_over:
            yield from self._go_on(turn)

    def _go_on(self, turn: Turn[T]) -> Steps[None]:
        if self._workers is not None:
            yield partial(self._workers.run, turn, is_large=turn.is_large)
            return
        turn()
        yield None
