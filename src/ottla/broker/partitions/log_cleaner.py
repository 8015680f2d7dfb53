"""Compaction as a background job: the choice of the next log, and the offset up to which each log is compacted.

Depends on partitions, their checkpoints and the disk port; `ottla.log` decides which records a log may lose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.long_checks import LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.log.errors import Damaged, Unfinished
from ottla.ports import Clock, Disk, Now, Steps, StorageFailed, TryAgain

if TYPE_CHECKING:
    from ottla.log.cleaner.compaction import Compacted, Compaction
    from ottla.log.cleaner.dirty_range import Dirtiness

log = logging.getLogger("ottla.broker")

PASSED_AT_ONCE = 500
"""Partitions skipped between two pauses: far below a millisecond of work."""

LEAST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 600_000
"""First and longest pause before the compaction of a log is retried after a disk error, in ms."""


class PausedCompaction(NamedTuple):
    """The time at which the compaction of a log is retried after a disk error, and the last pause, both in ms."""

    until_mono_ms: int
    pause_ms: int


class Cleaner:
    """The log cleaner: compacts one log at a time, the dirtiest first. Workers decompress large batches within a memory limit."""

    def __init__(
        self,
        partitions: Partitions,
        disk: Disk,
        clock: Clock,
        scheduler: Scheduler,
        settings: SettingsInForce,
        checks: LongChecks,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._partitions = partitions
        self._disk = disk
        self._clock = clock
        self._scheduler = scheduler
        self._settings = settings
        self._checks = checks
        self._random_bytes = random_bytes
        self._unreadable: set[Partition] = set()
        self._refused: dict[Partition, PausedCompaction] = {}

    def start(self, now: Now) -> None:
        """Schedule the search for logs to compact."""

        def search(now: Now) -> None:
            self._scheduler.begin("compaction", self._compact_all())

        self._scheduler.every("compaction", lambda: self._settings.value.log_cleaner_backoff_ms, search, now)

    def cleaned_offset(self, partition: Partition) -> int:
        """Return the offset up to which a partition is compacted."""
        return self._partitions.checkpoints.cleaned_offset(partition.topic, partition.index)

    def _compact_all(self) -> Steps[None]:
        """Compact one log after another until none is due. A log with a disk error is paused."""
        self._forget_removed()
        while self._settings.value.log_cleaner_enable:
            now = self._clock.now()
            found = yield from self._dirtiest(now)
            if found is None:
                return
            from ottla.log.cleaner.compaction import Compaction
            from ottla.log.cleaner.offset_map import HASH_KEY_BYTES

            partition, dirt = found
            hash_key, memory_bytes = self._random_bytes(HASH_KEY_BYTES), self._settings.value.log_cleaner_dedupe_buffer_size
            compaction = Compaction(partition.log, self._disk, dirt, now, hash_key, memory_bytes)
            try:
                yield from self._compact(partition, compaction)
            except Damaged as damaged:
                self._unreadable.add(partition)
                log.warning("%s is not compacted until the broker restarts: %s", partition, damaged)
                continue
            except StorageFailed as failure:
                self._pause(partition, failure)
                continue
            self._refused.pop(partition, None)
            if compaction.result.is_done:
                self._finish(partition, compaction.result)
            elif compaction.is_outdated:
                log.info("%s was cut while it was compacted: that begins again", partition)
            else:
                log.warning("%s is not to be compacted any more", partition)

    def _pause(self, partition: Partition, failure: StorageFailed) -> None:
        """Pause a log for twice as long as last time, because a retried compaction reads the whole log."""
        before = self._refused.get(partition)
        wanted_ms = 2 * before.pause_ms if before else max(self._settings.value.log_cleaner_backoff_ms, LEAST_PAUSE_MS)
        pause_ms = min(wanted_ms, LONGEST_PAUSE_MS)
        self._refused[partition] = PausedCompaction(self._clock.now().mono_ms + pause_ms, pause_ms)
        log.warning("%s could not be compacted, and is tried again in %d ms: %s", partition, pause_ms, failure)

    def _is_paused(self, partition: Partition, now: Now) -> bool:
        refused = self._refused.get(partition)
        return refused is not None and now.mono_ms < refused.until_mono_ms

    def _dirtiest(self, now: Now) -> Steps[tuple[Partition, Dirtiness] | None]:
        """Return the dirtiest partition that is due, or None. Many topics without compaction are skipped in one step."""
        found: tuple[bool, float, Partition, Dirtiness] | None = None
        for number, partition in enumerate(list(self._partitions)):
            if not number % PASSED_AT_ONCE:
                yield None
            if not partition.config.compacts or partition.offline is not None or partition in self._unreadable:
                continue
            if self._is_paused(partition, now):
                continue
            dirt = yield from self._due(partition, now)
            if dirt is not None and (found is None or (dirt.is_overdue, dirt.ratio) > found[:2]):
                found = dirt.is_overdue, dirt.ratio, partition, dirt
            yield None
        return None if found is None else found[2:]

    def _due(self, partition: Partition, now: Now) -> Steps[Dirtiness | None]:
        """Return the dirtiness of a partition that is due for compaction, else None."""
        from ottla.log.cleaner.dirty_range import dirtiness, is_due, roll_if_overdue

        while partition.offline is None:
            try:
                roll_if_overdue(partition.log, now)
                dirt = dirtiness(partition.log, self.cleaned_offset(partition), now, partition.compactable_offset)
            except Unfinished:
                yield None
                continue
            except StorageFailed as failure:
                log.error("%s cannot be compacted now: %s", partition, failure, extra={"cause": "compaction"})
                return None
            return dirt if is_due(partition.log, dirt) else None
        return None

    def _compact(self, partition: Partition, compaction: Compaction) -> Steps[None]:
        """Compact a log, and stop early if the partition may no longer be compacted. Raises `Damaged` and `StorageFailed`."""
        pauses = compaction.run()
        failure: StorageFailed | None = None
        try:
            while failure is None and self._is_wanted(partition) and not (compaction.result.is_done or compaction.is_outdated):
                files = next(pauses, None)
                if compaction.large is not None:
                    yield from self._checks.run(compaction.large.steps())
                    continue
                failure = yield (None if files is None else partial(self._disk.sync_soon, files))
        finally:
            pauses.close()
        if failure is not None:
            if partition.log.is_swapping and not isinstance(failure, TryAgain):
                # A power failure could leave either set of segments, so neither set may be deleted any more.
                partition.fail(failure)
            raise failure

    def _is_wanted(self, partition: Partition) -> bool:
        held = self._partitions.get(partition.topic, partition.index)
        return held is partition and partition.offline is None and partition.config.compacts

    def _finish(self, partition: Partition, result: Compacted) -> None:
        self._partitions.checkpoints.note_cleaned(partition, result.cleaned_offset)
        log.info(
            "%s is compacted up to offset %d: %d records of %d bytes were read, %d bytes are left",
            partition,
            result.cleaned_offset,
            result.records_read,
            result.bytes_read,
            result.bytes_written,
        )

    def _forget_removed(self) -> None:
        if self._unreadable or self._refused:
            live = set(self._partitions)
            self._unreadable &= live
            self._refused = {partition: refused for partition, refused in self._refused.items() if partition in live}
