"""A registry on a disk that fails and loses its power: what was acknowledged is there afterwards, and what was refused may be."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from ottla.ports import NEW, Change, CommitSteps, DuplicateEntry, Entry, StorageFailed
from ottla.registry.generations import COPY, DIRECTORIES, FIRST, numbers
from ottla.registry.journal import JournalRegistry
from ottla.registry.renewal import STEP_BYTES, NewJournal
from ottla.registry.tree import Tree
from ottla.sim.disk import IO_ERROR, NO_SPACE, TOO_MANY_FILES, SimDisk
from ottla.sim.power import CutDisk, PowerCut
from tests.support.entries import make_entry, put_entry, remove_entry

BIG = b"x" * 500
LIVES = 11


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals that are begun anew after a few commits, with little room."""
    monkeypatch.setattr("ottla.registry.renewal.LEAST_BYTES", 3_000)
    monkeypatch.setattr("ottla.registry.renewal.STEP_ENTRIES", 3)
    monkeypatch.setattr("ottla.registry.renewal.STEP_BYTES", 400)
    for module in ("generations", "journal", "renewal"):
        monkeypatch.setattr(f"ottla.registry.{module}.ROOM_BYTES", 2_000)
    monkeypatch.setattr("ottla.registry.journal.SPARE_BYTES", 500)


def live(disk: CutDisk, random: Random, known: dict[str, int], lifetime: int) -> None:
    """Change entries of a registry until the power fails; `known` is what was acknowledged, -1 for an entry that may be either."""
    registry = JournalRegistry.open(disk)
    for path, number in known.items():
        entry = registry.get(path)
        assert number < 0 or entry is not None, f"{path} is lost"
        assert number < 0 or (entry is not None and int(entry.value.split()[0]) == number), f"{path} is {entry}, not {number}"
        known[path] = -1 if entry is None else int(entry.value.split()[0])
    for number in range(max(known.values(), default=0) + 1, lifetime * 1000):
        path = f"/a/{random.randrange(12)}"
        before = known.get(path, -1)
        known[path] = -1
        between = partial(put_between, registry, random, known, number)
        if random.random() < 0.2 and registry.get(path) is not None:
            commit(registry, disk, random, [Change(path, None)], between)
            known.pop(path)
        else:
            size = random.randrange(300 if random.random() < 0.9 else 3_000)  # now and then more than there is room ahead
            commit(registry, disk, random, [Change(path, b"%d %b" % (number, bytes(size)))], between)
            known[path] = number
        assert before <= number
        if random.random() < 0.5:
            disk.run_syncs()


def commit(registry: JournalRegistry, disk: CutDisk, random: Random, changes: list[Change], between: Callable[[], None]) -> None:
    """On the caller's thread, or beside it: then another commit may come between."""
    if random.random() < 0.5:
        registry.commit(changes)
    else:
        commit_slowly(registry, disk, changes, lambda: between() if random.random() < 0.3 else None)


def commit_slowly(
    registry: JournalRegistry, disk: CutDisk, changes: list[Change], between: Callable[[], None] = lambda: None
) -> None:
    steps, told = registry.commit_slowly(changes), list[StorageFailed | None]()
    start = next(steps)
    try:
        while start is not None:
            try:
                start(told.append)
            except StorageFailed as refused:
                told.append(refused)
            between()
            while not told:
                disk.run_syncs()
            start = steps.send(told.pop())
    except StopIteration:
        return


def put_between(registry: JournalRegistry, random: Random, known: dict[str, int], number: int) -> None:
    path = f"/b/{random.randrange(3)}"
    known[path] = -1
    registry.commit([Change(path, b"%d %b" % (number, bytes(random.randrange(3_000))))])
    known[path] = number


def live_many_times(seed: int) -> int:
    """Live until the power is cut or the process killed, again and again. So many lives ended; each found what was known."""
    ended = 0
    random = Random(seed)
    disk = CutDisk()
    known: dict[str, int] = {}
    for lifetime in range(1, LIVES + 1):
        disk.cut_soon(random.choice((5, 40, 400)), random)
        with pytest.raises(PowerCut):
            live(disk, random, known, lifetime + 10)
        if random.random() < 0.6:
            disk.crash(random)
        else:
            disk.cut_at, disk.is_off = -1, False
            disk.kill()
        ended += 1
    return ended


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(60))
def test_what_was_acknowledged_survives_power_cuts_and_kills_before_any_operation(seed: int) -> None:
    assert live_many_times(seed) == LIVES


class WatchedDisk(CutDisk):
    """A disk that knows which files have grown since they were last synced, and refuses to write into what they have grown by."""

    def __init__(self) -> None:
        super().__init__()
        self.grown: dict[str, bool] = {}

    def may(self, operation: str, path: str, size: int = 0) -> None:
        super().may(operation, path, size)
        if operation == "sync":
            self.grown[path] = False
        elif operation == "write":
            assert size or not self.grown.get(path), f"{path} has room that a power cut may take in part"
            self.grown[path] = self.grown.get(path, False) or size > 0


