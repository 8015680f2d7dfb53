"""What happened to the bytes on disk since they were written: it is found when they are read, and only they are out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.errors import Unfinished
from ottla.log.log import Damaged, Log, LogConfig
from ottla.ports import StorageFailed
from ottla.records.batches.header import batches
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, sync

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=150)
BATCH_BYTES = 100
RECORDS = 2
COUNT = 35
END = COUNT * RECORDS
FIRST = "t-0/00000000000000000000.log"


def written(disk: SimDisk, config: LogConfig = CONFIG) -> None:
    """Four segments, closed in order: batch n has offsets 2n and 2n + 1, and ten fill a segment."""
    log = Log.open(disk, "t-0", config, NOW)
    for number in range(COUNT):
        append(log, make_batch(RECORDS, BATCH_BYTES - 61, timestamp=NOW.wall_ms + number))
    sync(log)
    log.close()


def opened(disk: SimDisk, config: LogConfig = CONFIG) -> Log:
    return Log.open(disk, "t-0", config, NOW, clean=True, recovery_point=END, is_noted=True)


def change(disk: SimDisk, path: str, position: int, data: bytes) -> None:
    disk.open(path).write(position, data)


def flip(disk: SimDisk, path: str, position: int, bit: int = 0) -> None:
    file = disk.open(path)
    file.write(position, bytes([file.read(position, 1)[0] ^ (1 << bit)]))


def read_on(log: Log, offset: int, max_bytes: int = 350) -> tuple[list[int], list[int]]:
    """Read as a consumer that passes over errors: (offsets of the batches it got, offsets at which there was an error)."""
    got: list[int] = []
    errors: list[int] = []
    while offset < log.log_end_offset:
        try:
            part = log.read(offset, max_bytes, until_offset=log.log_end_offset, min_one_batch=True)
        except Damaged:
            errors.append(offset)
            offset += 1
            continue
        assert part is not None, f"nothing at {offset}"
        found = [header for _, header in batches(part.read())]
        assert found[0].last_offset >= offset, f"{found} at {offset}"
        got += [header.base_offset for header in found]
        offset = found[-1].next_offset
    return got, errors


EVERY = list(range(0, END, RECORDS))


@pytest.mark.slow
@pytest.mark.expects_errors("cannot be read")
@pytest.mark.parametrize("at", range(BATCH_BYTES))
def test_a_flipped_bit_takes_its_batch_out_and_nothing_else(at: int) -> None:
    for first in (0, 6):
        disk = SimDisk()
        written(disk)
        flip(disk, FIRST, 3 * BATCH_BYTES + at, at % 8)
        got, errors = read_on(opened(disk), first)
        assert errors == [6, 7]
        assert got == [offset for offset in EVERY if offset >= first and offset != 6]


@pytest.mark.slow
@pytest.mark.expects_errors("cannot be read")
@pytest.mark.parametrize("bit", range(32))
def test_no_bit_of_a_base_offset_can_change_unseen(bit: int) -> None:
    for number in (0, 1, 5, 8, 9):
        for first in (0, number * RECORDS):
            disk = SimDisk()
            written(disk)
            flip(disk, FIRST, number * BATCH_BYTES + 7 - bit // 8, bit % 8)
            got, errors = read_on(opened(disk), first)
            offset = number * RECORDS
            assert errors == [offset, offset + 1]
            assert got == [each for each in EVERY if each >= first and each != offset]


@pytest.mark.expects_errors("cannot be read")
@pytest.mark.parametrize(("start", "size"), [(0, 100), (250, 300), (0, 1000), (901, 99), (480, 40)])
def test_zeroes_take_out_the_batches_that_they_touch(start: int, size: int) -> None:
    disk = SimDisk()
    written(disk)
    change(disk, FIRST, start, bytes(size))
    got, errors = read_on(opened(disk), 0)
    lost = range(start // BATCH_BYTES * RECORDS, ((start + size - 1) // BATCH_BYTES + 1) * RECORDS)
    assert errors == list(lost)
    assert got == [each for each in EVERY if each not in lost]


@pytest.mark.expects_errors("cannot be read")
def test_damage_is_told_once_with_file_and_position(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    written(disk)
    flip(disk, FIRST, 380)
    log = opened(disk)
    for _ in range(3):
        with pytest.raises(Damaged, match=r"at byte 300: .* offsets 6 to 7 cannot be read. .* `ottla log check --repair`"):
            log.read(7, 1000, until_offset=END)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert told[0].startswith(f"{FIRST}: at byte 300: ")


def test_bytes_are_checked_once() -> None:
    disk = SimDisk()
    written(disk)
    log = opened(disk)
    assert log.segments[0].unproven is not None
    assert read_on(log, 0) == (EVERY, [])
    assert [segment.unproven for segment in log.segments] == [None] * 4


def test_what_this_process_wrote_needs_no_check() -> None:
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    for _ in range(COUNT):
        append(log, make_batch())
    assert [segment.unproven for segment in log.segments] == [None] * len(log.segments)


@pytest.mark.slow
@pytest.mark.parametrize("entry", range(4))
@pytest.mark.parametrize("at", range(8))
def test_a_wrong_entry_of_an_offset_index_loses_nothing(entry: int, at: int) -> None:
    for bit in range(8):
        for first in (0, 4, 10, 18):
            disk = SimDisk()
            written(disk)
            index = FIRST.replace(".log", ".index")
            if disk.size(index) < 8 * entry + 8:
                return
            flip(disk, index, 8 * entry + at, bit)
            log = opened(disk)
            part = log.read(first, 250, until_offset=END, min_one_batch=True)
            assert part is not None
            assert [header.base_offset for _, header in batches(part.read())] == EVERY[first // 2 : min(first // 2 + 2, 10)]
            assert read_on(log, first) == (EVERY[first // 2 :], [])


@pytest.mark.expects_errors("cannot be read")
def test_a_consumer_goes_on_behind_damage_in_a_large_segment() -> None:
    config = replace(CONFIG, segment_bytes=1 << 30)
    disk = SimDisk()
    written(disk, config)
    change(disk, FIRST, 1000, b"\x02" * 1500)
    log = opened(disk, config)
    got, errors = read_on(log, 30)
    assert (got, errors) == ([each for each in EVERY if each >= 50], list(range(30, 50)))
    assert read_on(log, 0)[1] == list(range(20, 50))


def segment_name(number: int) -> str:
    return f"t-0/{number * 20:020d}.log"


@pytest.mark.expects_errors("are missing")
@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_segment_is_a_hole_with_edges(number: int, policy: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    written(disk)
    disk.remove(segment_name(number))
    log = opened(disk, replace(CONFIG, cleanup_policy=policy))
    lost = range(number * 20, number * 20 + 20)
    assert f"offsets {lost[0]} to {lost[-1]} are missing" in caplog.text
    assert log.log_start_offset == 0
    got, errors = read_on(log, 0)
    assert errors == list(lost)
    assert got == [each for each in EVERY if each not in lost]


@pytest.mark.expects_errors("are missing")
def test_a_segment_that_lost_its_last_batches_is_a_hole() -> None:
    disk = SimDisk()
    written(disk)
    disk.open(segment_name(1)).truncate(700)
    assert read_on(opened(disk), 0) == ([each for each in EVERY if not 34 <= each < 40], list(range(34, 40)))


@pytest.mark.expects_errors("the leader epoch of this batch is unknown to the log")
def test_of_a_leader_epoch_that_changed_a_read_does_not_blame_the_crc() -> None:
    disk = SimDisk()
    written(disk)
    flip(disk, FIRST, 3 * BATCH_BYTES + 13)
    assert read_on(opened(disk), 0)[1] == [6, 7]


@pytest.mark.expects_errors("does not fit those beside it")
@pytest.mark.parametrize("number", range(8, 12))
def test_a_look_up_by_time_comes_to_an_end_where_the_last_batch_of_a_segment_is_astray(number: int) -> None:
    disk = SimDisk()
    config = replace(CONFIG, index_interval_bytes=0)
    written(disk, config)
    flip(disk, FIRST, 9 * BATCH_BYTES + 7)
    log = opened(disk, config)
    for _ in range(20):
        try:
            log.offset_for_timestamp(NOW.wall_ms + number)
        except Unfinished:
            continue
        except Damaged:
            assert number == 9
        break
    else:
        raise AssertionError("it goes on and on")


def cut_out(disk: SimDisk, path: str, position: int, size: int = BATCH_BYTES) -> None:
    data = disk.read_file(path)
    disk.write_file(path, data[:position] + data[position + size :])


@pytest.mark.slow
@pytest.mark.expects_errors("are missing")
@pytest.mark.parametrize("interval", [0, 150, 4096])
@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("batch", range(9))
@pytest.mark.parametrize("number", [0, 1, 3])
def test_batches_that_are_gone_from_a_segment_are_a_hole(
    number: int, batch: int, policy: str, interval: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()
    config = replace(CONFIG, cleanup_policy=policy, index_interval_bytes=interval)
    written(disk, config)
    batch %= 4 if number == 3 else 9  # the last segment's last batch is its fifth
    cut_out(disk, segment_name(number), batch * BATCH_BYTES)
    for _ in range(2):
        caplog.clear()
        log = opened(disk, config)
        lost = number * 20 + batch * 2
        assert f"at byte {batch * BATCH_BYTES}: batches are gone: offsets {lost} to {lost + 1} are missing" in caplog.text
        for max_bytes in (100, 350, 10_000):
            assert read_on(log, 0, max_bytes) == ([each for each in EVERY if each != lost], [lost, lost + 1])
        got, errors = read_on(log, lost + 2)
        assert (got[0], errors) == (lost + 2, [])
        with pytest.raises(Damaged):
            for _ in Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run():
                pass
        log.close()


@pytest.mark.expects_errors("are missing", "cannot be read")
def test_a_gap_and_a_bad_batch_in_one_segment_are_two_holes() -> None:
    disk = SimDisk()
    written(disk)
    cut_out(disk, segment_name(1), 3 * BATCH_BYTES)
    flip(disk, segment_name(1), 6 * BATCH_BYTES + 80)
    log = opened(disk)
    for _ in range(2):
        assert read_on(log, 0) == ([each for each in EVERY if each not in (26, 34)], [26, 27, 34, 35])


def test_a_directory_that_was_compacted_elsewhere_keeps_its_gaps(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    written(disk)
    disk.remove(segment_name(1))
    compacted = replace(CONFIG, cleanup_policy="compact")
    log = Log.open(disk, "t-0", compacted, NOW, clean=True)
    assert "1 gaps between segments are attributed to compaction" in caplog.text
    left = [each for each in EVERY if not 20 <= each < 40]
    assert read_on(log, 0) == (left, [])
    log.close()
    assert read_on(opened(disk), 0) == (left, [])


def test_a_gap_in_a_log_that_the_journal_knows_is_the_work_of_a_power_cut(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    written(disk)
    disk.remove(segment_name(1))
    log = Log.open(disk, "t-0", replace(CONFIG, cleanup_policy="compact"), NOW, is_journaled=True)
    assert log.log_end_offset == 20
    assert "a torn tail" in caplog.text
    assert read_on(log, 0) == (EVERY[:10], [])


def test_a_deleted_segment_stays_until_the_new_start_is_noted() -> None:
    disk = SimDisk()
    written(disk)
    config = replace(CONFIG, retention_bytes=2500, file_delete_delay_ms=0)
    log = opened(disk, config)
    epochs = disk.read_file("t-0/leader-epoch-checkpoint")
    assert log.retain(NOW) == 1
    log.retain(NOW)
    assert disk.exists(FIRST + ".deleted")
    disk.kill()
    disk.write_file("t-0/leader-epoch-checkpoint", epochs)  # as a power cut may bring it back
    log = Log.open(disk, "t-0", config, NOW, recovery_point=END, is_noted=True)
    assert log.log_start_offset == 20
    assert disk.exists(FIRST + ".deleted")
    assert read_on(log, 20) == (EVERY[10:], [])
    log.retain(NOW)
    disk.kill()
    assert Log.open(disk, "t-0", config, NOW, recovery_point=END, is_noted=True).log_start_offset == 20
    assert not disk.exists(FIRST + ".deleted")


@pytest.mark.expects_errors("cannot be read", "are missing")
@pytest.mark.parametrize("at", [0, 7, 80])
def test_what_is_damaged_or_missing_is_not_compacted_away(at: int) -> None:
    compact = replace(CONFIG, cleanup_policy="compact")
    later = NOW._replace(wall_ms=NOW.wall_ms + 1000)
    for missing in (False, True):
        disk = SimDisk()
        written(disk)
        if missing:
            disk.remove(segment_name(1))
        else:
            flip(disk, FIRST, 300 + at)
        log = opened(disk, compact)
        with pytest.raises(Damaged):
            for _ in Compaction(log, disk, dirtiness(log, 0, later), later, bytes(16)).run():
                pass
        assert [name for name in disk.list("t-0") if name.endswith((".cleaned", ".swap"))] == []


@pytest.mark.parametrize("bit", [0, 2])
@pytest.mark.parametrize("clean", [True, False])
def test_a_last_batch_that_was_moved_up_does_not_end_the_log_later_than_it_was_closed(clean: bool, bit: int) -> None:
    disk = SimDisk()
    written(disk)
    last = "t-0/00000000000000000060.log"
    assert disk.size(last) == 5 * BATCH_BYTES
    flip(disk, last, 4 * BATCH_BYTES + 7, bit)  # of its base offset
    with pytest.raises(StorageFailed, match=r"00000000000000000060\.log"):
        Log.open(disk, "t-0", CONFIG, NOW, clean=clean, recovery_point=END, is_noted=True)
