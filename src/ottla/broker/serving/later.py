"""Replies that leave later, in the only two ways there are: a promise that its debtor keeps, and a waiting that is asked again.

Knows timers, and nothing of what is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.broker.failures import EXPECTED, Changes
from ottla.broker.scheduler import Scheduler, Steps
from ottla.broker.serving.request import Answer, Close, Ready
from ottla.ports import Now, StorageFailed

Encode = Callable[[Ready], Answer]

NOT_KEPT: Final = "a promise is kept by a broker before it is fulfilled"


SETTLED_MS: Final = 2
RETRIED_AT_ONCE: Final = 16
"""So many replies are retried between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A reply that is asked for again: `retry(now, expired)` when one of the keys in `on` is woken, and at `until_ms`.

    `until_ms` is a time of the monotonic clock; None sets no end. A retry that answers None waits on, and one that is `expired`
    must answer. While a `blocking` reply waits, later requests of the same connection are not begun, as in Kafka.
    """

    on: tuple[Hashable, ...]
    until_ms: int | None
    retry: Callable[[Now, bool], Reply | None]
    blocking: bool = True


class Promise:
    """A reply that leaves once everything it waits for has happened; its debtors say so, nobody asks.

    Of what must happen `missing` is known from the start, and `expect` adds one more. A handler hands `happened` to whoever does
    it, and returns `reply()`. The last one to happen has `finish` make the reply, which must not fail. A promise that is not
    `blocking` lets later requests of its connection begin, so that one sync serves a client that pipelines. It waits without an
    end: a timeout would make the client send again what is being written.

    The network sets `ready` and is called when `answer` can leave. `is_forgotten` says that nobody waits for it any more.
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
        self._instead: Promise | None = None

    def expect(self) -> None:
        """One more thing must happen."""
        self._missing += 1

    def happened(self) -> None:
        """One of them did."""
        self._missing -= 1
        if self._missing or self._finish is None or (self._encode is None and self._instead is None):
            return
        self.fulfil(self._finish())

    def reply(self) -> Ready | Promise:
        """The reply if nothing is missing, or this promise."""
        return self if self._missing or self._finish is None else self._finish()

    @property
    def is_kept(self) -> bool:
        """Whether somebody waits for it: not before its handler has returned it."""
        return self._encode is not None or self._instead is not None

    @property
    def is_wanted(self) -> bool:
        """Whether it is still of use to anybody."""
        return self._instead.is_wanted if self._instead is not None else not self.is_forgotten

    def keep(self, encode: Encode) -> None:
        """Say how the reply becomes the bytes of an answer."""
        self._encode = encode

    def stand_in_for(self, promise: Promise) -> None:
        """Let the reply be that of another promise."""
        self._instead = promise

    def let_others_begin(self, *, blocking: bool) -> None:
        """Unless it is still `blocking`, its connection may begin the next request: what is left to wait for is a sync."""
        if self.blocking and not blocking:
            self.blocking = False
            if self.ready is not None:
                self.ready()

    def fulfil(self, reply: Ready) -> None:
        """The reply can leave."""
        if self._instead is not None:
            self._finish = None
            self._instead.fulfil(reply)
            return
        assert self._encode is not None, NOT_KEPT
        self.answer = self._encode(reply)
        self.done = True
        self._encode = self._finish = None  # they hold the request, and what makes the reply may hold this promise
        if self.ready is not None:
            self.ready()


Reply = Ready | Waiting | Promise
"""What a handler answers."""


