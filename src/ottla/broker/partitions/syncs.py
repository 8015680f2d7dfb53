"""The schedule of syncs: one sync serves all waits for it. Depends on partitions and the disk port.

Replies with acks=all request syncs, as do a topic's flush.messages and flush.ms regardless of acks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ottla.broker.partitions.partition import Partition
from ottla.broker.scheduler import Scheduler
from ottla.log.config import FOREVER
from ottla.log.errors import Vanished
from ottla.log.segments.segment import Segment
from ottla.ports import Clock, Disk, Done, Now, Steps, StorageFailed, TryAgain

log = logging.getLogger("ottla.broker")

AGAIN_MS = 100
"""Pause before a sync that could not begin is retried, in ms."""


class Syncs:
    """The syncs of all partitions' logs to stable storage, pending and running.

    A partition has at most one running sync; later appends share the next sync. A failed sync is never retried, because the
    kernel's cache is then in an unknown state, and the partition is offline (KAFKA_STORAGE_ERROR) until the broker restarts. A sync
    that could not begin is retried: nothing was lost, and its waits continue.
    """

    def __init__(self, disk: Disk, clock: Clock, scheduler: Scheduler, vanished: Callable[[Partition, Vanished], None]) -> None:
        """Create the schedule of syncs. `vanished` is called for a partition with missing files, which a sync detects first."""
        self._disk = disk
        self._vanished = vanished
        self._clock = clock
        self._scheduler = scheduler
        self._wanted: dict[Partition, None] = {}
        self._under_way: set[Partition] = set()
        self._put_off: set[Partition] = set()
        self._timed: set[Partition] = set()
        self._awaited: dict[Partition, int] = {}
        """The number of jobs that wait for their turn at a partition whose sync runs."""
        self._waiting: dict[Partition, list[Done]] = {}
        self._unnamed: dict[Partition, None] = {}
        self._naming: set[Partition] = set()

    def want(self, partition: Partition) -> None:
        """Request a sync of this partition's log. The next call of `start` starts the sync."""
        self._wanted[partition] = None

    def want_name(self, partition: Partition) -> None:
        """Request a sync of the directory with the newest segment's name, started by the next call of `start`.

        When the next segment is created, it then need not wait for this sync.
        """
        if partition not in self._naming:
            self._unnamed[partition] = None

    def start(self) -> None:
        """Start every pending sync that is not running. Called at the end of each batch of requests."""
        if self._unnamed:
            self._start_names()
        if not self._wanted:
            return
        for partition in [each for each in self._wanted if self._can_start(each)]:
            self._start_one(partition)

    def _can_start(self, partition: Partition) -> bool:
        return partition not in self._under_way and partition not in self._awaited

    def is_under_way(self, partition: Partition) -> bool:
        return partition in self._under_way

    def when_over(self, partition: Partition, done: Done) -> None:
        """Call `done(None)` when the running sync has ended."""
        self._waiting.setdefault(partition, []).append(done)

    def turn(self, partition: Partition) -> Steps[None]:
        """Wait until no sync of this partition runs, and prevent further syncs of it until `over` is called.

        No further sync begins while this waits: where each sync leads to the next append, the turn would never come.
        """
        self._awaited[partition] = self._awaited.get(partition, 0) + 1
        try:
            while self.is_under_way(partition):
                yield partial(self.when_over, partition)
        finally:
            self._awaited[partition] -= 1
            if not self._awaited[partition]:
                del self._awaited[partition]
        self._under_way.add(partition)

    def over(self, partition: Partition) -> None:
        """Record the end of a partition's sync, and start the next one if it is pending."""
        self._under_way.discard(partition)
        for done in self._waiting.pop(partition, ()):
            done(None)
        if partition in self._wanted and self._can_start(partition):
            self._start_one(partition)

    def _start_one(self, partition: Partition) -> None:
        del self._wanted[partition]
        if partition.offline is not None:
            return
        upto, files = partition.log.log_end_offset, partition.log.dirty_files()
        if not files:  # a running sync has already covered everything
            partition.record_sync(upto, self._clock.now())
            return
        try:
            self._disk.sync_soon(files, partial(self._finish, partition, upto))
            self._under_way.add(partition)
            self._put_off.discard(partition)
        except TryAgain as failure:
            self._start_later(partition, failure)
        except StorageFailed as failure:
            self._fail(partition, failure)

    def _start_names(self) -> None:
        unnamed, self._unnamed = self._unnamed, {}
        for partition in unnamed:
            log = partition.log
            if partition.offline is not None or log.unnamed is None or partition in self._wanted or partition in self._under_way:
                continue  # a sync of the file also syncs its name; if no sync follows, the next append requests one
            try:
                self._disk.sync_soon([log.directory], partial(self._on_name_synced, partition, log.unnamed))
                self._naming.add(partition)
            except TryAgain:
                continue
            except StorageFailed as failure:
                self._fail(partition, failure)

    def _on_name_synced(self, partition: Partition, segment: Segment, failure: StorageFailed | None) -> None:
        self._naming.discard(partition)
        if failure is None:
            partition.log.is_named(segment)
        else:
            self._fail(partition, failure)

    def flush(self, partition: Partition, now: Now) -> None:
        """Request a sync now or later, as flush.messages and flush.ms require. Called after an append."""
        if partition.is_flush_due:
            self.want(partition)
        elif partition.config.flush_ms < FOREVER and partition not in self._timed:
            self._timed.add(partition)
            self._scheduler.at(("flush", partition), now.mono_ms + partition.config.flush_ms, partial(self._flush_due, partition))

    def apply_config(self, partition: Partition, now: Now) -> None:
        """Apply changed flush configs, also to records that are already appended."""
        if partition.log.synced_offset < partition.log.log_end_offset:
            self._timed.discard(partition)
            self.flush(partition, now)

    def _flush_due(self, partition: Partition, now: Now) -> None:
        self._timed.discard(partition)
        if partition.offline is None and partition.log.synced_offset < partition.log.log_end_offset:
            self.want(partition)

    def _start_later(self, partition: Partition, failure: TryAgain) -> None:
        if partition not in self._put_off:
            self._put_off.add(partition)
            log.warning("%s: a sync could not begin (%s); it is retried until it can", partition, failure)
        self._scheduler.at(("sync", partition), self._clock.now().mono_ms + AGAIN_MS, lambda now: self.want(partition))

    def _finish(self, partition: Partition, upto: int, failure: StorageFailed | None) -> None:
        if failure is None:
            partition.record_sync(upto, self._clock.now())
        else:
            self._fail(partition, failure)
        self.over(partition)

    def _fail(self, partition: Partition, failure: StorageFailed) -> None:
        if partition.offline is not None:
            return
        try:
            partition.log.check_place()
        except Vanished as vanished:
            self._vanished(partition, vanished)
            return
        except StorageFailed:
            pass  # the failure of the sync is reported below
        partition.fail(failure)
