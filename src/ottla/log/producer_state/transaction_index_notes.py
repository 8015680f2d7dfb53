"""The file of checksums of a partition's indexes of aborted transactions: the number of entries and the CRC-32C of each index.

The indexes have Kafka's format without a checksum, so a changed or lost entry would show aborted records to read_committed
consumers. An index that differs from its checksum is rebuilt from the batches.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint
from ottla.log.names import ABORTED_TRANSACTIONS, TRANSACTION_INDEX
from ottla.log.producer_state.snapshots import rebuild_aborted, replace_aborted
from ottla.log.segments.segment import Segment
from ottla.log.segments.soundness import ENDLESS
from ottla.log.segments.transaction_index import Summed
from ottla.ports import Disk, Syncable

log = logging.getLogger("ottla.log")

NOTHING = Summed(0, 0)
NO_SEGMENTS: frozenset[Segment] = frozenset()
"""Shared by all partitions without aborted transactions: an empty set takes 216 bytes."""


class AbortedNotes:
    """The checksums of the transaction indexes (aborted transactions) of a partition, by base offset. Empty indexes have none."""

    __slots__ = ("_changed", "_disk", "_is_stale", "_noted", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._noted: dict[int, Summed] = {}
        self._changed = NO_SEGMENTS
        self._is_stale = False

    @property
    def _name(self) -> str:
        return f"{self._path}/{ABORTED_TRANSACTIONS}"

    def check(self, segments: Sequence[Segment], names: Iterable[str], snapshots: Sequence[int], most: int, *, clean: bool) -> None:
        """Compare the indexes with the checksums, and rebuild indexes that differ. The replay keeps at most `most` producers.

        Without `clean` (a clean shutdown) an index may have more entries than its checksum covers. Raises `StorageFailed`.
        """
        is_known = self._load(names)
        there = {name for name in names if name.endswith(TRANSACTION_INDEX)}
        for number, segment in enumerate(segments):
            noted = self._noted.get(segment.base_offset, NOTHING if is_known and clean else None)
            name = segment.path(TRANSACTION_INDEX)
            if name.rpartition("/")[2] not in there and (noted is None or not noted.entries):
                continue
            is_right = noted is None or segment.transactions.is_as_noted(noted, may_be_more=not clean)
            if not is_right:
                log.warning("%s: the index of aborted transactions is damaged; it is rebuilt from the batches", name)
                rebuild_aborted(self._disk, self._path, snapshots, segments[: number + 1], most)
            elif not clean:
                replace_aborted(segment, ENDLESS, ())
            if noted is None or not (is_right and clean):
                self.mark_changed(segment)

    def mark_changed(self, segment: Segment) -> None:
        """Record that the index of a segment has changed, so that the next `write` computes its checksum."""
        self._changed |= {segment}

    def mark_removed(self, segments: Iterable[Segment]) -> None:
        """Record that these segments and their indexes were removed from the log."""
        for segment in segments:
            self._changed -= {segment}
            self._is_stale |= self._noted.pop(segment.base_offset, None) is not None

    def write(self, segments: Iterable[Segment]) -> list[Syncable]:
        """Write the file of checksums if it is out of date. Return the files to sync. Raises `StorageFailed`."""
        if not self._changed and not self._is_stale:
            return []
        bases = {segment.base_offset for segment in segments}
        wanted = self._noted | {segment.base_offset: segment.transactions.checksum() for segment in self._changed}
        wanted = {base: summed for base, summed in wanted.items() if summed.entries and base in bases}
        is_new = wanted != self._noted or self._is_stale
        if is_new:
            lines = [f"{base} {summed.entries} {summed.crc}" for base, summed in sorted(wanted.items())]
            self._disk.write_file(self._name, format_checkpoint(lines), sync=False)
        self._noted, self._is_stale = wanted, False
        self._changed = NO_SEGMENTS
        return [self._disk.open(self._name), self._disk.directory(self._path)] if is_new else []

    def _load(self, names: Iterable[str]) -> bool:
        """Read the file of checksums. Return False if it is not one of `names`, empty or invalid. Raises `StorageFailed`."""
        if ABORTED_TRANSACTIONS not in names or not self._disk.size(self._name):
            return False
        lines = parse_checkpoint(self._disk.read_file(self._name))
        if lines is None or not all(len(line) == 3 and "".join(line).isdecimal() for line in lines):
            log.warning("%s cannot be parsed and is rewritten", self._name)
            return False
        self._noted = {int(base): Summed(int(count), int(crc)) for base, count, crc in lines}
        return True