class LaterReplies:
    """All waitings of a broker, by what they wait on, each with the promise that it fulfils.

    `wake` only notes a key: the retries happen in `settle`, outside of any handler, so that many changes cost one retry.
    """

    def __init__(self, scheduler: Scheduler, changes: Changes) -> None:
        self._scheduler = scheduler
        self.changes = changes
        self.spared = changes.spared
        self._waitings: dict[Promise, Waiting] = {}
        self._by_key: dict[Hashable, dict[Promise, None]] = {}
        self._woken: dict[Hashable, None] = {}
        self._due: dict[Promise, None] = {}
        self.wakes = 0
        """How often anything was woken."""
        self.now = scheduler.now
        self.rest = scheduler.rest

    def __len__(self) -> int:
        return len(self._waitings)

    def keep(self, reply: Waiting, encode: Encode) -> Promise:
        """Hold a reply that waits, and return the promise of it."""
        promise = Promise(blocking=reply.blocking)
        promise.keep(encode)
        self._hold(promise, reply)
        return promise

    def computed(self, steps: Steps[Reply], *, to_the_end: bool = False) -> Reply:
        """What a long computation returns: at once if one slice is enough for it, otherwise when it comes to its end.

        Meanwhile its connection begins no other request: what one client sends stays in order. An expected failure closes the
        connection, and an unexpected one in a step that has changed nothing costs this request alone. If the client goes away, the
        computation ends where it is, unless it is to go on `to_the_end`.
        """
        promise, early = Promise(blocking=True), list[Reply]()

        def done(reply: Reply) -> None:
            if promise.is_kept:
                self.hand_in(promise, reply)
            else:
                early.append(reply)

        def failed(failure: Exception) -> None:
            done(_closed(failure))

        self._scheduler.begin(
            promise, self.spared(steps if to_the_end else _while_wanted(promise, steps)), done, failed, urgent=True
        )
        return early[0] if early else promise

    def hand_in(self, promise: Promise, reply: Reply) -> None:
        """Fulfil a promise with a reply, which may leave later itself."""
        if isinstance(reply, Waiting):
            self._hold(promise, reply)
        elif isinstance(reply, Promise):
            reply.stand_in_for(promise)
            promise.let_others_begin(blocking=reply.blocking)
        else:
            promise.fulfil(reply)

    def wake(self, key: Hashable) -> None:
        """Retry what waits on this key when the bundle at hand is settled."""
        self.wakes += 1
        if key in self._by_key:
            self._woken[key] = None

    def settle(self, now: Now) -> None:
        """Retry all that wait on a woken key; of very many some now, and the others in their order when it is settled next."""
        if not self._woken and not self._due:
            return
        end_ms = self.now().mono_ms + SETTLED_MS
        while self._woken or self._due:
            woken, self._woken = self._woken, {}
            for key in woken:
                self._due.update(self._by_key.get(key, {}))
            for _ in range(min(RETRIED_AT_ONCE, len(self._due))):
                promise = next(iter(self._due))
                del self._due[promise]
                self._retry(promise, now, expired=False)
            if self._due and self.now().mono_ms >= end_ms:
                self._scheduler.at("woken replies", end_ms + 1, _go_on)
                return

    def expire(self, promise: Promise, until_ms: int, instead: Callable[[], Ready]) -> None:
        """Have a promise fulfilled by what `instead` returns at a time of the monotonic clock, unless it is `met` before."""
        self._scheduler.at(promise, until_ms, lambda now: promise.fulfil(instead()))

    def met(self, promise: Promise) -> None:
        """What a promise waits for has happened: it expires no more."""
        self._scheduler.cancel(promise)

    def forget(self, promise: Promise) -> None:
        """Nobody is left to receive this reply."""
        promise.ready = None
        promise.is_forgotten = True
        self._release(promise)

    def _hold(self, promise: Promise, waiting: Waiting) -> None:
        self._waitings[promise] = waiting
        for key in waiting.on:
            self._by_key.setdefault(key, {})[promise] = None
        if waiting.until_ms is not None:
            self._scheduler.at(promise, waiting.until_ms, lambda now: self._retry(promise, now, expired=True))

    def _release(self, promise: Promise) -> None:
        waiting = self._waitings.pop(promise, None)
        if waiting is None:
            return
        self._scheduler.cancel(promise)
        for key in waiting.on:
            promises = self._by_key.get(key)
            if promises is not None:
                promises.pop(promise, None)
                if not promises:
                    del self._by_key[key]

    def _retry(self, promise: Promise, now: Now, *, expired: bool) -> None:
        waiting = self._waitings.get(promise)
        if waiting is None:
            return
        reply = self._asked_again(waiting, now, expired)
        if reply is None:
            assert not expired, "a reply whose time is over leaves"
            return
        assert not (expired and isinstance(reply, Waiting) and reply.until_ms is not None), "its time is over once"
        self._release(promise)
        self.hand_in(promise, reply)

    def _asked_again(self, waiting: Waiting, now: Now, expired: bool) -> Reply | None:
        """What a retry answers. An expected failure closes the connection; a mistake that has changed nothing costs the request."""
        try:
            return self.changes.attempted(partial(waiting.retry, now, expired))
        except EXPECTED as failure:
            return _closed(failure)


def _closed(failure: Exception) -> Close:
    return Close(f"its request could not be served: {failure}")


def _go_on(now: Now) -> None:
    """Something is due now, so that what was woken is settled."""


def _while_wanted(promise: Promise, steps: Steps[Reply]) -> Steps[Reply]:
    """The same computation, which ends when nobody waits for it any more."""
    try:
        result: StorageFailed | None = None
        while promise.is_wanted:
            result = yield steps.send(result)
    except StopIteration as done:
        reply: Reply = done.value
        return reply
    steps.close()
    return Close("nobody waits for this reply")