def grow(disk: CutDisk) -> None:
    registry = JournalRegistry.open(disk)
    for number in range(40):
        put_entry(registry, f"/a/{number}", bytes(number * 40))


def extend_only(pair: Any, size: int, *, may_use_spare: bool) -> None:
    """As `_make_room`, but nothing is synced."""
    for file in (pair.first, pair._copy):
        if file.size < pair._end + size + 500:
            file.write(file.size, bytes(pair._end + size + 2_500 - file.size))


@pytest.mark.usefixtures("small")
def test_room_is_on_stable_storage_before_a_commit_is_written_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = WatchedDisk()
    grow(disk)
    assert list(disk.grown.values()).count(False) == 2 * len(numbers(disk, FIRST)) + 1, "journals, and the count of commits"
    monkeypatch.setattr("ottla.registry.journal._Pair._make_room", extend_only)
    with pytest.raises(AssertionError, match="a power cut may take in part"):
        grow(WatchedDisk())


@pytest.mark.usefixtures("small")
def test_a_journal_is_begun_anew_and_the_one_before_is_kept() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    for number in range(400):
        put_entry(registry, f"/a/{number % 10}", b"%d" % number)
        disk.run_syncs()
    for directory in DIRECTORIES:
        kept = numbers(disk, directory)
        assert len(kept) == 2
        assert kept[0] > 0
        assert all(disk.size(f"{directory}/{name}") < 12_000 for name in disk.list(directory))
    disk.kill()
    assert JournalRegistry.open(disk).get("/a/9") == Entry(b"399", 39)


@pytest.mark.usefixtures("small")
def test_a_journal_is_begun_anew_in_small_steps() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    registry.commit([Change(f"/e/{number}", BIG, NEW) for number in range(100)])
    most = 0
    for number in range(200):
        before = disk.used_bytes
        put_entry(registry, "/n", b"%d" % number)
        most = max(most, disk.used_bytes - before)
        disk.run_syncs()
    assert most < 10_000
    assert numbers(disk, FIRST)[-1] > 0


@pytest.mark.usefixtures("small")
def test_large_commits_made_meanwhile_follow_in_small_steps_too() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    registry.commit([Change(f"/e/{number}", b"v", NEW) for number in range(100)])
    written: list[int] = []
    for _ in range(60):
        before = disk.used_bytes
        registry.commit([Change(f"/n/{one}", BIG * 10) for one in range(4)])
        written.append(disk.used_bytes - before)
        disk.run_syncs()
    assert numbers(disk, FIRST)[-1] > 0
    one = 4 * len(BIG) * 10
    assert max(written) < 2 * 8 * one, f"a few commits at a time, twice: {max(written) // one} at once"
    disk.kill()
    assert JournalRegistry.open(disk).get("/n/0") == Entry(BIG * 10, 59)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("reason", [IO_ERROR, NO_SPACE])
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_refused_commit_changes_nothing_whatever_the_disk_refused(reason: str, is_slow: bool) -> None:
    for after in range(40):
        disk = CutDisk()
        registry = JournalRegistry.open(disk)
        make_entry(registry, "/before", BIG)
        disk.fail(after, reason)
        accepted = []
        for number in range(12):
            try:
                changes = [Change("/n", b"%d" % number + BIG)]
                commit_slowly(registry, disk, changes) if is_slow else registry.commit(changes)
                accepted.append(number)
            except StorageFailed:
                entry = registry.get("/n")
                assert (entry is None) == (not accepted)
                assert entry is None or int(entry.value[: -len(BIG)]) == accepted[-1]
        disk.heal()
        disk.kill()
        entry = JournalRegistry.open(disk).get("/n")
        assert (entry is None) == (not accepted) or len(accepted) < 12
        if len(accepted) == 12:
            assert entry == Entry(b"11" + BIG, 11)


def test_a_commit_for_which_no_handle_is_left_is_refused_and_the_next_one_taken() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    disk.close_handles()
    disk.fail(0, TOO_MANY_FILES)
    with pytest.raises(StorageFailed):
        make_entry(registry, "/a")
    make_entry(registry, "/a")
    disk.kill()
    assert JournalRegistry.open(disk).children("/") == ["a"]


def begun(registry: JournalRegistry, path: str) -> tuple[CommitSteps, list[StorageFailed | None]]:
    """A commit of an entry up to the sync that it waits for; what that comes to is told later."""
    steps, told = registry.commit_slowly([Change(path, b"v", NEW)]), list[StorageFailed | None]()
    start = next(steps)
    assert start is not None
    start(told.append)
    return steps, told


