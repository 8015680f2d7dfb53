"""The batches of a log that are possibly not durable: what goes into the journal, and when own files are synced instead."""

from __future__ import annotations

from random import Random

from ottla.log.log import Log, LogConfig
from ottla.log.unsynced_batches import UnsyncedBatches
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, sync

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=0)
MOST = 1 << 20


def opened(config: LogConfig = CONFIG) -> Log:
    return Log.open(SimDisk(), "t-0", config, NOW)


def content(found: UnsyncedBatches | None) -> bytes:
    assert found is not None
    data = b"".join(part.read() for part in found.parts)
    assert len(data) == found.size
    return data


def whole(log: Log) -> bytes:
    return b"".join(segment.file.read(0, segment.size) for segment in log.segments)


def test_each_begins_where_the_one_before_ended() -> None:
    log, random, journaled = opened(), Random(1), b""
    for _ in range(200):
        for _ in range(random.randrange(3)):
            append(log, make_batch(random.randrange(1, 4), random.randrange(40, 120)))
        found = log.unsynced_batches(MOST)
        if found is None:  # three segments were begun since
            sync(log)
            journaled = whole(log)
            continue
        assert found.base_offset == log.durable_offset
        journaled += content(found)
        log.mark_journaled(found)
        assert log.durable_offset == log.log_end_offset == found.end.offset
        assert journaled == whole(log)
    assert len(log.segments) > 50
    assert log.synced_offset < log.durable_offset or log.synced_offset == log.log_end_offset


def test_more_than_the_limit_is_synced_in_own_files() -> None:
    log = opened(LogConfig())
    append(log, make_batch(size=500))
    size = content(log.unsynced_batches(MOST)).__len__()
    assert log.unsynced_batches(size - 1) is None
    assert log.unsynced_batches(size) is not None
    sync(log)
    assert content(log.unsynced_batches(0)) == b""


def test_a_sync_of_own_files_beside_a_write_into_the_journal_leaves_no_hole() -> None:
    log = opened(LogConfig())
    append(log, make_batch())
    first, upto, files = log.unsynced_batches(MOST), log.log_end_offset, log.dirty_files()
    assert first is not None
    log.mark_journaled(first)
    append(log, make_batch(2))
    second = log.unsynced_batches(MOST)
    assert second is not None
    for file in files:
        file.sync()
    log.mark_synced(upto)  # ends while the second write is under way
    assert (log.synced_offset, log.durable_offset) == (1, 1)
    log.mark_journaled(second)
    assert (log.synced_offset, log.durable_offset) == (1, 3)
    append(log, make_batch(3))
    third = log.unsynced_batches(MOST)
    assert third is not None
    assert third.base_offset == 3


def test_after_a_cut_own_files_are_synced_first() -> None:
    log = opened(LogConfig())
    for _ in range(3):
        append(log, make_batch())
    found = log.unsynced_batches(MOST)
    assert found is not None
    log.mark_journaled(found)
    log.truncate_to(1)
    assert log.durable_offset == 1
    append(log, make_batch(), leader_epoch=1)
    assert log.unsynced_batches(MOST) is None
    sync(log)
    assert log.durable_offset == log.synced_offset == 2
    append(log, make_batch(), leader_epoch=1)
    assert log.unsynced_batches(MOST) is not None


def test_a_log_that_begins_again_at_another_offset_is_durable_from_there() -> None:
    log = opened(LogConfig())
    append(log, make_batch())
    log.restart_at(500)
    assert log.durable_offset == log.synced_offset == 500
    assert log.unsynced_batches(MOST) is None
    append(log, make_batch())
    assert log.durable_offset == 500


def test_own_files_are_synced_where_the_place_is_in_a_segment_that_was_deleted() -> None:
    log = opened(LogConfig(segment_bytes=200, index_interval_bytes=0, retention_bytes=200))
    append(log, make_batch(size=100))
    for _ in range(6):
        append(log, make_batch(size=100))
    log.retain(NOW, until_offset=log.log_end_offset)
    assert log.unsynced_batches(MOST) is None
    assert log.durable_offset == 0
