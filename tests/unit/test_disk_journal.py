"""A journal on every `Disk`, the real one and the simulated one: it begins, goes round, ends, and is read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ottla.log.journal.contents import begin_anew, latest_incarnation, read_journal
from ottla.log.journal.format import JournalEntry, Key
from ottla.log.journal.journal import Journal
from ottla.log.journal.kept_file import drop_kept, keep_unapplied, void_kept
from ottla.ports import FileSlice, StorageFailed
from tests.support.disk_subjects import Real, Simulated, Subject

KEY = Key(bytes(range(16)), 3)


@pytest.fixture(params=["real", "simulated"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    subject: Subject = Real(tmp_path) if request.param == "real" else Simulated()
    yield subject
    subject.end()


def settled(subject: Subject, outcomes: list[StorageFailed | None]) -> None:
    subject.settle(outcomes)
    assert outcomes.pop() is None


def test_a_journal_is_written_and_read_again(subject: Subject) -> None:
    disk, outcomes = subject.disk, list[StorageFailed | None]()
    full: list[Mapping[Key, int]] = []
    for incarnation in (1, 2):
        journal = Journal(disk, "journal", 1 << 16, incarnation, full.append)
        journal.begin(outcomes.append)
        settled(subject, outcomes)
        assert latest_incarnation(disk, "journal") == incarnation
        file = disk.open("log", create=True)
        offset = 0
        while len(full) < 3 * incarnation:
            position = file.append([b"%05d" % offset * 700])
            entry = JournalEntry(KEY, offset, offset + 1, 0, [FileSlice(file, position, 3500)], 3500)
            if not journal.write([entry], outcomes.append):
                journal.note_synced(KEY, offset)
                assert journal.write([entry], outcomes.append)
            settled(subject, outcomes)
            offset += 1
        found = read_journal(disk, "journal")
        assert (found.is_whole, found.torn, found.incarnation) == (True, "", incarnation)
        entries = found.entries[KEY]
        assert [entry.next_offset for entry in entries] == list(range(offset - len(entries) + 1, offset + 1))
        assert entries[-1].read() == b"%05d" % (offset - 1) * 700
        assert journal.void([KEY], outcomes.append)
        settled(subject, outcomes)
        assert not read_journal(disk, "journal").entries
        journal.close()
        begin_anew(disk, "journal", incarnation + 1)
        assert latest_incarnation(disk, "journal") == incarnation + 1
    assert disk.list("journal") == ["0", "1", "incarnation"]


def test_kept_entries_are_written_and_removed(subject: Subject) -> None:
    disk, outcomes = subject.disk, list[StorageFailed | None]()
    journal = Journal(disk, "journal", 1 << 16, 1, lambda ends: None)
    journal.begin(outcomes.append)
    settled(subject, outcomes)
    file = disk.open("log", create=True)
    file.append([bytes(100)])
    assert journal.write([JournalEntry(KEY, 0, 1, 0, [FileSlice(file, 0, 100)], 100)], outcomes.append)
    settled(subject, outcomes)
    journal.close()
    kept = keep_unapplied(disk, "journal", read_journal(disk, "journal").entries, {})
    begin_anew(disk, "journal", 2)
    assert [entry.read() for entry in kept[KEY]] == [bytes(100)]
    assert [entry.read() for entry in read_journal(disk, "journal").entries[KEY]] == [bytes(100)]
    void_kept(disk, "journal", [KEY])
    assert not read_journal(disk, "journal").entries
    drop_kept(disk, "journal")
    assert not disk.exists("journal/kept")
