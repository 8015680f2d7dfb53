"""The count of idempotent producers in all logs of a broker, and the removal of the oldest when there are too many.

Owners are only names here. Clients choose producer ids freely, so the owner with the most producers loses its producers first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from heapq import heapify, heappop, heapreplace
from typing import Protocol

log = logging.getLogger("ottla.log")

MOST_BY_DEFAULT = 500_000
UNKNOWN = ""
"""The owner of producers that were read from a snapshot or copied from a leader, until a client writes with their ids."""

MOST_SHARES = 1000
"""The most owners with a share of their own; the producers of further owners are in the share `UNKNOWN`."""

FORGOTTEN_SHARE = 16
FORGOTTEN_AT_ONCE = 64
"""The most producers removed at once, so that a lowered limit causes no long step.

Normally 1/`FORGOTTEN_SHARE` of the limit is removed.
"""


class RingPlace:
    """A node of a circular linked list of producers. A node can also be in no list."""

    __slots__ = ("after", "before")

    before: RingPlace
    after: RingPlace

    def __init__(self) -> None:
        self.before = self.after = NOWHERE

    def unlink(self) -> None:
        """Remove this node from its linked list."""
        self.before.after, self.after.before = self.after, self.before
        self.before = self.after = NOWHERE

    def put_before(self, link: RingPlace) -> None:
        """Insert this node directly before the node `link` in its linked list."""
        self.before, self.after = link.before, link
        link.before.after = link.before = self


NOWHERE: RingPlace = RingPlace.__new__(RingPlace)
"""The neighbour of a place in no ring. This shared object keeps uncounted producers out of reference cycles."""
NOWHERE.before = NOWHERE.after = NOWHERE


class OwnerShare(RingPlace):
    """The counted producers of one owner. Producers without an open transaction form a circular linked list, oldest first."""

    __slots__ = ("count", "owner")

    def __init__(self, owner: str) -> None:
        self.before = self.after = self
        self.owner = owner
        self.count = 0


class Home(Protocol):
    """The interface of an object that contains a log's producers and can remove one."""

    def forget(self, producer_id: int) -> None:
        """Remove the producer with this id."""


class Counted(RingPlace):
    """A producer that can be counted. While counted, it belongs to its owner's `share`, and `home` is the log's producers."""

    __slots__ = ("home", "producer_id", "share")

    def __init__(self) -> None:
        super().__init__()
        self.share: OwnerShare | None = None
        self.home: Home
        self.producer_id: int


class ProducerShares:
    """The count of the idempotent producers of all logs of a broker, by owner. `most` returns the limit.

    Producers with open transactions are never removed, so that the count can exceed the limit.
    """

    __slots__ = ("_forgotten", "_shares", "count", "most")

    def __init__(self, most: Callable[[], int] = lambda: MOST_BY_DEFAULT) -> None:
        self.most = most
        self.count = 0
        self._forgotten = 0
        self._shares: dict[str, OwnerShare] = {}

    def add(self, state: Counted, home: Home, producer_id: int) -> None:
        """Count a producer of unknown owner, as the newest one."""
        state.home, state.producer_id = home, producer_id
        self.count += 1
        self._link(state, self._share(UNKNOWN))

    def claim(self, state: Counted, owner: str) -> None:
        """Move a producer of unknown owner to the share of `owner`. Do nothing if the producer has an owner."""
        share = state.share
        if share is not None and share.owner == UNKNOWN:
            wanted = self._share(owner)
            if wanted is not share:
                is_idle = state.after is not NOWHERE
                self._unlink(state)
                self._link(state, wanted)
                if not is_idle:
                    state.unlink()

    def replace(self, state: Counted, home: Home, old: Counted) -> None:
        """Count `state` in place of `old`, the former state of the same producer, with the same owner and age."""
        share = old.share
        assert share is not None, "its place is known only while it is counted"
        state.home, state.producer_id, state.share = home, old.producer_id, share
        if old.after is not NOWHERE:
            state.put_before(old)
            old.unlink()
        old.share = None
        del old.home

    def refresh(self, state: Counted, *, is_open: bool) -> None:
        """Make a producer the newest of its owner. If its transaction is open (`is_open`), it cannot be removed until the end."""
        state.unlink()
        if not is_open and state.share is not None:
            state.put_before(state.share)

    def remove(self, state: Counted) -> None:
        if state.share is not None:
            self.count -= 1
            self._unlink(state)
            del state.home

    def make_room(self) -> None:
        """Remove the oldest producers of the owner with the most, if the number of producers has reached the limit."""
        most = self.most()
        if self.count < most:
            return
        left = min(max(self.count - most + 1, most // FORGOTTEN_SHARE), FORGOTTEN_AT_ONCE)
        share = max((share for share in self._shares.values() if share.after is not share), key=_count, default=None)
        if share is None:
            return
        while left and isinstance(oldest := share.after, Counted):
            oldest.home.forget(oldest.producer_id)
            self._forgotten += 1
            left -= 1
        log.warning(
            "%d producer ids of all partitions were expired so far, oldest first of the client with the most (%s); there are more "
            "than ottla.max.producer.ids.per.broker (%d): a batch that one of them sends again is appended again",
            self._forgotten,
            share.owner or "unknown",
            most,
            extra={"cause": "producer ids of the broker"},
        )

    def _share(self, owner: str) -> OwnerShare:
        found = self._shares.get(owner)
        if found is None:
            if len(self._shares) >= MOST_SHARES and owner != UNKNOWN:
                return self._share(UNKNOWN)
            found = self._shares[owner] = OwnerShare(owner)
        return found

    def _link(self, state: Counted, share: OwnerShare) -> None:
        share.count += 1
        state.share = share
        state.put_before(share)

    def _unlink(self, state: Counted) -> None:
        share, state.share = state.share, None
        state.unlink()
        if share is not None:
            share.count -= 1
            if not share.count:
                del self._shares[share.owner]


def _count(share: OwnerShare) -> int:
    return share.count


def fair(sizes: list[int], wanted: int) -> list[int]:
    """Return how many members to remove from each group, if `wanted` are removed in total. `sizes` are the sizes of the groups.

    Members are removed one by one, each from the group that is then the largest.
    """
    left = [(-size, number) for number, size in enumerate(sizes) if size]
    heapify(left)
    gone = [0] * len(sizes)
    while wanted and left:
        size, number = left[0]
        gone[number] += 1
        wanted -= 1
        if size == -1:
            heappop(left)
        else:
            heapreplace(left, (size + 1, number))
    return gone
