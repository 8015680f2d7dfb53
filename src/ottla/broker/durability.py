"""When what was appended is on stable storage: one sync serves all that wait for it. Knows logs and the disk port only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.ports import Disk, StorageFailed

if TYPE_CHECKING:
    from ottla.broker.partitions import Partition

Synced = Callable[["Partition"], None]
Failed = Callable[["Partition", StorageFailed], None]


class Syncs:
    """Asks the disk for syncs of the partitions that somebody waits for.

    A partition has at most one sync under way; what is appended meanwhile shares the next one. A failed sync is never
    tried again: what the kernel still holds after it is unknown, so the partition goes offline (KAFKA_STORAGE_ERROR) until
    the broker is started anew.
    """

    def __init__(self, disk: Disk, synced: Synced, failed: Failed) -> None:
        self._disk = disk
        self._synced = synced
        self._failed = failed
        self._wanted: dict[Partition, None] = {}
        self._under_way: set[Partition] = set()

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
        self._under_way.add(partition)

        def done(failure: StorageFailed | None) -> None:
            self._under_way.discard(partition)
            self._finish(partition, upto, failure)

        try:
            self._disk.sync_soon(partition.log.dirty_files(), done)
        except StorageFailed as failure:
            done(failure)

    def _finish(self, partition: Partition, upto: int, failure: StorageFailed | None) -> None:
        if failure is None:
            partition.log.mark_synced(upto)
            self._synced(partition)
        else:
            self._failed(partition, failure)
        if partition in self._wanted:
            self.start()
