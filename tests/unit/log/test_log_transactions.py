"""Transactions as a log sees them: the last stable offset, aborted ones told to readers, markers fenced and compacted away."""

from __future__ import annotations

import pytest

from ottla.log.compaction import Compaction
from ottla.log.dirtiness import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.transactions import ABORT, COMMIT, ENTRY
from ottla.ports import Now
from ottla.records.batch import batches
from ottla.records.build import build
from ottla.sim.disk import SimDisk
from ottla.sim.invariants import stored_records
from ottla.wire.errors import INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED
from tests.unit.log.batches import NOW, append, read_all

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
