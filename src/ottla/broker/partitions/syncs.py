"""When what was appended goes to stable storage: one sync serves everybody who waits for it. Knows partitions and the disk port.

Syncs are asked for by those who wait (acks=all) and by a topic's flush.messages and flush.ms, whatever the acks.
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
"""How long after a sync could not begin it is asked for again."""


class Syncs:
    """Asks the disk for the syncs that are wanted.

    A partition has at most one sync under way; what is appended meanwhile shares the next one. A failed sync is never repeated:
    what the kernel still holds is unknown then, so the partition goes offline (KAFKA_STORAGE_ERROR) until the broker restarts. One
    that could not begin is asked for again: nothing was lost, and those who wait for it wait on.
    """

    def __init__(self, disk: Disk, clock: Clock, scheduler: Scheduler, vanished: Callable[[Partition, Vanished], None]) -> None:
        """`vanished` hears of a partition whose files somebody removed: a sync is what meets that first."""
        self._disk = disk
        self._vanished = vanished
        self._clock = clock
        self._scheduler = scheduler
        self._wanted: dict[Partition, None] = {}
        self._under_way: set[Partition] = set()
        self._put_off: set[Partition] = set()
        self._timed: set[Partition] = set()
        self._waiting: dict[Partition, list[Done]] = {}
        self._unnamed: dict[Partition, None] = {}
        self._naming: set[Partition] = set()

    def want(self, partition: Partition) -> None:
        """Sync this partition with the next `start`."""
        self._wanted[partition] = None

    def want_name(self, partition: Partition) -> None:
        """Sync the name of its newest segment with the next `start`, or the next segment would have to wait for that."""
        if partition not in self._naming:
            self._unnamed[partition] = None

    def start(self) -> None:
        """Ask for every wanted sync that is not under way: called at the end of each bundle of requests."""
        if self._unnamed:
            self._start_names()
        if not self._wanted:
            return
        for partition in [each for each in self._wanted if each not in self._under_way]:
            self._start_one(partition)

    def is_under_way(self, partition: Partition) -> bool:
        """Whether a sync of this partition is under way."""
        return partition in self._under_way

    def when_over(self, partition: Partition, done: Done) -> None:
        """Call `done(None)` when the sync that is under way is over."""
        self._waiting.setdefault(partition, []).append(done)

    def turn(self, partition: Partition) -> Steps[None]:
        """Wait until no sync of this partition is under way, and let another begin only when this one is `over`."""
        while self.is_under_way(partition):
            yield partial(self.when_over, partition)
        self._under_way.add(partition)

    def over(self, partition: Partition) -> None:
        """A sync of this partition is not under way any more."""
        self._under_way.discard(partition)
        for done in self._waiting.pop(partition, ()):
            done(None)
        if partition in self._wanted and partition not in self._under_way:
            self._start_one(partition)

    def _start_one(self, partition: Partition) -> None:
        del self._wanted[partition]
        if partition.offline is not None:
            return
        upto, files = partition.log.log_end_offset, partition.log.dirty_files()
        if not files:  # it was wanted again while a sync of all there is was under way, as when followers had the records meanwhile
            partition.synced(upto, self._clock.now())
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
                continue  # a file that is synced is synced with its name; if not, the next append asks again
            try:
                self._disk.sync_soon([log.directory], partial(self._named, partition, log.unnamed))
                self._naming.add(partition)
            except TryAgain:
                continue
            except StorageFailed as failure:
                self._fail(partition, failure)

    def _named(self, partition: Partition, segment: Segment, failure: StorageFailed | None) -> None:
        self._naming.discard(partition)
        if failure is None:
            partition.log.is_named(segment)
        else:
            self._fail(partition, failure)

    def flush(self, partition: Partition, now: Now) -> None:
        """Want a sync at once or later, as flush.messages and flush.ms say: called after an append."""
        if partition.is_flush_due:
            self.want(partition)
        elif partition.config.flush_ms < FOREVER and partition not in self._timed:
            self._timed.add(partition)
            self._scheduler.at(("flush", partition), now.mono_ms + partition.config.flush_ms, partial(self._flush_due, partition))

    def configured(self, partition: Partition, now: Now) -> None:
        """Apply changed flush settings to what was written before, too."""
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
            partition.synced(upto, self._clock.now())
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
            pass  # the failure of the sync says it all
        partition.fail(failure)
