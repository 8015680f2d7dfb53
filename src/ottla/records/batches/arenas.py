"""Memory for columns that is reused once nobody reads the columns any more.

Each chunk of a consumer needs some 400 KB for its columns. New memory of that size comes from the system, which fills it with
zeroes page by page: that took a tenth of the time of a loop over small records.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LARGEST_BYTES: Final = 1024 * 1024
"""The largest arena that is kept."""


class Arenas:
    """A few byte arrays, 8 MB at most, each reused once no view of it is left. Several threads may share them.

    A byte array is taken out while a thread decides about it, so that no two threads can get the same one.
    """

    def __init__(self, kept: int = 8) -> None:
        self._kept: deque[bytearray] = deque(maxlen=kept)

    def allocate(self, size: int) -> memoryview:
        """Return `size` bytes with arbitrary contents, which the caller overwrites."""
        try:
            arena = self._kept.popleft()
        except IndexError:
            arena = bytearray()
        if not size <= len(arena) <= LARGEST_BYTES or not _is_unused(arena):
            arena = bytearray(size)
        view = memoryview(arena)[:size]
        if size <= LARGEST_BYTES:
            self._kept.append(arena)
        return view


def _is_unused(arena: bytearray) -> bool:
    """Return whether no view of a byte array is left: Python refuses to resize one that has views."""
    try:
        arena.append(arena.pop())
    except (BufferError, IndexError):
        return False
    return True
