"""Deadlines by key, and background jobs that run in slices of a few milliseconds, with pauses between slices.

Depends on the clock and on generators, and not on their work. An expected failure of one job or deadline does not affect the
others.

Jobs that must not overlap run one after the other (`InTurn`). A job can wait, with a deadline, for a condition that another
part of the broker makes true (`Waits`).
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

from ottla.broker.failures import EXPECTED
from ottla.ports import Clock, Done, Now, Steps, StorageFailed

log = logging.getLogger("ottla.broker")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Due = Callable[[Now], None]

SLICE_MS = 2
URGENT_SLICE_MS = 2
MOST_ROUNDS = 64
"""Upper limit of rounds of one `run_due`. A round calls deadlines that were set in the previous round and have passed."""
MOST_STEPS = 256
"""Upper limit of steps in a slice, in addition to the time limit, because a simulated clock can stand still."""


class Job(Generic[T_co]):
    """A generator that the scheduler runs step by step. `result` is sent into its next step."""

    __slots__ = ("done", "failed", "is_urgent", "name", "result", "steps")

    def __init__(
        self,
        name: Hashable,
        steps: Steps[T_co],
        done: Callable[[T_co], None] | None,
        failed: Callable[[Exception], None] | None,
        *,
        is_urgent: bool,
    ) -> None:
        self.name = name
        self.steps = steps
        self.done = done
        self.failed = failed
        self.is_urgent = is_urgent
        self.result: StorageFailed | None = None


class Countdown:
    """A counter of unfinished generators, to wait until all have ended, even by failure.

    Usage: `while countdown.left: yield countdown.wait`.
    """

    def __init__(self) -> None:
        self.left = 0
        self._done: Done | None = None

    def count(self, steps: Steps[None]) -> Steps[None]:
        """Count `steps` in `left`, run them, and count them as ended."""
        self.left += 1
        try:
            yield from steps
        finally:
            self.left -= 1
            if not self.left and self._done is not None:
                done, self._done = self._done, None  # the waiting job must not refer to itself
                done(None)

    def wait(self, done: Done) -> None:
        """Call `done(None)` when all counted generators have ended."""
        self._done = done


class Scheduler:
    """The scheduler of a broker. It calls functions at deadlines, at most one for each key.

    It also runs generators as jobs, at most one for each name.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, Due]] = {}
        self._count = 0
        self._is_hurried = False
        self._jobs: dict[Hashable, Job[object]] = {}
        self.busy: deque[Job[object]] = deque()
        """Urgent jobs that are ready to continue, in order."""

    def now(self) -> Now:
        return self._clock.now()

    def rest(self, ms: int) -> Callable[[Done], None]:
        """Return a pause of `ms` milliseconds for a job to yield."""

        def start(done: Done) -> None:
            self.at(done, self._clock.now().mono_ms + ms, lambda now: done(None))

        return start

    def at(self, key: Hashable, mono_ms: int, due: Due) -> None:
        """Call `due(now)` once the monotonic clock has reached `mono_ms`; this replaces an earlier deadline of the same key."""
        self._count += 1
        self._live[key] = (self._count, due)
        heapq.heappush(self._heap, (mono_ms, self._count, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._live):
            self._forget_cancelled()

    def every(self, key: Hashable, period_ms: Callable[[], int], due: Due, now: Now) -> None:
        """Call `due(now)` every `period_ms()`, even after a failed call."""

        def again(now: Now) -> None:
            self.every(key, period_ms, due, now)
            due(now)

        self.at(key, now.mono_ms + max(1, period_ms()), again)

    def cancel(self, key: Hashable) -> None:
        """Remove the deadline of this key, if there is one."""
        self._live.pop(key, None)

    def next_ms(self) -> int | None:
        """Return the earliest deadline; None if there is none."""
        while self._heap:
            mono_ms, count, key = self._heap[0]
            live = self._live.get(key)
            if live is not None and live[0] == count:
                return mono_ms
            heapq.heappop(self._heap)
        return None

    def run_due(self, now: Now) -> None:
        """Call everything whose deadline has passed, in order of the deadlines. Log expected failures.

        Deadlines that are set by these calls and have already passed follow in the next round.
        """
        for _ in range(MOST_ROUNDS):
            last, set_meanwhile = self._count, list[tuple[int, int, Hashable]]()
            while (mono_ms := self.next_ms()) is not None and mono_ms <= now.mono_ms:
                entry = heapq.heappop(self._heap)
                if entry[1] > last:
                    set_meanwhile.append(entry)
                    continue
                key = entry[2]
                _, due = self._live.pop(key)
                try:
                    due(now)
                except EXPECTED as failure:
                    log.error("%s failed: %s", key, failure)
            if not set_meanwhile:
                return
            for entry in set_meanwhile:
                heapq.heappush(self._heap, entry)

    def _forget_cancelled(self) -> None:
        self._heap = [entry for entry in self._heap if self._live.get(entry[2], (0,))[0] == entry[1]]
        heapq.heapify(self._heap)

    def begin(
        self,
        name: Hashable,
        steps: Steps[T],
        done: Callable[[T], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
        *,
        urgent: bool = False,
    ) -> bool:
        """Run the first slice of a job at once, and further slices later.

        Return False, and begin nothing, if a job of this name is running.

        `done` gets the generator's return value, possibly before this method returns. `failed` gets an expected failure that the
        generator raises; without `failed`, the failure is logged. After either, a job of this name can begin.

        A job that is not urgent pauses after each slice for as long as the slice took. An `urgent` job, for which a client waits,
        takes turns with other urgent jobs, with only a millisecond between two slices.
        """
        if name in self._jobs:
            return False
        job: Job[T] = Job(name, steps, done, failed, is_urgent=urgent)
        self._jobs[name] = job
        self._continue(job)
        return True

    def drop(self, name: Hashable) -> None:
        """Close the generator of the job with this name, if any. Neither `done` nor `failed` is called."""
        job = self._jobs.pop(name, None)
        if job is None:
            return
        self.cancel(job)
        try:
            job.steps.close()
        except EXPECTED as failure:
            log.error("%s was dropped and could not clean up: %s", name, failure)

    def close(self) -> None:
        """Drop every job and every deadline."""
        for name in list(self._jobs):
            self.drop(name)
        self._live.clear()

    def _rest_ms(self, took_ms: int) -> int:
        return 0 if self._is_hurried else max(1, took_ms)

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """Run jobs without pauses between their slices inside this context manager, so that the caller can run all due work."""
        was_hurried, self._is_hurried = self._is_hurried, True
        try:
            yield
        finally:
            self._is_hurried = was_hurried

    def _continue(self, job: Job[object]) -> None:
        if job.is_urgent:
            alone = deque((job,))
            self._slice(alone, URGENT_SLICE_MS)
            if alone:
                self.busy.append(job)
                self._schedule_urgent()
            return
        began_ms = self._clock.now().mono_ms
        if self._slice(deque((job,)), SLICE_MS):
            now_ms = self._clock.now().mono_ms
            self.at(job, now_ms + self._rest_ms(now_ms - began_ms), lambda now: self._continue(job))

    def _schedule_urgent(self) -> None:
        self.at("urgent jobs", self._clock.now().mono_ms + self._rest_ms(0), self._run_urgent)

    def _run_urgent(self, now: Now) -> None:
        if self._slice(self.busy, URGENT_SLICE_MS):
            self._schedule_urgent()

    def _slice(self, turns: deque[Job[object]], slice_ms: int) -> bool:
        """Run the jobs in `turns` round-robin for at most `slice_ms`. Return whether any of them can continue."""
        deadline_ms = self._clock.now().mono_ms + slice_ms
        for _ in range(MOST_STEPS):
            if not turns:
                return False
            job = turns.popleft()
            if self._jobs.get(job.name) is job and self._step(job):
                turns.append(job)
            if not self._is_hurried and self._clock.now().mono_ms >= deadline_ms:
                break
        return bool(turns)

    def _step(self, job: Job[object]) -> bool:
        """Run a job up to its next pause. Return True if it can continue at once, and False if it has ended or waits."""
        result, job.result = job.result, None
        try:
            start = job.steps.send(result)
        except StopIteration as end:
            del self._jobs[job.name]
            if job.done is not None:
                job.done(end.value)
            return False
        except EXPECTED as failure:
            del self._jobs[job.name]
            if job.failed is not None:
                job.failed(failure)
            else:
                log.error("%s failed: %s; it starts again when it is next due", job.name, failure)
            return False
        return start is None or self._is_refused(job, start)

    def _is_refused(self, job: Job[object], start: Callable[[Done], None]) -> bool:
        """Start the operation that a job waits for. Return whether the start failed."""
        try:
            start(partial(self._resume, job))
        except StorageFailed as failure:
            job.result = failure
            return True
        return False

    def _resume(self, job: Job[object], result: StorageFailed | None) -> None:
        if self._jobs.get(job.name) is not job:
            return
        job.result = result
        if job.is_urgent:  # many jobs may resume at once, so each job waits for its turn
            self.busy.append(job)
            self.at("urgent jobs", self._clock.now().mono_ms, self._run_urgent)
        else:
            self._continue(job)


class InTurn:
    """A queue that runs generators one at a time, in the order in which they were queued."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[Done] = deque()

    def steps(self, steps: Steps[T]) -> Steps[T]:
        """Run `steps` once all generators that were queued earlier have ended, and return the result of `steps`."""
        if self._is_taken:
            yield self._waiting.append
        self._is_taken = True
        try:
            return (yield from steps)
        except GeneratorExit:  # the broker stops, so waiting jobs do not continue
            self._waiting.clear()
            raise
        finally:
            self._is_taken = False
            if self._waiting:
                self._is_taken = True  # otherwise a job that arrives now would run first
                self._waiting.popleft()(None)


class Waits:
    """The waits of jobs for conditions, each under a key. Call `notify` after a change that can fulfil a condition."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[Hashable, dict[Done, None]] = {}

    def until(self, is_so: Callable[[], bool], until_ms: int, key: Hashable = None) -> Steps[None]:
        """Wait until `is_so()` is true, or until `until_ms` on the monotonic clock. Each change of the key calls `is_so`."""
        while not is_so() and self._scheduler.now().mono_ms < until_ms:
            yield partial(self._wait, key, until_ms)

    def notify(self, key: Hashable = None) -> None:
        """Resume the jobs that wait under `key`, so that they check their conditions again."""
        waiting = self._waiting.pop(key, {})
        for done in waiting:
            self._scheduler.cancel(done)
        for done in waiting:
            done(None)

    def _wait(self, key: Hashable, until_ms: int, done: Done) -> None:
        self._waiting.setdefault(key, {})[done] = None
        self._scheduler.at(done, until_ms, lambda now: self._expire(key, done))

    def _expire(self, key: Hashable, done: Done) -> None:
        waiting = self._waiting[key]
        del waiting[done]
        if not waiting:
            del self._waiting[key]
        done(None)
