"""Offsets committed in open transactions (KIP-98). When a transaction ends, they become valid or are dropped."""

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
    """The offsets of all open transactions. Of several offsets of one partition, only the newest can become valid."""

    __slots__ = ("_by_group", "_by_place", "_by_producer")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, OffsetCommitted | None]] = {}
        self._by_place: dict[OffsetKey, dict[int, None]] = {}
        self._by_group: dict[str, dict[OffsetKey, None]] = {}
        """The keys by group, so that the expiry of one group's offsets need not search all keys."""

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
        """Remove a producer's pending offsets. If its transaction was committed, return the offsets that become valid."""
        counting = []
        for place, offset in self._by_producer.pop(ended.producer_id, {}).items():
            if ended.committed:
                self.supersede(place, ended.producer_id)
            self._release(place, ended.producer_id)
            if ended.committed and offset is not None:
                counting.append(offset)
        return counting

    def supersede(self, place: tuple[str, str, int], producer_id: int | None = None) -> None:
        """Invalidate the pending offsets of `place` that are older than a new one.

        The new offset is a plain commit, or the pending one of `producer_id`.
        """
        for holder in self._by_place.get(OffsetKey(*place), ()):
            if holder == producer_id:
                return
            self._by_producer[holder][OffsetKey(*place)] = None

    def forget(self, place: tuple[str, str, int]) -> None:
        """Remove all pending offsets of `place`, because a tombstone deletes the offset."""
        key = OffsetKey(*place)
        for holder in self._by_place.get(key, ()):
            del self._by_producer[holder][key]
        self._leave(key)

    def _release(self, place: OffsetKey, producer_id: int) -> None:
        holders = self._by_place[place]
        del holders[producer_id]
        if not holders:
            self._leave(place)

    def _leave(self, place: OffsetKey) -> None:
        """Remove an offset's key from the indexes, because no transaction has a pending offset for it."""
        if self._by_place.pop(place, None) is None:
            return
        of_group = self._by_group[place.group_id]
        del of_group[place]
        if not of_group:
            del self._by_group[place.group_id]
