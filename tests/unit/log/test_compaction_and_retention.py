"""Retention in the middle of a pass of compaction: whatever goes meanwhile, the pass ends, and what is left is the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.names import LOG
from ottla.ports import Now, StorageFailed, Syncable, SyncFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.sim.disk import SimDisk
from ottla.sim.invariants import stored_records
from tests.unit.log.batches import NOW, sync

CONFIG = LogConfig(cleanup_policy="compact,delete", segment_bytes=400, retention_ms=1000, file_delete_delay_ms=0)
KEYS = [b"a", b"b", b"c"]
STEPS = 60


def filled(disk: SimDisk) -> Log:
    """Fifteen old records in several segments, and three new ones in the newest."""
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=False)
    for number in range(18):
        batch = build([KEYS[number % 3]], [b"%060d" % number], NOW.wall_ms + (1000 if number >= 15 else 0))
        log.append(batch, [header for _, header in batches(batch)], 0, NOW)
        if number == 14:
            log.roll()
    sync(log)
    return log


def sync_all(files: Sequence[Syncable] | None) -> None:
    for file in files or ():
        file.sync()


def retain(log: Log, segments: int) -> None:
    """Have so many segments go, as the clock says."""
    late = Now(NOW.wall_ms + 1500, NOW.mono_ms + 1500)
    log.retain(late, most=segments)
    log.directory.sync()
    log.names_are_synced()
    log.retain(Now(late.wall_ms, late.mono_ms + 1), most=0)


@pytest.mark.parametrize("segments", [1, 2, 100])
def test_a_pass_ends_whatever_retention_takes_from_it(segments: int) -> None:
    for step in range(STEPS):
        disk = SimDisk()
        log = filled(disk)
        pauses = Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run()
        for _ in range(step):
            sync_all(next(pauses, None))
        retain(log, segments)
        with suppress(StorageFailed):  # what the pass reads is gone: the next one does better
            for files in pauses:
                sync_all(files)
        assert {record.key: record.value for record in stored_records(log)} == {
            key: b"%060d" % (15 + number) for number, key in enumerate(KEYS)
        }
        assert not [name for name in disk.list("t-0") if name.endswith(".cleaned")]


@pytest.mark.expects_errors("old segments could not be deleted")
def test_a_disk_that_fails_while_segments_are_deleted_leaves_a_log_of_the_files_that_are_there() -> None:
    """Each segment of the log can be read and cut afterwards, and the next call deletes the rest."""
    for operation in range(40):
        disk = SimDisk()
        log = filled(disk)
        disk.fail(operation)
        try:
            retain(log, 3)
        except SyncFailed:  # the log takes no more writes until a restart
            continue
        except StorageFailed:
            pass
        disk.heal()
        missing = [segment.base_offset for segment in log.segments if not disk.exists(segment.path(LOG))]
        assert not missing, f"operation {operation} failed"
        retain(log, 100)
        assert [record.offset for record in stored_records(log)] == [15, 16, 17]
