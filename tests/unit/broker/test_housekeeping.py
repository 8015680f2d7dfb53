"""Retention, checkpoints and compaction beside requests: in slices, one durable step after the other, never waiting for a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from ottla.broker.partitions.checkpoints import NEW
from ottla.broker.serving.purgatory import DelayedReply
from ottla.log.checkpoints import RECOVERY_POINTS, read_offsets
from ottla.log.names import LEADER_EPOCHS
from ottla.ports import Buffer, StorageFailed, Syncable, SyncFailed, TryAgain
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.sim.disk import TOO_MANY_FILES, SimDisk, SimFile
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.errors import KAFKA_STORAGE_ERROR
from tests.support.machine import Machine
from tests.support.producing import PRODUCE, begin, create, delete, produce

MINUTE_MS = 60_000
DELETE_RECORDS = 21


@contextmanager
def nobody_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, a sync that was not asked for by `sync_soon` fails the test."""
    asked = []
    run_syncs, sync, sync_dir, write_file = SimDisk.run_syncs, SimFile.sync, SimDisk.sync_dir, SimDisk.write_file

    def run(self: SimDisk) -> int:
        asked.append(True)
        try:
            return run_syncs(self)
        finally:
            asked.pop()

    def of_file(self: SimFile) -> None:
        assert asked, f"{self.path} is synced on the broker's thread"
        sync(self)

    def of_directory(self: SimDisk, path: str) -> None:
        assert asked, f"the directory {path!r} is synced on the broker's thread"
        sync_dir(self, path)

    def of_whole_file(self: SimDisk, path: str, data: Buffer, *, sync: bool = True) -> None:
        assert not sync, f"{path} is synced on the broker's thread"
        write_file(self, path, data, sync=sync)

    with monkeypatch.context() as patch:
        patch.setattr(SimDisk, "write_file", of_whole_file)
        patch.setattr(SimDisk, "run_syncs", run)
        patch.setattr(SimFile, "sync", of_file)
        patch.setattr(SimDisk, "sync_dir", of_directory)
        yield


def size_bytes(machine: Machine, topic: str) -> int:
    partition = machine.broker.partitions.get(topic, 0)
    assert partition is not None
    return partition.log.size_bytes


def has_lost_names(disk: SimDisk) -> bool:
    """Whether a sync of the names in the data directory failed: nothing made there later is safe before a restart."""
    try:
        disk.directory("").sync()
    except SyncFailed:
        return True
    return False


def fill(machine: Machine, topic: str, rounds: int = 60) -> None:
    keys = [b"key-%d" % number for number in range(20)]
    for _ in range(rounds):
        produce(machine, topic=topic, batch=build(keys, [b"value"] * 20, machine.clock.now().wall_ms))


