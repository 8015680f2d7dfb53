"""Which offsets of a mirrored partition mean the same at the source and at the target. Pure.

A *sync* (source offset, target offset) says: all before the one is written before the other, and all from the one on comes from the
other on. Between two syncs offsets differ by what only one side has (markers of transactions, gaps of compaction), so a
position between is found by counting records: as many at the target after the sync as the source has before the position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.types import TopicPartition

MOST = 256
"""How many syncs of a partition are kept: all of late, and ever fewer of what is long ago."""


class OffsetSync(NamedTuple):
    """The same place at the source and at the target."""

    source: int
    target: int


class OffsetSyncs:
    """The syncs of all partitions, by their names at the source."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, list[OffsetSync]] = {}

    def add(self, where: TopicPartition, sync: OffsetSync) -> None:
        """Remember a sync. One that goes back in either log says that the partition was made anew: nothing before it holds.

        The first one at a source offset is kept: records that are written again after a failure come after it.
        """
        known = self._known.setdefault(where, [])
        if known and (sync.source < known[-1].source or sync.target < known[-1].target):
            known.clear()
        if known and sync.source == known[-1].source:
            return
        known.append(sync)
        if len(known) > MOST:
            half = len(known) // 2
            del known[1:half:2]

    def before(self, where: TopicPartition, source: int) -> OffsetSync | None:
        """The last sync at or before a source offset. For one before them all the first: nothing earlier was mirrored."""
        known = self._known.get(where)
        if not known:
            return None
        at = bisect_right(known, source, key=lambda sync: sync.source)
        return known[max(0, at - 1)]

    def last(self, where: TopicPartition) -> OffsetSync | None:
        """How far the partition is mirrored."""
        known = self._known.get(where)
        return known[-1] if known else None

    def as_json(self) -> dict[str, dict[str, list[list[int]]]]:
        found: dict[str, dict[str, list[list[int]]]] = {}
        for (topic, partition), known in sorted(self._known.items()):
            found.setdefault(topic, {})[str(partition)] = [list(sync) for sync in known]
        return found

    @classmethod
    def from_json(cls, stored: Mapping[str, Mapping[str, list[list[int]]]]) -> OffsetSyncs:
        syncs = cls()
        for topic, partitions in stored.items():
            for partition, known in partitions.items():
                syncs._known[TopicPartition(topic, int(partition))] = [OffsetSync(*sync) for sync in known]
        return syncs
