"""What a log does with what it finds: torn tails, damage, lost indexes, foreign files."""

from __future__ import annotations

import logging
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.log import Damaged, Log, LogConfig
from ottla.log.recovery.gaps import note_gaps
from ottla.log.segments import index
from ottla.ports import StorageFailed
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, index_faults, make_batch, read_all, sync

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)
FIRST = "t-0/00000000000000000000"


def filled(disk: SimDisk, batches: int = 40) -> Log:
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for number in range(batches):
        append(log, make_batch(3, 40 + number, NOW.wall_ms + number), leader_epoch=number // 10)
    return log


def reopen(disk: SimDisk, *, clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0) -> Log:
    return Log.open(disk, "t-0", CONFIG, NOW, clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), number=st.sampled_from([0, *range(40)]), cut=st.booleans())
def test_a_batch_cut_or_spoilt_anywhere_ends_the_log(data: st.DataObject, number: int, cut: bool) -> None:
    disk = SimDisk()
    log = filled(disk)
    before = read_all(log)
    part = log.read(number * 3, 1, until_offset=120, min_one_batch=True)
    assert part is not None
    if cut:
        disk.open(part.file.path).truncate(part.position + data.draw(st.integers(0, part.size - 1)))
    else:
        byte = data.draw(
            st.sampled_from([7, *range(part.size)]).filter(lambda at: not 12 <= at < 17)
        )  # no CRC covers the leader epoch, nor the format, which may be one of tomorrow
        disk.flip_bit(part.file.path, (part.position + byte) * 8 + data.draw(st.integers(0, 7)))
    log = reopen(disk)
    assert read_all(log) == before[:number]
    assert index_faults(log, disk) == []
    assert append(log, make_batch(2)).base_offset == 3 * number
    assert len(read_all(reopen(disk))) == number + 1


def test_a_torn_tail_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    filled(disk, 3)
    disk.open(f"{FIRST}.log").append([b"\0" * 100])
    with caplog.at_level(logging.WARNING, "ottla.log"):
        log = reopen(disk)
    assert "t-0: a torn tail of 100 bytes that was never synced is cut off at offset 9" in caplog.text
    assert log.log_end_offset == 9


def without_the_end_of_a_segment(disk: SimDisk) -> tuple[list[int], int, int]:
    """A log whose second segment lacks its last batch: (where its batches began, the one that lacks, the next)."""
    log = filled(disk)
    segment, after = log.segments[1], log.segments[2].base_offset
    number = after // 3 - 1
    disk.open(segment.path(".log")).truncate(segment.size - len(make_batch(3, 40 + number)))
    return list(range(0, log.log_end_offset, 3)), after - 3, after


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_what_follows_the_lost_end_of_a_segment_that_was_never_synced_is_cut_off(policy: str) -> None:
    disk = SimDisk()
    begins, lost, _ = without_the_end_of_a_segment(disk)
    log = Log.open(disk, "t-0", replace(CONFIG, cleanup_policy=policy), NOW, is_noted=True)
    assert [header.base_offset for header, _ in read_all(log)] == [offset for offset in begins if offset < lost]
    assert log.log_end_offset == lost


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_nothing_is_cut_off_behind_a_gap_that_is_known(policy: str) -> None:
    disk = SimDisk()
    begins, lost, after = without_the_end_of_a_segment(disk)
    note_gaps(disk, "t-0", [(lost, after)])
    log = Log.open(disk, "t-0", replace(CONFIG, cleanup_policy=policy), NOW, is_noted=True)
    assert [header.base_offset for header, _ in read_all(log)] == [offset for offset in begins if offset != lost]


def test_damage_below_the_recovery_point_is_refused_and_left_as_it_is() -> None:
    disk = SimDisk()
    log = filled(disk, 5)
    sync(log)
    recovery_point = log.checkpoint()
    disk.flip_bit(f"{FIRST}.log", 8 * (log.segments[0].size - 20))
    held = disk.read_file(f"{FIRST}.log")
    with pytest.raises(Damaged) as refused:
        reopen(disk, recovery_point=recovery_point)
    assert (refused.value.path, refused.value.file) == ("t-0", "00000000000000000000.log")
    assert refused.value.position == log.segments[0].size - (61 + 44)
    assert "no whole batch with the right CRC-32C begins here" in str(refused.value)
    assert disk.read_file(f"{FIRST}.log") == held


