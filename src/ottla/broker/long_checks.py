"""Long checks of batches: run off the broker's thread if there are workers, within a memory limit.

Depends on memory limits and the port of workers, and not on the content of checks.
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
"""Pieces of a batch that one `LongCheck` processes before another batch continues."""

LARGE_BYTES: Final = 8 << 20
"""Memory of a batch, in bytes, above which the batch is large. Small batches do not wait for large batches."""

MOST_HELD_BYTES: Final = 2 * LARGE_BYTES
MOST_HELD_BY_LARGE_BYTES: Final = MOST_OPENED_BYTES
"""Memory limits in bytes, while batches are decompressed: of all batches, and of large batches and large requests."""


class Claim:
    """A request for `size` bytes of memory. Claims are granted in the order in which they were made."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_granted = False
        self.done: Done | None = None

    def wait(self, done: Done) -> None:
        """Call `done(None)` when the claim is granted."""
        self.done = done

    def notify(self) -> None:
        """Resume the work that waits for this claim, because the claim is granted."""
        if self.done is not None:
            self.done(None)


class Memory:
    """A limited amount of memory, in bytes, shared by long checks. A claim above the limit waits until all bytes are free."""

    def __init__(self, most_bytes: int, soon: Callable[[Claim], None]) -> None:
        """Create a limited memory with all bytes free. `soon(claim)` schedules the notification of a granted claim."""
        self.free_bytes = most_bytes
        self._most_bytes = most_bytes
        self._soon = soon
        self._waiting: deque[Claim] = deque()

    @property
    def is_wanted(self) -> bool:
        """Return whether any claim is waiting."""
        return bool(self._waiting)

    def claim(self, size: int) -> Claim:
        """Return a claim. It is granted, possibly at once, when enough bytes are free and all earlier claims are granted."""
        claim = Claim(min(size, self._most_bytes))
        self._waiting.append(claim)
        self._grant()
        return claim

    def release(self, claim: Claim) -> None:
        """Release a granted claim, or withdraw a waiting one."""
        if claim.is_granted:
            self.free_bytes += claim.size
        else:
            self._waiting.remove(claim)
        self._grant()

    def hold_during(self, size: int, steps: Steps[T]) -> Steps[T]:
        """Claim `size` bytes, run `steps`, release the bytes, and return the result of `steps`."""
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


class LongCheck(Generic[T]):
    """A long check of records that runs in several calls, each for up to `most_pieces` pieces of the records.

    A call can run on another thread than the call before, but two calls must not overlap.
    """

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
        """Check up to `most_pieces` more pieces of the records.

        Stop earlier if the next piece needs more memory than was claimed.
        """
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
    """The broker's checks of large batches, which workers run on other threads.

    Without `workers`, the checks run on the broker's thread in steps with pauses between them.
    """

    def __init__(self, workers: Workers | None, clock: Clock, scheduler: Scheduler) -> None:
        self.now = clock.now
        self.memory = Memory(MOST_HELD_BYTES, self._soon)
        self.memory_of_large = Memory(MOST_HELD_BY_LARGE_BYTES, self._soon)
        self._workers = workers
        self._scheduler = scheduler

    def run(self, steps: Generator[int, None, T]) -> Steps[T]:
        """Run `steps`, and return their result or raise their exception.

        After each piece, `steps` yield the memory in bytes that the next piece needs. They must not access shared state.
        """
        turn = LongCheck(steps, 1 if self._workers is None else TURN_PIECES)
        try:
            while not turn.is_over and not turn.room_bytes:
                yield from self._run_steps(turn)
            if not turn.is_over:
                memory = self.memory_of_large if turn.is_large else self.memory
                yield from memory.hold_during(turn.room_bytes, self._finish(turn))
        finally:
            turn.is_dropped = True
        if turn.failure is not None:
            raise turn.failure
        return turn.result

    def hold_during(self, size: int, steps: Steps[T]) -> Steps[T]:
        """Claim `size` bytes of the memory for long checks, run `steps`, release the bytes, and return the result of `steps`."""
        return (self.memory_of_large if size > LARGE_BYTES else self.memory).hold_during(size, steps)

    def _soon(self, claim: Claim) -> None:
        self._scheduler.at(claim, self.now().mono_ms, lambda _: claim.notify())

    def _finish(self, turn: LongCheck[T]) -> Steps[None]:
        while not turn.is_over:
            yield from self._run_steps(turn)

    def _run_steps(self, turn: LongCheck[T]) -> Steps[None]:
        if self._workers is not None:
            yield partial(self._workers.run, turn, is_large=turn.is_large)
            return
        turn()
        yield None
