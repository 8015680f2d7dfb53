"""Memory over all connections: for requests that arrive in several pieces, and for what waits. Knows sizes, nothing of sockets.

What a peer announces is claimed before it is read. Small requests have a share of their own, so that unfinished giants never keep
them waiting; in each share, those that wait are served in the order in which they came. A request that is larger than its share
has it alone. A large one that arrives takes memory in turns with large batches that are opened: a giant of each would be too much.
While somebody waits, a request that has stopped arriving is given up: it could hold its share for ever.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Protocol

from ottla.broker.serving.long_checks import Claim, Memory
from ottla.ports import StorageFailed

SMALL_BYTES = 1024 * 1024 + 64 * 1024
"""Up to this size a request is small: one of a producer with Kafka's default of max.request.size."""

FREE_BYTES = 4096
"""Requests up to this size claim nothing: a connection costs more than that."""

STALLED_MS = 2000
STALLED_BYTES = 64 * 1024
STALLED_SHARE = 32
"""A request of which less arrives in so long, or less than this part of it, has stopped: within a minute it would not be whole."""


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


class Arriving:
    """A request that was granted and is not whole: what had arrived when it was looked at (mono_ms), and its claim to memory."""

    __slots__ = ("arrived", "claim", "least_bytes", "since_ms", "size")

    def __init__(self, size: int, claim: Claim | None) -> None:
        self.size = size
        self.claim = claim
        self.least_bytes = max(STALLED_BYTES, size // STALLED_SHARE)
        self.arrived = -self.least_bytes
        self.since_ms = 0

    @property
    def is_granted(self) -> bool:
        return self.claim is None or self.claim.is_granted


class Share:
    """One part of the pool. `used` is what was granted and not given back. What arrives takes `memory` besides, if there is any."""

    def __init__(self, limit_bytes: int, memory: Memory | None) -> None:
        self.limit_bytes = limit_bytes
        self.used = 0
        self.waiting: deque[tuple[Claimant, int]] = deque()
        self.arriving: dict[Claimant, Arriving] = {}
        self.memory = memory

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for what is held."""
        return bool(self.waiting) or (self.memory is not None and self.memory.is_wanted)

    def fits(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self.limit_bytes

    def grant(self, claimant: Claimant, size: int) -> bool:
        """Whether a request may arrive now, for which there is room; if not, it is told when there is memory too."""
        self.used += size
        claim = None if self.memory is None else self.memory.claim(size)
        arriving = self.arriving[claimant] = Arriving(size, claim)
        if claim is not None and not claim.is_granted:
            claim.wait(partial(self._granted, claimant, arriving))
        return arriving.is_granted

    def end_arriving(self, claimant: Claimant) -> None:
        """A request is whole, or nothing more of it will arrive."""
        arriving = self.arriving.pop(claimant, None)
        if arriving is not None and arriving.claim is not None and self.memory is not None:
            self.memory.release(arriving.claim)

    def _granted(self, claimant: Claimant, arriving: Arriving, failure: StorageFailed | None) -> None:
        if self.arriving.get(claimant) is arriving:
            claimant.granted(arriving.size)


class FramePool:
    """`limit_bytes` for requests that are read or served at one time; 0 or less sets no limit. A quarter is for small ones.

    Large ones take of `memory` what they announce, until they are whole.
    """

    def __init__(self, limit_bytes: int, memory: Memory) -> None:
        self._is_limited = limit_bytes > 0
        self._small = Share(limit_bytes // 4, None)
        self._large = Share(limit_bytes - limit_bytes // 4, memory)

    @property
    def used(self) -> int:
        """Bytes granted and not given back."""
        return self._small.used + self._large.used

    @property
    def waiting(self) -> int:
        """How many wait for memory."""
        unheard = sum(not one.is_granted for one in self._large.arriving.values())
        return len(self._small.waiting) + len(self._large.waiting) + unheard

    def claim(self, claimant: Claimant, size: int) -> bool:
        """Whether `size` bytes are granted at once. If not, `claimant.granted(size)` is called when they are."""
        if size <= FREE_BYTES or not self._is_limited:
            return True
        share = self._share(size)
        if share.waiting or not share.fits(size):
            share.waiting.append((claimant, size))
            return False
        return share.grant(claimant, size)

    def whole(self, claimant: Claimant, size: int) -> None:
        """All of a request has arrived. It holds its share until it is released."""
        if size > FREE_BYTES and self._is_limited:
            self._share(size).end_arriving(claimant)

    def release(self, size: int) -> None:
        """Give back what was granted, and grant it to those who wait."""
        if size <= FREE_BYTES or not self._is_limited:
            return
        share = self._share(size)
        share.used -= size
        while share.waiting and share.fits(share.waiting[0][1]):
            claimant, size = share.waiting.popleft()
            if share.grant(claimant, size):
                claimant.granted(size)

    def forget(self, claimant: Claimant) -> None:
        """Let a claimant wait no longer."""
        for share in (self._small, self._large):
            if any(one is claimant for one, _ in share.waiting):
                share.waiting = deque(pair for pair in share.waiting if pair[0] is not claimant)
        arriving = self._large.arriving.get(claimant)
        if arriving is not None:
            self._large.end_arriving(claimant)
            self.release(arriving.size)

    def look(self, mono_ms: int) -> None:
        """Give up what has stopped arriving, where somebody waits for it. To be called every second or so."""
        for share in (self._small, self._large):
            for claimant, one in tuple(share.arriving.items()):
                arrived = claimant.arrived
                if not one.is_granted or arrived is None:
                    continue
                if arrived - one.arrived >= one.least_bytes:
                    one.arrived, one.since_ms = arrived, mono_ms
                elif share.is_wanted and mono_ms - one.since_ms >= STALLED_MS:
                    claimant.give_up()

    def _share(self, size: int) -> Share:
        return self._small if size <= SMALL_BYTES else self._large
