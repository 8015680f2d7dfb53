"""When what was appended is on stable storage: one sync serves all that wait for it. Knows logs and the disk port only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.scheduler import Scheduler
from ottla.ports import Clock, Disk, Now, StorageFailed, TryAgain

if TYPE_CHECKING:
    from ottla.broker.partitions.partitions import Partition

log = logging.getLogger("ottla.broker")

AGAIN_MS = 100
"""How long after a sync that could not begin it is asked for again."""

Synced = Callable[["Partition"], None]
Failed = Callable[["Partition", StorageFailed], None]


class Syncs:
    """Asks the disk for syncs of the partitions that somebody waits for.

    A partition has at most one sync under way; what is appended meanwhile shares the next one. A failed sync is never
    tried again: what the kernel still holds after it is unknown, so the partition goes offline (KAFKA_STORAGE_ERROR) until
    the broker is started anew. One that could not begin is: nothing was lost, and those who wait for it wait on.
    """

    def __init__(self, disk: Disk, clock: Clock, scheduler: Scheduler, synced: Synced, failed: Failed) -> None:
        self._disk = disk
        self._clock = clock
        self._scheduler = scheduler
        self._synced = synced
        self._failed = failed
        self._wanted: dict[Partition, None] = {}
        self._under_way: set[Partition] = set()
        self._put_off: set[Partition] = set()

    def want(self, partition: Partition) -> None:
        self._wanted[partition] = None

    def start(self) -> None:
        """Ask for every wanted sync that is not under way: called when a bundle of requests has been worked off."""
        if not self._wanted:
            return
        for partition in [p for p in self._wanted if p not in self._under_way]:
            del self._wanted[partition]
            self._sync(partition)

    def _sync(self, partition: Partition) -> None:
        if partition.offline is not None:
            return
        upto = partition.log.log_end_offset
        try:
            self._disk.sync_soon(partition.log.dirty_files(), partial(self._finish, partition, upto))
        except TryAgain as failure:
            self._put_off_sync(partition, failure)
        except StorageFailed as failure:
            self._failed(partition, failure)
        else:
            self._under_way.add(partition)
            self._put_off.discard(partition)

    def _put_off_sync(self, partition: Partition, failure: TryAgain) -> None:
        if partition not in self._put_off:
            self._put_off.add(partition)
            log.warning("%s: a sync could not begin (%s); it is asked for again until it can", partition, failure)

        def again(now: Now) -> None:
            self.want(partition)

        self._scheduler.at(("sync", partition), self._clock.now().mono_ms + AGAIN_MS, again)

    def _finish(self, partition: Partition, upto: int, failure: StorageFailed | None) -> None:
        self._under_way.discard(partition)
        if failure is None:
            partition.log.mark_synced(upto)
            self._synced(partition)
        else:
            self._failed(partition, failure)
        if partition in self._wanted:
            self.start()