def test_a_log_that_lost_what_was_synced_is_refused() -> None:
    disk = SimDisk()
    log = filled(disk, 5)
    sync(log)
    recovery_point = log.checkpoint()
    disk.open(f"{FIRST}.log").truncate(0)
    with pytest.raises(Damaged, match="ends with offset 0, although everything below 15 had been synced"):
        reopen(disk, recovery_point=recovery_point)


def test_a_torn_end_after_an_orderly_stop_is_damage() -> None:
    disk = SimDisk()
    log = filled(disk, 5)
    log.close()
    disk.open(f"{FIRST}.log").truncate(log.segments[0].size - 1)
    with pytest.raises(Damaged, match="the last batch is incomplete, although the broker was stopped cleanly"):
        reopen(disk, clean=True)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("harm", ["removed", "emptied", "torn", "zeroed"])
@pytest.mark.parametrize("clean", [True, False])
def test_indexes_that_were_lost_are_built_anew(monkeypatch: pytest.MonkeyPatch, suffix: str, harm: str, clean: bool) -> None:
    monkeypatch.setattr(index, "FEW_ENTRIES", 0)  # so that the newest segment has them on disk as well
    disk = SimDisk()
    log = filled(disk)
    before = read_all(log)
    log.close()
    paths = [segment.path(suffix) for segment in log.segments]
    for path in paths if not clean else [paths[0], paths[-1]]:
        data = disk.read_file(path)
        if harm == "removed":
            disk.remove(path)
        else:
            disk.write_file(path, {"emptied": b"", "torn": data[:-3], "zeroed": data + bytes(240)}[harm])
    log = reopen(disk, clean=clean, recovery_point=0 if not clean else log.log_end_offset)
    assert read_all(log, 500) == before
    assert log.max_timestamp_offset() is not None
    assert append(log, make_batch()).base_offset == 120


def test_foreign_files_are_left_alone_and_leftovers_removed() -> None:
    disk = SimDisk()
    filled(disk, 2).close()
    for name in ("notes.txt", "00000000000000000777.index", "00000000000000000003.log.deleted", "x.tmp", "7.log"):
        disk.write_file(f"t-0/{name}", b"x" * 24)
    log = reopen(disk)
    assert log.log_end_offset == 6
    assert [name for name in disk.list("t-0") if not name.startswith("0" * 19)] == ["7.log", "leader-epoch-checkpoint", "notes.txt"]
    assert "00000000000000000003.log.deleted" not in disk.list("t-0")


def test_a_directory_of_another_topic_with_the_same_name_is_refused() -> None:
    disk = SimDisk()
    Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(16))).close()
    assert disk.read_file("t-0/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(16)))
    with pytest.raises(StorageFailed, match="belongs to another topic of that name"):
        Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(1, 17)))
    disk.write_file("t-0/partition.metadata", b"version: 2\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    with pytest.raises(StorageFailed, match="has format 2, newer than 0: use the newer version"):
        Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(16)))


def test_a_topic_id_that_cannot_be_read_is_noted_anew(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(16))).close()
    wanted = disk.read_file("t-0/partition.metadata")
    disk.write_file("t-0/partition.metadata", b"\xff\x00 nothing that could be read")
    Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(16)))
    assert disk.read_file("t-0/partition.metadata") == wanted
    assert "t-0/partition.metadata cannot be parsed and is rewritten" in caplog.text


@pytest.mark.parametrize("written", [0, 5, 12, 25, 40])
def test_a_topic_id_of_which_a_power_cut_left_zeros_is_noted_anew(written: int) -> None:
    disk = SimDisk()
    Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(16))).close()
    wanted = disk.read_file("t-0/partition.metadata")
    disk.write_file("t-0/partition.metadata", wanted[:written].ljust(len(wanted), b"\0"))
    Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(16)))
    assert disk.read_file("t-0/partition.metadata") == wanted


@pytest.mark.parametrize("clean", [True, False])
def test_batches_of_a_format_of_tomorrow_are_refused_and_left_alone(clean: bool) -> None:
    disk = SimDisk()
    log = filled(disk, 3)
    log.close()
    batch = make_batch(1)
    batch[:8], batch[16] = (9).to_bytes(8, "big"), 3
    disk.open(f"{FIRST}.log").append([batch])
    before = disk.read_file(f"{FIRST}.log")
    with pytest.raises(StorageFailed, match="batches have format 3, newer than 2: use the newer version that wrote them"):
        reopen(disk, clean=clean)
    assert disk.read_file(f"{FIRST}.log") == before


