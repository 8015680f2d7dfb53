"""An event loop on a thread of its own, on which the blocking clients run their asynchronous twins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.client.errors import Closed

Result = TypeVar("Result")


class BackgroundLoop:
    """Starts at once and ends with `stop`; a daemon, so that a client left open does not keep a program from ending."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for it. An interrupt (Ctrl-C) cancels it. Raises `Closed` after `stop`."""
        if not self._thread.is_alive():
            work.close()
            raise Closed("The client is closed: make a new one.")
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def do(self, function: Callable[[], Result]) -> Result:
        """Call a function on the loop and wait for what it returns."""

        async def work() -> Result:
            return function()

        return self.run(work())

    def call(self, function: Callable[[], Any]) -> None:
        """Have a function called on the loop, soon."""
        self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """End the loop and its thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