def test_a_commit_waits_for_the_one_before_and_both_are_there() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    steps, told = begun(registry, "/a")
    with pytest.raises(DuplicateEntry):
        registry.commit([Change("/a", b"other", NEW)])
    make_entry(registry, "/b")
    disk.run_syncs()
    with pytest.raises(StopIteration):
        steps.send(told.pop())
    disk.kill()
    assert JournalRegistry.open(disk).children("/") == ["a", "b"]


def test_a_commit_that_nobody_goes_on_with_is_finished_by_the_next_one_or_by_the_end() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    begun(registry, "/a")[0].close()
    make_entry(registry, "/b")
    begun(registry, "/c")[0].close()
    registry.close()
    disk.kill()
    assert JournalRegistry.open(disk).children("/") == ["a", "b", "c"]


def test_a_commit_whose_sync_fails_is_taken_back_and_its_asker_told() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    make_entry(registry, "/a")
    steps, told = begun(registry, "/b")
    disk.fail(0)  # the sync of the first journal
    with pytest.raises(StorageFailed, match="restart the broker"):
        make_entry(registry, "/c")
    disk.heal()
    disk.run_syncs()
    with pytest.raises(StorageFailed, match="Input/output error"):
        steps.send(told.pop())
    assert registry.children("/") == ["a"]


def test_a_commit_that_was_decided_upon_one_that_failed_is_refused_with_it() -> None:
    """An entry below another one that is taken back would stand alone, without the value of its parent."""
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    steps, told = begun(registry, "/topic")
    assert registry.get("/topic") is not None  # what others decide by, though it is not on stable storage yet
    disk.fail(1)  # the write of the copy, after the sync of the first journal
    with pytest.raises(StorageFailed, match="Input/output error"):
        make_entry(registry, "/topic/state")
    disk.run_syncs()
    with pytest.raises(StorageFailed, match="Input/output error"):
        steps.send(told.pop())
    assert registry.children("/") == []
    make_entry(registry, "/topic")
    make_entry(registry, "/topic/state")
    disk.kill()
    assert JournalRegistry.open(disk).children("/topic") == ["state"]


def test_a_full_disk_that_has_no_room_ahead_refuses_a_commit_beside_the_callers_thread() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(StorageFailed, match="No space left"):
        commit_slowly(registry, disk, [Change("/large", bytes(100_000))])
    assert registry.children("/") == []


def test_after_a_failed_sync_nothing_is_taken_until_the_next_start() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    make_entry(registry, "/a")
    disk.fail(1)  # the sync of the first journal
    with pytest.raises(StorageFailed, match="Input/output error"):
        make_entry(registry, "/b")
    with pytest.raises(StorageFailed, match="restart the broker"):
        make_entry(registry, "/c")
    assert registry.children("/") == ["a"]
    disk.kill()
    assert JournalRegistry.open(disk).children("/") in (["a"], ["a", "b"])


def test_a_full_disk_refuses_what_is_new_and_takes_what_removes_and_a_new_session() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    for number in range(20):
        make_entry(registry, f"/t/{number}", BIG)
    disk.capacity_bytes = disk.used_bytes
    changes = itertools.repeat([Change("/more", BIG)], 1_000)
    with pytest.raises(StorageFailed, match="No space left"):
        collections.deque(map(registry.commit, changes), maxlen=0)
    for number in range(20):
        remove_entry(registry, f"/t/{number}")
    disk.kill()
    again = JournalRegistry.open(disk)
    again.commit([Change("/cluster", b"1"), Change("/me", b"1", ephemeral=True)])
    again.close()
    disk.kill()
    assert JournalRegistry.open(disk).children("/") == ["cluster", "more", "t"]


def test_the_copy_is_synced_behind_the_commit() -> None:
    disk = CutDisk()
    registry = JournalRegistry.open(disk)
    for number in range(3):
        put_entry(registry, "/n", b"%d" % number)
    while disk.run_syncs():
        pass
    disk.crash(Random(1))
    name = disk.list(COPY)[0]
    assert disk.read_file(f"{COPY}/{name}") == disk.read_file(f"{FIRST}/{name}")


def test_large_entries_and_commits_go_into_a_new_journal_few_at_a_time() -> None:
    tree, disk = Tree(), SimDisk()
    tree.commit([Change(f"/a/{number}", bytes(40_000), NEW) for number in range(100)])
    for directory in DIRECTORIES:
        disk.make_dir(directory)
    new = NewJournal(disk, 1, tree.fork())
    for number in range(100):
        new.commits.append((2 + number, [Change(f"/a/{number}", bytes(40_000))]))
    steps, end, is_over = 0, new.end, False
    while not is_over:
        is_over = new.step(size=10)
        assert new.end - end <= 8 * (STEP_BYTES + 50_000), "a byte of a value may take six of the line"
        steps, end = steps + 1, new.end
    assert steps > 90
    assert not new.commits
