"""The syncs of a mirrored partition: offsets that correspond at the source and at the target. Pure.

A *sync* (source offset, target offset) means: all records before the source offset are written before the target offset, and all
later ones after it. Between two syncs, offsets differ by entries of one side only (transaction markers, gaps of compaction). A
position between them is found by counting records: as many at the target after the sync as the source has before the position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.types import TopicPartition

MOST = 256
"""The limit on syncs of a partition: all recent ones are kept, and ever fewer of the older ones."""


class OffsetSync(NamedTuple):
    """Corresponding offsets at the source and at the target."""

    source: int
    target: int


class OffsetSyncs:
    """The syncs of all partitions, by their source names."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, list[OffsetSync]] = {}

    def add(self, where: TopicPartition, sync: OffsetSync) -> None:
        """Add a sync. One that goes back in either log means that the partition was recreated: all earlier ones are dropped.

        The first sync at a source offset is kept: records that are written again after a failure come after it.
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
        """Return the last sync at or before a source offset. Before all syncs return the first: nothing earlier was mirrored."""
        known = self._known.get(where)
        if not known:
            return None
        at = bisect_right(known, source, key=lambda sync: sync.source)
        return known[max(0, at - 1)]

    def last(self, where: TopicPartition) -> OffsetSync | None:
        """Return the last sync, up to which the partition is mirrored; None without one."""
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
