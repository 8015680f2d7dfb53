"""The calls from other threads to the broker's thread. Once the server exists, it receives them as completions."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress

Call = Callable[[], None]


class Posts:
    """A scheduler of calls on the loop's thread. Until `reach` sets the function that runs them, calls run directly."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._completed: Callable[[Call], None] = _call

    def __call__(self, call: Call) -> None:
        """Schedule a call on the loop's thread. Any thread may call this."""
        with suppress(RuntimeError):  # the loop is closed, so the call is dropped
            self._loop.call_soon_threadsafe(self._completed, call)

    def reach(self, completed: Callable[[Call], None]) -> None:
        """Pass all further calls to `completed`, the server's function for completions."""
        self._completed = completed

    def call_now(self, call: Call) -> None:
        """Run a call at once, on the loop's thread."""
        self._completed(call)


def _call(call: Call) -> None:
    call()
