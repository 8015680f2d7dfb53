"""Retention, DeleteRecords, truncation, deletion: what goes, when, and what readers still have."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.errors import Damaged
from ottla.log.log import Log, LogConfig
from ottla.ports import Now, StorageFailed
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, read_all, sync

BATCH_BYTES = 100


def filled(disk: SimDisk, batches: int = 10, **settings: int | str) -> Log:
    """Two batches per segment, of one record each, one second apart."""
    config = LogConfig(segment_bytes=2 * BATCH_BYTES, **settings)  # type: ignore[arg-type]  # names and types are the caller's
    log = Log.open(disk, "t-0", config, NOW)
    for number in range(batches):
        append(log, make_batch(1, BATCH_BYTES - 61, NOW.wall_ms + 1000 * number), leader_epoch=number // 4)
    return log


def starts_after_power_cuts() -> set[int]:
    """Where logs begin of which nothing was synced when they had rolled."""
    starts = set()
    for seed in range(30):
        disk = SimDisk()
        log = filled(disk, 3)
        assert len(log.segments) == 2
        disk.crash(Random(seed))
        starts.add(Log.open(disk, "t-0", log.config, NOW).log_start_offset)
    return starts


def test_a_power_cut_never_leaves_a_younger_segment_without_an_older_one() -> None:
    assert starts_after_power_cuts() == {0}


def test_a_roll_that_syncs_no_names_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: no sync for anything else makes the name of a full segment durable before there is a younger one."""
    real = Log.roll

    def roll(log: Log) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SimDisk, "sync_dir", lambda disk, path: None)
            real(log)

    monkeypatch.setattr(Log, "roll", roll)
    assert starts_after_power_cuts() == {0, 2}


def after_ms(ms: int) -> Now:
    return Now(NOW.wall_ms + ms, ms)


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_after_the_deletion_of_all_segments_but_a_new_one_leaves_the_end_of_the_log(seed: int) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(file_delete_delay_ms=0), NOW)
    append(log, make_batch(2, 40))
    sync(log)
    log.roll()
    log.delete_records(2)
    assert log.retain(NOW) == 1
    disk.crash(Random(seed))
    assert Log.open(disk, "t-0", LogConfig(), NOW).log_end_offset == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_sync_after_the_deletion_of_an_unsynced_segment_makes_its_deletion_durable(seed: int) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(file_delete_delay_ms=0), NOW)
    append(log, make_batch(2, 40))
    sync(log)
    append(log, make_batch(2, 40))
    log.roll()
    log.delete_records(4)
    assert log.retain(NOW) == 1
    assert log.unsynced_batches(1 << 20) is None, "the journal would continue at offset 4, and the log could end before"
    sync(log)
    disk.crash(Random(seed))
    assert Log.open(disk, "t-0", LogConfig(), NOW).log_end_offset == 4


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    log = filled(SimDisk(), retention_ms=5000)
    assert log.retain(after_ms(6000)) == 0
    assert log.retain(after_ms(6001)) == 1
    assert log.retain(after_ms(9000)) == 1
    assert (log.log_start_offset, log.size_bytes) == (4, 6 * BATCH_BYTES)
    assert [header.base_offset for header, _ in read_all(log)] == [4, 5, 6, 7, 8, 9]


def test_all_go_in_the_end_and_the_log_goes_on() -> None:
    disk = SimDisk()
    log = filled(disk, retention_ms=5000)
    assert log.retain(after_ms(100_000)) == 5
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    assert log.retain(after_ms(200_000)) == 0
    assert append(log, make_batch()).base_offset == 10
    assert Log.open(disk, "t-0", log.config, NOW).log_start_offset == 10


def test_segments_go_when_there_is_too_much() -> None:
    log = filled(SimDisk(), retention_ms=-1, retention_bytes=5 * BATCH_BYTES)
    assert log.retain(after_ms(10**9)) == 2
    assert (log.log_start_offset, log.size_bytes) == (4, 6 * BATCH_BYTES)


def test_a_compacted_topic_only_loses_what_was_deleted() -> None:
    log = filled(SimDisk(), retention_ms=0, retention_bytes=0, cleanup_policy="compact")
    assert log.retain(after_ms(10**9)) == 0
    log.delete_records(5)
    assert log.retain(after_ms(10**9)) == 2


def test_nothing_goes_that_is_not_committed() -> None:
    log = filled(SimDisk(), retention_ms=0)
    assert log.retain(after_ms(10**9), until_offset=5) == 2


def test_records_without_times_age_with_their_file() -> None:
    disk = SimDisk()
    disk.wall_ms = NOW.wall_ms
    log = Log.open(disk, "t-0", LogConfig(retention_ms=5000), NOW)
    append(log, make_batch(timestamp=-1))
    assert log.retain(after_ms(5000)) == 0
    assert log.retain(after_ms(5001)) == 1


