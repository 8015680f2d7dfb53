"""A follower copies logs whose compaction left gaps of any size, and reads, restarts and goes on as before."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.log import Log, LogConfig
from ottla.log.segments.segment import LARGEST_RELATIVE
from ottla.ports import StorageFailed, SyncFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, read_all, sync

CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=300, index_interval_bytes=0, file_delete_delay_ms=0)
FAR = LARGEST_RELATIVE + 1


def copy(log: Log, *offsets: int) -> None:
    """Copy a batch of one record for each of these offsets, all in one response."""
    view = bytearray()
    for offset in offsets:
        batch = build([b"k"], [b"%d" % offset], NOW.wall_ms)
        batch[0:8] = offset.to_bytes(8, "big")
        batch[12:16] = (3).to_bytes(4, "big")
        view += batch
    log.append_as_follower(memoryview(view), [header for _, header in batches(view)], NOW)


def offsets_of(log: Log) -> list[int]:
    return [header.base_offset for header, _ in read_all(log)]


@pytest.mark.parametrize(
    "offsets",
    [
        (0, LARGEST_RELATIVE, LARGEST_RELATIVE + 1),
        (0, FAR),
        (FAR,),
        (3 * FAR, 3 * FAR + 1, 9 * FAR),
        (0, 1, 2, 3, 4, 5, FAR + 6, FAR + 7, 3 * FAR, 3 * FAR + 1, 2**62, 2**63 - 2),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("stop", ["clean", "killed", "power cut"])
def test_gaps_beyond_the_reach_of_a_segment_are_copied(offsets: tuple[int, ...], at_once: bool, stop: str) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW, topic_id=bytes(range(16)))
    if at_once:
        copy(log, *offsets)
    else:
        for offset in offsets:
            copy(log, offset)
    assert log.log_end_offset == offsets[-1] + 1
    assert offsets_of(log) == list(offsets)
    sync(log)
    if stop == "clean":
        log.close()
    elif stop == "killed":
        disk.kill()
    else:
        disk.crash(Random(1))
    recovery_point = log.log_end_offset if stop == "clean" else 0
    log = Log.open(
        disk,
        "t-0",
        CONFIG,
        NOW,
        topic_id=bytes(range(16)),
        clean=stop == "clean",
        was_killed=stop == "killed",
        recovery_point=recovery_point,
        is_noted=True,
    )
    assert offsets_of(log) == list(offsets)
    assert log.log_end_offset == offsets[-1] + 1
    log.check_whole()
    if offsets[-1] < 2**62:
        copy(log, offsets[-1] + 1)
        assert offsets_of(log) == [*offsets, offsets[-1] + 1]


def test_a_reader_of_an_offset_in_a_gap_goes_on_behind_it() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    copy(log, 5 * FAR)
    assert log.log_start_offset == 0
    part = log.read(17, 1000, until_offset=log.log_end_offset)
    assert part is not None
    assert [header.base_offset for _, header in batches(part.read())] == [5 * FAR]


def test_an_append_that_the_disk_refuses_behind_a_gap_is_made_again() -> None:
    for after in range(40):
        disk = SimDisk()
        log = Log.open(disk, "t-0", CONFIG, NOW)
        copy(log, 0)
        disk.fail(after)
        try:
            copy(log, FAR)
        except SyncFailed:
            continue  # the partition goes offline
        except StorageFailed:
            copy(log, FAR)
        disk.heal()
        assert offsets_of(log) == [0, FAR], after


def test_the_age_of_a_segment_without_timestamps_counts_from_the_first_look_at_it() -> None:
    config = LogConfig(segment_ms=1000)
    log = Log.open(SimDisk(), "t-0", config, NOW)
    for later_ms in (0, 500, 999, 1001, 1500, 2501):
        batch = build([b"k"], [b"v"], -1)
        now = NOW._replace(wall_ms=NOW.wall_ms + later_ms)
        log.append(batch, [header for _, header in batches(batch)], 0, now)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 5]
