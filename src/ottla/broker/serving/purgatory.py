"""Delayed replies (Kafka's purgatory): completed by their producers, or re-evaluated when a key that they watch changes.

It uses timers and jobs of the scheduler, and imports no handler.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from types import GeneratorType
from typing import Final, TypeAlias

from ottla.broker.failures import EXPECTED, Changes
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.request import READY, Answer, Close, Ready
from ottla.ports import Done, Now, Pause, Steps, StorageFailed
from ottla.values import dataclass

Encode = Callable[[Ready], Answer]

NOT_RETURNED: Final = "a reply is completed after its handler has returned it"


SETTLED_MS: Final = 2
"""Upper limit of the duration of one `evaluate_woken`, in ms."""

RETRIED_AT_ONCE: Final = 16
"""Operations re-evaluated between two reads of the clock."""


@dataclass(frozen=True, slots=True)
class DelayedOperation:
    """A reply that is evaluated again: `try_complete(now, expired)` when one of its `keys` is woken, and at `until_ms`.

    `until_ms` is a time of the monotonic clock; None sets no deadline. If `try_complete` returns None, the operation remains in
    the purgatory. With `expired`, it must return a reply. While a `blocking` operation waits, its connection begins no later
    request, as in Kafka.
    """

    keys: tuple[Hashable, ...]
    until_ms: int | None
    try_complete: Callable[[Now, bool], Reply | None]
    blocking: bool = True


class DelayedReply:
    """A reply that is sent once all events that it waits for have happened. The producers of the events report them.

    `missing` counts the events that are known from the start, and `expect` adds one. A handler gives the method `count_down` to the
    producers of the events, and returns `reply()`. The last event calls `finish`, which makes the reply and must not fail. A reply
    that is not `blocking` lets later requests of its connection begin, so that one sync serves a client that pipelines. There is no
    timeout, because the client would then send records again that are being written.

    The network sets `ready`, which is called when `answer` can leave. `is_forgotten` is set when the client is gone.
    """

    __slots__ = ("_encode", "_finish", "_instead", "_missing", "answer", "blocking", "done", "is_forgotten", "ready")

    def __init__(self, finish: Callable[[], Ready] | None = None, *, blocking: bool, missing: int = 0) -> None:
        self.blocking = blocking
        self.done = False
        self.is_forgotten = False
        self.answer: Answer = None
        self.ready: Callable[[], None] | None = None
        self._finish = finish
        self._missing = missing
        self._encode: Encode | None = None
        self._instead: DelayedReply | None = None

    def expect(self) -> None:
        """Count one more event that must happen."""
        self._missing += 1

    def count_down(self) -> None:
        """Count one event as happened, and complete the reply at the last one."""
        self._missing -= 1
        if self._missing or self._finish is None or (self._encode is None and self._instead is None):
            return
        self.complete(self._finish())

    def reply(self) -> Ready | DelayedReply:
        """Return the reply if no event is missing, else this delayed reply."""
        return self if self._missing or self._finish is None else self._finish()

    @property
    def is_returned(self) -> bool:
        """Return whether the handler has returned the reply, so that it can be completed."""
        return self._encode is not None or self._instead is not None

    @property
    def is_wanted(self) -> bool:
        """Return whether a client still waits for the reply."""
        return self._instead.is_wanted if self._instead is not None else not self.is_forgotten

    def encode_with(self, encode: Encode) -> None:
        """Set the function that encodes the reply."""
        self._encode = encode

    def replace(self, delayed: DelayedReply) -> None:
        """Make this delayed reply complete another one when it completes."""
        self._instead = delayed

    def release_connection(self, *, blocking: bool) -> None:
        """Let the connection begin its next request, unless `blocking`. Only a sync is then left to wait for."""
        if self.blocking and not blocking:
            self.blocking = False
            if self.ready is not None:
                self.ready()

    def complete(self, reply: Ready) -> None:
        """Encode the reply, and report it to the network."""
        if self._instead is not None:
            self._finish = None
            self._instead.complete(reply)
            return
        assert self._encode is not None, NOT_RETURNED
        self.answer = self._encode(reply)
        self.done = True
        self._encode = self._finish = None  # both refer to the request, and the function can refer to this reply
        if self.ready is not None:
            self.ready()


Begun = Ready | DelayedOperation | DelayedReply
"""A reply whose steps, if it has any, have begun."""

BEGUN: Final = (*READY, DelayedReply, DelayedOperation)

Reply: TypeAlias = "Begun | Steps[Reply]"
"""The result of a handler: a reply that can be sent now, a delayed reply, or steps that return a reply."""

Result: TypeAlias = "Begun | GeneratorType[Pause, StorageFailed | None, Reply]"
"""The same with the class that steps have, whose check takes a tenth of the time of a check against the abstract class."""


class Purgatory:
    """All delayed operations of a broker, by the keys that they watch, each with the delayed reply that it completes.

    `wake` only records a key. Operations are evaluated in `evaluate_woken`, outside of any handler, so that many changes cost one
    evaluation.
    """

    def __init__(self, scheduler: Scheduler, changes: Changes) -> None:
        self._scheduler = scheduler
        self.changes = changes
        self.spared = changes.attempt_steps
        self._operations: dict[DelayedReply, DelayedOperation] = {}
        self._by_key: dict[Hashable, dict[DelayedReply, None]] = {}
        self._woken: dict[Hashable, None] = {}
        self._due: dict[DelayedReply, None] = {}
        self.wakes = 0
        """The number of calls of `wake`."""
        self.now = scheduler.now
        self.rest = scheduler.rest

    def __len__(self) -> int:
        return len(self._operations)

    def count(self, is_counted: Callable[[Callable[[Now, bool], Reply | None]], bool]) -> int:
        """Return the number of operations for whose `try_complete` a function returns True."""
        return sum(is_counted(operation.try_complete) for operation in self._operations.values())

    def watch(self, operation: DelayedOperation, encode: Encode) -> DelayedReply:
        """Keep an operation until it completes, and return its delayed reply."""
        delayed = DelayedReply(blocking=operation.blocking)
        delayed.encode_with(encode)
        self._hold(delayed, operation)
        return delayed

    def run(self, steps: Steps[Reply], failed: Callable[[Exception], Ready] | None = None, *, to_the_end: bool = False) -> Begun:
        """Run `steps`, and return their result if they end in their first slice of time, otherwise a delayed reply.

        Until the reply, the connection begins no other request, so that the requests of one client stay in order. An expected
        failure is answered by `failed`, or closes the connection. An unexpected failure before the first pause is raised; one in a
        later step that has changed nothing fails this request alone. If the client goes away, the steps are closed, unless they run
        `to_the_end`.
        """
        try:
            pause = next(steps)  # most steps end here, and need no job
        except StopIteration as end:
            result: Result = end.value
            return self.run(result, failed, to_the_end=to_the_end) if type(result) is GeneratorType else result
        except EXPECTED as failure:
            return _close(failure) if failed is None else failed(failure)
        delayed, early = DelayedReply(blocking=True), list[Begun]()

        def on_result(reply: Begun) -> None:
            if delayed.is_returned:
                self.complete(delayed, reply)
            else:
                early.append(reply)

        def answer(failure: Exception) -> None:
            on_result(_close(failure) if failed is None else failed(failure))

        rest = _rest(steps, pause, None if to_the_end else delayed)
        self._scheduler.begin(delayed, self.spared(rest), on_result, answer, urgent=True)
        return early[0] if early else delayed

    def wait_for(self, reply: Reply) -> Steps[Ready]:
        """Begin a reply now, and return steps that wait for its completion and can be run at any time."""
        found: list[Ready] = []
        begun = self._begun(reply)
        delayed = self.watch(begun, found.append) if isinstance(begun, DelayedOperation) else begun
        if isinstance(delayed, DelayedReply):
            delayed.encode_with(found.append)
            return _wait_for(delayed, found)
        return _wait_for(None, [delayed])

    def complete(self, delayed: DelayedReply, reply: Reply) -> None:
        """Complete a delayed reply by another reply. If that reply is delayed too, complete both together."""
        begun = self._begun(reply)
        if isinstance(begun, DelayedOperation):
            self._hold(delayed, begun)
        elif isinstance(begun, DelayedReply):
            begun.replace(delayed)
            delayed.release_connection(blocking=begun.blocking)
        else:
            delayed.complete(begun)

    def _begun(self, reply: Reply) -> Begun:
        """Run the first step of a reply that is a generator, and return the result or a delayed reply.

        Return other replies as they are. A bug in the first step that has changed nothing becomes the reply.
        """
        return reply if isinstance(reply, BEGUN) else self.changes.attempt(partial(self.run, reply))

    def wake(self, key: Hashable) -> None:
        """Mark the operations that watch this key. They are evaluated after the current batch of requests."""
        self.wakes += 1
        if key in self._by_key:
            self._woken[key] = None

    def evaluate_woken(self, now: Now) -> None:
        """Evaluate the operations that watch a woken key. Operations left after `SETTLED_MS` follow, in order, in the next call."""
        if not self._woken and not self._due:
            return
        end_ms = self.now().mono_ms + SETTLED_MS
        while self._woken or self._due:
            woken, self._woken = self._woken, {}
            for key in woken:
                self._due.update(self._by_key.get(key, {}))
            for _ in range(min(RETRIED_AT_ONCE, len(self._due))):
                delayed = next(iter(self._due))
                del self._due[delayed]
                self._try_complete(delayed, now, expired=False)
            if self._due and self.now().mono_ms >= end_ms:
                self._scheduler.at("woken replies", end_ms + 1, _wake_network)
                return

    def expire(self, delayed: DelayedReply, until_ms: int, instead: Callable[[], Ready]) -> None:
        """Complete a delayed reply with `instead()` at `until_ms` (monotonic clock), unless `cancel_expiry` is called earlier."""
        self._scheduler.at(delayed, until_ms, lambda now: delayed.complete(instead()))

    def cancel_expiry(self, delayed: DelayedReply) -> None:
        """Cancel the deadline of a delayed reply, because the reply completes."""
        self._scheduler.cancel(delayed)

    def forget(self, delayed: DelayedReply) -> None:
        """Drop a reply whose client is gone."""
        delayed.ready = None
        delayed.is_forgotten = True
        self._release(delayed)

    def _hold(self, delayed: DelayedReply, operation: DelayedOperation) -> None:
        self._operations[delayed] = operation
        for key in operation.keys:
            self._by_key.setdefault(key, {})[delayed] = None
        if operation.until_ms is not None:
            self._scheduler.at(delayed, operation.until_ms, lambda now: self._try_complete(delayed, now, expired=True))

    def _release(self, delayed: DelayedReply) -> None:
        operation = self._operations.pop(delayed, None)
        if operation is None:
            return
        self._scheduler.cancel(delayed)
        for key in operation.keys:
            watching = self._by_key.get(key)
            if watching is not None:
                watching.pop(delayed, None)
                if not watching:
                    del self._by_key[key]

    def _try_complete(self, delayed: DelayedReply, now: Now, *, expired: bool) -> None:
        operation = self._operations.get(delayed)
        if operation is None:
            return
        reply = self._evaluate(operation, now, expired)
        if reply is None:
            assert not expired, "an expired operation replies"
            return
        assert not (expired and isinstance(reply, DelayedOperation) and reply.until_ms is not None), "an operation expires once"
        self._release(delayed)
        self.complete(delayed, reply)

    def _evaluate(self, operation: DelayedOperation, now: Now, expired: bool) -> Reply | None:
        """Evaluate an operation. An expected failure closes the connection; a bug that has changed nothing fails the request."""
        try:
            return self.changes.attempt(partial(operation.try_complete, now, expired))
        except EXPECTED as failure:
            return _close(failure)


def _close(failure: Exception) -> Close:
    return Close(f"its request could not be served: {failure}")


def _wake_network(now: Now) -> None:
    """Do nothing: the deadline only makes the network call `evaluate_woken`."""


def _wait_for(delayed: DelayedReply | None, found: list[Ready]) -> Steps[Ready]:
    if delayed is not None and not delayed.done:
        yield partial(_call_when_done, delayed)
    return found[0]


def _call_when_done(delayed: DelayedReply, done: Done) -> None:
    def ready() -> None:
        if delayed.done:  # otherwise its connection may only begin other requests
            done(None)

    delayed.ready = ready


def _rest(steps: Steps[Reply], pause: Pause, delayed: DelayedReply | None) -> Steps[Begun]:
    """Run the rest of `steps`, which has paused with `pause`, then the generators that it returns. Return the final reply.

    If `delayed` is given, end early when the client of this reply is gone.
    """
    while True:
        resumed = yield pause
        if delayed is not None and not delayed.is_wanted:
            steps.close()
            return Close("nobody waits for this reply")
        try:
            pause = steps.send(resumed)
        except StopIteration as end:
            result: Result = end.value
            if type(result) is not GeneratorType:
                return result
            steps, pause = result, None
