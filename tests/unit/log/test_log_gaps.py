"""Gaps between offsets: compaction leaves them, and a topic that is compacted no more keeps what is behind them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.names import COMPACTED_SEGMENTS
from ottla.log.recovery.gaps import are_known
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record
from ottla.sim.disk import SimDisk
from ottla.sim.invariants import stored_records
from ottla.sim.power import CutDisk, PowerCut
from tests.unit.log.batches import NOW, append, sync

CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=400, index_interval_bytes=0, file_delete_delay_ms=0)


def compacted(disk: SimDisk, *, swaps: int = -1) -> Log:
    """A log of some segments after a pass of compaction, or where the swap of so many is decided and not done."""
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for number in range(40):
        append(log, build([b"k%d" % (number * 7 % 11), b"same"], [b"%d" % number, b"v"], NOW.wall_ms))
    sync(log)
    log.config = replace(CONFIG, segment_bytes=1500)
    was_swapping = False
    for files in Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run():
        swaps -= log.is_swapping and not was_swapping
        was_swapping = log.is_swapping
        if was_swapping and not swaps:
            break
        for file in files or ():
            file.sync()
    return log


@pytest.mark.parametrize("swaps", [-1, 1, 2])
def test_a_topic_that_is_compacted_no_more_loses_nothing_behind_a_gap(swaps: int) -> None:
    disk = SimDisk()
    log = compacted(disk, swaps=swaps)
    before = stored_records(log)
    assert len(before) < 80
    disk.crash(Random(1))
    log = Log.open(disk, "t-0", replace(CONFIG, cleanup_policy="delete"), NOW)
    assert stored_records(log) == before
    assert log.log_end_offset == 80


def test_a_start_that_is_cut_off_in_the_midst_of_a_swap_brings_no_old_segment_back() -> None:
    plain = CutDisk()
    before = stored_records(compacted(plain))
    for cut_at in range(20):
        for seed in range(4):
            disk = CutDisk()
            compacted(disk, swaps=1)
            name = next(name for name in disk.list("t-0") if name.endswith(".log.swap"))
            disk.cut_at = disk.operations + cut_at
            try:
                Log.open(disk, "t-0", CONFIG, NOW)
            except PowerCut:
                disk.crash(Random(seed))
            disk.cut_at = -1
            found = stored_records(Log.open(disk, "t-0", CONFIG, NOW))
            assert name
            assert [record.offset for record in found] == sorted({record.offset for record in found})
            assert set(found) >= set(before)


def test_a_swap_that_others_finish_is_as_safe_as_one_that_its_pass_finishes() -> None:
    plain = CutDisk()
    before = set(stored_records(compacted(plain)))
    for cut_at in range(1, 12):
        for seed in range(12):
            disk = CutDisk()
            log = compacted(disk, swaps=1)
            assert log.is_swapping
            disk.cut_at = disk.operations + cut_at
            with suppress(PowerCut):
                log.retain(NOW)
            disk.crash(Random(seed))
            assert set(stored_records(Log.open(disk, "t-0", CONFIG, NOW))) >= before


@pytest.mark.parametrize(
    ("first", "end", "is_known"), [(4, 5, True), (4, 13, True), (5, 13, True), (4, 14, False), (3, 5, False), (13, 14, False)]
)
def test_a_gap_is_known_that_consists_of_known_ones(first: int, end: int, is_known: bool) -> None:
    assert are_known({(5, 13), (4, 5), (20, 30)}, first, end) == is_known


@pytest.mark.parametrize("clean", [True, False])
def test_a_gap_that_a_start_has_accepted_is_accepted_by_the_next_one_however_the_first_was_cut_off(clean: bool) -> None:
    """The directory came from another program, whose compaction leaves gaps between segments."""
    whole = CutDisk()
    before = moved_here(whole)
    operations = whole.operations
    Log.open(whole, "t-0", CONFIG, NOW, clean=clean)
    for cut_at in range(whole.operations - operations):
        disk = CutDisk()
        assert moved_here(disk) == before
        disk.cut_at = disk.operations + cut_at
        with suppress(PowerCut):
            Log.open(disk, "t-0", CONFIG, NOW, clean=clean)
        disk.crash(Random(cut_at))
        log = Log.open(disk, "t-0", CONFIG, NOW)
        assert (log.log_end_offset, stored_records(log)) == before, f"cut before operation {cut_at}"


def moved_here(disk: SimDisk) -> tuple[int, list[Record]]:
    """Make such a directory, all of it on stable storage. Return (the log's end offset, its records)."""
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for number in range(12):
        append(log, build([b"k%d" % number, b"same"], [b"%d" % number, b"v"], NOW.wall_ms))
    everything, second, third = stored_records(log), log.segments[1], log.segments[2]
    log.close()
    for name in disk.list("t-0"):
        if name.startswith(f"{second.base_offset:020d}.") or name == COMPACTED_SEGMENTS:
            disk.remove(f"t-0/{name}")
    disk.sync_dir("t-0")
    left = [record for record in everything if not second.base_offset <= record.offset < third.base_offset]
    return log.log_end_offset, left
