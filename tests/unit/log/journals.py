"""A journal on a simulated disk, and partitions whose batches go into it, for the journal's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.log.journal.contents import Contents, begin_anew, latest_incarnation, read_journal
from ottla.log.journal.format import JournalEntry, Key
from ottla.log.journal.journal import Journal
from ottla.log.journal.saved_entries import SavedEntry
from ottla.ports import FileSlice, StorageFailed
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import make_batch

DIRECTORY = "journal"
FILE_BYTES = 1 << 14
TOPIC = bytes(range(16))


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
