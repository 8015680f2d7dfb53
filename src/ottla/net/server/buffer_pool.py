"""The pool of memory for the requests of all connections: requests that arrive in pieces, and queued ones. It uses no sockets.

A request's memory is claimed, by the size that the peer announces, before the request is read. Small requests have their own share
of the pool, so that incomplete large requests never delay them. Each share serves waiting requests in the order of their arrival. A
request that is larger than its share waits until the share is empty. Arriving large requests and large batches that are being
decompressed never use memory at the same time, because both together would need too much. A stalled request could hold its share
without end, so it is cut off while other requests wait.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla.ports import StorageFailed

if TYPE_CHECKING:  # clients import this module too, without the broker
    from ottla.broker.long_checks import Claim, Memory

SMALL_BYTES = 1024 * 1024 + 64 * 1024
"""The largest size, in bytes, of a small request. A producer with Kafka's default max.request.size sends only small requests."""

FREE_BYTES = 4096
"""The largest size, in bytes, of a request that claims no memory, because the connection itself uses more than that."""

STALLED_MS = 2000
STALLED_BYTES = 64 * 1024
STALLED_SHARE = 32
"""A request is stalled if fewer than STALLED_BYTES, or less than 1/STALLED_SHARE of it, arrive in STALLED_MS.

A request at this rate would take about a minute.
"""


class Claimant(Protocol):
    """A connection that claims memory from the pool for a request before it reads the request."""

    @property
    def arrived(self) -> int | None:
        """Return how many bytes of the incomplete request were read. Return None if the request is complete or abandoned."""

    def on_grant(self, size: int) -> None:
        """Continue to read the request, because the claimed memory of `size` bytes is available."""

    def cut_off(self) -> None:
        """Close the connection. Its peer has stopped sending a request, while other requests wait for memory."""


class Tally:
    """A count of the bytes that all connections hold for one purpose. Above `limit_bytes`, each connection must hold fewer
    bytes.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = 0
        self.limit_bytes = limit_bytes

    @property
    def is_crowded(self) -> bool:
        return self.bytes > self.limit_bytes


class Arriving:
    """An incomplete request whose memory was granted.

    `arrived` is the number of bytes at the last check with enough progress, and `since_ms` the monotonic time of that check.
    `claim` is the request's claim to the memory of large work, or None.
    """

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


@dataclass(slots=True, eq=False)
class Share:
    """One of the two parts of the pool, for small or for large requests. `used` is the granted memory in bytes.

    Requests that are still being received also claim their size from `memory`, if it is given.
    """

    limit_bytes: int
    memory: Memory | None
    used: int = 0
    waiting: deque[tuple[Claimant, int]] = field(default_factory=deque)
    arriving: dict[Claimant, Arriving] = field(default_factory=dict)

    @property
    def is_wanted(self) -> bool:
        """Return whether a request waits for memory that other requests hold."""
        return bool(self.waiting) or (self.memory is not None and self.memory.is_wanted)

    def fits(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self.limit_bytes

    def grant(self, claimant: Claimant, size: int) -> bool:
        """Grant the memory of a request that fits into this share. Return whether the request may arrive now.

        If it must also wait for `memory`, return False, and call `claimant.on_grant` later.
        """
        self.used += size
        claim = None if self.memory is None else self.memory.claim(size)
        arriving = self.arriving[claimant] = Arriving(size, claim)
        if claim is not None and not claim.is_granted:
            claim.wait(partial(self._on_grant, claimant, arriving))
        return arriving.is_granted

    def end_arriving(self, claimant: Claimant) -> None:
        """Release the claim to `memory` of a request that was received completely or was abandoned."""
        arriving = self.arriving.pop(claimant, None)
        if arriving is not None and arriving.claim is not None and self.memory is not None:
            self.memory.release(arriving.claim)

    def _on_grant(self, claimant: Claimant, arriving: Arriving, failure: StorageFailed | None) -> None:
        if self.arriving.get(claimant) is arriving:
            claimant.on_grant(arriving.size)


class FramePool:
    """The memory for requests that are being received or served. `limit_bytes` limits it; 0 or less means no limit.

    A quarter of the pool is for small requests. A large request also claims its announced size from `memory` until it was received
    completely.
    """

    def __init__(self, limit_bytes: int, memory: Memory) -> None:
        self._is_limited = limit_bytes > 0
        self._small = Share(limit_bytes // 4, None)
        self._large = Share(limit_bytes - limit_bytes // 4, memory)

    @property
    def used(self) -> int:
        """Return the granted memory in bytes."""
        return self._small.used + self._large.used

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait for memory."""
        unheard = sum(not one.is_granted for one in self._large.arriving.values())
        return len(self._small.waiting) + len(self._large.waiting) + unheard

    def claim(self, claimant: Claimant, size: int) -> bool:
        """Return whether `size` bytes are granted at once. If they are not, `claimant.on_grant(size)` is called later."""
        if size <= FREE_BYTES or not self._is_limited:
            return True
        share = self._share(size)
        if share.waiting or not share.fits(size):
            share.waiting.append((claimant, size))
            return False
        return share.grant(claimant, size)

    def whole(self, claimant: Claimant, size: int) -> None:
        """Record that a request was received completely. The request keeps its granted memory until `release`."""
        if size > FREE_BYTES and self._is_limited:
            self._share(size).end_arriving(claimant)

    def release(self, size: int) -> None:
        """Take back granted memory of `size` bytes, and grant it to waiting requests."""
        if size <= FREE_BYTES or not self._is_limited:
            return
        share = self._share(size)
        share.used -= size
        while share.waiting and share.fits(share.waiting[0][1]):
            claimant, size = share.waiting.popleft()
            if share.grant(claimant, size):
                claimant.on_grant(size)

    def forget(self, claimant: Claimant) -> None:
        """Remove a connection from the waiting and the incomplete requests, and take back the memory that it holds."""
        for share in (self._small, self._large):
            if any(one is claimant for one, _ in share.waiting):
                share.waiting = deque(pair for pair in share.waiting if pair[0] is not claimant)
        arriving = self._large.arriving.get(claimant)
        if arriving is not None:
            self._large.end_arriving(claimant)
            self.release(arriving.size)

    def cut_stalled(self, mono_ms: int) -> None:
        """Close connections with stalled requests if other requests wait for memory. This must be called about every second."""
        for share in (self._small, self._large):
            for claimant, one in tuple(share.arriving.items()):
                arrived = claimant.arrived
                if not one.is_granted or arrived is None:
                    continue
                if arrived - one.arrived >= one.least_bytes:
                    one.arrived, one.since_ms = arrived, mono_ms
                elif share.is_wanted and mono_ms - one.since_ms >= STALLED_MS:
                    claimant.cut_off()

    def _share(self, size: int) -> Share:
        return self._small if size <= SMALL_BYTES else self._large
