"""Retries of the controller's reads while the registry is unreachable and the session is certainly alive.

Kafka's controller also continues until its session ends. Depends on the registry's session deadline, and not on the reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.ports import RegistryAway, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

T = TypeVar("T")

FIRST_MS: Final = 50
MOST_MS: Final = 500


class RegistryRetry:
    """The read retries of one term."""

    def __init__(self, registry: SharedRegistry, scheduler: Scheduler) -> None:
        self._registry = registry
        self._scheduler = scheduler
        self._repeats = Repeats(FIRST_MS, MOST_MS)
        self.is_over = False
        """Whether the term is over, so that reads are no longer retried."""

    def read(self, steps: Callable[[], Steps[T]]) -> Steps[T]:
        """Run steps that only read, and retry them while the registry is unreachable.

        Raise `RegistryAway` if the session may have ended.
        """
        while True:
            try:
                found = yield from steps()
            except RegistryAway as failure:
                yield from self.pause(failure)
            else:
                self._repeats.over()
                return found

    def pause(self, failure: RegistryAway) -> Steps[None]:
        """Pause before a retry. Raise `failure` if the session may have ended or the term is over."""
        if self.is_over or self._scheduler.now().mono_ms >= self._registry.lives_until_ms():
            raise failure
        self._repeats.log_once(log, logging.INFO, "the controller waits for the registry: %s", failure)
        yield self._scheduler.rest(self._repeats.pause_ms())
