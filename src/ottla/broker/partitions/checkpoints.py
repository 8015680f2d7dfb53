"""The checkpoint files: how far each partition is synced and compacted, its log start offset and its high watermark.

Depends on partitions and on Kafka's four checkpoint files, and starts no syncs. An entry that remains after the deletion of its
topic would be treated as damage of a new topic with the same name. The files must therefore be written between the drop of a
partition and the reuse of its name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial

from ottla.broker.partitions.partition import Partition
from ottla.broker.scheduler import Countdown, Scheduler
from ottla.log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    Offsets,
    format_offsets,
    formatted_slowly,
    known_offsets,
)
from ottla.log.errors import Vanished
from ottla.ports import Disk, Done, Now, Steps, StorageFailed, SyncFailed, TryAgain

log = logging.getLogger("ottla.broker")

FILES = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANED_OFFSETS)
NOTHING = format_offsets({})
CAUSE = {"cause": "checkpoint"}
MOST_STALE = 10_000
"""Upper limit of deleted topics whose partitions can still be in the files."""

NEW = ".new"
"""Suffix of a file's next content until it is on stable storage."""


def _replace_file(disk: Disk, name: str, data: bytes) -> Steps[None]:
    """Replace the content of a file without blocking on the disk. Raises `StorageFailed`.

    The rename is not synced, so that a power failure can restore the old content. The old content must therefore remain correct.
    """
    file = disk.open(name + NEW, create=True)
    file.truncate(0)
    file.append([data])
    failure = yield partial(disk.sync_soon, [file])
    if failure is not None:
        with suppress(StorageFailed):
            disk.remove(name + NEW)  # a file whose sync failed can never be synced, so the next attempt needs a new file
        raise failure
    file.close()
    disk.rename(name + NEW, name, sync=False)


