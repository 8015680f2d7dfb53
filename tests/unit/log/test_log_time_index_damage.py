"""A damaged time index leads nobody astray: what a look-up by time rests on is held against the batches."""

from __future__ import annotations

import pytest

from ottla.log.log import Log, LogConfig
from ottla.log.segments.index import TIME_ENTRY
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=0)
TIMES = range(1000, 1012)
HOUR = 3_600_000


def write() -> SimDisk:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for time in TIMES:
        append(log, make_batch(1, 30, timestamp=time))
    log.roll()  # so that each segment has its index on disk
    log.close()
    disk.kill()
    return disk


NAMES = [name for name in write().list("t-0") if name.endswith(".timeindex")]


@pytest.mark.parametrize("name", NAMES)
def test_whichever_bit_of_a_time_index_flips_times_are_found(name: str) -> None:
    assert len(NAMES) > 2
    for bit in range(0, 8 * write().size(f"t-0/{name}"), 5):
        disk = write()
        disk.flip_bit(f"t-0/{name}", bit)
        log = Log.open(disk, "t-0", CONFIG, NOW, clean=True, recovery_point=len(TIMES))
        found = [log.offset_for_timestamp(time) for time in TIMES]
        assert found == [(time, offset) for offset, time in enumerate(TIMES)]
        assert log.log_start_offset == 0


@pytest.mark.parametrize("kept", [0, 1])
def test_entries_that_a_power_cut_took_from_the_time_index_alone_are_missed(kept: int) -> None:
    """The two indexes are two files: one may be on stable storage, and the other not, though the batches are."""
    disk, config = SimDisk(), LogConfig(index_interval_bytes=0, retention_ms=HOUR)
    log = Log.open(disk, "t-0", config, NOW)
    for age in (9 * HOUR, 8 * HOUR, HOUR // 2, 9 * HOUR, 9 * HOUR):
        append(log, make_batch(1, 30, timestamp=NOW.wall_ms - age))
    log.segments[0].flush_indexes()
    log.close()
    disk.kill()
    times = disk.open("t-0/00000000000000000000.timeindex")
    assert times.size > kept * TIME_ENTRY.size
    times.truncate(kept * TIME_ENTRY.size)
    log = Log.open(disk, "t-0", config, NOW, recovery_point=5)
    assert log.max_timestamp(log.segments[0]) == NOW.wall_ms - HOUR // 2
    assert log.retain(NOW) == 0
    assert log.offset_for_timestamp(NOW.wall_ms - HOUR) == (NOW.wall_ms - HOUR // 2, 2)
