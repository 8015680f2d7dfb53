"""Offsets committed in open transactions (KIP-98), by producer, and their fate when a transaction ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.coord.records import OffsetCommitted, OffsetPending, TransactionEnded


class OffsetKey(NamedTuple):
    """The key of an offset."""

    group_id: str
    topic: str
    partition: int


class PendingOffsets:
    """The offsets of all open transactions. An offset's newest record is valid, whichever ends first; older ones become None."""

    __slots__ = ("_by_group", "_by_place", "_by_producer")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, OffsetCommitted | None]] = {}
        self._by_place: dict[OffsetKey, dict[int, None]] = {}
        self._by_group: dict[str, dict[OffsetKey, None]] = {}
        """The keys of each group: the expiry checks empty groups one by one, and there may be very many keys."""

    def __len__(self) -> int:
        return len(self._by_place)

    def __contains__(self, place: tuple[str, str, int]) -> bool:
        return place in self._by_place

    def places(self, group_id: str) -> Iterable[OffsetKey]:
        """Return the keys of a group's pending offsets."""
        return tuple(self._by_group.get(group_id, ()))

    def add(self, record: OffsetPending) -> None:
        offset = record.offset
        place = OffsetKey(offset.group_id, offset.topic, offset.partition)
        self._by_producer.setdefault(record.producer_id, {})[place] = offset
        holders = self._by_place.setdefault(place, {})
        self._by_group.setdefault(place.group_id, {})[place] = None
        holders.pop(record.producer_id, None)
        holders[record.producer_id] = None

    def end(self, ended: TransactionEnded) -> list[OffsetCommitted]:
        """Return the offsets that become valid when a producer's transaction ends, and remove its pending ones."""
        counting = []
        for place, offset in self._by_producer.pop(ended.producer_id, {}).items():
            if ended.committed:
                self.supersede(place, ended.producer_id)
            self._let_go(place, ended.producer_id)
            if ended.committed and offset is not None:
                counting.append(offset)
        return counting

    def supersede(self, place: tuple[str, str, int], producer_id: int | None = None) -> None:
        """Let a newer record replace all that are pending for an offset: a plain record, or the record of this producer."""
        for holder in self._by_place.get(OffsetKey(*place), ()):
            if holder == producer_id:
                return
            self._by_producer[holder][OffsetKey(*place)] = None

    def forget(self, place: tuple[str, str, int]) -> None:
        """Remove all that is pending for an offset which gets a tombstone."""
        key = OffsetKey(*place)
        for holder in self._by_place.get(key, ()):
            del self._by_producer[holder][key]
        self._leave(key)

    def _let_go(self, place: OffsetKey, producer_id: int) -> None:
        holders = self._by_place[place]
        del holders[producer_id]
        if not holders:
            self._leave(place)

    def _leave(self, place: OffsetKey) -> None:
        """Remove an offset without pending records."""
        if self._by_place.pop(place, None) is None:
            return
        of_group = self._by_group[place.group_id]
        del of_group[place]
        if not of_group:
            del self._by_group[place.group_id]
