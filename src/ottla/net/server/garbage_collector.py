"""The settings of Python's garbage collector in a broker process, so that one collection traverses few objects.

Requests leave no reference cycles, so there is hardly any garbage to find. A traversal of all live objects, such as hundreds of
thousands of decoded names, would stop the process for a tenth of a second.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable

YOUNG_OBJECTS = 10_000
"""The number of new objects that causes a collection of the youngest generation.

Every second collection also includes objects that survived the previous one.
"""

MIDDLES = 5
"""The collections of the middle generation after which `Collector` collects all new objects: about a hundred thousand.

Otherwise the millions of objects of a large request could accumulate.
"""

NEVER = 1_000_000_000
LOOK_S = 10
IDLE_PART = 0.01
"""The fraction of a processor's time below which the process counts as idle."""

WORTHWHILE_BLOCKS = 100_000
"""The number of memory blocks allocated since the last full collection that justifies a collection while the process is idle."""

URGENT_BLOCKS = 2_000_000
"""The number of memory blocks allocated since the last full collection that justifies a collection even under load."""


def release(transport: asyncio.BaseTransport) -> None:
    """Break the reference cycle of a closed connection, so that its memory is freed at once.

    asyncio transports refer to themselves by a bound method. The collector never frees a transport that it has frozen.
    """
    getattr(transport, "__dict__", {}).pop("_read_ready_cb", None)


class Collector:
    """A garbage collector for the objects created since its last run. It runs when the process is idle, or has many new objects.

    Surviving objects are frozen and never traversed again, so that the next run is short, too. The settings apply to the whole
    process.
    """

    def __init__(self, used_s: Callable[[], float] = time.process_time) -> None:
        """Create a collector. `used_s` returns the processor time, in s, that this process has used."""
        self._used_s = used_s
        self._used_before_s = 0.0
        self._blocks_before = 0
        self._middles = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Freeze all live objects. Then check every `LOOK_S` seconds, on the running loop, whether to collect."""
        # Since Python 3.14 the second number is the share of old objects checked with young ones, and there is no third generation.
        self._loop = asyncio.get_running_loop()
        if sys.version_info < (3, 14):
            gc.set_threshold(YOUNG_OBJECTS, 1, NEVER)
            gc.callbacks.append(self._on_collection)
        else:
            gc.set_threshold(YOUNG_OBJECTS, 50, NEVER)
        self._spare()
        self._check_later()

    def collect_if_due(self) -> None:
        """Run the garbage collector if there are enough new objects since the last run."""
        used_s = self._used_s() - self._used_before_s
        self._used_before_s += used_s
        came = sys.getallocatedblocks() - self._blocks_before
        if came >= URGENT_BLOCKS or (came >= WORTHWHILE_BLOCKS and used_s < LOOK_S * IDLE_PART):
            self._collect()

    def _collect(self) -> None:
        self._middles = 0
        gc.collect()
        self._spare()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Count the collections of the middle generation.

        Python calls this function on any thread, and collects nothing during the call.
        """
        if phase != "stop" or info["generation"] != 1:
            return
        self._middles += 1
        if self._middles == MIDDLES and self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:
                gc.callbacks.remove(self._on_collection)  # the loop is closed

    def _check_later(self) -> None:
        asyncio.get_running_loop().call_later(LOOK_S, self._check)

    def _check(self) -> None:
        self.collect_if_due()
        self._check_later()

    def _spare(self) -> None:
        gc.freeze()
        self._blocks_before = sys.getallocatedblocks()
