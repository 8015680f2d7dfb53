"""Memory over all connections: for requests that arrive in several pieces, and for what waits. Knows sizes, nothing of sockets.

What a peer announces is claimed before it is read. Small requests have a share of their own, so that unfinished giants never keep
them waiting; in each share, those that wait are served in the order in which they came. A request that is larger than its share
has it alone. While somebody waits, a request that has stopped arriving is given up: it could hold its share for ever.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

SMALL_BYTES = 1024 * 1024 + 64 * 1024
"""Up to this size a request is small: one of a producer with Kafka's default of max.request.size."""

FREE_BYTES = 4096
"""Requests up to this size claim nothing: a connection costs more than that."""

STALLED_MS = 2000
STALLED_BYTES = 64 * 1024
"""A request of which less arrives in so long has stopped."""


class Claimant(Protocol):
    """A connection whose request is to be read."""

    @property
    def arrived(self) -> int | None:
        """How much of the request was read; None if it is whole, or gone."""

    def granted(self, size: int) -> None:
        """Read on: the memory that was claimed is there."""

    def give_up(self) -> None:
        """End the connection: its request has stopped arriving, and others wait for the memory."""


class Tally:
    """Bytes of one kind that all connections hold together. Beyond `limit_bytes` each of them has to hold less."""

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = 0
        self.limit_bytes = limit_bytes

    @property
    def is_crowded(self) -> bool:
        return self.bytes > self.limit_bytes


class Share:
    """One part of the pool. `used` is what was granted and not given back."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used = 0
        self.waiting: deque[tuple[Claimant, int]] = deque()
        self.arriving: dict[Claimant, tuple[int, int]] = {}
        """Whose request was granted and is not whole: what had arrived when it was looked at (mono_ms)."""

    def fits(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self.limit_bytes

    def grant(self, claimant: Claimant, size: int) -> None:
        self.used += size
        self.arriving[claimant] = -STALLED_BYTES, 0


class FramePool:
    """`limit_bytes` for requests that are read or served at one time; 0 or less sets no limit. A quarter is for small ones."""

    def __init__(self, limit_bytes: int) -> None:
        self._is_limited = limit_bytes > 0
        self._small = Share(limit_bytes // 4)
        self._large = Share(limit_bytes - limit_bytes // 4)

    @property
    def used(self) -> int:
        """Bytes granted and not given back."""
        return self._small.used + self._large.used

    @property
    def waiting(self) -> int:
        """How many wait for memory."""
        return len(self._small.waiting) + len(self._large.waiting)

    def claim(self, claimant: Claimant, size: int) -> bool:
        """Whether `size` bytes are granted at once. If not, `claimant.granted(size)` is called when they are."""
        if size <= FREE_BYTES or not self._is_limited:
            return True
        share = self._share(size)
        if share.waiting or not share.fits(size):
            share.waiting.append((claimant, size))
            return False
        self._small.arriving.pop(claimant, None)
        self._large.arriving.pop(claimant, None)
        share.grant(claimant, size)
        return True

    def release(self, size: int) -> None:
        """Give back what was granted, and grant it to those who wait."""
        if size <= FREE_BYTES or not self._is_limited:
            return
        share = self._share(size)
        share.used -= size
        while share.waiting and share.fits(share.waiting[0][1]):
            claimant, size = share.waiting.popleft()
            share.grant(claimant, size)
            claimant.granted(size)

    def forget(self, claimant: Claimant) -> None:
        """Let a claimant wait no longer."""
        for share in (self._small, self._large):
            if any(one is claimant for one, _ in share.waiting):
                share.waiting = deque(pair for pair in share.waiting if pair[0] is not claimant)

    def look(self, mono_ms: int) -> None:
        """Give up what has stopped arriving, where somebody waits for it. To be called every second or so."""
        for share in (self._small, self._large):
            for claimant, (before, since_ms) in tuple(share.arriving.items()):
                arrived = claimant.arrived
                if arrived is None:
                    del share.arriving[claimant]
                elif arrived - before >= STALLED_BYTES:
                    share.arriving[claimant] = arrived, mono_ms
                elif share.waiting and mono_ms - since_ms >= STALLED_MS:
                    claimant.give_up()

    def _share(self, size: int) -> Share:
        return self._small if size <= SMALL_BYTES else self._large
