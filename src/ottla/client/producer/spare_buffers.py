"""The buffers of finished batches, for the next ones: the system clears new pages, which takes longer than to write records."""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

MOST_BUFFERS: Final = 16
SMALLEST_BYTES: Final = 65_536
"""Smaller buffers come from memory that the process has already."""


def _references(buffers: deque[bytearray]) -> int:
    """Return the number of references to the first buffer, with those of the look itself."""
    return sys.getrefcount(buffers[0])


_ALONE: Final = _references(deque([bytearray(1)]))
"""Measured, because releases of Python differ in which references they count."""


class SpareBuffers:
    """Buffers that batches have used. `pop` returns only one to which nothing refers any more, such as a socket or a request.

    Its user holds a lock.
    """

    def __init__(self) -> None:
        self._buffers: deque[bytearray] = deque(maxlen=MOST_BUFFERS)

    def add(self, buffer: bytearray) -> None:
        """Keep a buffer that its batch needs no longer soon. The oldest one goes if there are too many."""
        if len(buffer) >= SMALLEST_BYTES:
            self._buffers.append(buffer)

    def pop(self) -> bytearray | None:
        """Return the oldest buffer that is free; None if there is none."""
        if not self._buffers or _references(self._buffers) > _ALONE:
            return None
        return self._buffers.popleft()
