"""The work of one client that nobody awaits, in tasks. The first that breaks ends the client, and its user hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.client.errors import Closed


class Tasks:
    """Runs on the loop that it was made on. `broke` is called once, when all tasks have been told to end; it must not raise."""

    def __init__(self, broke: Callable[[Closed], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[Any]] = set()
        self._broke = broke
        self._cause: BaseException | None = None
        self._told = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in the background."""
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the background."""

        async def call() -> None:
            function()

        self.spawn(call())

    def later(self, delay_s: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function in the background, unless the timer is cancelled before."""
        return self._loop.call_later(delay_s, self.soon, function)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._cause is None:
            self._cause = error
            self._cancel()
            self._broke(self.ended())

    def _cancel(self) -> list[asyncio.Task[Any]]:
        others = [task for task in self._running if task is not asyncio.current_task(self._loop)]
        for task in others:
            task.cancel()
        return others

    @property
    def broken(self) -> bool:
        return self._cause is not None

    def ended(self) -> Closed:
        """The error of a client that has ended, whatever ended it."""
        if self._cause is None:
            return Closed("The client is closed: make a new one.")
        closed = Closed(f"The client ended with an error of its own or of a function given to it: {self._cause!r}; make a new one.")
        closed.__cause__ = self._cause
        return closed

    def check(self) -> None:
        """Raise what broke: as it is the first time, as `Closed` from then on."""
        if self._cause is None:
            return
        if self._told:
            raise self.ended()
        self._told = True
        raise self._cause

    def check_untold(self) -> None:
        """Raise what broke if nobody has heard of it."""
        if not self._told:
            self.check()

    async def cancel(self) -> None:
        """End all that runs."""
        await asyncio.gather(*self._cancel(), return_exceptions=True)