class Checkpoints:
    """The offsets in this broker's checkpoint files. Put a partition into `touched` if its offsets may have changed."""

    def __init__(self, disk: Disk, scheduler: Scheduler) -> None:
        self._disk = disk
        self._scheduler = scheduler
        self._offsets: dict[str, Offsets] = {name: {} for name in FILES}
        self._written: dict[str, bytes] = {}
        self._waiting: dict[str, list[Done]] = {name: [] for name in FILES}
        self._promised: dict[tuple[str, int], int] = {}
        self.touched: dict[Partition, None] = {}
        self._cuts: dict[tuple[str, int], int] = {}
        self._stale: dict[str, int] = {}
        self._count = 0
        self.knows_starts = False
        """Whether a log start offset checkpoint existed at startup."""

    def load(self) -> None:
        """Read the files before any partition is opened. Raises `StorageFailed`."""
        for name in FILES:
            try:
                known = known_offsets(self._disk, name)
            except StorageFailed as failure:
                if name != CLEANED_OFFSETS:
                    raise
                log.warning("%s; every log counts as not compacted yet", failure)
                known = None
            self._offsets[name] = known or {}
            self._written[name] = format_offsets(known or {})
            if name == LOG_START_OFFSETS:
                self.knows_starts = known is not None

    def recovery_point(self, topic: str, index: int) -> int:
        """Return the recovery point: all records below it are on stable storage; 0 if unknown."""
        return self._offsets[RECOVERY_POINTS].get((topic, index), 0)

    def is_noted(self, topic: str, index: int) -> bool:
        """Return whether the files have an entry for a partition, so that this broker has held the partition before."""
        return (topic, index) in self._offsets[RECOVERY_POINTS]

    def is_known(self, partition: Partition) -> bool:
        """Return whether a partition's entries are current. After a power failure, one file can be older than another."""
        key = (partition.topic, partition.index)
        points, starts, marks, _ = (noted.get(key, 0) for noted in self._offsets.values())
        return (points, starts, marks) == (partition.log.synced_offset, _inner_start(partition), partition.high_watermark)

    def log_start_offset(self, topic: str, index: int) -> int:
        return self._offsets[LOG_START_OFFSETS].get((topic, index), 0)

    def cleaned_offset(self, topic: str, index: int) -> int:
        """Return the offset up to which a log is compacted; 0 if unknown."""
        return self._offsets[CLEANED_OFFSETS].get((topic, index), 0)

    def note_cleaned(self, partition: Partition, offset: int) -> None:
        """Record, and soon write, how far a log is compacted. If the file is lost, logs are compacted again."""
        self._offsets[CLEANED_OFFSETS][partition.topic, partition.index] = offset
        self._scheduler.begin(CLEANED_OFFSETS, self._replace(CLEANED_OFFSETS))

    def high_watermark(self, partition: Partition) -> int:
        """Return the last checkpointed high watermark; 0 if unknown."""
        return self._offsets[HIGH_WATERMARKS].get((partition.topic, partition.index), 0)

    def note_high_watermarks(self, partitions: Iterable[Partition]) -> None:
        """Record, and soon write, the high watermarks of these partitions."""
        for partition in partitions:
            if partition.offline is None:
                self._offsets[HIGH_WATERMARKS][partition.topic, partition.index] = partition.high_watermark
        self._scheduler.begin(HIGH_WATERMARKS, self._replace(HIGH_WATERMARKS))

    def is_beyond(self, partition: Partition, offset: int, latest_start: int) -> bool:
        """Return whether a checkpoint has too high an offset for a log that is truncated to `offset`.

        The log's start is then at most `latest_start`.
        """
        key = (partition.topic, partition.index)
        return any(self._offsets[name].get(key, 0) > most for name, most in _of_a_cut(offset, latest_start))

    def lower(self, partition: Partition, offset: int, latest_start: int) -> Steps[None]:
        """Lower the recorded offsets of a partition on stable storage, before its log is truncated to `offset`.

        Otherwise compaction would skip records that are appended afterwards, and keep older records with the same keys. Raise
        `StorageFailed`.
        """
        key = (partition.topic, partition.index)
        for name, most in _of_a_cut(offset, latest_start):
            noted = self._offsets[name]
            before = noted.get(key, 0)
            if before <= most:
                continue
            noted[key] = most
            failure = yield partial(self._bring_up_to_date, name)
            if failure is not None:
                noted[key] = before
                raise failure

    def was_cut(self, partition: Partition) -> None:
        """Record that a log was truncated, so that a flush that began before does not record its offsets."""
        key = (partition.topic, partition.index)
        self._cuts[key] = self._cuts.get(key, 0) + 1
        self.touched[partition] = None

    def forget(self, topic: str, index: int) -> None:
        """Remove the entries of a deleted partition; call `remove_deleted` before the topic's name can be reused."""
        self._cuts.pop((topic, index), None)
        for offsets in self._offsets.values():
            if offsets.pop((topic, index), None) is not None:
                self._count += 1
                self._stale[topic] = self._count

    def keep_only(self, held: set[tuple[str, int]]) -> list[tuple[str, int]]:
        """Remove the entries of partitions that are not in `held`. Return the removed partitions that had records, sorted."""
        held_records = sorted(key for key, offset in self._offsets[RECOVERY_POINTS].items() if offset and key not in held)
        for offsets in self._offsets.values():
            for topic, index in offsets.keys() - held:
                self.forget(topic, index)
        return held_records

    def remove_deleted(self, topics: Iterable[str] | None = None) -> bool:
        """Remove from the files the deleted partitions of `topics`, or of all topics if None, before a name is reused.

        This blocks on the disk, but usually there is nothing to do. Return False if the disk refused.
        """
        if not self._is_removal_due(topics):
            return True
        if not self._write_files():
            return False
        try:
            self._disk.sync_dir("")  # a file replaced a moment ago may not be on stable storage under its name
            self._stale.clear()
        except StorageFailed as failure:
            log.error("deleted topics may come back in the checkpoints after a power cut: %s", failure)
        return not self._stale

    def remove_deleted_slowly(self, topics: Iterable[str]) -> Steps[StorageFailed | None]:
        """Remove deleted partitions of `topics` from the files in steps that do not block on the disk. Return the failure, or None.

        After a failure, a later call of `remove_deleted` removes the partitions.
        """
        if not self._is_removal_due(topics):
            return None
        count = self._count
        for name in FILES:
            failure = yield partial(self._bring_up_to_date, name)
            if failure is not None:
                return failure
        self._stale = {topic: number for topic, number in self._stale.items() if number > count}
        return None

    def _is_removal_due(self, topics: Iterable[str] | None) -> bool:
        if topics is None or len(self._stale) > MOST_STALE:
            return bool(self._stale)
        return not self._stale.keys().isdisjoint(topics)

    def write(self) -> bool:
        """Write the files to stable storage. Return False if the disk refused; the existing files then remain correct."""
        touched = self._pop_touched()
        for partition in touched:
            if partition.offline is None:
                try:
                    self._note(partition, partition.log.checkpoint())
                except StorageFailed as failure:
                    self._try_again(partition, failure)
        return self._write_files()

    def begin_at(self, starts: Mapping[Partition, int]) -> Steps[None]:
        """Advance log start offsets: first in the file on stable storage, then in the logs. If the disk refuses, advance none."""
        later = {partition: offset for partition, offset in starts.items() if offset > partition.log.log_start_offset}
        if not later:
            return
        for partition, offset in later.items():
            key = (partition.topic, partition.index)
            self._promised[key] = max(offset, self._promised.get(key, 0))
            self._offsets[LOG_START_OFFSETS][key] = self._promised[key]
        try:
            failure = yield partial(self._bring_up_to_date, LOG_START_OFFSETS)
            for partition, offset in later.items() if failure is None else ():
                if partition.offline is None:
                    partition.delete_records(offset)
        finally:
            for partition, offset in later.items():
                if self._promised.get((partition.topic, partition.index)) == offset:
                    del self._promised[partition.topic, partition.index]
                self.touched[partition] = None  # an offset that was not applied must not stay in the file

    def _bring_up_to_date(self, name: str, done: Done) -> None:
        """Write current offsets to the checkpoint file `name` on stable storage, and then call `done` with the result."""
        self._waiting[name].append(done)
        self._scheduler.begin(name, self._replace(name), urgent=True)  # a running job of this name continues instead

    def _call_back(self, waiting: list[Done], failure: StorageFailed | None) -> None:
        """Schedule the callbacks `waiting` with the result of a write, because they must not be called inside another call."""
        for done in waiting:
            self._scheduler.at(object(), 0, partial(_call, done, failure))

    def _pop_touched(self) -> list[Partition]:
        touched = list(self.touched)
        self.touched.clear()
        return touched

    def _write_files(self) -> bool:
        written = True
        for name, data in self._outdated_files():
            self._scheduler.drop(name)  # otherwise the job would replace the file with older data
            failed: StorageFailed | None = None
            try:
                self._disk.write_file(name, data)
                self._written[name] = data
            except StorageFailed as failure:
                written, failed = False, failure
                log.error("a checkpoint could not be written: %s; the next start reads more of the logs for it", failure)
            waiting, self._waiting[name] = self._waiting[name], []
            self._call_back(waiting, failed)
        return written

    def write_soon(self) -> Steps[None]:
        """Write the files without blocking: sync each partition separately, then replace the files when all syncs have ended."""
        touched = self._pop_touched()
        flushes = Countdown()
        for partition in touched:
            if partition.offline is None:
                self._scheduler.begin(("checkpoint", partition), flushes.count(self._flush(partition)))
            yield None
        while flushes.left:
            yield flushes.wait
        for name in FILES:
            self._scheduler.begin(name, self._replace(name))

    def _flush(self, partition: Partition) -> Steps[None]:
        """Sync a partition's indexes, producer state and epochs, then record its offsets."""
        recovery_point, log_start_offset = partition.log.synced_offset, partition.log.log_start_offset
        cuts = self._cuts.get((partition.topic, partition.index))
        try:
            partition.log.check_place()
            files = partition.log.flush()
        except Vanished as vanished:
            self.has_vanished(partition, vanished)
            return
        except StorageFailed as failure:
            self._try_again(partition, failure)
            return
        failed = (yield partial(self._disk.sync_soon, files)) if files else None
        if isinstance(failed, TryAgain):
            partition.log.was_not_flushed()
            self._try_again(partition, failed)
            return
        if failed is not None:
            partition.fail(failed)
        else:
            partition.log.noted_start = log_start_offset
        if self._cuts.get((partition.topic, partition.index)) == cuts:
            self._note(partition, recovery_point)

    def _replace(self, name: str) -> Steps[None]:
        """Write current offsets into the checkpoint file `name`. Repeat this if another caller requests it during the write."""
        while True:
            waiting, self._waiting[name] = self._waiting[name], []
            failed: StorageFailed | None = None
            try:
                data = yield from formatted_slowly(self._offsets[name])
                if data != self._written.get(name, NOTHING):
                    yield from _replace_file(
                        self._disk, name, data
                    )  # if a power failure restores the old content, it is correct too
                    self._written[name] = data
                if waiting:  # a waiting job needs the new content
                    failed = yield partial(self._disk.sync_soon, [self._disk.directory("")])
            except StorageFailed as failure:
                failed = failure
                log.error(
                    "a checkpoint could not be written: %s; %s", failure, _retry_notice(failure), extra={"cause": "checkpoint"}
                )
            except GeneratorExit:
                self._waiting[name] += waiting  # the caller that dropped this job writes the file at once
                raise
            self._call_back(waiting, failed)
            if not self._waiting[name]:
                return

    def _outdated_files(self) -> Iterable[tuple[str, bytes]]:
        """Yield the names of outdated files, with their new content."""
        for name, offsets in self._offsets.items():
            data = format_offsets(offsets)
            if data != self._written.get(name, NOTHING):
                yield name, data

    def _note(self, partition: Partition, recovery_point: int) -> None:
        """Record the recovery point and the other current offsets of a partition, unless the partition is offline."""
        if partition.offline is not None:
            return
        recovery_points, starts, high_watermarks, _ = self._offsets.values()
        key = (partition.topic, partition.index)
        recovery_points[key] = recovery_point
        high_watermarks[key] = partition.high_watermark
        start = max(_inner_start(partition), self._promised.get(key, 0))
        if start:
            starts[key] = start
        else:
            starts.pop(key, None)

    def has_vanished(self, partition: Partition, vanished: Vanished) -> None:
        """Take a partition with missing files offline, and record its end, so that the next startup reports the loss."""
        self._note(partition, partition.log.log_end_offset)
        self._scheduler.begin(RECOVERY_POINTS, self._replace(RECOVERY_POINTS))
        log.error("%s is offline: %s", partition, vanished)
        partition.fail_offline(str(vanished))

    def _try_again(self, partition: Partition, failure: StorageFailed) -> None:
        self.touched[partition] = None
        sentence = "%s: its checkpoint could not be written: %s; %s"
        log.error(sentence, partition, failure, _retry_notice(failure), extra=CAUSE)


def _of_a_cut(offset: int, latest_start: int) -> Iterable[tuple[str, int]]:
    """Return (file name, largest allowed offset) for each checkpoint of a log that is about to be truncated."""
    return (RECOVERY_POINTS, offset), (CLEANED_OFFSETS, offset), (LOG_START_OFFSETS, latest_start)


def _call(done: Done, failure: StorageFailed | None, now: Now) -> None:
    done(failure)


def _inner_start(partition: Partition) -> int:
    """Return the log start offset if it is above the base offset of the first segment, else 0."""
    start = partition.log.log_start_offset
    return start if start > partition.log.segments[0].base_offset else 0


def _retry_notice(failure: StorageFailed) -> str:
    """Return the end of an error message: when the checkpoint is written next. A failed sync of a directory is never retried."""
    return "none is until the broker restarts" if isinstance(failure, SyncFailed) else "it is written with the next one"
