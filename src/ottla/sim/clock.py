"""A clock that stands still until it is advanced."""

from __future__ import annotations

from ottla.ports import Now

EPOCH_MS = 1_700_000_000_000


class SimClock:
    """Implements `ottla.ports.Clock`: `advance` moves both readings, `jump` the wall clock alone."""

    def __init__(self, wall_ms: int = EPOCH_MS) -> None:
        self._wall_ms = wall_ms
        self._mono_ms = 0

    def now(self) -> Now:
        return Now(self._wall_ms, self._mono_ms)

    def advance(self, ms: int) -> Now:
        self._wall_ms += ms
        self._mono_ms += ms
        return self.now()

    def jump(self, ms: int) -> None:
        """Move the wall clock, as an operator or a time server does."""
        self._wall_ms += ms