@pytest.mark.expects_errors("cannot be read")
@pytest.mark.parametrize("written_ms", [-2500, 0, 2500])
def test_a_segment_with_damage_ages_with_its_file(written_ms: int) -> None:
    """What its batches say of their times may be a part of the damage."""
    disk = SimDisk()
    disk.wall_ms = NOW.wall_ms + written_ms
    filled(disk, 4, retention_ms=5000).close()
    disk.flip_bit("t-0/00000000000000000000.log", 8 * (BATCH_BYTES - 1))
    config = LogConfig(segment_bytes=2 * BATCH_BYTES, retention_ms=5000)
    log = Log.open(disk, "t-0", config, NOW, clean=True, recovery_point=4)
    with pytest.raises(Damaged):
        log.read(0, 1000, until_offset=4)
    assert log.retain(after_ms(written_ms + 5000)) == 0
    assert log.retain(after_ms(written_ms + 5001)) == 1
    assert log.log_start_offset == 2


def test_deleted_records_cannot_be_read_and_their_segments_go_later() -> None:
    log = filled(SimDisk())
    log.delete_records(3)
    assert (log.log_start_offset, log.read(2, 1000, until_offset=10)) == (3, None)
    assert len(log.segments) == 5
    assert log.retain(NOW) == 1
    log.delete_records(1)
    assert log.log_start_offset == 3
    log.delete_records(99)
    assert log.log_start_offset == 10
    assert log.epochs.entries == [(2, 10)]


def test_readers_keep_what_they_hold_until_the_delay_is_over() -> None:
    disk = SimDisk()
    log = filled(disk, retention_ms=0, file_delete_delay_ms=1000)
    held = log.read(0, 1000, until_offset=10)
    assert held is not None
    log.retain(after_ms(10**6))
    assert held.read()[:8] == bytes(8)
    assert any(name.endswith(".deleted") for name in disk.list("t-0"))
    log.retain(after_ms(10**6 + 1000))
    disk.run_syncs()
    assert not any(name.endswith(".deleted") for name in disk.list("t-0"))
    assert disk.list("t-0") == ["00000000000000000010.log", "00000000000000000010.snapshot", "leader-epoch-checkpoint"]


@pytest.mark.parametrize("offset", range(11))
def test_truncation_cuts_everything_at_its_end(offset: int) -> None:
    disk = SimDisk()
    log = filled(disk)
    log.truncate_to(offset)
    assert log.log_end_offset == offset
    assert [header.base_offset for header, _ in read_all(log)] == list(range(offset))
    assert log.leader_epoch == (offset - 1) // 4
    assert log.max_timestamp_offset() == ((NOW.wall_ms + 1000 * (offset - 1), offset - 1) if offset else None)
    assert append(log, make_batch(1, 39), leader_epoch=9).base_offset == offset
    again = Log.open(disk, "t-0", log.config, NOW)
    assert (again.log_end_offset, again.epochs.entries) == (offset + 1, log.epochs.entries)


def test_a_deleted_log_leaves_nothing() -> None:
    disk = SimDisk()
    log = filled(disk)
    log.delete()
    assert disk.list("") == []


def test_what_retention_deleted_is_not_synced_any_more() -> None:
    disk = SimDisk()
    log = filled(disk, retention_ms=5000)
    assert log.retain(after_ms(100_000)) == 5
    sync(log)
    append(log, make_batch())
    sync(log)
    assert (log.synced_offset, log.has_unsynced_segments) == (11, False)


def test_what_retention_deletes_under_steady_appends_is_not_synced_any_more() -> None:
    log = filled(SimDisk(), retention_ms=-1, retention_bytes=3 * BATCH_BYTES)
    for number in range(30):
        append(log, make_batch(1, BATCH_BYTES - 61))
        log.retain(after_ms(number), most=1)
        if number % 3 == 0:
            sync(log)
    sync(log)
    assert log.synced_offset == log.log_end_offset == 40


def test_what_was_deleted_by_offset_is_not_synced_any_more() -> None:
    log = filled(SimDisk())
    log.delete_records(log.log_end_offset)
    assert log.retain(after_ms(0)) == 5
    sync(log)
    assert log.checkpoint() == log.synced_offset == 10


def test_a_checkpoint_syncs_nothing_of_what_was_deleted() -> None:
    log = filled(SimDisk(), retention_ms=5000)
    sync(log)
    log.retain(after_ms(100_000))
    assert log.checkpoint() == 10
    assert log.flush() == []


def test_what_was_cut_off_is_not_synced_any_more() -> None:
    log = filled(SimDisk())
    log.truncate_to(5)
    append(log, make_batch())
    sync(log)
    assert log.synced_offset == log.log_end_offset == 6


def test_a_sync_under_way_is_none_the_worse_for_the_deletion_of_its_files() -> None:
    disk = SimDisk()
    log = filled(disk, retention_ms=5000, file_delete_delay_ms=0)
    outcomes: list[StorageFailed | None] = []
    disk.sync_soon(log.dirty_files(), outcomes.append)
    log.retain(after_ms(100_000))
    log.retain(after_ms(100_001))  # what was kept for readers goes now
    disk.run_syncs()
    assert outcomes == [None]


def test_whoever_still_reads_a_deleted_segment_makes_no_index_of_it_again() -> None:
    disk = SimDisk()
    log = filled(disk, retention_ms=5000, index_interval_bytes=0)
    deleted = log.segments[0]
    log.retain(after_ms(100_000))
    disk.run_syncs()
    assert deleted.locate(1) == BATCH_BYTES
    assert deleted.locate_timestamp(NOW.wall_ms + 1000, 0) == 0
    assert [name for name in disk.list("t-0") if name.endswith("index")] == []
