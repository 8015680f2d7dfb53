"""Replies that wait: kept as values, retried when a key is woken or their time is over. Knows nothing of what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.request import Promised, Ready, Waiting
from ottla.ports import Now

Deliver = Callable[[Ready], None]


class Wait:
    """One waiting reply and where it goes when it is ready."""

    __slots__ = ("deliver", "number", "waiting")

    def __init__(self, number: int, waiting: Waiting, deliver: Deliver) -> None:
        self.number = number
        self.waiting = waiting
        self.deliver = deliver


class Waits:
    """All waiting replies of a broker, by what they wait on.

    `wake` only notes the key: the retries happen in `settle`, outside of any handler, so that many changes cost one retry.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._by_key: dict[Hashable, dict[Wait, None]] = {}
        self._woken: dict[Hashable, None] = {}
        self._count = 0

    def __len__(self) -> int:
        return len({wait for waits in self._by_key.values() for wait in waits})

    def add(self, waiting: Waiting, deliver: Deliver) -> Wait:
        self._count += 1
        wait = Wait(self._count, waiting, deliver)
        self._hold(wait)
        return wait

    def wake(self, key: Hashable) -> None:
        if key in self._by_key:
            self._woken[key] = None

    def settle(self, now: Now) -> None:
        """Retry all that wait on a woken key."""
        while self._woken:
            woken, self._woken = self._woken, {}
            for key in woken:
                for wait in tuple(self._by_key.get(key, ())):
                    self._retry(wait, now, expired=False)

    def drop(self, wait: Wait) -> None:
        """Forget a reply that nobody is left to receive, and drop the job that computes it."""
        self._release(wait)
        for key in wait.waiting.on:
            if key not in self._by_key:
                self._scheduler.drop(key)

    def _hold(self, wait: Wait) -> None:
        for key in wait.waiting.on:
            self._by_key.setdefault(key, {})[wait] = None
        if wait.waiting.until_ms is not None:
            self._scheduler.at(wait, wait.waiting.until_ms, lambda now: self._retry(wait, now, expired=True))

    def _release(self, wait: Wait) -> None:
        self._scheduler.cancel(wait)
        for key in wait.waiting.on:
            waits = self._by_key.get(key)
            if waits is not None:
                waits.pop(wait, None)
                if not waits:
                    del self._by_key[key]

    def _retry(self, wait: Wait, now: Now, *, expired: bool) -> None:
        reply = wait.waiting.retry(now, expired)
        if reply is None:
            assert not expired, "a reply whose time is over leaves"
            return
        assert not (expired and isinstance(reply, Waiting) and reply.until_ms is not None), "its time is over once"
        self._release(wait)
        if isinstance(reply, Waiting):
            wait.waiting = reply
            self._hold(wait)
        elif isinstance(reply, Promised):
            reply.deliver = wait.deliver
        else:
            wait.deliver(reply)
