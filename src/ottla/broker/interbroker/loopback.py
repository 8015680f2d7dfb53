"""Requests of this broker to itself, served by the handlers without a connection, as messages that nobody encodes.

Depends on `Router.serve`, and on no API.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ottla.broker.failures import Changes, Mistake
from ottla.broker.scheduler import Scheduler
from ottla.broker.security.rights import ITSELF
from ottla.broker.serving.request import Peer
from ottla.ports import Now
from ottla.wire.codec.messages import encode
from ottla.wire.schema import Message

Answered = Callable[[Message | None], None]
Serve = Callable[[Message, int, Peer, Now, Answered], None]


class Within:
    """The lanes from this broker to itself. Like a connection, each lane serves one request at a time, in order."""

    def __init__(self, scheduler: Scheduler, changes: Changes, serve: Serve) -> None:
        self._scheduler = scheduler
        self._changes = changes
        self._lanes: dict[str, deque[tuple[Message, int, Answered]]] = {}
        self._serve = serve

    def later(self, call: Callable[[], None]) -> None:
        """Run a call after the current work."""
        self._scheduler.at(object(), self._scheduler.now().mono_ms, lambda now: call())

    def send(self, lane: str, message: Message, version: int, answered: Answered) -> None:
        """Serve a request; `answered` receives the response, or None if there is none. Both messages must not change any more."""
        waiting = self._lanes.setdefault(lane, deque())
        waiting.append((message, version, answered))
        if len(waiting) == 1:
            self.later(partial(self._begin, lane))

    def _begin(self, lane: str) -> None:
        message, version, _ = self._lanes[lane][0]
        now, answered = self._scheduler.now(), partial(self._answered, lane)
        begun = self._changes.attempted(lambda: self._serve(message, version, ITSELF, now, answered))
        if isinstance(begun, Mistake):
            name = type(message).__name__
            self._changes.report(begun.error, f"{name} of this broker to itself", encode(message, version))
            self._answered(lane, None)

    def _answered(self, lane: str, response: Message | None) -> None:
        waiting = self._lanes[lane]
        _, _, answered = waiting.popleft()
        if waiting:
            self.later(partial(self._begin, lane))
        self.later(partial(answered, response))
