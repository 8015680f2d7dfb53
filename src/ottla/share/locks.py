"""The deadlines of acquisition locks, each with the ranges that were acquired until then. Some may be acknowledged already.

Ranges that end in the same 10 ms share an entry: a range costs 16 bytes, and a lock lasts up to 10 ms longer than its duration.
"""

from __future__ import annotations

from array import array
from bisect import insort
from typing import Final

TICK_MS: Final = 10
"""The interval in ms between the possible ends of locks."""


def lock_deadline(now_ms: int, duration_ms: int) -> int:
    """Return when a lock of this duration ends: at the first tick that is not before its end."""
    return -(-(now_ms + duration_ms) // TICK_MS) * TICK_MS


class AcquisitionLocks:
    """The ranges of records that were acquired or renewed, by deadline. Acknowledged ranges stay in it until their deadline."""

    __slots__ = ("_deadlines", "_ranges")

    def __init__(self) -> None:
        self._deadlines: list[int] = []
        self._ranges: dict[int, array[int]] = {}

    @property
    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline; None without one."""
        return self._deadlines[0] if self._deadlines else None

    def add(self, deadline_ms: int, first_offset: int, last_offset: int) -> None:
        """Add a range that is locked until the deadline."""
        ranges = self._ranges.get(deadline_ms)
        if ranges is None:
            ranges = self._ranges[deadline_ms] = array("q")
            insort(self._deadlines, deadline_ms)
        ranges.append(first_offset)
        ranges.append(last_offset)

    def due(self, now_ms: int, most: int) -> list[tuple[int, int]]:
        """Return up to `most` ranges whose deadline has passed, in order of deadlines."""
        offsets: list[int] = []
        for deadline_ms in self._deadlines:
            if deadline_ms > now_ms or len(offsets) >= 2 * most:
                break
            offsets += self._ranges[deadline_ms][: 2 * most - len(offsets)]
        return list(zip(offsets[::2], offsets[1::2], strict=True))

    def drop(self, count: int) -> None:
        """Drop the first `count` ranges, in order of deadlines."""
        while count:
            ranges = self._ranges[self._deadlines[0]]
            here = min(count, len(ranges) // 2)
            del ranges[: 2 * here]
            if not ranges:
                del self._ranges[self._deadlines.pop(0)]
            count -= here
