"""What a pass of compaction leaves: few segments, which lead one to the next, and no empty batches for readers to trip over."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from ottla.log.check import check, repairs
from ottla.log.check.findings import Known
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.errors import Damaged
from ottla.log.log import Log, LogConfig
from ottla.log.segments.compacted_note import read_compacted
from ottla.ports import FileSlice, StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import BatchHeader, batches
from ottla.sim.disk import SimDisk
from ottla.sim.invariants import stored_records
from tests.unit.log.batches import NOW, append, sync

CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=1000, index_interval_bytes=0, file_delete_delay_ms=0)
ROUNDS = 60


def written(disk: SimDisk, *, keys: int = 1) -> Log:
    """The same keys again and again, in many segments, all of them sealed."""
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for number in range(ROUNDS):
        append(log, build([b"key-%d" % (number % keys)], [b"%0400d" % number], NOW.wall_ms))
    log.roll()
    sync(log)
    return log


def compact(log: Log, disk: SimDisk) -> None:
    for files in Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run():
        for file in files or ():
            file.sync()


def replies(log: Log, until_offset: int) -> list[list[BatchHeader]]:
    """What a consumer gets from one fetch after the other, to the end."""
    found = []
    offset = log.log_start_offset
    while (part := log.read(offset, 600, until_offset=until_offset, min_one_batch=True)) is not None:
        found.append(headers(part))
        offset = found[-1][-1].next_offset
    assert offset == until_offset
    return found


def headers(part: FileSlice) -> list[BatchHeader]:
    return [header for _, header in batches(memoryview(part.read()))]


def test_segments_that_shrink_become_one() -> None:
    disk = SimDisk()
    log = written(disk)
    assert len(log.segments) > 20
    compact(log, disk)
    assert len(log.segments) == 2
    assert [record.offset for record in stored_records(log)] == [ROUNDS - 1]
    assert log.segments[0].base_offset == 0


def test_what_is_left_is_never_more_than_a_segment_may_hold() -> None:
    disk = SimDisk()
    log = written(disk, keys=ROUNDS)
    log.config = replace(CONFIG, segment_bytes=2000)
    compact(log, disk)
    assert len(log.segments) < 20
    assert max(segment.size for segment in log.segments) <= 2000


def test_each_segment_leads_to_the_next_one() -> None:
    disk = SimDisk()
    log = written(disk, keys=7)
    for number in range(40):
        append(log, build([b"key-%d" % (number % 7)], [b"%0400d" % number], NOW.wall_ms))
    sync(log)
    compact(log, disk)
    ends = [segment.load_end(0)[1] for segment in log.segments]
    assert ends == [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset]


def test_a_reader_gets_no_reply_of_empty_batches_before_the_end() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for _ in range(20):  # each segment keeps its first record, and loses its last ones
        append(log, build([b"%d" % log.log_end_offset], [b"%0300d" % 1], NOW.wall_ms))
        append(log, build([b"same"], [b"%0400d" % 1], NOW.wall_ms))
        log.roll()
    append(log, build([b"same"], [b"newest"], NOW.wall_ms))
    sync(log)
    log.config = replace(CONFIG, segment_bytes=500)  # so that they stay apart
    compact(log, disk)
    assert len(log.segments) == 21
    read = replies(log, log.log_end_offset)
    assert all(reply[-1].record_count for reply in read)


def test_a_reader_gets_to_the_end_though_nothing_but_empty_batches_is_there() -> None:
    disk = SimDisk()
    log = written(disk, keys=2)
    append(log, build([b"key-0", b"key-1"], [b"new", b"new"], NOW.wall_ms))
    log.roll()
    sync(log)
    compact(log, disk)
    assert replies(log, log.log_end_offset)[-1][-1].next_offset == log.log_end_offset


@pytest.mark.expects_errors("no whole batch")
def test_a_batch_that_is_not_whole_at_the_end_of_a_segment_is_not_passed_over() -> None:
    disk = SimDisk()
    log = written(disk, keys=ROUNDS)
    log.close()
    path = f"t-0/{0:020}.log"
    data = bytearray(disk.read_file(path))
    at = [position for position, _ in batches(data)][-1]
    data[at + 8 : at + 12] = bytes(4)
    disk.write_file(path, data)
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=True)
    assert log.segments[0].records_end == log.segments[0].size


def test_a_second_pass_finds_nothing_to_change() -> None:
    disk = SimDisk()
    log = written(disk, keys=5)
    compact(log, disk)
    before = [(segment, segment.size) for segment in log.segments]
    compact(log, disk)
    assert [(segment, segment.size) for segment in log.segments] == before


@pytest.mark.expects_errors("does not fit those beside it")
def test_a_damaged_offset_is_not_written_down_as_if_it_were_right() -> None:
    disk = SimDisk()
    log = written(disk, keys=5)
    log.close()
    path = f"t-0/{0:020}.log"
    data = bytearray(disk.read_file(path))
    data[[position for position, _ in batches(data)][1] + 7] ^= 64  # of a base offset, which no CRC covers
    disk.write_file(path, data)
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=True)
    before = [segment.base_offset for segment in log.segments]
    with pytest.raises(Damaged):
        compact(log, disk)
    assert [segment.base_offset for segment in log.segments] == before
    assert disk.read_file(path) == data


def test_epochs_that_are_read_anew_begin_where_the_log_does_though_its_first_batches_are_gone() -> None:
    """Or the next start, if no file says where logs begin, would take that for the start."""
    disk = SimDisk()
    log = written(disk)
    compact(log, disk)
    first = replies(log, ROUNDS)[0][0].base_offset
    assert first > log.log_start_offset == 0
    log.close()
    disk.write_file("t-0/leader-epoch-checkpoint", b"damaged")
    for _ in range(2):
        log = Log.open(disk, "t-0", CONFIG, NOW, recovery_point=ROUNDS, is_start_known=False)
        assert log.log_start_offset == 0
        assert log.epochs.entries == [(0, 0)]
        log.close()


def cut_out(disk: SimDisk, path: str, number: int) -> None:
    """Take one batch out of a file."""
    data = disk.read_file(path)
    at, header = list(batches(data))[number]
    disk.write_file(path, data[:at] + data[at + header.size :])


def reopened(disk: SimDisk, end_offset: int) -> Log:
    disk.kill()
    return Log.open(disk, "t-0", CONFIG, NOW, clean=True, recovery_point=end_offset, is_noted=True)


@pytest.mark.expects_errors("which of its records are missing is not known")
def test_a_batch_that_is_gone_from_a_compacted_segment_is_missed() -> None:
    disk = SimDisk()
    log = written(disk, keys=5)
    log.config = replace(CONFIG, segment_bytes=3000)
    compact(log, disk)
    log.close()
    segment = log.segments[0]
    assert len(list(batches(disk.read_file(segment.path(".log"))))) > 1
    whole = stored_records(reopened(disk, ROUNDS))
    cut_out(disk, segment.path(".log"), 0)
    log = reopened(disk, ROUNDS)
    with pytest.raises(Damaged):
        log.read(0, 600, until_offset=ROUNDS)
    with pytest.raises(Damaged):
        compact(log, disk)
    end = log.segments[1].base_offset
    assert log.behind_damage(0) == end
    (finding,) = check.check_partition(disk, "t-0", Known(ROUNDS))
    assert finding.sentence == "it is not as large as compaction wrote it: some of its records are missing."
    assert repairs.repair_partition(disk, "t-0", NOW, Known(ROUNDS))
    assert len(stored_records(reopened(disk, ROUNDS))) == len(whole) - 1
    assert check.check_partition(disk, "t-0", Known(ROUNDS)) == []


@pytest.mark.expects_errors("batches are gone")
@pytest.mark.parametrize("is_known", [True, False])
def test_a_batch_that_is_gone_before_compaction_came_is_missed_where_it_is_known_that_it_never_did(is_known: bool) -> None:
    disk = SimDisk()
    log = written(disk)
    log.close()
    assert disk.exists("t-0/compacted-segments-checkpoint")
    if not is_known:
        disk.remove("t-0/compacted-segments-checkpoint")
    cut_out(disk, log.segments[1].path(".log"), 0)
    log = reopened(disk, ROUNDS)
    try:
        log.read(log.segments[1].base_offset, 600, until_offset=ROUNDS)
    except Damaged:
        assert is_known
    else:
        assert not is_known


def test_gaps_that_compaction_left_are_known_to_every_start() -> None:
    disk = SimDisk()
    log = written(disk, keys=5)
    compact(log, disk)
    before = stored_records(log)
    for clean in (True, False):
        log.close()
        disk.kill()
        log = Log.open(
            disk, "t-0", replace(CONFIG, cleanup_policy="delete"), NOW, clean=clean, recovery_point=ROUNDS * clean, is_noted=True
        )
        assert stored_records(log) == before


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_leaves_the_note_of_compacted_segments_that_was_there_or_the_next_one(seed: int) -> None:
    disk = SimDisk()
    log = written(disk, keys=3)
    compact(log, disk)
    for number in range(ROUNDS):
        append(log, build([b"key-%d" % (number % 5)], [b"%0300d" % number], NOW.wall_ms))
    log.roll()
    sync(log)
    run = Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run()
    before = read_compacted(disk, "t-0")
    while read_compacted(disk, "t-0") == before:
        for file in next(run) or ():
            if read_compacted(disk, "t-0") == before:
                file.sync()
    disk.crash(Random(seed))
    assert read_compacted(disk, "t-0")
    with suppress(StorageFailed):
        run.close()
