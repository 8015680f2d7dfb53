"""The committed offsets of deleted topics. A topic's deletion is complete on this broker when no coordinator keeps its offsets.

A coordinator that can't store the removal of offsets does it later. Waits are short, because the controller retries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from ottla.broker.scheduler import Scheduler
from ottla.ports import Done, Steps

MOST_WAIT_MS: Final = 500


class ForgottenTopics:
    """Waits for coordinators. `is_owed` returns whether a coordinator may still keep offsets of a deleted topic."""

    def __init__(self, is_owed: Callable[[str], bool], scheduler: Scheduler) -> None:
        self.is_owed = is_owed
        self._scheduler = scheduler
        self._waiting: dict[Done, None] = {}

    def changed(self) -> None:
        """Check all waits, because a coordinator has removed offsets."""
        for done in list(self._waiting):
            self._end(done)

    def awaited(self, topics: Collection[str]) -> Steps[None]:
        """Wait, for a limited time, until no coordinator keeps offsets of these topics."""
        until_ms = self._scheduler.now().mono_ms + MOST_WAIT_MS
        while any(map(self.is_owed, topics)) and self._scheduler.now().mono_ms < until_ms:
            yield partial(self._wait, until_ms)

    def _wait(self, until_ms: int, done: Done) -> None:
        self._waiting[done] = None
        self._scheduler.at(done, until_ms, lambda now: self._end(done))

    def _end(self, done: Done) -> None:
        if done in self._waiting:
            del self._waiting[done]
            self._scheduler.cancel(done)
            done(None)
