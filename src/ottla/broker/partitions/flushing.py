"""Syncs that a topic's settings ask for (flush.messages, flush.ms), whatever the acks. Knows partitions and timers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.partitions.durability import Syncs
from ottla.broker.scheduler import Scheduler
from ottla.log.config import FOREVER, LogConfig
from ottla.ports import Now

if TYPE_CHECKING:
    from ottla.broker.partitions.partitions import Partition


def flushes(config: LogConfig) -> bool:
    """Whether the settings ask for syncs of their own."""
    return config.flush_messages < FOREVER or config.flush_ms < FOREVER


class Flushes:
    """Asks for the syncs when they are due."""

    def __init__(self, scheduler: Scheduler, syncs: Syncs) -> None:
        self._scheduler = scheduler
        self._syncs = syncs
        self._armed: set[Partition] = set()

    def appended(self, partition: Partition, now: Now) -> None:
        """To be called after an append to a partition whose settings ask for syncs."""
        if partition.is_flush_due:
            self._syncs.want(partition)
        elif partition.config.flush_ms < FOREVER and partition not in self._armed:
            self._arm(partition, now)

    def configured(self, partition: Partition, now: Now) -> None:
        """To be called when the settings of a partition have changed: what was written before is to be synced by them too."""
        if partition.log.synced_offset < partition.log.log_end_offset:
            self._armed.discard(partition)
            self.appended(partition, now)

    def _arm(self, partition: Partition, now: Now) -> None:
        self._armed.add(partition)
        self._scheduler.at(("flush", partition), now.mono_ms + partition.config.flush_ms, partial(self._due, partition))

    def _due(self, partition: Partition, now: Now) -> None:
        self._armed.discard(partition)
        if partition.offline is None and partition.log.synced_offset < partition.log.log_end_offset:
            self._syncs.want(partition)