@pytest.mark.slow
@pytest.mark.expects_errors("Input/output error")
@pytest.mark.parametrize("refused", range(0, 120, 3))
def test_housekeeping_goes_on_whatever_the_disk_refuses_once(refused: int) -> None:
    machine = Machine(
        log_cleaner_backoff_ms=1000, log_retention_check_interval_ms=1000, log_flush_offset_checkpoint_interval_ms=1000
    )
    small = {"internal.segment.bytes": "1000", "file.delete.delay.ms": "0"}
    create(machine, "compacted", **small, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    create(machine, "deleted", **small, **{"retention.bytes": "1000"})
    for topic in ("compacted", "deleted"):
        fill(machine, topic, 10)
    machine.disk.fail(refused)
    for _ in range(30):
        machine.pass_time(1000)
    machine.disk.heal()
    if has_lost_names(machine.disk):
        machine.kill()
    create(machine, "later-compacted", **small, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    create(machine, "later-deleted", **small, **{"retention.bytes": "1000"})
    before = {}
    for topic in ("later-compacted", "later-deleted"):
        fill(machine, topic, 10)
        before[topic] = size_bytes(machine, topic)
    for _ in range(100):
        machine.pass_time(1000)
    for topic, size in before.items():
        assert size_bytes(machine, topic) < size / 2
    assert {("later-compacted", 0), ("later-deleted", 0)} <= read_offsets(machine.disk, RECOVERY_POINTS).keys()


def test_housekeeping_waits_for_no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(log_cleaner_backoff_ms=100, log_retention_check_interval_ms=5 * MINUTE_MS)
    small = {"internal.segment.bytes": "1000", "file.delete.delay.ms": "0"}
    create(machine, "compacted", **small, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    create(machine, "deleted", **small, **{"retention.bytes": "1000"})
    for topic in ("compacted", "deleted"):
        fill(machine, topic)
    before = {topic: size_bytes(machine, topic) for topic in ("compacted", "deleted")}
    with nobody_waits_for_the_disk(monkeypatch):
        for _ in range(400):
            machine.pass_time(1000)
    for topic, size in before.items():
        assert size_bytes(machine, topic) < size / 4
    assert set(read_offsets(machine.disk, RECOVERY_POINTS)) == {("compacted", 0), ("deleted", 0)}


def test_deleting_a_topic_waits_for_none_of_its_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    create(machine, "t", 20)
    with nobody_waits_for_the_disk(monkeypatch):
        delete(machine, "t")
    assert not [name for name in machine.disk.list("") if name.startswith("t-")]


@pytest.mark.expects_errors("Input/output error")
def test_a_sync_that_retention_needs_and_that_fails_takes_the_partition_offline() -> None:
    machine = Machine()
    create(machine, "t", **{"internal.segment.bytes": "1000", "retention.bytes": "1000"})
    fill(machine, "t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        machine.pass_time(5 * MINUTE_MS)
    machine.disk.fail(0, count=50)
    machine.settle()
    machine.disk.heal()
    assert produce(machine, b"no").error_code == KAFKA_STORAGE_ERROR


@pytest.mark.expects_errors("Input/output error")
def test_a_checkpoint_whose_sync_fails_notes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    create(machine, "t", **{"index.interval.bytes": "0"})
    for _ in range(3):
        produce(machine, b"x")

    def failing(self: SimFile) -> None:
        self._disk.fail(0)
        sync(self)

    sync = SimFile.sync
    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "sync", failing)
        machine.pass_time(MINUTE_MS)
    machine.pass_time(MINUTE_MS)
    assert read_offsets(machine.disk, RECOVERY_POINTS) == {}
    assert produce(machine, b"no").error_code == KAFKA_STORAGE_ERROR


def expire(machine: Machine, topic: str) -> None:
    machine.pass_time(8 * 24 * 60 * MINUTE_MS)


def delete_all_records(machine: Machine, topic: str) -> None:
    to_the_end = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=-1)
    wanted = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[to_the_end])
    answer = machine.ask(DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[wanted], timeout_ms=1000))
    assert [part.error_code for part in answer.topics[0].partitions] == [0]
    machine.pass_time(5 * MINUTE_MS)


@pytest.mark.parametrize("forget", [expire, delete_all_records])
def test_a_partition_whose_records_all_went_is_online(forget: Callable[[Machine, str], None]) -> None:
    machine = Machine()
    create(machine, "t")
    for _ in range(5):
        produce(machine, b"old")
    forget(machine, "t")
    assert size_bytes(machine, "t") == 0
    assert produce(machine, b"new").error_code == 0
    machine.pass_time(MINUTE_MS)
    assert read_offsets(machine.disk, RECOVERY_POINTS) == {("t", 0): 6}


def test_a_partition_that_is_kept_small_is_online() -> None:
    machine = Machine()
    create(machine, "t", **{"internal.segment.bytes": "1000", "retention.bytes": "1000", "file.delete.delay.ms": "0"})
    for number in range(30):
        fill(machine, "t", rounds=3)
        machine.pass_time(5 * MINUTE_MS if number % 2 else MINUTE_MS)
    assert size_bytes(machine, "t") <= 2000
    assert read_offsets(machine.disk, RECOVERY_POINTS)