def test_a_tail_that_was_cut_off_by_a_start_that_was_killed_stays_off() -> None:
    disk = SimDisk()
    log = filled(disk, 3)
    sync(log)
    append(log, make_batch(1))
    for file in log.dirty_files():
        file.sync()
    disk.open(f"{FIRST}.log").truncate(disk.size(f"{FIRST}.log") - len(make_batch(1)))  # and then a SIGKILL, before the sync
    log = reopen(disk, recovery_point=9)
    log.roll()
    append(log, make_batch(2))
    sync(log)
    disk.crash(Random(0))
    assert reopen(disk, recovery_point=9).log_end_offset == 11


def test_lost_epochs_are_read_from_the_batches() -> None:
    disk = SimDisk()
    log = filled(disk)
    expected = [(0, 0), (1, 30), (2, 60), (3, 90)]
    assert log.epochs.entries == expected
    log.close()
    disk.remove("t-0/leader-epoch-checkpoint")
    assert reopen(disk, clean=True).epochs.entries == expected
    disk.write_file("t-0/leader-epoch-checkpoint", b"0\n3\n0 0\n1 3")
    log = reopen(disk)
    assert log.epochs.entries == expected
    assert log.leader_epoch == 3
    assert [log.end_offset_for_epoch(epoch) for epoch in (0, 1, 3, 9, -1)] == [(0, 30), (1, 60), (3, 120), (-1, -1), (-1, -1)]


def test_only_what_follows_the_recovery_point_is_checked() -> None:
    disk = SimDisk()
    log = filled(disk)
    sync(log)
    recovery_point = log.checkpoint()
    append(log, make_batch(2))
    disk.flip_bit(f"{FIRST}.log", 8 * 100)
    assert reopen(disk, recovery_point=recovery_point).log_end_offset == 122
    assert reopen(disk).log_end_offset == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_full_disk_can_still_be_read_after_a_restart(clean: bool) -> None:
    disk = SimDisk()
    log = filled(disk)
    before = read_all(log)
    if clean:
        log.close()
    disk.remove("t-0/leader-epoch-checkpoint")
    disk.capacity_bytes = disk.used_bytes
    log = reopen(disk, clean=clean)
    assert read_all(log) == before
    with pytest.raises(StorageFailed, match="No space left"):
        append(log, make_batch())
    disk.capacity_bytes = None
    assert append(log, make_batch()).base_offset == 120


def test_an_empty_log_goes_on_where_it_began() -> None:
    disk = SimDisk()
    log = filled(disk)
    log.delete_records(120)
    log.retain(NOW)
    log.close()
    log = reopen(disk, clean=True)
    assert (log.log_start_offset, log.log_end_offset) == (120, 120)
    assert append(log, make_batch()).base_offset == 120


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".log"])
def test_a_start_that_cannot_sync_what_it_found_promises_nothing(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    disk = SimDisk()
    filled(disk)
    disk.kill()
    may = SimDisk.may

    def refuse(self: SimDisk, operation: str, path: str, size: int = 0) -> None:
        if operation == "sync" and path == FIRST + suffix and self.size(path):
            raise StorageFailed(path, "Input/output error")
        may(self, operation, path, size)

    with monkeypatch.context() as patch:
        patch.setattr(SimDisk, "may", refuse)
        with pytest.raises(StorageFailed, match=f"{FIRST}{suffix}: Input/output error"):
            reopen(disk)
    disk.kill()
    assert reopen(disk).synced_offset == 120


def test_a_start_that_was_killed_while_it_noted_the_topic_id_keeps_no_other_from_it() -> None:
    """It left the note under its temporary name, which the next start writes itself before it clears leftovers away."""
    disk = SimDisk()
    disk.make_dir("t-0")
    disk.open("t-0/partition.metadata.tmp", create=True).append([b"version"])
    Log.open(disk, "t-0", LogConfig(), NOW, topic_id=bytes(range(16)))
    assert disk.exists("t-0/partition.metadata")
    assert not disk.exists("t-0/partition.metadata.tmp")
