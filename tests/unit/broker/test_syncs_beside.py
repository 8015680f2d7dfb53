"""The thread that answers requests waits for no sync when a log goes on in another segment, or has gaps for the first time."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.ports import Buffer
from ottla.records.build import build
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
