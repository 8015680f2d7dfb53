"""Snapshots of producers: derived, droppable, and never believed where they speak of batches that are not there any more."""

from __future__ import annotations

import contextlib
from copy import deepcopy
from random import Random

import pytest

from ottla.log.log import Log, LogConfig
from ottla.log.names import SNAPSHOT
from ottla.ports import Now, StorageFailed
from ottla.records.batches.builder import build
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, sync

CONFIG = LogConfig()


def write(log: Log, sequence: int, now: Now = NOW) -> None:
    assert append(log, make_batch(1, producer_id=1, epoch=0, sequence=sequence), now=now).error_code == 0


def snapshots(disk: SimDisk) -> list[str]:
    return [name for name in disk.list("t-0") if name.endswith(SNAPSHOT)]


@pytest.mark.parametrize("after", range(10))
def test_one_that_could_not_be_removed_is_not_believed_once_the_log_was_truncated(after: int) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    write(log, 0)
    disk.fail(4)  # the snapshot is written by then, the new segment is not
    with contextlib.suppress(StorageFailed):
        log.roll()
    append(log, make_batch(1))
    disk.fail(after)
    with contextlib.suppress(StorageFailed):
        log.roll()
    disk.heal()
    if disk.has_failed_names:
        disk.kill()
        log = Log.open(disk, "t-0", CONFIG, NOW)
    log.truncate_to(0)
    append(log, make_batch(1))
    write(log, 0)
    log.close()
    disk.remove(f"t-0/{snapshots(disk)[-1]}")  # it is not synced: a power cut may take it
    log = Log.open(disk, "t-0", CONFIG, NOW, recovery_point=2)
    assert [batch.base_offset for batch in log.producers.by_id[1].batches] == [1]


def test_what_cannot_be_removed_keeps_a_truncation_from_ending_well() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    write(log, 0)
    log.roll()
    before = disk.operations
    log.truncate_to(0)
    for after in range(disk.operations - before):
        disk = SimDisk()
        log = Log.open(disk, "t-0", CONFIG, NOW)
        write(log, 0)
        log.roll()
        disk.fail(after)
        with contextlib.suppress(StorageFailed):
            log.truncate_to(0)
            assert snapshots(disk) == []
        disk.heal()


def test_one_that_was_dropped_with_its_batches_does_not_come_back_after_the_next_power_cut() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    append(log, make_batch(1))
    sync(log)
    key, value = b"\0\0\0\1", bytes(6)
    append(log, build([key], [value], 0, producer_id=2, producer_epoch=0, transactional=True, control=True), origin_client=False)
    write(log, 0)
    log.roll()
    disk.sync_dir("t-0")
    disk.open("t-0/00000000000000000003.snapshot").sync()
    disk.open("t-0/00000000000000000000.log").truncate(disk.size("t-0/00000000000000000000.log") - 10)
    log = Log.open(disk, "t-0", CONFIG, NOW, recovery_point=1)
    assert log.log_end_offset == 2
    append(log, make_batch(4))
    sync(log)
    for seed in range(6):
        copy = deepcopy(disk)
        copy.crash(Random(seed))
        assert 1 not in Log.open(copy, "t-0", CONFIG, NOW, recovery_point=6).producers.by_id


@pytest.mark.parametrize("under_way_ms", [0, 3])
@pytest.mark.parametrize("rolls_after", [{3}, {1, 2, 3}, {0, 1, 2, 3, 4}])
def test_batches_before_the_last_are_known_again_though_segments_were_rolled_since(
    rolls_after: set[int], under_way_ms: int
) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for sequence in range(5):
        write(log, sequence, Now(NOW.wall_ms + under_way_ms, 0))
        if sequence in rolls_after:
            log.roll()
    remembered = log.producers.by_id[1].batches
    assert len(remembered) == 5
    found = Log.open(disk, "t-0", CONFIG, NOW)  # killed, with several requests still unanswered: each may be sent again
    assert found.producers.by_id[1].batches == remembered


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_producer_of_old_records_is_not_forgotten_by_a_restart(snapshot: bool) -> None:
    disk = SimDisk()
    disk.wall_ms = NOW.wall_ms
    log = Log.open(disk, "t-0", CONFIG, NOW)
    batch = make_batch(1, timestamp=1_000, producer_id=1, epoch=0, sequence=0)
    append(log, bytearray(batch))
    if snapshot:
        log.roll()
    disk.kill()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    again = append(log, batch)
    assert (again.duplicate, again.base_offset, log.log_end_offset) == (True, 0, 1)


def test_a_producer_is_forgotten_by_a_start_that_comes_long_after_its_last_batch() -> None:
    disk = SimDisk()
    disk.wall_ms = NOW.wall_ms
    write(Log.open(disk, "t-0", CONFIG, NOW), 0)
    disk.kill()
    late = Now(NOW.wall_ms + CONFIG.producer_id_expiration_ms + 1, 0)
    assert not Log.open(disk, "t-0", CONFIG, late).producers.by_id


def test_that_of_a_deleted_segment_tells_nothing_about_the_segments_that_are_left() -> None:
    """It names a transaction as open which ended among what is deleted: nobody could read committed records any more."""
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    append(log, build([b"k"], [b"v"], 0, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True))
    log.roll()
    key, value = b"\0\0\0\1", bytes(6)
    append(log, build([key], [value], 0, producer_id=2, producer_epoch=0, transactional=True, control=True), origin_client=False)
    log.roll()
    append(log, make_batch(3))
    sync(log)
    log.delete_records(4)
    assert log.retain(NOW) == 2
    disk.kill()  # it was to be removed soon
    assert snapshots(disk) == ["00000000000000000001.snapshot", "00000000000000000002.snapshot"]
    disk.remove("t-0/00000000000000000002.snapshot")  # it is not synced: a power cut may take it
    log = Log.open(disk, "t-0", CONFIG, NOW, recovery_point=2, log_start_offset=4)
    assert (log.log_start_offset, log.last_stable_offset, log.log_end_offset) == (4, 5, 5)
    assert not log.producers.by_id
    assert snapshots(disk) == []
