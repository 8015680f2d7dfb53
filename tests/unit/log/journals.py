"""A journal on a simulated disk, and partitions whose batches go into it, for the journal's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from ottla.log.journal.contents import Contents, begin_anew, latest_incarnation, read_journal
from ottla.log.journal.format import JournalEntry, Key
from ottla.log.journal.journal import Journal
from ottla.log.journal.saved_entries import SavedEntry
from ottla.log.log import Log, LogConfig
from ottla.ports import FileSlice, StorageFailed
from ottla.records.batches.header import batches
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, read_all, sync

DIRECTORY = "journal"
FILE_BYTES = 1 << 14
TOPIC = bytes(range(16))
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200, file_delete_delay_ms=0)


def key(number: int) -> Key:
    return Key(TOPIC, number)


class Driver:
    """A process with a journal: it writes batches of partitions into it, as a broker's bundles do."""

    def __init__(self, disk: SimDisk, file_bytes: int = FILE_BYTES, incarnation: int | None = None) -> None:
        self.disk = disk
        self.full: list[Mapping[Key, int]] = []
        self.results: list[StorageFailed | None] = []
        self.next_offsets: dict[Key, int] = {}
        self.written: dict[Key, list[tuple[int, bytes]]] = {}
        """The acknowledged (offset, batch) of each partition, in order."""
        self.ever: dict[Key, list[tuple[int, bytes]]] = {}
        """The same, with those that voids removed."""
        self.synced: dict[Key, int] = {}
        number = latest_incarnation(disk, DIRECTORY) + 1 if incarnation is None else incarnation
        self.journal = Journal(disk, DIRECTORY, file_bytes, number, self.full.append)

    def begin(self) -> None:
        self.journal.begin(self.results.append)
        self.run()
        assert self.results.pop() is None
        assert self.journal.is_ready

    def run(self) -> None:
        """Run all pending syncs and writes, with those that they start."""
        while self.disk.run_syncs():
            pass

    def entry(self, number: int, size: int = 40, count: int = 1) -> JournalEntry:
        """Append a batch to the partition's own file, unsynced, and return the entry for it."""
        one, base_offset = key(number), self.next_offsets.get(key(number), 0)
        batch = make_batch(count, size)
        batch[0:8] = base_offset.to_bytes(8, "big")
        file = self.disk.open(f"t-{number}", create=True)
        position = file.append([batch])
        self.next_offsets[one] = base_offset + count
        return JournalEntry(one, base_offset, base_offset + count, 0, (FileSlice(file, position, len(batch)),), len(batch))

    def put(self, *entries: JournalEntry) -> bool:
        """Write a block, and wait until it is durable. Return whether it fitted."""
        if not self.journal.write(entries, self.results.append):
            return False
        self.run()
        assert self.results.pop() is None
        self.note(entries)
        return True

    def note(self, entries: Sequence[JournalEntry]) -> None:
        for entry in entries:
            data = b"".join(part.read() for part in entry.parts)
            self.written.setdefault(entry.key, []).append((entry.base_offset, data))
            self.ever.setdefault(entry.key, []).append((entry.base_offset, data))

    def void(self, *numbers: int) -> bool:
        done = self.journal.void([key(number) for number in numbers], self.results.append)
        self.run()
        if done:
            assert self.results.pop() is None
            for number in numbers:
                self.written.pop(key(number), None)
        return done

    def sync_all(self) -> None:
        """Note that the partitions' own files are synced."""
        for one in self.next_offsets:
            self.sync(one.partition)

    def sync(self, number: int) -> None:
        self.synced[key(number)] = offset = self.next_offsets.get(key(number), 0)
        self.journal.note_synced(key(number), offset)


def contents(disk: SimDisk) -> Contents:
    return read_journal(disk, DIRECTORY)


