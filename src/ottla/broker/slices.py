"""Long computations in slices of a few milliseconds, taking turns, so that none keeps other connections waiting.

Knows generators that pause by `yield`, and nothing of what they compute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from itertools import count

from ottla.broker.failures import EXPECTED
from ottla.broker.serving.request import Close, Reply, Waiting
from ottla.broker.serving.waits import Waits
from ottla.broker.timers import Timers
from ottla.ports import Clock, Now

Steps = Generator[None, None, Reply]
"""A computation: each `yield` is a pause after one to a few milliseconds of work; what it returns is the reply."""

SLICE_MS = 3
MOST_STEPS = 512
"""A slice ends with either: what a step takes depends on the machine, and a simulated clock stands still."""


class Job:
    """One computation under way, and its reply when it has one."""

    __slots__ = ("key", "reply", "steps")

    def __init__(self, key: tuple[str, int], steps: Steps) -> None:
        self.key = key
        self.steps = steps
        self.reply: Reply | None = None

    def step(self) -> bool:
        """Work up to the next pause; whether there is more to do. What it is refused without an answer ends its connection."""
        try:
            next(self.steps)
        except StopIteration as done:
            self.reply = done.value
            return False
        except EXPECTED as failure:
            self.reply = Close(f"its request could not be served: {failure}")
            return False
        return True


class Slices:
    """All computations under way, in the order of their turns."""

    def __init__(self, clock: Clock, timers: Timers, waits: Waits) -> None:
        self._clock = clock
        self._timers = timers
        self._waits = waits
        self._jobs: deque[Job] = deque()
        self._numbers = count()

    @property
    def busy(self) -> bool:
        """Whether any computation goes on."""
        return bool(self._jobs)

    def reply(self, steps: Steps) -> Reply:
        """The computation's reply, at once if one slice is enough for it; otherwise it goes on between other work.

        While it does, its connection begins no other request: what one client sends stays in order. If the client goes away, the
        computation ends where it is.
        """
        job = Job(("slices", next(self._numbers)), steps)
        if not self._slice(deque((job,))):
            assert job.reply is not None
            return job.reply
        self._jobs.append(job)
        self._go_on_later()

        return Waiting((job.key,), None, lambda now, expired: job.reply)

    def _slice(self, jobs: deque[Job]) -> bool:
        """Let jobs take turns for one slice; whether any is left."""
        deadline_ms = self._clock.now().mono_ms + SLICE_MS
        for _ in range(MOST_STEPS):
            if not jobs:
                return False
            job = jobs.popleft()
            if job.step():
                jobs.append(job)
            else:
                self._waits.wake(job.key)
            if self._clock.now().mono_ms >= deadline_ms:
                break
        return bool(jobs)

    def _go_on_later(self) -> None:
        self._timers.at("slices", self._clock.now().mono_ms + 1, self._go_on)

    def _go_on(self, now: Now) -> None:
        for job in [job for job in self._jobs if not self._waits.is_held(job.key)]:
            self._jobs.remove(job)
            job.steps.close()
        if self._slice(self._jobs):
            self._go_on_later()
