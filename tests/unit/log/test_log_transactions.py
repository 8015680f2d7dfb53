"""Transactions as a log sees them: the last stable offset, aborted ones told to readers, markers fenced and compacted away."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.segments.transaction_index import ABORT, COMMIT, ENTRY, Aborted, AbortedEntries, Marker, read_marker
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.sim.disk import SimDisk
from ottla.sim.invariants import stored_records
from ottla.wire.errors import INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED
from tests.unit.log.batches import NOW, append, read_all, sync

CONFIG = LogConfig(cleanup_policy="compact", delete_retention_ms=1000, file_delete_delay_ms=0)


def write(log: Log, producer_id: int, key: bytes, sequence: int = 0, epoch: int = 0) -> int:
    batch = build(
        [key], [b"value"], NOW.wall_ms, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    appended = append(log, batch)
    assert appended.error_code == 0
    return appended.base_offset


def end(log: Log, producer_id: int, kind: int, *, coordinator_epoch: int = 0, epoch: int = 0) -> int:
    """Append a marker; the error code."""
    key, value = b"\0\0" + kind.to_bytes(2, "big"), b"\0\0" + coordinator_epoch.to_bytes(4, "big")
    batch = build([key], [value], NOW.wall_ms, producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True)
    return append(log, batch, origin_client=False).error_code


def compact(log: Log, disk: SimDisk, now: Now = NOW) -> None:
    compaction = Compaction(log, disk, dirtiness(log, 0, now), now, bytes(16))
    for files in compaction.run():
        for file in files or ():
            file.sync()


def test_what_a_coordinator_writes_for_an_older_epoch_of_a_producer_is_refused() -> None:
    """Behind the end of a newer epoch it would be open for ever."""
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    assert end(log, 1, COMMIT, epoch=3) == 0
    late = build([b"a"], [b"v"], NOW.wall_ms, producer_id=1, producer_epoch=2, transactional=True)
    assert append(log, late, origin_client=False).error_code == INVALID_PRODUCER_EPOCH
    assert log.last_stable_offset == log.log_end_offset == 1


def test_the_last_stable_offset_is_where_the_oldest_open_transaction_begins() -> None:
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    write(log, 1, b"a")
    write(log, 2, b"b")
    assert log.last_stable_offset == 0
    end(log, 1, COMMIT)
    assert log.last_stable_offset == 1
    end(log, 2, ABORT)
    assert log.last_stable_offset == log.log_end_offset == 4


@pytest.mark.parametrize("clean", [True, False])
def test_aborted_transactions_are_told_also_after_a_restart(clean: bool) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    write(log, 1, b"a")
    write(log, 2, b"b")
    end(log, 1, ABORT)
    end(log, 2, COMMIT)
    wanted = [(1, 0, 2, 1)]
    assert log.aborted_transactions(0, 4) == wanted
    assert disk.read_file("t-0/00000000000000000000.txnindex") == ENTRY.pack(0, *wanted[0])
    if clean:
        log.close()
    else:
        disk.remove("t-0/00000000000000000000.txnindex")
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=clean)
    assert log.aborted_transactions(0, 4) == wanted
    assert log.aborted_transactions(3, 4) == []
    assert log.last_stable_offset == 4


def test_markers_of_an_older_coordinator_or_producer_are_refused() -> None:
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    write(log, 1, b"a", epoch=3)
    assert end(log, 1, COMMIT, coordinator_epoch=5, epoch=3) == 0
    assert end(log, 1, ABORT, coordinator_epoch=4, epoch=3) == TRANSACTION_COORDINATOR_FENCED
    assert end(log, 1, ABORT, coordinator_epoch=5, epoch=2) == INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 2


def test_compaction_drops_aborted_records_and_does_not_let_them_hide_older_ones() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    write(log, 1, b"a")
    end(log, 1, COMMIT)
    write(log, 2, b"a")
    end(log, 2, ABORT)
    append(log, build([b"z"], [b"last"], NOW.wall_ms))
    log.roll()
    compact(log, disk)
    assert [(record.offset, record.key) for record in stored_records(log)] == [(0, b"a"), (4, b"z")]


def test_a_marker_outlives_the_records_of_its_transaction_by_delete_retention_ms() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    write(log, 1, b"a")
    end(log, 1, COMMIT)
    append(log, build([b"a"], [b"newer"], NOW.wall_ms))
    write(log, 1, b"b", sequence=1)
    end(log, 1, COMMIT)
    append(log, build([b"z"], [b"last"], NOW.wall_ms))
    log.roll()

    def markers() -> list[int]:
        return [header.base_offset for header, _ in read_all(log) if header.is_control]

    compact(log, disk)
    assert markers() == [1, 4]
    compact(log, disk)
    assert markers() == [1, 4]
    later = Now(NOW.wall_ms + 2000, 2000)
    compact(log, disk, later)
    assert markers() == [4]
    assert next(batches(read_all(log)[0][1]))[1].base_offset == 2


INDEX = "t-0/00000000000000000002.txnindex"


def aborted_in_second_segment() -> tuple[SimDisk, Log]:
    """A transaction that ends in a segment of its own."""
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    write(log, 1, b"a")
    append(log, build([b"z"], [b"other"], NOW.wall_ms))
    log.roll()
    sync(log)
    end(log, 1, ABORT)
    assert log.aborted_transactions(0, 3) == [(1, 0, 2, 3)]
    return disk, log


@pytest.mark.parametrize("way", ["truncated", "torn", "lost"])
def test_an_end_that_is_gone_from_the_log_is_gone_from_the_index(way: str) -> None:
    disk, log = aborted_in_second_segment()
    if way == "truncated":
        log.truncate_to(2)
    else:
        disk.open("t-0/00000000000000000002.log").truncate(30 if way == "torn" else 0)
        log = Log.open(disk, "t-0", CONFIG, NOW)
    assert (log.log_end_offset, log.last_stable_offset) == (2, 0)
    assert end(log, 1, COMMIT) == 0
    assert log.aborted_transactions(0, 3) == []
    log.close()
    assert Log.open(disk, "t-0", CONFIG, NOW, clean=True).aborted_transactions(0, 3) == []


@pytest.mark.parametrize("left", [ENTRY.pack(0, 1, 0, 2, 3)[:20], bytes(ENTRY.size), b"\0" * (ENTRY.size + 7)])
def test_what_a_power_cut_left_of_the_index_does_not_spoil_what_follows(left: bytes) -> None:
    disk, log = aborted_in_second_segment()
    write(log, 2, b"b")
    disk.write_file(INDEX, ENTRY.pack(0, 1, 0, 2, 3) + left)
    log = Log.open(disk, "t-0", CONFIG, NOW, recovery_point=3)
    assert end(log, 2, ABORT) == 0
    wanted = [(1, 0, 2, 3), (2, 3, 4, 5)]
    assert log.aborted_transactions(0, 5) == wanted
    log.close()
    assert Log.open(disk, "t-0", CONFIG, NOW, clean=True).aborted_transactions(0, 5) == wanted


def test_a_log_that_was_emptied_knows_no_transactions_any_more() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    write(log, 1, b"a")
    end(log, 1, ABORT)
    log.truncate_to(0)
    write(log, 1, b"a")
    end(log, 1, COMMIT)
    assert log.aborted_transactions(0, 2) == []
    log.close()
    assert Log.open(disk, "t-0", CONFIG, NOW, clean=True).aborted_transactions(0, 2) == []


def test_readers_of_committed_records_are_not_sent_before_the_start_of_the_log() -> None:
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    write(log, 1, b"a")
    write(log, 1, b"b", sequence=1)
    log.delete_records(1)
    assert log.last_stable_offset == 1


def test_an_index_that_was_built_anew_outlives_a_power_cut_though_the_log_is_not_read_again_there() -> None:
    disk, log = aborted_in_second_segment()
    sync(log)
    disk.write_file(INDEX, b"")
    log = Log.open(disk, "t-0", CONFIG, NOW, recovery_point=2)
    log.roll()
    append(log, build([b"z"], [b"another"], NOW.wall_ms))
    sync(log)
    recovery_point = log.checkpoint()
    assert recovery_point == 4
    for seed in range(10):
        copy = deepcopy(disk)
        copy.crash(Random(seed))
        log = Log.open(copy, "t-0", CONFIG, NOW, recovery_point=recovery_point)
        assert log.aborted_transactions(0, 4) == [(1, 0, 2, 3)]


@pytest.mark.parametrize("more", [0, 1])
def test_what_a_sealed_segment_aborted_outlives_a_power_cut_once_the_recovery_point_is_past_it(more: int) -> None:
    disk, config = SimDisk(), replace(CONFIG, index_interval_bytes=0)  # so that the marker is not read again
    log = Log.open(disk, "t-0", config, NOW)
    write(log, 1, b"a")
    end(log, 1, ABORT)
    append(log, build([b"z"], [b"other"], NOW.wall_ms))
    sync(log)
    for _ in range(more):
        append(log, build([b"z"], [b"more"], NOW.wall_ms))
    log.roll()
    recovery_point = log.checkpoint()
    assert recovery_point == 3
    for seed in range(10):
        copy = deepcopy(disk)
        copy.crash(Random(seed))
        log = Log.open(copy, "t-0", config, NOW, recovery_point=recovery_point)
        assert log.aborted_transactions(0, 3) == [(1, 0, 1, 2)]


def test_an_index_that_a_killed_broker_left_in_the_page_cache_outlives_a_later_power_cut() -> None:
    disk, log = aborted_in_second_segment()
    append(log, build([b"z"], [b"another"], NOW.wall_ms))
    log = Log.open(disk, "t-0", CONFIG, NOW, recovery_point=2)
    append(log, build([b"z"], [b"more"], NOW.wall_ms))
    sync(log)
    recovery_point = log.checkpoint()
    for seed in range(10):
        copy = deepcopy(disk)
        copy.crash(Random(seed))
        log = Log.open(copy, "t-0", CONFIG, NOW, recovery_point=recovery_point)
        assert log.aborted_transactions(0, 3) == [(1, 0, 2, 3)]


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "producer": flipped(9),
    "first": flipped(17),
    "last": flipped(25),
    "stable": flipped(33),
    "second": flipped(ENTRY.size + 17),
    "lost": lambda data: data[: ENTRY.size],
    "first lost": lambda data: data[ENTRY.size :],
    "emptied": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "doubled": lambda data: data + data,
    "longer": lambda data: data + bytes(10),
    "reversed": lambda data: data[::-1],
}


def two_aborted(disk: SimDisk, *, sealed: bool) -> Log:
    """A log with two aborted transactions in its second segment; everything is noted."""
    log = Log.open(disk, "t-0", replace(CONFIG, cleanup_policy="delete"), NOW)
    write(log, 1, b"a")
    write(log, 2, b"b")
    log.roll()
    end(log, 1, ABORT)
    end(log, 2, ABORT)
    write(log, 3, b"c")
    if sealed:
        log.roll()
    write(log, 3, b"c", sequence=1)
    sync(log)
    log.checkpoint()
    return log


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_an_index_that_is_not_what_was_written_is_built_anew(
    change: str, clean: bool, sealed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()
    log = two_aborted(disk, sealed=sealed)
    wanted = log.aborted_transactions(0, 9)
    assert len(wanted) == 2
    if clean:
        log.close()
    disk.kill()
    was = disk.read_file(INDEX)
    disk.write_file(INDEX, CHANGES[change](was))
    caplog.clear()
    log = Log.open(disk, "t-0", log.config, NOW, clean=clean, recovery_point=6, is_noted=True)
    assert log.aborted_transactions(0, 9) == wanted
    is_told = "is rebuilt from the batches" in caplog.text
    assert is_told or (not clean and change in ("doubled", "longer"))
    log.close()
    assert disk.read_file(INDEX) == was
    caplog.clear()
    log = Log.open(disk, "t-0", log.config, NOW, clean=True, recovery_point=6, is_noted=True)
    assert log.aborted_transactions(0, 9) == wanted
    assert "rebuil" not in caplog.text


@pytest.mark.parametrize("left", [b"", b"0\n1\n2 1 77\n"])
def test_an_index_is_taken_as_it_is_where_nothing_is_noted_of_it(left: bytes) -> None:
    disk = SimDisk()
    log = two_aborted(disk, sealed=True)
    wanted = log.aborted_transactions(0, 9)
    log.close()
    disk.write_file("t-0/aborted-transactions-checkpoint", left)
    log = Log.open(disk, "t-0", log.config, NOW, clean=True, recovery_point=6, is_noted=True)
    assert log.aborted_transactions(0, 9) == wanted


def test_what_compaction_took_out_of_a_segment_is_not_missed_in_its_index(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    log = two_aborted(disk, sealed=True)
    log.config = CONFIG
    end(log, 3, COMMIT)
    log.roll()
    sync(log)
    compact(log, disk)
    log.close()
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=True, recovery_point=log.log_end_offset, is_noted=True)
    assert log.aborted_transactions(0, 9) == []
    assert "rebuil" not in caplog.text


@pytest.mark.parametrize("kind", [ABORT, COMMIT, 2, -1])
@pytest.mark.parametrize("coordinator_epoch", [-1, 0, 2**31 - 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_a_marker_is_read_the_same_whatever_it_looks_like(kind: int, coordinator_epoch: int, codec: int) -> None:
    key, value = b"\0\0" + kind.to_bytes(2, "big", signed=True), b"\0\0" + coordinator_epoch.to_bytes(4, "big", signed=True)
    expected = Marker(kind, coordinator_epoch) if kind in (ABORT, COMMIT) else None
    ordinary = build([key], [value], 1, producer_id=1, transactional=True, control=True, codec=codec)
    assert read_marker(ordinary) == expected
    assert read_marker(build([key], [value], [1], [[("h", None)]], control=True, codec=codec)) == expected
    assert read_marker(build([b"\0\0\0"], [value + b"1"], 1, control=True, codec=codec)) is None


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), max_size=50), st.integers(-1, 120))
def test_an_index_of_aborted_transactions_finds_each_that_ended_from_an_offset_on(steps: list[int], offset: int) -> None:
    lasts = list(accumulate(steps, initial=1))
    entries = [Aborted(number, last - 1, last, last) for number, last in enumerate(lasts)]
    index = AbortedEntries(entries)
    assert list(index) == entries
    assert list(index.ended_from(offset)) == [entry for entry in entries if entry.last_offset >= offset]


@pytest.mark.parametrize("kills", [0, 1])
def test_a_killed_broker_knows_the_sequence_of_a_producer_whose_records_were_deleted(kills: int) -> None:
    disk = SimDisk()
    config = LogConfig(file_delete_delay_ms=0)
    log = Log.open(disk, "t-0", config, NOW)
    write(log, 4, b"k")
    end(log, 4, COMMIT)
    log.roll()
    second = log.log_end_offset
    for _ in range(kills):
        write(log, 5, b"k")
        end(log, 5, COMMIT)
        disk.kill()
        log = Log.open(disk, "t-0", config, NOW)
        log.roll()
    log.delete_records(second)
    assert log.retain(NOW) == 1
    write(log, 5, b"k", sequence=kills)
    end(log, 5, ABORT)
    disk.kill()
    log = Log.open(disk, "t-0", config, NOW)
    assert log.producers.by_id[4].batches
    assert write(log, 4, b"k", sequence=1) == log.log_end_offset - 1
    assert len(log.segments[-1].transactions.entries) == 1
