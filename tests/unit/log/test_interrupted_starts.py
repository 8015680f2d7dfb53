"""Starts that end before they are done: the next start makes the same of the log, and keeps it."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from ottla.log.log import Log, LogConfig
from ottla.log.names import COMPACTED_SEGMENTS
from ottla.ports import StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record
from ottla.records.batches.header import batches
from ottla.sim.invariants import stored_records
from ottla.sim.power import CutDisk, FaultyDisk, PowerCut
from tests.unit.log.batches import NOW, append, sync

CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=400, index_interval_bytes=0, file_delete_delay_ms=0)


def torn(disk: CutDisk, lost_from: int = 0) -> None:
    """Make a log of four segments that no checkpoint names, and whose first one and list of compacted segments are torn."""
    log = Log.open(disk, "t-0", CONFIG, NOW)
    while len(log.segments) < 4:
        append(log, build([b"key", b"same"], [b"%d" % log.log_end_offset, b"v"], NOW.wall_ms))
    log.close()
    first = log.segments[0]
    file = disk.open(first.path(".log"))
    file.truncate(lost_from)
    file.append([bytes(first.size - lost_from)])
    file.sync()
    disk.remove(f"t-0/{COMPACTED_SEGMENTS}")
    disk.sync_dir("t-0")


def copy(log: Log, offset: int) -> None:
    """Append as a follower of a leader whose compaction has left a gap before `offset`."""
    batch = build([b"key"], [b"copied"], NOW.wall_ms)
    batch[:8] = offset.to_bytes(8, "big")
    batch[12:16] = bytes(4)
    log.append_as_follower(memoryview(batch), [header for _, header in batches(batch)], NOW)


def kept(disk: CutDisk, seed: int) -> list[Record]:
    """Return the records that a start finds after a power cut."""
    disk.crash(Random(seed))
    return stored_records(Log.open(disk, "t-0", CONFIG, NOW))


def test_a_torn_tail_that_a_start_has_cut_off_in_part_takes_no_later_batch_along_when_it_comes_back() -> None:
    whole = CutDisk()
    torn(whole)
    operations = whole.operations
    Log.open(whole, "t-0", CONFIG, NOW)
    for cut_at in range(whole.operations - operations):
        for seed in range(6):
            disk = FaultyDisk()
            torn(disk)
            disk.cut_at = disk.operations + cut_at
            with suppress(PowerCut):
                Log.open(disk, "t-0", CONFIG, NOW)
            disk.kill()
            log = Log.open(disk, "t-0", CONFIG, NOW)
            append(log, build([b"key"], [b"later"], NOW.wall_ms))
            sync(log)
            before = stored_records(log)
            assert kept(disk, seed) == before, f"killed before operation {cut_at}, seed {seed}"


def test_a_gap_is_copied_behind_what_a_start_has_left_of_a_segment_that_compaction_may_have_written() -> None:
    for seed in range(6):
        disk = CutDisk()
        torn(disk, lost_from=100)
        log = Log.open(disk, "t-0", CONFIG, NOW)
        copy(log, log.log_end_offset + 2)
        sync(log)
        before = stored_records(log)
        assert kept(disk, seed) == before


@pytest.mark.parametrize("clean", [True, False])
def test_a_full_disk_lets_nothing_be_written_behind_gaps_that_the_start_could_not_store(clean: bool) -> None:
    disk = CutDisk()
    torn(disk)
    first = "t-0/00000000000000000000.log"
    disk.open(first).truncate(0)
    disk.open(first).sync()
    disk.capacity_bytes = disk.used_bytes
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=clean)
    found = stored_records(log)
    assert found[0].offset > 0
    for write in (log.roll, log.checkpoint, lambda: append(log, build([b"key"], [b"later"], NOW.wall_ms))):
        with pytest.raises(StorageFailed, match="No space left"):
            write()
    disk.capacity_bytes = None
    append(log, build([b"key"], [b"later"], NOW.wall_ms))
    sync(log)
    before = stored_records(log)
    assert before[: len(found)] == found
    disk.crash(Random(1))
    assert stored_records(Log.open(disk, "t-0", CONFIG, NOW, is_journaled=True)) == before


def test_a_producer_whose_batches_a_power_cut_took_from_the_middle_of_a_young_compacted_log_may_send_them_again() -> None:
    disk = CutDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    lost = build([b"key"], [b"v" * 200], NOW.wall_ms, producer_id=1, producer_epoch=0, base_sequence=0)
    append(log, bytearray(lost))
    while len(log.segments) < 3:
        append(log, build([b"other"], [b"v" * 90], NOW.wall_ms))
    log.close()
    for name in (COMPACTED_SEGMENTS, "00000000000000000000.log"):
        disk.open(f"t-0/{name}").truncate(0)
        disk.open(f"t-0/{name}").sync()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    assert stored_records(log)
    answer = append(log, bytearray(lost))
    assert (answer.error_code, answer.duplicate, answer.base_offset) == (0, False, log.log_end_offset - 1)
