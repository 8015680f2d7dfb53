"""A stop leaves to the next start what that finds as quickly: the indexes of the last few batches are not synced."""

from __future__ import annotations

import random

import pytest

from ottla.log.log import Log, LogConfig
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, index_faults, make_batch, read_all, sync

CONFIG = LogConfig(index_interval_bytes=150)


def filled(disk: SimDisk, log: Log, times: range) -> None:
    for time in times:
        append(log, make_batch(1, 39, timestamp=NOW.wall_ms + time))
    sync(log)


@pytest.mark.parametrize("stop", ["close", "write out and close", "checkpoint and kill", "checkpoint and power cut"])
@pytest.mark.parametrize("first", [0, 3, 8, 40])
@pytest.mark.parametrize("more", [0, 1, 5, 9, 30])
def test_what_a_stop_does_not_write_is_found_by_the_next_start(stop: str, first: int, more: int) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    filled(disk, log, range(first))
    log.checkpoint()
    filled(disk, log, range(first, first + more))
    recovery_point = log.log_end_offset
    if stop == "write out and close":
        for file in log.write_out():
            file.sync()
    if "close" in stop:
        log.close()
        disk.kill()
    else:
        recovery_point = log.checkpoint()
        if stop.endswith("kill"):
            disk.kill()
        else:
            disk.crash(random.Random(first * 100 + more))
    log = Log.open(disk, "t-0", CONFIG, NOW, clean="close" in stop, recovery_point=recovery_point, is_noted=True)
    assert len(read_all(log)) == log.log_end_offset == first + more
    newest = first + more - 1
    assert log.max_timestamp_offset() == (None if newest < 0 else (NOW.wall_ms + newest, newest))
    filled(disk, log, range(newest + 1, newest + 20))
    log.roll()
    assert log.max_timestamp_offset() == (NOW.wall_ms + newest + 19, newest + 19)
    assert index_faults(log, disk) == []


def test_a_log_of_a_few_batches_has_one_file_to_sync_beside_its_epochs() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for _ in range(3):
        append(log, make_batch(1, 39))
    assert {getattr(file, "path", "") for file in log.write_out()} == {
        "t-0/00000000000000000000.log",
        "t-0/leader-epoch-checkpoint",
        "t-0",
    }
    log.close()
    assert not [name for name in disk.list("t-0") if name.endswith("index")]
