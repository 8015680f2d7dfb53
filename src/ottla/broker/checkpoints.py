"""The files of the data directory that say how far each partition is on stable storage, where it begins and what readers may see.

Knows partitions and Kafka's three checkpoint files; decides no sync. An entry that outlives its topic would be taken for damage of
the next topic of that name, so whoever drops a partition writes these before the name is free again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from ottla.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, Offsets, format_offsets, read_offsets
from ottla.ports import Disk, File, StorageFailed

if TYPE_CHECKING:
    from ottla.broker.partitions import Partition

log = logging.getLogger("ottla.broker")

FILES = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
NEW = ".new"


class Checkpoints:
    """The three files as they are and as they should be; `touch` the partitions whose entries may have changed."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._offsets: dict[str, Offsets] = {name: {} for name in FILES}
        self._written: dict[str, bytes] = {}
        self._touched: dict[Partition, None] = {}
        self._round = 0
        self._under_way: set[str] = set()
        self._stale = False

    def load(self) -> None:
        """Read the files: before any partition is opened. Raises `StorageFailed`."""
        for name in FILES:
            self._offsets[name] = read_offsets(self._disk, name)
            self._written[name] = format_offsets(self._offsets[name])

    def recovery_point(self, topic: str, index: int) -> int:
        """Below it all records were on stable storage; 0 if nothing is known."""
        return self._offsets[RECOVERY_POINTS].get((topic, index), 0)

    def is_known(self, partition: Partition) -> bool:
        """Whether what is noted of a partition's stable storage is true of it now."""
        return self.recovery_point(partition.topic, partition.index) == partition.log.synced_offset

    def log_start_offset(self, topic: str, index: int) -> int:
        return self._offsets[LOG_START_OFFSETS].get((topic, index), 0)

    def touch(self, partition: Partition) -> None:
        self._touched[partition] = None

    def touched(self) -> list[Partition]:
        return list(self._touched)

    def forget(self, topic: str, index: int) -> None:
        """The partition is no more: `settle` before the topic's name can come back."""
        for offsets in self._offsets.values():
            if offsets.pop((topic, index), None) is not None:
                self._stale = True

    def keep_only(self, held: set[tuple[str, int]]) -> None:
        """Forget every partition that is not one of `held`."""
        for offsets in self._offsets.values():
            for topic, index in offsets.keys() - held:
                self.forget(topic, index)

    def settle(self) -> None:
        """Have the files speak of no partition that was forgotten."""
        if self._stale:
            self._stale = not self.write()

    def write(self) -> bool:
        """Bring the files up to date; durable when it returns. False if the disk refused: what is there stays true."""
        self._round += 1
        written = True
        for name, data in self._changed():
            try:
                self._disk.write_file(name, data)
                self._written[name] = data
            except StorageFailed as failure:
                written = False
                log.error("a checkpoint could not be written: %s; the next start reads more of the logs for it", failure)
        return written

    def write_soon(self) -> None:
        """The same, with the sync left to the disk's worker."""
        for name, data in self._changed():
            if name in self._under_way:
                continue
            try:
                file = self._disk.open(name + NEW, create=True)
                file.truncate(0)
                file.append([data])
                self._disk.sync_soon([file], partial(self._replace, name, file, data, self._round))
                self._under_way.add(name)
            except StorageFailed as failure:
                log.error("a checkpoint could not be written: %s; the next one is tried as usual", failure)

    def _replace(self, name: str, file: File, data: bytes, begun: int, failure: StorageFailed | None) -> None:
        self._under_way.discard(name)
        if begun != self._round:
            return  # newer ones were written meanwhile
        try:
            if failure is not None:
                raise failure
            file.close()
            self._disk.rename(name + NEW, name)
            self._written[name] = data
        except StorageFailed as refused:
            log.error("a checkpoint could not be written: %s; the next one is tried as usual", refused)

    def _changed(self) -> Iterable[tuple[str, bytes]]:
        """The files that are not as they should be, with what should be in them."""
        touched, self._touched = self._touched, {}
        for partition in touched:
            self._note(partition)
        for name, offsets in self._offsets.items():
            data = format_offsets(offsets)
            if data != self._written.get(name, format_offsets({})):
                yield name, data

    def _note(self, partition: Partition) -> None:
        """Take over what is true of a partition now; of one that is offline, what was known last stays."""
        if partition.offline is not None:
            return
        recovery_points, starts, high_watermarks = self._offsets.values()
        key = (partition.topic, partition.index)
        try:
            recovery_points[key] = partition.log.checkpoint()
        except StorageFailed as failure:
            log.error("%s: what belongs to its checkpoint could not be written: %s", partition, failure)
            return
        high_watermarks[key] = partition.high_watermark
        if partition.log.log_start_offset > partition.log.segments[0].base_offset:
            starts[key] = partition.log.log_start_offset
        else:
            starts.pop(key, None)
