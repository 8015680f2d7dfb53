"""Mistakes planted into the journal, and into what a process does with it: the simulated power cuts find each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from ottla.log.journal.contents import _Reading
from ottla.log.journal.format import JournalEntry, Key
from ottla.log.journal.journal import Journal
from ottla.log.journal.kept_file import keep_unapplied
from ottla.log.maintenance import LogUpkeep
from ottla.log.unsynced_batches import UnsyncedBatches
from ottla.ports import Done, FileSlice
from ottla.records.batches.header import batches
from tests.sim import journals
from tests.sim.lives import journal_life
from tests.sim.lives.journal_life import JournalLife
from tests.sim.lives.journaled_log import JournaledLog
from tests.support.kinds import one_of_each

MOST_SEEDS = 120
WRITE, UNSYNCED, KEEP = Journal.write, LogUpkeep.unsynced_batches, keep_unapplied


def write_and_need_nothing(journal: Journal, entries: Sequence[JournalEntry], done: Done) -> bool:
    written = WRITE(journal, entries, done)
    for file in journal._files:
        file.ends.clear()
    return written


def write_later(journal: Journal, entries: Sequence[JournalEntry], done: Done) -> bool:
    if not WRITE(journal, entries, lambda failure: None):
        return False
    done(None)
    return True


def void_later(journal: Journal, keys: Iterable[Key], done: Done) -> bool:
    for key in keys:
        journal.forget(key)
    done(None)
    return True


def newest_batch(log: LogUpkeep, most_bytes: int) -> UnsyncedBatches | None:
    """Return the last batch alone of those that are not durable."""
    found = UNSYNCED(log, most_bytes)
    if found is None or not found.parts:
        return found
    file, start, _ = found.parts[-1].file, found.parts[-1].position, found.parts[-1].size
    at, header = list(batches(memoryview(found.parts[-1].read())))[-1]
    return found._replace(base_offset=header.base_offset, parts=[FileSlice(file, start + at, header.size)], size=header.size)


def collect_torn(reading: _Reading) -> None:
    """Take the last block for one that was acknowledged, though its write may not have ended."""
    newest = max(reading._blocks)
    reading._collect(reading._block(newest)[2][6], newest)


MISTAKES: Mapping[str, tuple[str, object, str, Callable[..., Any]]] = {
    "uses a file again that logs need": (
        "is overwritten, and t-. is synced up to|before it are missing",
        Journal,
        "write",
        write_and_need_nothing,
    ),
    "begins an entry behind a hole": ("the records before it are missing", LogUpkeep, "unsynced_batches", newest_batch),
    "cuts a log before the void is durable": ("was gone|before it are missing", Journal, "void", void_later),
    "begins no new incarnation": (
        "gone|nothing was written|before it are missing|the journal is damaged",
        journal_life,
        "begin_anew",
        lambda *what: None,
    ),
    "answers before the write is done": ("had been synced", Journal, "write", write_later),
    "keeps nothing for what is not open": ("had been synced", journal_life, "keep_unapplied", lambda *what: {}),
    "takes a gap for another broker's compaction": ("lost or changed", JournalLife, "has_entries", lambda *what: False),
    "takes a torn block for damage": ("the journal is damaged", _Reading, "_collect_needed", collect_torn),
    "forgets a loss at the next start": (
        "before it are missing|had been synced",
        journal_life,
        "keep_unapplied",
        lambda disk, directory, entries, damaged: KEEP(disk, directory, entries, {}),
    ),
    "reports no loss": ("before it are missing|had been synced", _Reading, "_collect_lost", lambda *what: None),
    "cuts a log that is not synced": ("had been synced", JournaledLog, "_sync_before_cut", lambda log: None),
}  # fmt: skip


@pytest.mark.rows(2, seconds=3)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mistake", one_of_each(MISTAKES, "begins an entry behind a hole", "cuts a log before the void is durable", seconds=5)
)
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError, match=name):
        sum(map(journals.survive, range(MOST_SEEDS)))
