"""Requests of this broker to itself, served by the handlers without a connection.

Depends on `Router.receive`, and on no API.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ottla.broker.failures import Changes, Mistake
from ottla.broker.scheduler import Scheduler
from ottla.broker.security.rights import ITSELF
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Answer, Close, Peer, Throttled
from ottla.ports import Buffer, FileSlice, Now, Part

log = logging.getLogger("ottla.broker")

Receive = Callable[[Buffer, Peer, Now, bool], Answer | DelayedReply]
Answered = Callable[[memoryview | None], None]

SIZE_BYTES = 4
MISTAKEN = "a request of this broker to itself met a bug in Ottla and was refused; please report these lines"


class Within:
    """The lanes from this broker to itself. Like a connection, each lane serves one request at a time, in order."""

    def __init__(self, scheduler: Scheduler, changes: Changes, receive: Receive) -> None:
        self._scheduler = scheduler
        self._changes = changes
        self._lanes: dict[str, deque[tuple[Buffer, Answered]]] = {}
        self._receive = receive

    def later(self, call: Callable[[], None]) -> None:
        """Run a call after the current work."""
        self._scheduler.at(object(), self._scheduler.now().mono_ms, lambda now: call())

    def send(self, lane: str, parts: Sequence[Part], answered: Answered) -> None:
        """Serve a request frame that includes its length; `answered` receives the response frame without its length."""
        frame = memoryview(bytearray(b"".join(map(_bytes_of, parts))))[SIZE_BYTES:]
        waiting = self._lanes.setdefault(lane, deque())
        waiting.append((frame, answered))
        if len(waiting) == 1:
            self.later(partial(self._serve, lane))

    def _serve(self, lane: str) -> None:
        frame, _ = self._lanes[lane][0]
        received = self._changes.attempted(lambda: self._receive(frame, ITSELF, self._scheduler.now(), True))
        if isinstance(received, DelayedReply) and not received.done:
            received.ready = partial(self._ready, lane, received)
            return
        self._answered(lane, received.answer if isinstance(received, DelayedReply) else received)

    def _ready(self, lane: str, delayed: DelayedReply) -> None:
        """Pass on the response if it is complete. `ready` is also called earlier, when the connection can begin later requests."""
        if delayed.done:
            delayed.ready = None
            self._answered(lane, delayed.answer)

    def _answered(self, lane: str, answer: Answer | Mistake) -> None:
        waiting = self._lanes[lane]
        _, answered = waiting.popleft()
        if waiting:
            self.later(partial(self._serve, lane))
        if isinstance(answer, Mistake):
            self._changes.mistakes += 1
            log.error(MISTAKEN, exc_info=answer.error, extra={"cause": "mistake"})
        if isinstance(answer, Throttled):
            answer = answer.parts
        if answer is None or isinstance(answer, Close | Mistake):
            self.later(partial(answered, None))
        else:
            frame = memoryview(b"".join(map(_bytes_of, answer)))[SIZE_BYTES:]
            self.later(partial(answered, frame))


def _bytes_of(part: Part) -> Buffer:
    return part.read() if isinstance(part, FileSlice) else part
