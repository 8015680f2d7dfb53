"""A tombstone outlives the records that it deletes by delete.retention.ms, and not longer (KIP-534)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.sim.disk import SimDisk
from ottla.sim.invariants import stored_records
from tests.unit.log.batches import NOW, append

CONFIG = LogConfig(cleanup_policy="compact", delete_retention_ms=1000, file_delete_delay_ms=0)


def after_a_pass(log: Log, disk: SimDisk, later_ms: int) -> list[tuple[int, bytes | None]]:
    """(offset, value) of what is left by a pass so much later."""
    now = Now(NOW.wall_ms + later_ms, later_ms)
    for files in Compaction(log, disk, dirtiness(log, 0, now), now, bytes(16)).run():
        for file in files or ():
            file.sync()
    return [(record.offset, record.value) for record in stored_records(log)]


def test_a_tombstone_goes_when_its_time_is_over_and_not_before() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    append(log, build([b"a", b"b"], [b"1", b"2"], NOW.wall_ms))
    append(log, build([b"a", b"c"], [None, b"3"], NOW.wall_ms))
    append(log, build([b"z"], [b"last"], NOW.wall_ms))
    log.roll()
    with_tombstone = [(1, b"2"), (2, None), (3, b"3"), (4, b"last")]
    assert after_a_pass(log, disk, 0) == with_tombstone
    assert after_a_pass(log, disk, 900) == with_tombstone
    assert after_a_pass(log, disk, 1000) == [(1, b"2"), (3, b"3"), (4, b"last")]


@pytest.mark.parametrize("delete_retention_ms", [2**63 - 1, 2**63 - 1 - NOW.wall_ms, 2**62, 2**62 - NOW.wall_ms])
@pytest.mark.parametrize("timestamp", [NOW.wall_ms, 0, -1])
def test_tombstones_that_are_to_stay_for_ever_keep_their_times(delete_retention_ms: int, timestamp: int) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", replace(CONFIG, delete_retention_ms=delete_retention_ms), NOW)
    append(log, build([b"a"], [b"1"], timestamp))
    append(log, build([b"a", b"b"], [None, b"2"], timestamp))
    append(log, build([b"z"], [b"last"], timestamp))
    log.roll()
    for later_ms in (0, 1000, 2**40):
        assert after_a_pass(log, disk, later_ms) == [(1, None), (2, b"2"), (3, b"last")]
        assert {record.timestamp for record in stored_records(log)} == {timestamp}
