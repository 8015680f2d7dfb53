"""Requests of this broker to itself, served by the handlers without a connection, as messages that nobody encodes.

Depends on `Router.serve`, and on no API. A single broker has the links here, which reach no other broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ottla.broker.failures import Changes, Mistake
from ottla.broker.scheduler import Scheduler
from ottla.broker.security.rights import ITSELF
from ottla.broker.serving.request import Peer
from ottla.ports import Buffer, Now
from ottla.wire.codec.messages import encode
from ottla.wire.schema import Message

Answered = Callable[[Message | None], None]
Serve = Callable[[Message, int, Peer, Now, Answered], None]


class NoLinks:
    """The links of a broker without other brokers: no request gets a response.

    `later(call)` runs `call` after this broker's current work. Implements `ottla.ports.Links` and `ottla.ports.BrokerLink`.
    """

    def __init__(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._later = later

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> NoLinks:
        """Return this object, as the link to a broker that can't be reached."""
        return self

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Callable[[memoryview | None], None]) -> None:
        """Call `answered(None)` later, because no response will arrive."""
        self._later(partial(answered, None))

    def close(self) -> None: ...


class Within:
    """The requests that this broker sends to itself. Like a connection, each `lane` serves one request at a time, in order."""

    def __init__(self, scheduler: Scheduler, changes: Changes, serve: Serve) -> None:
        self._scheduler = scheduler
        self._changes = changes
        self._lanes: dict[str, deque[tuple[Message, int, Answered]]] = {}
        self._serve = serve

    def later(self, call: Callable[[], None]) -> None:
        """Run `call` after the work that this broker is doing now."""
        self._scheduler.at(object(), self._scheduler.now().mono_ms, lambda now: call())

    def send(self, lane: str, message: Message, version: int, answered: Answered) -> None:
        """Serve a request; `answered` receives the response, or None if there is none. Both messages must not change any more."""
        waiting = self._lanes.setdefault(lane, deque())
        waiting.append((message, version, answered))
        if len(waiting) == 1:
            self.later(partial(self._begin, lane))

    def _begin(self, lane: str) -> None:
        message, version, _ = self._lanes[lane][0]
        now, answered = self._scheduler.now(), partial(self._on_answer, lane)
        begun = self._changes.attempt(lambda: self._serve(message, version, ITSELF, now, answered))
        if isinstance(begun, Mistake):
            name = type(message).__name__
            self._changes.report(begun.error, f"{name} of this broker to itself", encode(message, version))
            self._on_answer(lane, None)

    def _on_answer(self, lane: str, response: Message | None) -> None:
        waiting = self._lanes[lane]
        _, _, answered = waiting.popleft()
        if waiting:
            self.later(partial(self._begin, lane))
        self.later(partial(answered, response))
