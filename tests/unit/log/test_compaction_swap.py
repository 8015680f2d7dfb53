"""A compacted segment taking the place of old ones, step by step: whatever comes between, the records are the same."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.sim.disk import SimDisk
from ottla.sim.invariants import stored_records
from tests.unit.log.batches import NOW, sync

CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=1000, file_delete_delay_ms=0)
KEYS = [b"a", b"b", b"c"]


def open_log(disk: SimDisk, *, clean: bool = False) -> Log:
    return Log.open(disk, "t-0", CONFIG, NOW, clean=clean)


def fill(log: Log) -> None:
    for number in range(30):
        batch = build([KEYS[number % 3]], [b"%060d" % number], NOW.wall_ms)
        log.append(batch, [header for _, header in batches(batch)], 0, NOW)
    log.roll()
    sync(log)


def compact_until_swapping(log: Log, disk: SimDisk) -> None:
    """A pass that is dropped once its segment counts, and before its files have their names."""
    run = Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run()
    for files in run:
        if log.is_swapping:
            break
        for file in files or ():
            file.sync()
    assert log.is_swapping
    run.close()


def names(disk: SimDisk) -> list[str]:
    return [name for name in disk.list("t-0") if name.endswith((".swap", ".cleaned", ".deleted"))]


def newest(log: Log) -> list[bytes | None]:
    found = {record.key: record.value for record in stored_records(log)}
    return [found[key] for key in KEYS]


def reopen(log: Log, disk: SimDisk) -> Log:
    log.close()
    return open_log(disk, clean=True)


def kill(log: Log, disk: SimDisk) -> Log:
    return open_log(disk)


def retain(log: Log, disk: SimDisk) -> Log:
    log.retain(Now(NOW.wall_ms, NOW.mono_ms + 1))
    return log


@pytest.mark.parametrize("then", [reopen, kill, retain], ids=lambda then: str(then.__name__))
def test_what_comes_next_finishes_a_swap(then: Callable[[Log, SimDisk], Log]) -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log)
    before = newest(log)
    compact_until_swapping(log, disk)
    assert newest(log) == before
    log = then(log, disk)
    log.retain(Now(NOW.wall_ms, NOW.mono_ms + 1))
    assert not log.is_swapping
    assert newest(log) == before
    disk.run_syncs()
    assert names(disk) == []
    assert len(list(stored_records(log))) < 30


def test_a_log_that_is_cut_while_swapping_does_not_bring_back_what_was_cut() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log)
    compact_until_swapping(log, disk)
    log.truncate_to(10)
    left = list(stored_records(log))
    assert all(record.offset < 10 for record in left)
    assert list(stored_records(open_log(disk))) == left


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_while_swapping_leaves_the_old_segments_or_the_new_one(seed: int) -> None:
    disk, choice = SimDisk(), random.Random(seed)
    log = open_log(disk)
    fill(log)
    before = newest(log)
    compact_until_swapping(log, disk)
    for _ in range(choice.randrange(4)):
        if log.is_swapping:
            disk.sync_dir("t-0")
            log.run_swap_step()
    disk.crash(choice)
    assert newest(open_log(disk)) == before


def test_a_rename_that_was_not_synced_may_be_lost_in_a_power_cut_but_never_the_file() -> None:
    seen = set()
    for seed in range(50):
        disk = SimDisk()
        disk.make_dir("t-0")
        disk.write_file("t-0/old", b"data")
        disk.rename("t-0/old", "t-0/new", sync=False)
        disk.crash(random.Random(seed))
        seen.add(tuple(disk.list("t-0")))
        assert {disk.read_file(f"t-0/{name}") for name in disk.list("t-0")} == {b"data"}
    assert seen == {("old",), ("new",), ("new", "old")}
