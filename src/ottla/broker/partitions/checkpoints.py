"""The files of the data directory that say how far each partition is on stable storage, where it begins and what readers may see.

Knows partitions and Kafka's three checkpoint files; decides no sync. An entry that outlives its topic would be taken for damage of
the next topic of that name, so whoever drops a partition writes these before the name is free again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.scheduler import Steps
from ottla.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    NEW,
    RECOVERY_POINTS,
    Offsets,
    format_offsets,
    read_offsets,
    replace_with_new,
)
from ottla.ports import Disk, File, StorageFailed, TryAgain

if TYPE_CHECKING:
    from ottla.broker.partitions.partitions import Partition

log = logging.getLogger("ottla.broker")

Failed = Callable[["Partition", StorageFailed], None]

FILES = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
MOST_STALE = 10_000
"""How many deleted topics the files may still speak of."""


class Checkpoints:
    """The three files as they are and as they should be; `touch` the partitions whose entries may have changed."""

    def __init__(self, disk: Disk, failed: Failed) -> None:
        self._disk = disk
        self._failed = failed
        self._offsets: dict[str, Offsets] = {name: {} for name in FILES}
        self._written: dict[str, bytes] = {}
        self._touched: dict[Partition, None] = {}
        self._round = 0
        self._under_way: set[str] = set()
        self._flushing = 0
        self._stale: set[str] = set()

    def load(self) -> None:
        """Read the files: before any partition is opened. Raises `StorageFailed`."""
        for name in FILES:
            self._offsets[name] = read_offsets(self._disk, name)
            self._written[name] = format_offsets(self._offsets[name])

    def recovery_point(self, topic: str, index: int) -> int:
        """Below it all records were on stable storage; 0 if nothing is known."""
        return self._offsets[RECOVERY_POINTS].get((topic, index), 0)

    def is_known(self, partition: Partition) -> bool:
        """Whether what is noted of a partition is true of it now: after a power cut one file may be older than another."""
        key = (partition.topic, partition.index)
        points, starts, marks = (noted.get(key, 0) for noted in self._offsets.values())
        return (points, starts, marks) == (partition.log.synced_offset, _inner_start(partition), partition.high_watermark)

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
                self._stale.add(topic)

    def keep_only(self, held: set[tuple[str, int]]) -> None:
        """Forget every partition that is not one of `held`."""
        for offsets in self._offsets.values():
            for topic, index in offsets.keys() - held:
                self.forget(topic, index)

    def settle(self, topics: Iterable[str] | None = None) -> None:
        """Have the files speak of no partition that was forgotten: to be asked before one of these topics' names is given again.

        Without `topics`, before any is. It waits for the disk, and the names that it does not wait for are not many.
        """
        is_wanted = topics is None or not self._stale.isdisjoint(topics) or len(self._stale) > MOST_STALE
        if not self._stale or not is_wanted or not self._write_files():
            return
        try:
            self._disk.sync_dir("")  # what was written meanwhile may not be on stable storage under its name
            self._stale.clear()
        except StorageFailed as failure:
            log.error("deleted topics may come back in the checkpoints after a power cut: %s", failure)

    def write(self) -> bool:
        """Bring the files up to date; durable when it returns. False if the disk refused: what is there stays true."""
        touched, self._touched = self._touched, {}
        for partition in touched:
            if partition.offline is None:
                try:
                    self._note(partition, partition.log.checkpoint())
                except StorageFailed as failure:
                    self._refused(partition, failure)
        return self._write_files()

    def _write_files(self) -> bool:
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

    def write_soon(self) -> Steps[None]:
        """The same, a partition with each step and the syncs left to the disk's worker; the files follow the last of these."""
        touched, self._touched = self._touched, {}
        self._flushing += 1
        try:
            for partition in touched:
                self._flush(partition)
                yield None
        finally:
            self._flushed()

    def _flush(self, partition: Partition) -> None:
        if partition.offline is not None:
            return
        try:
            recovery_point = partition.log.synced_offset
            files = partition.log.flush()
        except StorageFailed as failure:
            self._refused(partition, failure)
            return
        self._flushing += 1
        if not files:
            self._noted(partition, recovery_point, None)
            return
        try:
            self._disk.sync_soon(files, partial(self._noted, partition, recovery_point))
        except TryAgain as failure:
            partition.log.was_not_flushed()
            self._refused(partition, failure)
            self._flushed()
        except StorageFailed as failure:
            self._noted(partition, recovery_point, failure)

    def _noted(self, partition: Partition, recovery_point: int, failure: StorageFailed | None) -> None:
        if failure is not None:
            self._failed(partition, failure)
        self._note(partition, recovery_point)
        self._flushed()

    def _flushed(self) -> None:
        self._flushing -= 1
        if not self._flushing:
            self._write_files_soon()

    def _write_files_soon(self) -> None:
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
            replace_with_new(self._disk, name, file, failure)  # what a power cut brings back in its place is true as well
            self._written[name] = data
        except StorageFailed as refused:
            log.error("a checkpoint could not be written: %s; the next one is tried as usual", refused)

    def _changed(self) -> Iterable[tuple[str, bytes]]:
        """The files that are not as they should be, with what should be in them."""
        for name, offsets in self._offsets.items():
            data = format_offsets(offsets)
            if data != self._written.get(name, format_offsets({})):
                yield name, data

    def _note(self, partition: Partition, recovery_point: int) -> None:
        """Take over what is true of a partition now; of one that is offline, what was known last stays."""
        if partition.offline is not None:
            return
        recovery_points, starts, high_watermarks = self._offsets.values()
        key = (partition.topic, partition.index)
        recovery_points[key] = recovery_point
        high_watermarks[key] = partition.high_watermark
        start = _inner_start(partition)
        if start:
            starts[key] = start
        else:
            starts.pop(key, None)

    def _refused(self, partition: Partition, failure: StorageFailed) -> None:
        self.touch(partition)
        log.error("%s: what belongs to its checkpoint could not be written: %s; it is tried again", partition, failure)


def _inner_start(partition: Partition) -> int:
    """Where a log begins that begins within a segment, which the segments' names don't tell; 0 for any other."""
    start = partition.log.log_start_offset
    return start if start > partition.log.segments[0].base_offset else 0
