"""The settings of Python's garbage collector in a broker process: it traverses few objects at a time.

Requests leave no cycles behind, so there is hardly any garbage to find. Traversing all live objects, such as hundreds of thousands
of decoded names, would stop the process for a tenth of a second.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable

YOUNG_OBJECTS = 10_000
"""The number of new objects after which the collector checks them, and every second time also the ones of the last check."""

MIDDLES = 5
"""After so many of those second times all that came is collected, in a step of its own: about a hundred thousand objects, that are
not left to grow to the millions of a large request."""

NEVER = 1_000_000_000
LOOK_S = 10
IDLE_PART = 0.01
"""The part of a processor below which a process is idle."""

WORTHWHILE_BLOCKS = 100_000
"""The new memory blocks since the last full collection that are worth a collection while idle."""

URGENT_BLOCKS = 2_000_000
"""The new memory blocks that are worth a collection even under load."""


def let_go(transport: asyncio.BaseTransport) -> None:
    """Break the reference cycle of a closed connection, so that it is freed at once: asyncio transports hold their own method.

    A transport that the collector has frozen would otherwise stay for good.
    """
    getattr(transport, "__dict__", {}).pop("_read_ready_cb", None)


class Collector:
    """A collector of all objects created since its last run: when the process is idle, or when there are many.

    Survivors are frozen and never traversed again, so that the next run is as short. The settings are the whole process's.
    """

    def __init__(self, used_s: Callable[[], float] = time.process_time) -> None:
        """Prepare a collector. `used_s` returns the processor time of this process, in s."""
        self._used_s = used_s
        self._used_before_s = 0.0
        self._blocks_before = 0
        self._middles = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Freeze all live objects, and check every few seconds, on the running loop, whether to collect."""
        # Since Python 3.14 the second number is the part of old objects checked with young ones, and there is no third generation.
        self._loop = asyncio.get_running_loop()
        if sys.version_info < (3, 14):
            gc.set_threshold(YOUNG_OBJECTS, 1, NEVER)
            gc.callbacks.append(self._collected)
        else:
            gc.set_threshold(YOUNG_OBJECTS, 50, NEVER)
        self._spare()
        self._look_later()

    def look(self) -> None:
        """Collect the objects created since the last run, if that is worth its time."""
        used_s = self._used_s() - self._used_before_s
        self._used_before_s += used_s
        came = sys.getallocatedblocks() - self._blocks_before
        if came >= URGENT_BLOCKS or (came >= WORTHWHILE_BLOCKS and used_s < LOOK_S * IDLE_PART):
            self._collect()

    def _collect(self) -> None:
        self._middles = 0
        gc.collect()
        self._spare()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """Count collections of those that were looked at last. Python calls this on any thread, and collects nothing meanwhile."""
        if phase != "stop" or info["generation"] != 1:
            return
        self._middles += 1
        if self._middles == MIDDLES and self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:
                gc.callbacks.remove(self._collected)  # the loop is over

    def _look_later(self) -> None:
        asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self.look()
        self._look_later()

    def _spare(self) -> None:
        gc.freeze()
        self._blocks_before = sys.getallocatedblocks()
