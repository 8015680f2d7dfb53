"""The journals of the log directories: which partition's batches go into them, and what they held at the start.

Depends on partitions and `ottla.log.journal`. It syncs no log's own files: `Syncs` does, when a journal's file is full.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.partitions.log_directories import LogDirectories
from ottla.broker.partitions.partition import Partition
from ottla.log.journal.format import JOURNAL, MARK, JournalEntry, Key
from ottla.log.journal.journal import Journal
from ottla.log.log import Log
from ottla.log.name_places import joined, parent
from ottla.log.partition_metadata import NO_TOPIC_ID
from ottla.log.unsynced_batches import UnsyncedBatches
from ottla.ports import Disk, Done, Now, StorageFailed, SyncFailed

if TYPE_CHECKING:
    from ottla.log.journal.contents import Contents, Damage
    from ottla.log.journal.saved_entries import SavedEntry

log = logging.getLogger("ottla.broker")

MOST_BLOCK_BYTES = 2 << 20
"""Upper limit of one write, in bytes, which is copied and checked on the broker's thread."""


class JournalLimits(NamedTuple):
    """The size of each of a journal's two files, and the most bytes of one partition that go into the journal at once.

    With `file_bytes` 0 there is no journal.
    """

    file_bytes: int
    partition_bytes: int


NO_JOURNAL = JournalLimits(0, 0)


