"""The callbacks of `send(on_delivery=…)`: called on a thread of the user's, or on the event loop of an asynchronous producer.

Every exception of a callback is logged, and the other callbacks are called nevertheless. `check` raises the first.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from ottla.client.arguments import short_repr, waitable
from ottla.client.errors import TimedOut
from ottla.net.client.producer.delivery import Delivery

OnDelivery = Callable[[Delivery], object]

log = logging.getLogger("ottla.client")

_INSIDE: ContextVar[bool] = ContextVar("ottla_delivery_callback", default=False)
"""True in an awaited callback, whose own `flush` must not wait for it."""


def check_callback(on_delivery: object) -> OnDelivery:
    """Return a callback of `send`. Raises `TypeError`."""
    if not callable(on_delivery):
        raise TypeError(f"on_delivery is a function of the record's Delivery, not {short_repr(on_delivery)}.")
    return on_delivery


class CallbackErrors:
    """The first exception of a callback since the last `check`."""

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def note(self, error: BaseException, delivery: Delivery) -> None:
        """Log an exception of a callback, and keep the first for `check`."""
        log.error("a callback of a record of topic %s raised an exception", delivery.topic, exc_info=error)
        self._error = self._error or error

    def call(self, callback: OnDelivery, delivery: Delivery) -> None:
        """Call a callback, possibly on the client's thread, and note its exception."""
        try:
            callback(delivery)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() would end the client's thread, for which other threads wait
            self.note(error, delivery)

    def check(self) -> None:
        """Raise the first exception of a callback since the last call."""
        error, self._error = self._error, None
        if error is not None:
            raise error


class DeliveryCallbacks:
    """The due callbacks of a blocking producer, until one of the user's threads calls them. Any thread may add some."""

    def __init__(self, errors: CallbackErrors) -> None:
        self._errors = errors
        self.check = errors.check
        self._due: queue.SimpleQueue[tuple[OnDelivery, Delivery] | Callable[[], None]] = queue.SimpleQueue()

    def put(self, function: Callable[[], None]) -> None:
        """Let the thread that calls the due callbacks call a function too."""
        self._due.put(function)

    def add(self, delivery: Delivery, on_delivery: OnDelivery) -> None:
        """Let `on_delivery` become due once the record is written or has failed."""
        delivery.add_done_callback(lambda done: self._due.put((on_delivery, done)))

    def call_due(self, timeout_s: float = 0) -> int:
        """Call all due callbacks, and return their number. Wait up to `timeout_s` seconds for the first."""
        count = 0
        try:
            item = self._due.get(timeout=waitable(timeout_s)) if timeout_s else self._due.get_nowait()
            while True:
                if isinstance(item, tuple):
                    count += 1
                    self._call(*item)
                else:
                    item()
                item = self._due.get_nowait()
        except queue.Empty:
            return count

    def _call(self, on_delivery: OnDelivery, delivery: Delivery) -> None:
        try:
            on_delivery(delivery)
        except Exception as error:
            self._errors.note(error, delivery)


class AwaitedCallbacks:
    """The callbacks of an asynchronous producer, called on the loop of the producer. What they return is awaited."""

    def __init__(self, errors: CallbackErrors) -> None:
        self._errors = errors
        self.check = errors.check
        self._due: deque[tuple[OnDelivery, Delivery]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    def add(self, delivery: Delivery, on_delivery: OnDelivery) -> None:
        """Call `on_delivery` on the running loop soon after the record is written or has failed."""
        loop = asyncio.get_running_loop()

        def become_due(done: Delivery) -> None:
            self._due.append((on_delivery, done))
            if len(self._due) == 1:
                loop.call_soon(self._call_due)

        delivery.add_done_callback(become_due)

    def _call_due(self) -> None:
        while self._due:
            on_delivery, delivery = self._due.popleft()
            try:
                result = on_delivery(delivery)
            except (Exception, asyncio.CancelledError) as error:
                self._errors.note(error, delivery)
                continue
            if inspect.isawaitable(result):
                task = asyncio.get_running_loop().create_task(self._wait_for(result, delivery))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def _wait_for(self, result: Awaitable[object], delivery: Delivery) -> None:
        _INSIDE.set(True)
        try:
            await result
        except Exception as error:
            self._errors.note(error, delivery)

    async def finish(self, timeout_s: float | None = None, *, cancel: bool = False) -> None:
        """Call what is due, and wait for all callbacks. Raises `TimedOut`, or with `cancel` cancels those that take longer."""
        if _INSIDE.get():
            return
        self._call_due()
        if not self._running:
            return
        _, late = await asyncio.wait(self._running, timeout=timeout_s)
        if late and cancel:
            for task in late:
                task.cancel()
            await asyncio.wait(late)
        elif late:
            raise TimedOut(f"{len(late)} callbacks of on_delivery have not returned: raise timeout_ms, or let them do less.")
