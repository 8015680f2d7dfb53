"""The controller's event queue: events run one at a time and in order, and only events change the controller's context.

Depends on the scheduler, and not on the work of events.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from ottla.broker.failures import CONFLICTS
from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.ports import Done, RegistryAway, RegistryDamaged, Steps, StorageFailed

log = logging.getLogger("ottla.broker")

T = TypeVar("T")


class ControllerMoved(Exception):
    """Raised when another broker was elected: the current event of this controller is abandoned."""


class ControllerEvent(NamedTuple):
    """A unit of work. It is dropped if an event of the same `name` waits. `over` is called when the work ends, even by failure."""

    name: str | None
    work: Callable[[], Steps[None]]
    over: Callable[[], None]


def _do_nothing() -> None:
    """Do nothing. This is the default callback for the end of an event."""


class ControllerEvents:
    """The controller's queue of events, which are processed one at a time.

    `moved` is called when an event detects another controller, and `uncertain` when the registry fails.
    """

    def __init__(self, scheduler: Scheduler, moved: Callable[[], None], uncertain: Callable[[], None], repeats: Repeats) -> None:
        """Create an empty queue of events. `repeats` are the pauses before the queue continues after a failure of the registry."""
        self._repeats = repeats
        self._scheduler = scheduler
        self._moved = moved
        self._uncertain = uncertain
        self._events: deque[ControllerEvent] = deque()
        self._waiting: set[str] = set()

    def soon(self, name: str | None, work: Callable[[], Steps[None]], over: Callable[[], None] = _do_nothing) -> None:
        """Queue an event, unless an event of the same name is waiting. Events without a name (None) are never merged."""
        if name is not None:
            if name in self._waiting:
                return
            self._waiting.add(name)
        self._events.append(ControllerEvent(name, work, over))
        self._scheduler.begin(self, self._run(), urgent=True)

    def run(self, work: Callable[[], Steps[T]], instead: T) -> Steps[T]:
        """Queue `work` as an event, and return its result. Return `instead` if the event is dropped or fails."""
        found = [instead]

        def see_to_it() -> Steps[None]:
            found[0] = yield from work()

        def start(done: Done) -> None:
            self.soon(None, see_to_it, partial(done, None))

        yield start
        return found[0]

    def _run(self) -> Steps[None]:
        while self._events:
            event = self._events.popleft()
            if event.name is not None:
                self._waiting.discard(event.name)
            try:
                yield from self._seen_to(event)
            finally:
                event.over()

    def _seen_to(self, event: ControllerEvent) -> Steps[None]:
        try:
            yield from event.work()
        except ControllerMoved:
            log.info("another broker was elected as the controller")
            self._moved()
        except RegistryAway as failure:
            self._repeats.log_once(log, logging.WARNING, "the controller cannot reach the registry: %s", failure)
            self._uncertain()
        except (StorageFailed, RegistryDamaged, *CONFLICTS) as failure:
            sentence = "the controller could not see to %s: %s"
            self._repeats.log_once(log, logging.ERROR, sentence, event.name or "a request", failure)
            self._uncertain()
