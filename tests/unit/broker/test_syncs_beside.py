"""The thread that answers requests waits for no sync when a log goes on in another segment, or has gaps for the first time."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.segments.compacted_note import read_compacted
from ottla.ports import Buffer
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.sim.disk import SimDisk
from ottla.wire.api.produce import ProduceResponse
from tests.support.machine import Machine
from tests.support.producing import create, request

PRODUCE = 0


class WatchedDisk(SimDisk):
    """Counts what a thread waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[str] = []

    def sync_dir(self, path: str) -> None:
        self.waited.append(path)
        super().sync_dir(path)

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        if sync:
            self.waited.append(path)
        super().write_file(path, data, sync=sync)


class WatchedMachine(Machine):
    """A broker on such a disk."""

    def _start(self, *, clean: bool) -> Any:
        if not isinstance(self.disk, WatchedDisk):
            self.disk = WatchedDisk()
        return super()._start(clean=clean)

    @property
    def waited(self) -> list[str]:
        assert isinstance(self.disk, WatchedDisk)
        return self.disk.waited

    @property
    def partition(self) -> Partition:
        found = self.broker.partitions.get("t", 0)
        assert found is not None
        return found

    def write(self, number: int, acks: int) -> None:
        """Append one batch; the log goes on in another segment after each two or so."""
        batch = build([b"k"], [b"%0400d" % number], self.clock.now().wall_ms)
        answer = self.ask(PRODUCE, 9, request(batch, acks=acks))
        assert isinstance(answer, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_a_log_goes_on_in_another_segment_without_a_wait(acks: int) -> None:
    machine = WatchedMachine()
    create(machine, "t")
    machine.partition.log.config = replace(machine.partition.log.config, segment_bytes=1000)
    machine.waited.clear()
    for number in range(20):
        machine.write(number, acks)
    assert len(machine.partition.log.segments) == 10
    assert [path for path in machine.waited if path.startswith("t-0")] == []


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_leaves_no_segment_without_those_before_it(seed: int) -> None:
    """With acks=1 nothing was synced but names."""
    machine = WatchedMachine()
    create(machine, "t")
    machine.partition.log.config = replace(machine.partition.log.config, segment_bytes=1000)
    for number in range(1 + Random(seed).randrange(20)):
        machine.write(number, 1)
    machine.cut_power(seed)
    assert machine.partition.offline is None
    log = machine.partition.log
    assert log.log_start_offset == 0
    machine.write(0, -1)


@pytest.mark.expects_errors("a sync failed")
def test_a_sync_of_names_that_fails_takes_the_partition_offline() -> None:
    machine = WatchedMachine()
    create(machine, "t")
    machine.disk.fail_names()
    batch = build([b"k"], [b"v"], machine.clock.now().wall_ms)
    machine.ask(PRODUCE, 9, request(batch, acks=1))
    assert machine.partition.offline is not None


# Followers

COMPACT: dict[str, Any] = {"cleanup_policy": "compact", "segment_bytes": 1000, "min_cleanable_dirty_ratio": 0.01}


def batch_at(machine: Machine, offset: int) -> bytearray:
    batch = build([b"key %d" % (offset % 3)], [b"%0300d" % offset], machine.clock.now().wall_ms)
    batch[0:8] = offset.to_bytes(8, "big")
    return batch


def test_a_note_of_gaps_is_synced_beside_before_batches_show_them() -> None:
    machine = Machine()
    disk = machine.disk = WatchedDisk()
    log = Log.open(disk, "c-0", LogConfig(**COMPACT), machine.clock.now())
    records = batch_at(machine, 0) + batch_at(machine, 5)
    headers = [header for _, header in batches(records)]
    assert log.lacks_note(headers)
    for file in log.note_gaps_soon():
        file.sync()
    assert not log.lacks_note(headers)
    disk.waited.clear()
    log.append_as_follower(memoryview(records), headers, machine.clock.now())
    assert disk.waited == []
    disk.crash(Random(1))
    assert read_compacted(disk, "c-0") == {(0, 0)}


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_note_of_compaction_takes_no_note_of_copied_gaps_away(is_beside: bool) -> None:
    """The follower's came while compaction's was being synced."""
    disk, now = SimDisk(), Machine().clock.now()
    log = Log.open(disk, "c-0", LogConfig(**COMPACT), now)
    for offset in range(12):
        batch = batch_at(Machine(), offset)
        log.append_as_follower(memoryview(batch), [header for _, header in batches(batch)], now)
    for dirty in log.dirty_files():
        dirty.sync()
    log.mark_synced(12)
    has_copied = False
    for files in Compaction(log, disk, dirtiness(log, 0, now), now, bytes(16)).run():
        if files and not has_copied and any("compacted" in getattr(file, "path", "") for file in files):
            has_copied = True
            batch = batch_at(Machine(), 20)
            headers = [header for _, header in batches(batch)]
            if is_beside:
                for own in log.note_gaps_soon():
                    own.sync()
            log.append_as_follower(memoryview(batch), headers, now)
        for file in files or ():
            file.sync()
    assert has_copied
    known, base = read_compacted(disk, "c-0"), log.segments[-1].base_offset
    assert known is not None
    assert (base, 0) in known
    assert any(each_base < base for each_base, _ in known)


def test_a_note_that_cannot_be_synced_is_not_taken_for_one() -> None:
    disk = SimDisk()
    log = Log.open(disk, "c-0", LogConfig(**COMPACT), Machine().clock.now())
    noting = log.note_gaps_soon()
    next(noting)
    noting.close()
    assert not log.segments[-1].may_have_gaps
    assert read_compacted(disk, "c-0") is None
    assert [name for name in disk.list("c-0") if "new" in name] == []
