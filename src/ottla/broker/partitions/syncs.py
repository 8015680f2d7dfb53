"""The schedule of syncs: one sync serves all waits for it. Depends on partitions and the disk port.

Replies with acks=all request syncs, as do a topic's flush.messages and flush.ms regardless of acks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ottla.broker.partitions.journals import NO_JOURNAL, DirectoryJournal, JournalLimits, Journals
from ottla.broker.partitions.log_directories import LogDirectories
from ottla.broker.partitions.partition import Partition
from ottla.broker.scheduler import Scheduler
from ottla.log.config import FOREVER
from ottla.log.errors import Vanished
from ottla.log.journal.journal import ROW_BYTES
from ottla.log.segments.segment import Segment
from ottla.log.unsynced_batches import UnsyncedBatches
from ottla.ports import Clock, Disk, Done, Now, Steps, StorageFailed, TryAgain

log = logging.getLogger("ottla.broker")

AGAIN_MS = 100
"""Pause before a sync that could not begin is retried, in ms."""

LEFT_AT_ONCE = 16
"""How many partitions' own files are synced at the same time for a full file of the journal."""


class Syncs:
    """The syncs of all partitions' logs to stable storage, pending and running.

    Small appends of all partitions are written together into the journal of their log directory; a log with many new bytes, or
    after a truncation, is synced in its own files. Either makes the log durable. A partition has at most one running sync of its
    own files and one write into the journal; later appends share the next one. A failed sync is never retried, because the
    kernel's cache is then in an unknown state, and the partition is offline (KAFKA_STORAGE_ERROR) until the broker restarts. A sync
    that could not begin is retried: nothing was lost, and its waits continue.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        scheduler: Scheduler,
        vanished: Callable[[Partition, Vanished], None],
        directories: LogDirectories,
        limits: JournalLimits = NO_JOURNAL,
    ) -> None:
        """Create the schedule of syncs. `vanished` is called for a partition with missing files, which a sync detects first."""
        self.journals = Journals(disk, directories, limits, self._sync_left)
        self._disk = disk
        self._vanished = vanished
        self._clock = clock
        self._scheduler = scheduler
        self._wanted: dict[Partition, None] = {}
        self._wanted_own: dict[Partition, None] = {}
        self._under_way: set[Partition] = set()
        self._journaled: set[Partition] = set()
        self._written: dict[DirectoryJournal, None] = {}
        """The journals whose write has ended while others wait. The next write starts with what this batch of requests appends."""
        self._paused: set[Partition] = set()
        self._put_off: set[Partition] = set()
        self._timed: set[Partition] = set()
        self._awaited: dict[Partition, int] = {}
        """The number of jobs that wait to pause a partition whose sync runs."""
        self._waiting: dict[Partition, list[Done]] = {}
        self._unnamed: dict[Partition, None] = {}
        self._naming: set[Partition] = set()
        self._left: dict[Partition, int] = {}
        """The partitions in files that a journal has left, each with the end of its entries, until their own files are synced."""
        self._leaving: set[Partition] = set()
        """The partitions taken from `_left` whose own files are being synced."""

    def want(self, partition: Partition) -> None:
        """Request that this partition's log becomes durable. The next call of `start` starts that."""
        self._wanted[partition] = None

    def want_own(self, partition: Partition) -> None:
        """Request a sync of the own files of this partition's log, started by the next call of `start`."""
        self._wanted_own[partition] = None

    def want_name(self, partition: Partition) -> None:
        """Request a sync of the directory with the newest segment's name, started by the next call of `start`.

        When the next segment is created, it then need not wait for this sync.
        """
        if partition not in self._naming:
            self._unnamed[partition] = None

    def start(self) -> None:
        """Start every pending sync that is not running. Called at the end of each batch of requests."""
        if self._wanted or self._written:
            self._start_wanted()
        if self._unnamed:
            self._start_names()
        if self._wanted_own:
            self._start_own()

    def _start_wanted(self) -> None:
        """Let each partition wait for the next write into its journal, or for a sync of its own files without a journal."""
        wanted, self._wanted = self._wanted, {}
        journals, self._written = self._written, {}
        for partition in wanted:
            journal = self.journals.usable_journal(partition)
            if journal is None:
                self._wanted_own[partition] = None
            else:
                journal.waiting[partition] = None
                journals[journal] = None
        for journal in journals:
            self._start_write(journal)

    def _start_write(self, directory: DirectoryJournal) -> None:
        """Write into a journal what waits for that, unless a write is under way: the next one follows it."""
        journal = directory.journal
        if journal is None or journal.is_writing:
            return
        if not directory.is_usable:
            self._give_up(directory)
            return
        if directory.voids:
            if self.journals.write_voids(directory, partial(self._on_written, directory, {})):
                return
            if not self._left and not self._leaving:  # otherwise a sync of own files makes room
                self._fail_voids(directory, StorageFailed(directory.directory, "the journal is full: restart the broker"))
        room_bytes = directory.room_bytes()
        if not room_bytes:
            self._wanted_own |= directory.waiting
            directory.waiting.clear()
            return
        batches = self._select_batches(directory, room_bytes)
        if not batches:
            return
        try:
            if self.journals.write(directory, batches, partial(self._on_written, directory, batches)):
                self._journaled.update(batches)
                return
        except StorageFailed as failure:
            log.debug("%s: %s; the partitions' own files are synced", directory.directory, failure)
        self._wanted_own |= dict.fromkeys(batches)

    def _select_batches(self, directory: DirectoryJournal, room_bytes: int) -> dict[Partition, UnsyncedBatches]:
        """Select the waiting partitions whose batches go into the next write, with at most `room_bytes`."""
        most, now = min(self.journals.limits.partition_bytes, room_bytes - ROW_BYTES), self._clock.now()
        batches: dict[Partition, UnsyncedBatches] = {}
        for partition in list(directory.waiting):
            if partition in self._paused or partition in self._awaited:
                continue
            if partition.offline is not None:
                del directory.waiting[partition]
                continue
            found = partition.log.unsynced_batches(most)
            if found is None or not found.has_names():
                self._wanted_own[partition] = None  # the sync finds out about removed files
            elif not found.size:
                partition.record_journaled(found, now)
            elif found.size + ROW_BYTES > room_bytes:
                break
            else:
                batches[partition] = found
                room_bytes -= found.size + ROW_BYTES
            del directory.waiting[partition]
        return batches

    def _on_written(
        self, directory: DirectoryJournal, batches: dict[Partition, UnsyncedBatches], failure: StorageFailed | None
    ) -> None:
        now = self._clock.now()
        for partition, written in batches.items():
            self._journaled.discard(partition)
            if partition.offline is not None:
                pass
            elif failure is None:
                partition.record_journaled(written, now)
            else:
                self._fail(partition, failure)
            self._call_waiting(partition)
        if directory.waiting or directory.voids:
            self._written[directory] = None

    def _give_up(self, directory: DirectoryJournal) -> None:
        """Request syncs of own files instead of a write into a journal that failed."""
        self._wanted_own |= directory.waiting
        directory.waiting.clear()
        journal = directory.journal
        if directory.voids and journal is not None and journal.failure is not None:
            self._fail_voids(directory, journal.failure)

    @staticmethod
    def _fail_voids(directory: DirectoryJournal, failure: StorageFailed) -> None:
        while directory.voids:
            _, done = directory.voids.popleft()
            done(failure)

    def sync_and_void(self, partition: Partition) -> Steps[None]:
        """Sync the log's own files, and make its entries in the journal void, before the log is truncated.

        Raises `StorageFailed`.
        """
        yield from self.pause(partition)
        try:
            found_in = self.journals.journals_with(partition)
            if not found_in:
                return
            upto, files = partition.log.log_end_offset, partition.log.dirty_files()
            failure = (yield partial(self._disk.sync_soon, files)) if files else None
            if failure is not None:
                if not isinstance(failure, TryAgain):
                    self._fail(partition, failure)
                raise failure
            partition.record_sync(upto, self._clock.now())
            self._note_own_sync(partition)
            yield from self._void_in(found_in, partition)
        finally:
            self.resume(partition)

    def void(self, partition: Partition) -> Steps[None]:
        """Make the entries of a partition in the journal void before it is deleted.

        The same topic can have a replica here again, which begins without records: entries of the former one do not continue it.
        Raises `StorageFailed`.
        """
        yield from self.pause(partition)
        try:
            yield from self._void_in(self.journals.journals_with(partition), partition)
        finally:
            self.resume(partition)

    def _void_in(self, directories: Sequence[DirectoryJournal], partition: Partition) -> Steps[None]:
        for directory in directories:
            failure = yield partial(self._request_void, directory, partition)
            if failure is not None:
                raise failure

    def _request_void(self, directory: DirectoryJournal, partition: Partition, done: Done) -> None:
        directory.voids.append((partition, lambda failure: self._scheduler.at(object(), 0, lambda now: done(failure))))
        self._start_write(directory)

    def _start_own(self) -> None:
        for partition in [each for each in self._wanted_own if self._can_start(each)]:
            self._start_one(partition)

    def _can_start(self, partition: Partition) -> bool:
        return partition not in self._under_way and partition not in self._paused and partition not in self._awaited

    def is_under_way(self, partition: Partition) -> bool:
        return partition in self._under_way or partition in self._journaled or partition in self._paused

    def when_ended(self, partition: Partition, done: Done) -> None:
        """Call `done(None)` when a running sync has ended."""
        self._waiting.setdefault(partition, []).append(done)

    def _call_waiting(self, partition: Partition) -> None:
        for done in self._waiting.pop(partition, ()):
            done(None)

    def pause(self, partition: Partition) -> Steps[None]:
        """Wait until no sync of this partition runs, and prevent further syncs of it until `resume` is called.

        No further sync begins during the wait: where each sync leads to the next append, the wait would never end.
        """
        self._awaited[partition] = self._awaited.get(partition, 0) + 1
        try:
            while self.is_under_way(partition):
                yield partial(self.when_ended, partition)
        finally:
            self._awaited[partition] -= 1
            if not self._awaited[partition]:
                del self._awaited[partition]
        self._paused.add(partition)

    def resume(self, partition: Partition) -> None:
        """End a pause, and start the next sync if it is pending."""
        self._paused.discard(partition)
        self._call_waiting(partition)
        if self.journals.stop_waiting(partition):  # it may have moved to another log directory
            self._wanted[partition] = None
        self.start()

    def _start_one(self, partition: Partition) -> None:
        del self._wanted_own[partition]
        if partition.offline is not None:
            self._note_own_sync(partition)
            return
        upto, files = partition.log.log_end_offset, partition.log.dirty_files()
        if not files:  # a running sync has already covered everything
            partition.record_sync(upto, self._clock.now())
            self._note_own_sync(partition)
            return
        try:
            self._disk.sync_soon(files, partial(self._finish, partition, upto))
            self._under_way.add(partition)
            self._put_off.discard(partition)
        except TryAgain as failure:
            self._start_later(partition, failure)
        except StorageFailed as failure:
            self._fail(partition, failure)
            self._note_own_sync(partition)

    def _finish(self, partition: Partition, upto: int, failure: StorageFailed | None) -> None:
        if failure is None:
            partition.record_sync(upto, self._clock.now())
        else:
            self._fail(partition, failure)
        self._under_way.discard(partition)
        self._call_waiting(partition)
        if partition in self._wanted_own and self._can_start(partition):
            self._start_one(partition)
        self._note_own_sync(partition)

    # Own files of partitions in a full file of the journal

    def _sync_left(self, ends: Mapping[Partition, int]) -> None:
        """Sync own files, a few at a time, so that a full file of a journal can be used again."""
        self._left |= ends
        self._sync_next()

    def _sync_next(self) -> None:
        while self._left and len(self._leaving) < LEFT_AT_ONCE:
            partition, end = next(iter(self._left.items()))
            del self._left[partition]
            if partition.offline is not None:
                continue  # its entries stay in the journal until the next start
            if partition.log.synced_offset >= end:
                self.journals.note_synced(partition)
                continue
            self._leaving.add(partition)
            self._wanted_own[partition] = None
            if self._can_start(partition):
                self._start_one(partition)

    def _note_own_sync(self, partition: Partition) -> None:
        """Notify the journals that the own files are synced, and start the voids that waited for a journal's file."""
        if partition.offline is None:
            self.journals.note_synced(partition)
        if partition in self._leaving:
            self._leaving.discard(partition)
            self._sync_next()
            for directory in self.journals.with_voids():
                self._start_write(directory)

    def _start_names(self) -> None:
        unnamed, self._unnamed = self._unnamed, {}
        for partition in unnamed:
            log = partition.log
            if (
                partition.offline is not None
                or log.unnamed is None
                or partition in self._wanted_own
                or partition in self._under_way
            ):
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
        if partition.log.durable_offset < partition.log.log_end_offset:
            self._timed.discard(partition)
            self.flush(partition, now)

    def _flush_due(self, partition: Partition, now: Now) -> None:
        self._timed.discard(partition)
        if partition.offline is None and partition.log.durable_offset < partition.log.log_end_offset:
            self.want(partition)

    def _start_later(self, partition: Partition, failure: TryAgain) -> None:
        if partition not in self._put_off:
            self._put_off.add(partition)
            log.warning("%s: a sync could not begin (%s); it is retried until it can", partition, failure)
        self._scheduler.at(("sync", partition), self._clock.now().mono_ms + AGAIN_MS, lambda now: self.want_own(partition))

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
