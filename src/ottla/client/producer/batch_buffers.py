"""Buffers of finished batches that new batches use again. A new buffer is slower, because the system clears its pages."""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

MOST_BUFFERS: Final = 32
SMALLEST_BYTES: Final = 65_536
"""The minimum size of a kept buffer. Smaller ones come from memory that the process already has."""


def _references(buffers: deque[bytearray]) -> int:
    """Return the number of references to the first buffer, including the references of this call."""
    return sys.getrefcount(buffers[0])


_ALONE: Final = _references(deque([bytearray(1)]))
"""The result for a buffer without other references. It is measured, because releases of Python count differently."""


class BatchBuffers:
    """Buffers of finished batches. `pop` returns a buffer only if nothing else refers to it, such as a socket or a request.

    The caller of its methods holds a lock.
    """

    def __init__(self) -> None:
        self._buffers: deque[bytearray] = deque(maxlen=MOST_BUFFERS)

    def add(self, buffer: bytearray) -> None:
        """Keep the buffer of a batch that is finished or about to be. If there are too many buffers, drop the oldest."""
        if len(buffer) >= SMALLEST_BYTES:
            self._buffers.append(buffer)

    def pop(self) -> bytearray | None:
        """Return the oldest buffer, or None if there is none or something still refers to it."""
        if not self._buffers or _references(self._buffers) > _ALONE:
            return None
        return self._buffers.popleft()
