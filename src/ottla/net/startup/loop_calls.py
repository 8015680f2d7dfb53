"""Calls on the broker's thread: from other threads, and the steps of registries without a broker's scheduler.

Once the server exists, it receives the calls as completions.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ottla.ports import Steps, StorageFailed

Call = Callable[[], None]

T = TypeVar("T")


async def complete(steps: Steps[T]) -> T:
    """Run registry steps, and return their result. Raises the exceptions of the steps."""
    loop = asyncio.get_running_loop()
    resumed: StorageFailed | None = None
    while True:
        try:
            start = steps.send(resumed)
        except StopIteration as end:
            result: T = end.value
            return result
        resumed = None
        if start is None:
            await asyncio.sleep(0)
            continue
        waiting: asyncio.Future[StorageFailed | None] = loop.create_future()
        start(partial(_on_done, waiting))
        resumed = await waiting


def _on_done(waiting: asyncio.Future[StorageFailed | None], failure: StorageFailed | None) -> None:
    if not waiting.done():  # otherwise the waiting task was cancelled
        waiting.set_result(failure)


class Posts:
    """A scheduler of calls on the loop's thread.

    Calls run directly from the event loop, until `reach` gives them another way: the server, which counts them as completions.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._completed: Callable[[Call], None] = _call

    def __call__(self, call: Call) -> None:
        """Schedule a call on the loop's thread. Any thread may call this."""
        with suppress(RuntimeError):  # the loop is closed, so the call is dropped
            self._loop.call_soon_threadsafe(self._completed, call)

    def watch(self, handle: int, call: Call | None) -> None:
        """Run `call` on the loop's thread whenever the handle has bytes to read. With None, do not any more."""
        with suppress(RuntimeError):  # the loop is closed
            if call is None:
                self._loop.remove_reader(handle)
            else:
                self._loop.add_reader(handle, self.call_now, call)

    def reach(self, completed: Callable[[Call], None]) -> None:
        """Pass all further calls to `complete`, the function of the server that runs completions of the disk."""
        self._completed = completed

    def call_now(self, call: Call) -> None:
        """Run `call` at once. The caller must be on the loop's thread."""
        self._completed(call)


def _call(call: Call) -> None:
    call()