def flat(entries: Mapping[Key, Sequence[SavedEntry]]) -> dict[Key, list[tuple[int, bytes]]]:
    """The (offset, bytes) of each entry."""
    return {one: [(entry.base_offset, entry.read()) for entry in saved] for one, saved in entries.items()}


def restart(disk: SimDisk, file_bytes: int = FILE_BYTES) -> Driver:
    """Begin the next incarnation, as a start does once everything is put back."""
    driver = Driver(disk, file_bytes, incarnation=contents(disk).incarnation + 1)
    begin_anew(disk, DIRECTORY, driver.journal.incarnation)
    return driver


def check(found: Contents, driver: Driver, unsure: Mapping[Key, tuple[int, bytes]] | None = None) -> None:
    """Each partition's entries are the newest of what was acknowledged, at least all that its own files lack, and nothing else.

    The entries `unsure` were being written.
    """
    assert found.is_whole
    news, entries = unsure or {}, flat(found.entries)
    came = [one for one, new in news.items() if entries.get(one, [])[-1:] == [new]]
    assert came in ([], list(news))
    for one in came:
        entries[one].pop()
    for one in entries.keys() | driver.written.keys():
        written, got = driver.written.get(one, []), entries.get(one, [])
        needed = [entry for entry in written if entry[0] >= driver.synced.get(one, 0)]
        assert got == written[len(written) - len(got) :]
        assert len(got) >= len(needed)


class Partition:
    """A log whose acknowledged batches are in its own files, or in the journal."""

    def __init__(self, driver: Driver, number: int = 0) -> None:
        self.driver = driver
        self.key = key(number)
        self.path = f"t-{number}"
        self.recovery_point = self.log_start_offset = self.durable = 0
        self.acknowledged: list[bytes] = []
        self.log = self.open()

    def open(self) -> Log:
        point, start = self.recovery_point, self.log_start_offset
        return Log.open(
            self.driver.disk,
            self.path,
            CONFIG,
            NOW,
            topic_id=TOPIC,
            recovery_point=point,
            log_start_offset=start,
            is_noted=point > 0,
        )

    def append(self, count: int = 1, size: int = 40, *, leader_epoch: int = 0, **fields: int) -> None:
        batch = make_batch(count, size, **fields)
        assert append(self.log, batch, leader_epoch=leader_epoch).error_code == 0

    def entry(self) -> JournalEntry:
        """Return all that is not durable yet as an entry."""
        parts, offset = list[FileSlice](), self.durable
        while offset < self.log.log_end_offset:
            part = self.log.read(offset, 1 << 20, until_offset=self.log.log_end_offset, min_one_batch=True)
            assert part is not None
            parts.append(part)
            offset = read_last(part)
        return JournalEntry(self.key, self.durable, offset, self.log.leader_epoch, parts, sum(map(len, parts)))

    def write(self) -> None:
        """Make all that is appended durable by the journal."""
        if self.durable < self.log.log_end_offset:
            entry = self.entry()
            assert self.driver.put(entry)
            self.note_durable()

    def note_durable(self) -> None:
        self.durable = self.log.log_end_offset
        self.acknowledged = [data for _, data in read_all(self.log)]

    def sync(self) -> None:
        """Make all that is appended durable by the own files."""
        sync(self.log)
        self.recovery_point = self.log.log_end_offset
        self.driver.journal.note_synced(self.key, self.recovery_point)
        self.note_durable()

    def restart(self, random: Random | None = None) -> Sequence[SavedEntry]:
        """Cut the power if there is a `random`, open the log again, and return the journal's entries of it."""
        if random is not None:
            self.driver.disk.crash(random)
        self.log = self.open()
        return contents(self.driver.disk).entries.get(self.key, [])

    def check(self) -> None:
        found = [data for _, data in read_all(self.log)]
        assert found[: len(self.acknowledged)] == self.acknowledged
        self.log.check_whole()


def read_last(part: FileSlice) -> int:
    return [header.next_offset for _, header in batches(part.read())][-1]
