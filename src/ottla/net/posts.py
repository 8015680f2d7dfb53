"""What other threads have for the broker's: it is called there, by the server once there is one."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress

Call = Callable[[], None]


class Posts:
    """Has something called on the loop's thread. `completed` is what the server makes of it; before that it is called as it is."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._completed: Callable[[Call], None] = _call

    def __call__(self, call: Call) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody hears of anything any more
            self._loop.call_soon_threadsafe(self._completed, call)

    def reach(self, completed: Callable[[Call], None]) -> None:
        """From now on calls are completions of a server."""
        self._completed = completed

    def tell(self, call: Call) -> None:
        """The same now, on the loop's thread."""
        self._completed(call)


def _call(call: Call) -> None:
    call()
