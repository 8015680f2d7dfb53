"""The calls from other threads to the broker's thread: the server receives them as completions once it exists."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress

Call = Callable[[], None]


class Posts:
    """A poster of calls to the loop's thread. `reach` sets the function that runs them; until then they run directly."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._completed: Callable[[Call], None] = _call

    def __call__(self, call: Call) -> None:
        """Post a call, from any thread."""
        with suppress(RuntimeError):  # the loop is closed: calls are dropped
            self._loop.call_soon_threadsafe(self._completed, call)

    def reach(self, completed: Callable[[Call], None]) -> None:
        """Pass all further calls to `completed`, as completions of a server."""
        self._completed = completed

    def tell(self, call: Call) -> None:
        """Run a call now, on the loop's thread."""
        self._completed(call)


def _call(call: Call) -> None:
    call()
