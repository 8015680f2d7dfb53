"""The small files beside the batches: checkpoints, epochs, indexes; and look-ups among many or large batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    is_as_sealed,
    parse_checkpoint,
    read_offsets,
    write_offsets,
)
from ottla.log.epochs import LeaderEpochs
from ottla.log.log import Damaged, Log, LogConfig
from ottla.log.names import file_name, parse_file_name
from ottla.log.segments.index import FLUSH_ENTRIES, offset_index, time_index
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, read_all


def test_checkpoints_are_apache_kafkas() -> None:
    disk = SimDisk()
    assert read_offsets(disk, RECOVERY_POINTS) == {}
    write_offsets(disk, RECOVERY_POINTS, {("a-b", 0): 7, ("c", 12): 2**40})
    lines = disk.read_file("recovery-point-offset-checkpoint").split(b"\n")
    assert [line.split() for line in lines] == [[b"0"], [b"2"], [b"a-b", b"0", b"7"], [b"c", b"12", b"1099511627776"], []]
    assert [line.rstrip() for line in lines[:-2]] == lines[:-2]  # a blank behind the version or the count would trouble Kafka
    assert read_offsets(disk, RECOVERY_POINTS) == {("a-b", 0): 7, ("c", 12): 2**40}


def test_each_flipped_bit_of_a_sealed_checkpoint_is_found_and_one_without_a_seal_is_taken() -> None:
    sealed = LeaderEpochs([(2, 0), (15, 1070)]).encode()
    for bit in range(8 * len(sealed)):
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        assert parse_checkpoint(bytes(damaged)) in (None, parse_checkpoint(sealed)), bit
    assert parse_checkpoint(b"0\n2\n2 0\n15 1070\n") == [["2", "0"], ["15", "1070"]]
    assert is_as_sealed(b"0\n0\n")


@pytest.mark.parametrize(
    "data", [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 7\n", b"0\n1\na 0 7", b"0\n1\na 0 x\n", b"\xff\n0\n", b"0\n1\n\n"]
)
def test_a_checkpoint_that_is_not_whole_counts_for_none(data: bytes) -> None:
    disk = SimDisk()
    disk.write_file(LOG_START_OFFSETS, data)
    assert read_offsets(disk, LOG_START_OFFSETS) == {}
    assert LeaderEpochs.decode(data) is None


def test_names_of_files_are_offsets_of_twenty_digits() -> None:
    assert file_name(42, ".log") == "00000000000000000042.log"
    assert parse_file_name("00000000000000000042.txnindex") == (42, ".txnindex")
    assert [parse_file_name(name) for name in ("42.log", "leader-epoch-checkpoint", "0" * 20, "²" * 20 + ".log")] == [None] * 4


def test_epochs_follow_one_another() -> None:
    epochs = LeaderEpochs()
    assert epochs.assign(2, 0)
    assert not epochs.assign(2, 5)
    assert not epochs.assign(1, 5)
    assert epochs.assign(4, 10)
    assert epochs.assign(5, 10)
    assert epochs.entries == [(2, 0), (5, 10)]
    assert [epochs.end_offset(epoch, 20) for epoch in (1, 2, 3, 5, 6)] == [(1, 0), (2, 10), (2, 10), (5, 20), (-1, -1)]
    assert epochs.encode().split() == [b"0", b"2", b"2", b"0", b"5", b"10"]
    assert epochs.truncate_start(3)
    assert not epochs.truncate_start(3)
    assert epochs.entries == [(2, 3), (5, 10)]
    assert epochs.truncate_end(10)
    assert epochs.entries == [(2, 3)]


@given(st.lists(st.integers(1, 9), max_size=700), st.data())
def test_an_index_finds_what_a_list_finds(steps: list[int], data: st.DataObject) -> None:
    disk = SimDisk()
    index = offset_index(disk, "index", new=True)
    entries: list[tuple[int, int]] = []
    flushed = data.draw(st.integers(0, len(steps)))
    for number, step in enumerate(steps):
        if number == flushed:
            index.flush()
        last = entries[-1] if entries else (0, 0)
        entries.append((last[0] + step, last[1] + 10 * step))
        index.add(*entries[-1])
    wanted = data.draw(st.integers(0, 10 + (entries[-1][0] if entries else 0)))
    assert index.floor(wanted) == next((entry for entry in reversed(entries) if entry[0] <= wanted), None)
    assert index.floor_second(wanted * 10) == next((entry for entry in reversed(entries) if entry[1] <= wanted * 10), None)
    assert (len(index), index.last()) == (len(entries), entries[-1] if entries else None)
    index.keep_below(wanted, 0)
    kept = [entry for entry in entries if entry[0] < wanted]
    assert (len(index), index.last()) == (len(kept), kept[-1] if kept else None)
    index.flush()
    assert len(offset_index(disk, "index", new=False)) == len(kept)


def test_times_are_stored_as_apache_kafka_stores_them() -> None:
    disk = SimDisk()
    index = time_index(disk, "times", new=True)
    index.add(NOW.wall_ms, 7)
    index.flush()
    assert disk.read_file("times") == NOW.wall_ms.to_bytes(8, "big") + (7).to_bytes(4, "big")


def test_an_index_does_not_grow_in_memory() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(index_interval_bytes=0), NOW)
    for number in range(FLUSH_ENTRIES + 10):
        append(log, make_batch(1, 0, NOW.wall_ms + number))
    assert disk.size("t-0/00000000000000000000.index") == 8 * FLUSH_ENTRIES
    assert disk.size("t-0/00000000000000000000.timeindex") == 12 * FLUSH_ENTRIES
    found = log.read(100, 61, until_offset=log.log_end_offset)
    assert found is not None
    assert (found.position, found.size) == (6100, 61)
    assert log.offset_for_timestamp(NOW.wall_ms + 50) == (NOW.wall_ms + 50, 50)


@pytest.mark.parametrize("sizes", [[1_200_000] * 3, [10, 5_000, 70_000, 1, 4_000] * 20, [3_000] * 50])
def test_batches_larger_than_what_is_read_at_once(sizes: list[int]) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(max_message_bytes=10**8), NOW)
    for number, size in enumerate(sizes):
        append(log, make_batch(2, size, NOW.wall_ms + number))
    for restart in (None, True, False):
        if restart is not None:
            log.close()
            log = Log.open(disk, "t-0", LogConfig(), NOW, clean=restart)
        assert [len(data) - 61 for _, data in read_all(log, 100_000)] == sizes
        for number in range(0, len(sizes), 3):
            found = log.read(2 * number + 1, 1, until_offset=2 * len(sizes), min_one_batch=True)
            assert found is not None
            assert found.size == sizes[number] + 61
            assert log.offset_for_timestamp(NOW.wall_ms + number) == (NOW.wall_ms + number, 2 * number)


@pytest.mark.expects_errors("cannot be read")
def test_reading_damage_is_an_error_that_names_the_place() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(), NOW)
    for _ in range(3):
        append(log, make_batch(1, 39))
    disk.open("t-0/00000000000000000000.log").write(100, bytes(100))
    with pytest.raises(Damaged, match=r"t-0/0{20}\.log: at byte 100: no whole batch .* offsets 1 to 1 cannot"):
        log.read(1, 1000, until_offset=3)
    before, behind = log.read(0, 150, until_offset=3), log.read(2, 1000, until_offset=3)
    assert (before and before.position, before and before.size) == (0, 100)
    assert (behind and behind.position, behind and behind.size) == (200, 100)
