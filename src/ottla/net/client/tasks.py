"""A client's background tasks. The first failure ends the client, and the next call raises its cause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from ottla.client.errors import Closed


class Tasks:
    """The tasks of one client, on the event loop that created them.

    When a task fails, all tasks are cancelled, and `broke` is called once. It must not raise.
    """

    def __init__(self, broke: Callable[[Closed], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[None]] = set()
        self._broke = broke
        self._cause: BaseException | None = None
        self._is_raised = False

    def spawn(self, work: Coroutine[object, None, None]) -> asyncio.Task[None]:
        """Run a coroutine in the background."""
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    def soon(self, function: Callable[[], None]) -> None:
        """Schedule a function on the loop. An exception of the function ends the client."""

        async def call() -> None:
            function()

        self.spawn(call())

    def call(self, function: Callable[[], None]) -> None:
        """Call a function now, on the loop. An exception of the function ends the client, as with `soon`, which takes a task."""
        try:
            function()
        except Exception as error:
            self._fail(error)
        except BaseException as error:  # `SystemExit` and interrupts leave the loop, too
            self._fail(error)
            raise

    def later(self, delay_s: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function after a delay, unless the returned timer is cancelled before."""
        return self._loop.call_later(delay_s, self.call, function)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._cause is None:
            self._cause = error
            self._cancel()
            self._broke(self.end_error())

    def _cancel(self) -> list[asyncio.Task[None]]:
        others = [task for task in self._running if task is not asyncio.current_task(self._loop)]
        for task in others:
            task.cancel()
        return others

    @property
    def broken(self) -> bool:
        return self._cause is not None

    def end_error(self) -> Closed:
        """Return the exception that calls raise after the end of the client."""
        if self._cause is None:
            return Closed()
        closed = Closed(f"The client ended with an unexpected error, or one of a callback: {self._cause!r}; create a new one.")
        closed.__cause__ = self._cause
        return closed

    def check(self) -> None:
        """Raise the error that ended the client, if any: the first time unchanged, and afterwards as the cause of `Closed`."""
        if self._cause is None:
            return
        if self._is_raised:
            raise self.end_error()
        self._is_raised = True
        raise self._cause

    def check_unraised(self) -> None:
        """Raise the error that ended the client, unless an earlier call has already raised it."""
        if not self._is_raised:
            self.check()

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        await asyncio.gather(*self._cancel(), return_exceptions=True)
