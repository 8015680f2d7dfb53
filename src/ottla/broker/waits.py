"""Waits of jobs for a condition that another part of the broker makes true, with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from ottla.broker.scheduler import Scheduler
from ottla.ports import Done, Steps


class Waits:
    """The waiting jobs, each under a key. The part that changes the condition calls `changed`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[Hashable, dict[Done, None]] = {}

    def until(self, is_so: Callable[[], bool], until_ms: int, key: Hashable = None) -> Steps[None]:
        """Wait until `is_so()` is true, or until `until_ms` on the monotonic clock. Each change of the key calls `is_so`."""
        while not is_so() and self._scheduler.now().mono_ms < until_ms:
            yield partial(self._wait, key, until_ms)

    def changed(self, key: Hashable = None) -> None:
        """Resume the jobs that wait under this key, so that they check their conditions."""
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