class DirectoryJournal:
    """The journal of one log directory, with the partitions that wait for its next write.

    `waiting` are partitions whose sync is wanted, `voids` those whose entries are to become void. A journal `is_refused` if the
    disk had no space or no handle for its files; `was_refused` says that this was logged.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.mark = joined(parent(directory), MARK)
        self.incarnation = 0
        self.journal: Journal | None = None
        self.is_refused = self.was_refused = False
        self.waiting: dict[Partition, None] = {}
        self.voids: deque[tuple[Partition, Done]] = deque()

    @property
    def is_usable(self) -> bool:
        return self.journal is not None and self.journal.is_ready

    def room_bytes(self) -> int:
        """Return how many bytes the next write can take, with `ROW_BYTES` for each partition; 0 if own files must be synced."""
        return 0 if self.journal is None else min(self.journal.room_bytes(), MOST_BLOCK_BYTES)


class Journals:
    """The journals of all log directories.

    `on_full` is called with partitions whose own files have to be synced, so that a journal's file can be used again.
    """

    def __init__(
        self, disk: Disk, directories: LogDirectories, limits: JournalLimits, on_full: Callable[[Mapping[Partition, int]], None]
    ) -> None:
        self.limits = limits
        self._disk = disk
        self._directories = directories
        self._on_full = on_full
        self._all = {path: DirectoryJournal(joined(path, JOURNAL)) for path in directories.paths}
        self.first = self._all[""]
        self._is_only = len(self._all) == 1
        self._entered: dict[Key, Partition] = {}
        self._stored: dict[Key, Sequence[SavedEntry]] = {}
        self._damaged: dict[Key, Damage] = {}
        self._applied: set[Key] = set()
        """The partitions in the kept file whose own files have its entries, until they are void or the file is removed."""
        self._has_begun = self._is_closed = False

    # The start

    def load(self, *, clean: bool, was_killed: bool = False) -> None:
        """Read the journals before any partition is opened. After a `clean` stop, no partition needs their entries.

        If the last process `was_killed`, the partitions' own files have everything that it wrote. The modules that read journals
        are imported where there is one. Raises `StorageFailed`.
        """
        for one in self._all.values():
            if not (self._disk.exists(one.directory) or self._disk.exists(one.mark)):
                continue
            from ottla.log.journal.contents import latest_incarnation, read_journal

            if clean:
                one.incarnation = latest_incarnation(self._disk, one.directory)
                continue
            import_module("ottla.log.journal.replay")  # here, since a partition that is opened later may find no handle left for it
            contents = read_journal(self._disk, one.directory)
            one.incarnation = contents.incarnation
            for key, entries in contents.entries.items():
                known = self._stored.get(key)  # of a replica that was moved, in the journal of its former directory
                self._stored[key] = entries if known is None else sorted([*known, *entries], key=_base_offset)
            self._damaged |= contents.damaged
            if contents.unattributed:
                _log_loss(contents, was_killed=was_killed)

    def has_entries(self, partition: Partition) -> bool:
        """Return whether the start has found batches of a partition, whole or damaged, that are not put back yet."""
        key = _key(partition)
        return key in self._stored or key in self._damaged

    def replay(self, partition: Partition, opened: Log, now: Now) -> None:
        """Put the batches that a recovered log lacks back from the journal, and sync them in the log's own files.

        Raises `Damaged` if batches that were acknowledged are missing, and `StorageFailed`.
        """
        key = _key(partition)
        entries, damage = self._stored.get(key), self._damaged.get(key)
        if entries is None and damage is None:
            return
        from ottla.log.journal.replay import replay

        end_offset = opened.log_end_offset
        count = replay(opened, entries or (), now, damage)
        for file in opened.dirty_files():
            file.sync()
        if count:
            opened.directory.sync()
            log.info("%s: offsets %d to %d come from the journal", partition, end_offset, opened.log_end_offset - 1)
        opened.mark_synced(opened.log_end_offset)
        if self._has_begun:
            self._applied.add(key)
        self._stored.pop(key, None)
        self._damaged.pop(key, None)
        self._drop_applied()

    def begin(self, is_known: Callable[[bytes], bool] = lambda topic_id: True) -> None:
        """Make the entries of the previous process void, and keep those of partitions that are not open.

        Entries of topics whose id is not known (`is_known`) are dropped, because their topics were deleted. Raises `StorageFailed`.
        """
        self._stored = {key: entries for key, entries in self._stored.items() if is_known(key.topic_id)}
        self._damaged = {key: damage for key, damage in self._damaged.items() if is_known(key.topic_id)}
        self._keep_stored()
        self._has_begun = True
        for one in self._all.values():
            if one.incarnation:
                from ottla.log.journal.contents import begin_anew, drop_incomplete

                one.incarnation += 1
                begin_anew(self._disk, one.directory, one.incarnation)
                drop_incomplete(self._disk, one.directory)
            if self._disk.exists(one.mark):
                from ottla.log.journal.contents import drop_mark

                drop_mark(self._disk, one.directory)

    def _keep_stored(self) -> None:
        if self._stored or self._damaged:
            from ottla.log.journal.kept_file import keep_unapplied

            kept = keep_unapplied(self._disk, self.first.directory, self._stored, self._damaged)
            self._stored = dict(kept)
        elif self._disk.exists(self.first.directory):
            from ottla.log.journal.kept_file import drop_kept

            drop_kept(self._disk, self.first.directory)

    def _drop_applied(self) -> None:
        """Remove the kept file once all its entries are in partitions' own files: one operation for all of them."""
        if self._has_begun and self._applied and not self._stored and not self._damaged:
            from ottla.log.journal.kept_file import drop_kept

            drop_kept(self._disk, self.first.directory)
            self._applied.clear()

    def void_kept(self, key: Key) -> None:
        """Make the kept entries of a partition void before its log is truncated or deleted. Raises `StorageFailed`."""
        is_kept = key in self._applied or key in self._stored or key in self._damaged
        self._stored.pop(key, None)
        self._damaged.pop(key, None)
        if not is_kept or not self._has_begun:
            return
        self._applied.add(key)
        if self._stored or self._damaged:
            from ottla.log.journal.kept_file import void_kept

            void_kept(self._disk, self.first.directory, [key])
            self._applied.discard(key)
        else:
            self._drop_applied()

    # Which journal a partition's batches go into

    def journal_of(self, partition: Partition) -> DirectoryJournal:
        """Return the journal of the log directory that has a partition, whether it can be written or not."""
        return self.first if self._is_only else self._all[self._directories.place_of(str(partition))]

    def usable_journal(self, partition: Partition) -> DirectoryJournal | None:
        """Return the journal for a partition; None if its own files must be synced. The first call begins to make a journal."""
        one = self.journal_of(partition)
        if one.journal is None:
            self._make(one)
        return one if one.is_usable and partition.topic_id != NO_TOPIC_ID else None

    def with_voids(self) -> list[DirectoryJournal]:
        """Return the journals in which entries are to become void, which may have waited for room."""
        return [one for one in self._all.values() if one.voids]

    def stop_waiting(self, partition: Partition) -> bool:
        """Stop waiting for the next write into a journal. Return whether the partition waited for one."""
        waited = [one for one in self._all.values() if partition in one.waiting]
        for one in waited:
            del one.waiting[partition]
        return bool(waited)

    def _make(self, one: DirectoryJournal) -> None:
        if not self.limits.file_bytes or self._is_closed:
            return
        journal = one.journal = Journal(self._disk, one.directory, self.limits.file_bytes, one.incarnation or 1, self._leave)

        def done(failure: StorageFailed | None) -> None:
            if failure is None and one.was_refused:
                one.was_refused = False
                log.info("%s: there is a journal now", one.directory)
            elif failure is not None and not self._is_closed:
                one.is_refused = not isinstance(failure, SyncFailed)  # which is never retried
                until = "the next checkpoint tries again" if one.is_refused else "the broker restarts"
                if not one.was_refused:
                    sentence = "%s: there is no journal until %s (%s): acks=all syncs the file of each partition"
                    log.warning(sentence, one.directory, until, failure)
                one.was_refused = True

        try:
            journal.begin(done)
        except StorageFailed as failure:
            done(failure)

    def make_again(self) -> None:
        """Let the next sync make the journals again whose files the disk refused, because it may have space now."""
        for one in self._all.values():
            if one.is_refused and one.journal is not None:
                one.journal.close()
                one.journal, one.is_refused = None, False

    def close(self) -> None:
        """Close the journals, after their writes under way. Every log is synced in its own files before."""
        self._is_closed = True
        for one in self._all.values():
            if one.journal is not None:
                one.journal.close()

    def write(self, one: DirectoryJournal, batches: Mapping[Partition, UnsyncedBatches], done: Done) -> bool:
        """Write batches of several partitions. Return False if they do not fit now. Raises `StorageFailed`."""
        entries = []
        for partition, found in batches.items():
            key = _key(partition)
            self._entered[key] = partition
            epoch = partition.log.leader_epoch
            entries.append(JournalEntry(key, found.base_offset, found.end.offset, epoch, found.parts, found.size))
        assert one.journal is not None, "only a usable journal is written"
        return one.journal.write(entries, done)

    def write_voids(self, one: DirectoryJournal, done: Done) -> bool:
        """Make the entries void of the partitions that wait for it. Return False if there is no room for that."""
        asked = list(one.voids)
        keys = [_key(partition) for partition, _ in asked]

        def finish(failure: StorageFailed | None) -> None:
            for key in keys if failure is None else ():
                self._entered.pop(key, None)
            for _, over in asked:
                over(failure)
            done(failure)

        assert one.journal is not None, "only a usable journal is written"
        if not one.journal.void(keys, finish):
            return False
        one.voids.clear()
        return True

    def _leave(self, ends: Mapping[Key, int]) -> None:
        """Request syncs of the partitions whose entries are in a file that was left for the other one."""
        self._on_full({self._entered[key]: end for key, end in ends.items() if key in self._entered})

    def journals_with(self, partition: Partition) -> list[DirectoryJournal]:
        """Return the journals in which the next start would find entries of a partition: two if it was moved lately."""
        key = _key(partition)
        if key not in self._entered:
            return []
        return [one for one in self._all.values() if one.journal is not None and one.journal.holds(key)]

    def note_synced(self, partition: Partition) -> None:
        """Record that a log's own files are synced, so that a journal's file can be used again."""
        if self._entered:
            key, offset = _key(partition), partition.log.synced_offset
            for one in self._all.values():
                if one.journal is not None:
                    one.journal.note_synced(key, offset)

    def forget(self, key: Key) -> None:
        """Record that a partition is deleted. Raises `StorageFailed`."""
        self.void_kept(key)
        if self._entered.pop(key, None) is not None:
            for one in self._all.values():
                if one.journal is not None:
                    one.journal.forget(key)


def _log_loss(contents: Contents, *, was_killed: bool) -> None:
    if was_killed and not contents.is_kept_damaged:
        from ottla.log.journal.contents import NONE_LOST

        log.warning("%s %s", contents.unattributed, NONE_LOST)
        return
    remedy = "compare the ends of those that were written last with their replicas, or with what their producers sent"
    log.error("%s The partitions concerned cannot be named: %s.", contents.unattributed, remedy)


def _base_offset(entry: SavedEntry) -> int:
    return entry.base_offset


def _key(partition: Partition) -> Key:
    return Key(partition.topic_id, partition.index)
