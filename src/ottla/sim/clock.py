"""A clock that advances only by a call of `advance`."""

from __future__ import annotations

from ottla.ports import Now

EPOCH_MS = 1_700_000_000_000


class SimClock:
    """A manual clock; implements `ottla.ports.Clock`. `advance` moves the wall clock and the monotonic clock, `jump` only the wall
    clock.
    """

    def __init__(self, wall_ms: int = EPOCH_MS) -> None:
        self._now = Now(wall_ms, 0)

    def now(self) -> Now:
        return self._now

    def advance(self, ms: int) -> Now:
        wall_ms, mono_ms = self._now
        self._now = Now(wall_ms + ms, mono_ms + ms)
        return self._now

    def jump(self, ms: int) -> None:
        """Move the wall clock by `ms`, as an operator or a time server does."""
        self._now = Now(self._now.wall_ms + ms, self._now.mono_ms)
