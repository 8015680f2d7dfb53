"""A damaged time index leads nobody astray: what a look-up by time rests on is held against the batches."""

from __future__ import annotations

import pytest

from ottla.log.log import Log, LogConfig
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=0)
TIMES = range(1000, 1012)


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
