"""What the controller tells, as what replies wait for: its first words to this broker, and each later one.

Whoever asks what there is in a cluster waits until its controller has told this broker, which it does as soon as it can. An answer
before that names no other brokers. The Java client takes it for none; librdkafka forgets all brokers it does not name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.purgatory import DelayedOperation, Purgatory, Reply
from ottla.ports import Done, Now, Steps

MOST_WAIT_MS: Final = 5000
"""As long as nobody is controller there is none to tell: a client may find out more from another broker."""


class FirstNews:
    """Whether the first news `have_come`, and a way to wait for more."""

    def __init__(self, purgatory: Purgatory, scheduler: Scheduler) -> None:
        self.have_come = False
        self._purgatory = purgatory
        self._scheduler = scheduler
        self._waiting: dict[Done, None] = {}

    def come(self) -> None:
        """The controller has told something: at first, all that it knows."""
        if not self.have_come:
            self.have_come = True
            self._purgatory.wake(self)
        waiting, self._waiting = self._waiting, {}
        for done in waiting:
            self._end(done)

    def awaited(self, now: Now, answer: Callable[[], Reply]) -> Reply:
        """Return the answer once the first news have come, or as good as it is when that took too long."""
        if self.have_come:
            return answer()

        def retry(now: Now, expired: bool) -> Reply | None:
            return answer() if self.have_come or expired else None

        return DelayedOperation((self,), now.mono_ms + MOST_WAIT_MS, retry)

    def until(self, is_so: Callable[[], bool], until_ms: int) -> Steps[None]:
        """Wait for news by which `is_so()` is true, but no longer than `until_ms` on the monotonic clock."""
        while not is_so() and self._scheduler.now().mono_ms < until_ms:
            yield partial(self._wait, until_ms)

    def _wait(self, until_ms: int, done: Done) -> None:
        self._waiting[done] = None
        self._scheduler.at(done, until_ms, lambda now: self._end(done))

    def _end(self, done: Done) -> None:
        self._waiting.pop(done, None)
        self._scheduler.cancel(done)
        done(None)
