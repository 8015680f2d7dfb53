"""Compaction as the broker's background work: which log is next, in slices of a few milliseconds, and how far each one is.

Knows partitions, timers and the file that Kafka calls cleaner-offset-checkpoint; `ottla.log` decides what is left out of a log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.partitions.partitions import Partition
from ottla.log.checkpoints import CLEANED_OFFSETS, NEW, Offsets, format_offsets, read_offsets, replace_with_new
from ottla.log.compaction import Compaction, Pauses
from ottla.log.damaged import Damaged
from ottla.log.dirtiness import Dirtiness, dirtiness, is_due, roll_if_overdue
from ottla.log.offset_map import HASH_KEY_BYTES
from ottla.ports import File, Now, StorageFailed, Syncable, TryAgain

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

SLICE_MS = 2
MOST_STEPS = 64
"""A slice ends with either: a step is a fraction of a millisecond, where records are not many times larger opened than stored."""


class Pass:
    """A compaction under way."""

    __slots__ = ("compaction", "partition", "pauses")

    def __init__(self, partition: Partition, compaction: Compaction) -> None:
        self.partition = partition
        self.compaction = compaction
        self.pauses: Pauses = compaction.run()


class Cleaner:
    """Compacts one log at a time, the dirtiest first. Rests as long after each slice as the slice took."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._offsets: dict[Partition, int] = {}
        self._saved: Offsets = {}
        self._unreadable: set[Partition] = set()
        self._pass: Pass | None = None
        self._is_saving = False

    def start(self, now: Now) -> None:
        """Read how far each log was compacted: after the partitions were opened."""
        try:
            self._saved = read_offsets(self._broker.disk, CLEANED_OFFSETS)
        except StorageFailed as failure:
            log.warning("%s; every log counts as not compacted yet", failure)
        for partition in self._broker.partitions:
            self._offsets[partition] = self._saved.get((partition.topic, partition.index), 0)
        self._look_later(now)

    def cleaned_offset(self, partition: Partition) -> int:
        """Up to where a partition has been compacted."""
        return self._offsets.get(partition, 0)

    def _look_later(self, now: Now) -> None:
        self._broker.scheduler.at("cleaner", now.mono_ms + max(1, self._broker.settings.log_cleaner_backoff_ms), self._look)

    def _look(self, now: Now) -> None:
        """Begin with the dirtiest log that its settings want compacted, if there is one."""
        self._look_later(now)  # whatever comes of this one, until a pass takes the timer over
        self._forget_gone()
        found = self._dirtiest(now) if self._broker.settings.log_cleaner_enable else None
        if found is None:
            return
        partition, dirt = found
        memory_bytes: int = self._broker.settings.log_cleaner_dedupe_buffer_size
        hash_key = self._broker.random_bytes(HASH_KEY_BYTES)
        self._pass = Pass(partition, Compaction(partition.log, self._broker.disk, dirt, now, hash_key, memory_bytes))
        self._slice(now)

    def _dirtiest(self, now: Now) -> tuple[Partition, Dirtiness] | None:
        candidates = []
        for partition in self._broker.partitions:
            if not partition.config.compacts or partition.offline is not None or partition in self._unreadable:
                continue
            try:
                roll_if_overdue(partition.log, now)
                dirt = dirtiness(partition.log, self.cleaned_offset(partition), now)
            except StorageFailed as failure:
                log.error("%s cannot be compacted now: %s", partition, failure)
                continue
            if is_due(partition.log, dirt):
                candidates.append((dirt.is_overdue, dirt.ratio, partition, dirt))
        if not candidates:
            return None
        _, _, partition, dirt = max(candidates, key=lambda one: one[:2])
        return partition, dirt

    def _slice(self, now: Now) -> None:
        clock, deadline_ms = self._broker.clock, now.mono_ms + SLICE_MS
        for _ in range(MOST_STEPS):
            if not self._step():
                return
            if clock.now().mono_ms >= deadline_ms:
                break
        after = clock.now()
        self._broker.scheduler.at("cleaner", after.mono_ms + max(1, after.mono_ms - now.mono_ms), self._slice)

    def _step(self) -> bool:
        """Go on with the pass; False if it is over, or waits for a sync."""
        under_way = self._pass
        assert under_way is not None, "slices run while a pass is under way"
        partition = under_way.partition
        held = self._broker.partitions.get(partition.topic, partition.index)
        if held is not partition or partition.offline is not None or not partition.config.compacts:
            return self._drop(under_way, f"{partition} is not to be compacted any more")
        try:
            files = next(under_way.pauses, ())
        except Damaged as damaged:
            self._unreadable.add(partition)
            return self._drop(under_way, f"{partition} is not compacted until the broker is started anew: {damaged}")
        except StorageFailed as failure:
            return self._drop(under_way, f"{partition} could not be compacted: {failure}")
        if files is None:
            return True
        if files:
            self._sync(under_way, files)
        else:
            self._finish(under_way)
        return False

    def _sync(self, under_way: Pass, files: Sequence[Syncable]) -> None:
        try:
            self._broker.disk.sync_soon(files, partial(self._synced, under_way))
        except TryAgain as failure:
            self._drop(under_way, f"{under_way.partition} could not be compacted: {failure}")
        except StorageFailed as failure:
            self._synced(under_way, failure)

    def _synced(self, under_way: Pass, failure: StorageFailed | None) -> None:
        if under_way is not self._pass:
            return
        if failure is not None:
            self._drop(under_way, f"{under_way.partition} could not be compacted: {failure}")
            if under_way.partition.log.is_swapping:
                # Which segments a power cut would leave is not known, so that neither these nor those may be deleted any more.
                self._broker.partitions.failed(under_way.partition, failure)
            return
        self._broker.scheduler.at("cleaner", self._broker.clock.now().mono_ms, self._slice)

    def _drop(self, under_way: Pass, why: str) -> bool:
        log.warning("%s", why)
        self._pass = None
        under_way.pauses.close()
        self._look_later(self._broker.clock.now())
        return False

    def _finish(self, under_way: Pass) -> None:
        result = under_way.compaction.result
        self._pass = None
        self._offsets[under_way.partition] = result.cleaned_offset
        log.info(
            "%s is compacted up to offset %d: %d records of %d bytes were read, %d bytes are left",
            under_way.partition,
            result.cleaned_offset,
            result.records_read,
            result.bytes_read,
            result.bytes_written,
        )
        self._save()
        self._broker.scheduler.at("cleaner", self._broker.clock.now().mono_ms + 1, self._look)

    def _forget_gone(self) -> None:
        live = set(self._broker.partitions)
        gone = self._offsets.keys() - live
        if gone:
            for partition in gone:
                del self._offsets[partition]
            self._unreadable &= live
            self._save()

    def _save(self) -> None:
        """A lost file costs work, not records: what is compacted already is compacted again."""
        offsets = {(partition.topic, partition.index): offset for partition, offset in self._offsets.items() if offset}
        if offsets == self._saved or self._is_saving:
            return
        try:
            file = self._broker.disk.open(CLEANED_OFFSETS + NEW, create=True)
            file.truncate(0)
            file.append([format_offsets(offsets)])
            self._broker.disk.sync_soon([file], partial(self._replace, file, offsets))
            self._is_saving = True
        except StorageFailed as failure:
            log.error("%s could not be written: %s", CLEANED_OFFSETS, failure)

    def _replace(self, file: File, offsets: Offsets, failure: StorageFailed | None) -> None:
        self._is_saving = False
        try:
            replace_with_new(self._broker.disk, CLEANED_OFFSETS, file, failure)
            self._saved = offsets
        except StorageFailed as refused:
            log.error("%s could not be written: %s", CLEANED_OFFSETS, refused)
            return
        self._save()  # there may be news
