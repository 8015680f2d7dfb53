"""The watches of a single broker's registry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.ports import Change, CommitSteps, Steps, StorageFailed
from ottla.registry.embedded_registry import MOST_NAMES, EmbeddedRegistry
from ottla.registry.journal import JournalRegistry
from ottla.sim.disk import SimDisk


class Watched:
    """A registry, and the paths with which its callbacks were called."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.registry = EmbeddedRegistry(JournalRegistry.open(SimDisk()), self.due.append)
        self.told: list[str] = []

    def read(self, *paths: str) -> None:
        run(self.registry.read(paths, changed=self.told.append))

    def commit(self, *changes: Change) -> list[str]:
        """Commit, and return the paths of the callbacks."""
        with self.registry.commit_at_once():
            run(self.registry.commit(changes))
        while self.due:
            self.due.pop(0)()
        told = self.told[:]
        self.told.clear()
        return told


def run(steps: Steps[object] | CommitSteps) -> None:
    for paused in steps:
        raise AssertionError(f"{paused} is a pause")


def test_a_watch_of_one_entry_fires_once() -> None:
    watched = Watched()
    watched.commit(Change("/a/b", b"1"), Change("/a/c", b"1"))
    watched.read("/a/b")
    assert watched.commit(Change("/a/c", b"2")) == []
    assert watched.commit(Change("/a/b", b"2")) == ["/a/b"]
    assert watched.commit(Change("/a/b", b"3")) == []


def test_a_callback_that_watches_many_entries_is_called_for_each_that_exists_and_for_missing_ones_that_it_read() -> None:
    watched = Watched()
    names = [f"/a/{number}" for number in range(MOST_NAMES + 10)]
    watched.commit(*(Change(path, b"1") for path in names))
    watched.read(*names[:-1], "/a/missing", "/b/missing")
    assert watched.commit(Change("/a/new", b"")) == []
    assert watched.commit(Change("/a/missing", b"")) == ["/a/missing"]
    assert watched.commit(Change("/b/missing", b"")) == ["/b/missing"]
    assert watched.commit(Change(names[3], b"2"), Change(names[-2], b"2")) == [names[3], names[-2]]
    assert watched.commit(Change(names[3], None)) == [names[3]]
    assert watched.commit(Change("/a", None)) != []


def test_the_removal_of_an_entry_fires_the_watches_below_it() -> None:
    watched = Watched()
    watched.commit(Change("/a/b/c", b"1"))
    watched.read("/a/b/c")
    assert watched.commit(Change("/a", None)) == ["/a/b/c"]


def test_an_entry_is_read_once_it_is_on_stable_storage() -> None:
    """Whoever acts upon an entry that a power cut takes back would delete the records of a topic that nobody has deleted."""
    disk, due = SimDisk(), list[Callable[[], None]]()
    registry = EmbeddedRegistry(JournalRegistry.open(disk), due.append)
    commit = registry.commit([Change("/deletions/t", b"")])
    synced: list[StorageFailed | None] = []
    start = next(commit)
    assert start is not None
    start(synced.append)
    reading = registry.list(["/deletions"])
    wait = next(reading)
    assert wait is not None
    read: list[StorageFailed | None] = []
    wait(read.append)
    assert (due, read) == ([], [])
    disk.run_syncs()
    with pytest.raises(StopIteration):
        commit.send(synced.pop())
    while due:
        due.pop(0)()
    with pytest.raises(StopIteration) as found:
        reading.send(read.pop())
    assert found.value.value == [["t"]]