@contextmanager
def short_of_handles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, no sync can begin."""

    def refuse(self: SimDisk, files: Iterable[Syncable], done: Callable[[StorageFailed | None], None]) -> None:
        raise TryAgain(next(iter(files)).path, TOO_MANY_FILES)

    with monkeypatch.context() as patch:
        patch.setattr(SimDisk, "sync_soon", refuse)
        yield


def test_a_sync_for_which_there_is_no_handle_is_made_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(ottla_journal_bytes=0)
    create(machine, "t")
    with short_of_handles(monkeypatch):
        pending = begin(machine, b"patient")
        machine.pass_time(500)
        assert isinstance(pending, DelayedReply)
        assert not pending.done
    machine.pass_time(500)
    assert pending.done
    assert machine.finish(PRODUCE, 9, pending).responses[0].partition_responses[0].error_code == 0
    assert [record.levelname for record in caplog.records if "could not begin" in record.message] == ["WARNING"]


@pytest.mark.expects_errors("Too many open files")
def test_a_checkpoint_for_which_there_is_no_handle_is_written_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(ottla_journal_bytes=0)
    create(machine, "t")
    produce(machine, b"one")
    with short_of_handles(monkeypatch):
        machine.pass_time(MINUTE_MS)
    assert read_offsets(machine.disk, RECOVERY_POINTS) == {}
    machine.pass_time(MINUTE_MS)
    assert read_offsets(machine.disk, RECOVERY_POINTS) == {("t", 0): 1}


@pytest.mark.expects_errors("Too many open files")
def test_retention_and_compaction_for_which_there_is_no_handle_go_on_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(log_cleaner_backoff_ms=100)
    small = {"internal.segment.bytes": "1000", "file.delete.delay.ms": "0"}
    create(machine, "compacted", **small, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    create(machine, "deleted", **small, **{"retention.bytes": "1000"})
    for topic in ("compacted", "deleted"):
        fill(machine, topic, rounds=10)
    with short_of_handles(monkeypatch):
        for _ in range(6):
            machine.pass_time(MINUTE_MS)
    for _ in range(12):
        machine.pass_time(MINUTE_MS)
    for topic in ("compacted", "deleted"):
        assert size_bytes(machine, topic) < 3000
        assert produce(machine, topic=topic, batch=build([b"key"], [b"on"], 0)).error_code == 0


def test_a_topic_that_is_deleted_during_its_sync_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    create(machine, "t")
    begin(machine, b"never kept")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    delete(machine, "t")
    partition.fail(StorageFailed("t-0", "it is deleted"))
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.expects_errors("Input/output error")
def test_a_checkpoint_that_could_not_be_synced_is_written_as_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(ottla_journal_bytes=0)
    create(machine, "t")
    produce(machine, b"one")
    held: list[SimFile] = []
    may = SimDisk.may

    def refuse(self: SimDisk, operation: str, path: str, size: int = 0) -> None:
        if operation == "sync" and path.endswith(NEW):
            held.append(machine.disk.open(path))
            raise StorageFailed(path, "Input/output error")
        may(self, operation, path, size)

    with monkeypatch.context() as patch:
        patch.setattr(SimDisk, "may", refuse)
        machine.pass_time(MINUTE_MS)
    assert held
    assert read_offsets(machine.disk, RECOVERY_POINTS) == {}
    machine.pass_time(MINUTE_MS)
    produce(machine, b"two")
    machine.pass_time(MINUTE_MS)
    assert read_offsets(machine.disk, RECOVERY_POINTS) == {("t", 0): 2}


def test_a_stop_finds_little_to_sync_once_all_was_written_out_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    create(machine, "many", 20)
    for partition in machine.broker.partitions:
        batch = build([None], [b"x"], machine.clock.now().wall_ms)
        partition.append(batch, [header for _, header in batches(batch)], machine.clock.now())
    machine.broker.scheduler.begin("write out", machine.broker.partitions.write_out())
    for _ in range(5):
        machine.pass_time(10)
    assert all(partition.log.synced_offset == 1 for partition in machine.broker.partitions)
    synced: list[tuple[str, str]] = []
    monkeypatch.setattr(SimDisk, "may_sync", lambda disk, operation, path: synced.append((operation, path)))
    assert machine.broker.close()
    assert not [path for operation, path in synced if operation == "sync_dir" and path]
    assert not [path for _, path in synced if path.endswith(LEADER_EPOCHS)]


def test_a_stop_syncs_what_could_not_be_written_out_side_by_side() -> None:
    machine = Machine()
    create(machine, "t")
    produce(machine, b"one")
    machine.disk.fail(0, TOO_MANY_FILES, count=10)
    machine.broker.scheduler.begin("write out", machine.broker.partitions.write_out())
    for _ in range(5):
        machine.pass_time(10)
    machine.disk.heal()
    assert machine.broker.close()
    machine.disk.crash(Random(1))
    assert b"\n0 0" in machine.disk.read_file(f"t-0/{LEADER_EPOCHS}")
