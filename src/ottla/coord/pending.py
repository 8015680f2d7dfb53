"""Offsets committed in transactions that have not ended (KIP-98): who commits what, and what counts once they end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.coord.records import OffsetCommitted, OffsetPending, TransactionEnded


class OffsetKey(NamedTuple):
    """What identifies an offset."""

    group_id: str
    topic: str
    partition: int


class PendingOffsets:
    """The offsets of all open transactions. The newest record of each counts, whichever ends first; an older one becomes None."""

    __slots__ = ("_by_place", "_by_producer")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, OffsetCommitted | None]] = {}
        self._by_place: dict[OffsetKey, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._by_place)

    def __contains__(self, place: tuple[str, str, int]) -> bool:
        return place in self._by_place

    def places(self, group_id: str) -> Iterable[OffsetKey]:
        """The keys of a group's pending offsets."""
        return [place for place in self._by_place if place.group_id == group_id]

    def add(self, record: OffsetPending) -> None:
        offset = record.offset
        place = OffsetKey(offset.group_id, offset.topic, offset.partition)
        self._by_producer.setdefault(record.producer_id, {})[place] = offset
        holders = self._by_place.setdefault(place, {})
        holders.pop(record.producer_id, None)
        holders[record.producer_id] = None

    def end(self, ended: TransactionEnded) -> list[OffsetCommitted]:
        """The offsets that count once a producer's transaction has ended."""
        counting = []
        for place, offset in self._by_producer.pop(ended.producer_id, {}).items():
            if ended.committed:
                self.supersede(place, ended.producer_id)
            self._let_go(place, ended.producer_id)
            if ended.committed and offset is not None:
                counting.append(offset)
        return counting

    def supersede(self, place: tuple[str, str, int], producer_id: int | None = None) -> None:
        """Let a newer record win over all that is pending for an offset: a plain one, or that of this producer."""
        for holder in self._by_place.get(OffsetKey(*place), ()):
            if holder == producer_id:
                return
            self._by_producer[holder][OffsetKey(*place)] = None

    def forget(self, place: tuple[str, str, int]) -> None:
        """A tombstone takes what is pending for its offset with it."""
        for holder in self._by_place.pop(OffsetKey(*place), ()):
            del self._by_producer[holder][OffsetKey(*place)]

    def _let_go(self, place: OffsetKey, producer_id: int) -> None:
        holders = self._by_place[place]
        del holders[producer_id]
        if not holders:
            del self._by_place[place]
