"""The syncs of a mirrored partition: offsets that correspond at the source and at the target. Pure.

A *sync* is a pair (source offset, target offset). All records before the source offset are mirrored before the target offset, and
all later records after it. After a sync, offsets advance differently, because each side has entries of its own (transaction
markers, gaps of compaction). A position after a sync is found by counting: the number of records from the sync to the position is
the same on both sides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.types import TopicPartition

MOST = 256
"""The maximum number of syncs of a partition. All recent syncs are kept, and fewer and fewer of the older ones."""


class OffsetSync(NamedTuple):
    """A pair of corresponding offsets: one at the source, and one at the target."""

    source: int
    target: int


class OffsetSyncs:
    """The offset syncs of all partitions. The keys are the partitions of the source."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, list[OffsetSync]] = {}

    def add(self, where: TopicPartition, sync: OffsetSync) -> None:
        """Add a sync for the source partition `where`.

        If an offset is lower than in the last sync, the partition was recreated, so its earlier syncs are dropped. Of several syncs
        with one source offset, the first is kept, because records that are written again after a failure come after it.
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
        """Return the partition's last sync at or before the offset `source`, or None if the partition has no syncs.

        If all syncs are after `source`, return the first sync, because nothing was mirrored before it.
        """
        known = self._known.get(where)
        if not known:
            return None
        at = bisect_right(known, source, key=lambda sync: sync.source)
        return known[max(0, at - 1)]

    def last(self, where: TopicPartition) -> OffsetSync | None:
        """Return the partition's last sync, up to which the partition is mirrored. Return None if the partition has no syncs."""
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
