"""preallocate: a new segment has its full size at once, and neither readers, a roll, a stop nor a crash take the zeros for data."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log.log import Log, LogConfig
from ottla.net.disk.disk import RealDisk
from ottla.ports import Disk, StorageFailed, SyncFailed
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, read_all, sync

CONFIG = LogConfig(preallocate=True, segment_bytes=4096)
FIRST = "t-0/00000000000000000000.log"


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "simulated":
        yield SimDisk()
        return
    real = RealDisk(str(tmp_path), lambda call: call())
    yield real
    real.close()


def open_log(disk: Disk, *, clean: bool = False, recovery_point: int = 0, config: LogConfig = CONFIG) -> Log:
    return Log.open(disk, "t-0", config, NOW, clean=clean, recovery_point=recovery_point)


def fill(log: Log, batches: int) -> None:
    for _ in range(batches):
        append(log, make_batch(2, 400))


def test_a_new_file_has_the_size_of_a_segment_and_a_closed_one_that_of_its_batches(disk: Disk) -> None:
    log = open_log(disk)
    assert disk.size(FIRST) == 4096
    fill(log, 3)
    assert (disk.size(FIRST), log.size_bytes) == (4096, 3 * 461)
    fill(log, 10)
    sizes = [disk.size(segment.path(".log")) for segment in log.segments]
    assert sizes == [8 * 461, 4096]
    before = read_all(log)
    log.close()
    assert [disk.size(segment.path(".log")) for segment in log.segments] == [8 * 461, 5 * 461]
    assert read_all(open_log(disk, clean=True)) == before


def test_without_it_files_grow(disk: Disk) -> None:
    log = open_log(disk, config=LogConfig(segment_bytes=4096))
    fill(log, 1)
    assert disk.size(FIRST) == 461


@pytest.mark.parametrize("written", [0, 3, 8, 11])
def test_after_a_kill_the_zeros_are_not_taken_for_a_torn_tail(disk: Disk, written: int, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(disk)
    fill(log, written)
    sync(log)
    before = read_all(log)
    again = open_log(disk, recovery_point=log.log_end_offset)
    assert read_all(again) == before
    assert "torn" not in caplog.text
    fill(again, 9)
    assert len(read_all(again)) == len(before) + 9
    again.close()
    assert read_all(open_log(disk, clean=True)) == read_all(again)


def test_a_torn_batch_before_the_zeros_is_cut_off_and_told(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(disk)
    fill(log, 3)
    disk.open(FIRST).write(2 * 461 + 200, bytes(200))
    again = open_log(disk)
    assert len(read_all(again)) == 2
    assert "a torn tail of" in caplog.text


@pytest.mark.parametrize("seed", range(60))
def test_no_power_cut_loses_what_was_synced(seed: int) -> None:
    disk, choice = SimDisk(), random.Random(seed)
    log, synced = open_log(disk), list[bytes]()
    for _ in range(choice.randrange(1, 30)):
        fill(log, 1)
        if choice.random() < 0.3:
            sync(log)
            synced = [data for _, data in read_all(log)]
    disk.crash(choice)
    found = [data for _, data in read_all(open_log(disk, recovery_point=2 * len(synced)))]
    assert found[: len(synced)] == synced


def test_a_disk_that_refuses_the_size_refuses_the_append_and_all_goes_on_later() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 8)
    refused = 0
    for number in range(12):
        disk.fail(number)
        try:
            fill(log, 1)
        except StorageFailed as failure:
            refused += 1
            if isinstance(failure, SyncFailed):  # the partition is offline then
                disk.kill()
                log = open_log(disk)
        disk.heal()
    assert refused > 3
    fill(log, 1)
    assert len(read_all(log)) == 8 + 12 - refused + 1


def test_the_file_of_a_real_disk_is_sparse(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path), lambda call: call())
    Log.open(disk, "t-0", LogConfig(preallocate=True), NOW)
    found = os.stat(tmp_path / FIRST)
    assert (found.st_size, found.st_blocks < 1000) == (1 << 30, True)
    disk.close()
