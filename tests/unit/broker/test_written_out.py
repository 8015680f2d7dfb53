"""Logs that are written out before a stop, while the broker still follows others."""

from __future__ import annotations

from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.wire.errors import NONE
from tests.support.cluster_machine import ClusterMachine, role
from tests.support.machine import Machine
from tests.support.producing import create, produce


def test_a_follower_cuts_nothing_while_it_is_written_out_before_a_stop() -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2)
    assert machine.tell_roles(role(1, 5, isr=(1,))) == [NONE]
    for number in range(5):
        produce(machine, b"%d" % number)
    assert machine.tell_roles(role(2, 6)) == [NONE]
    replica, scheduler = machine.replica(), machine.broker.scheduler
    done: list[str] = []
    scheduler.begin("write out", machine.broker.partitions.write_out(), lambda _: done.append("written out"))
    for _ in range(5):
        machine.broker.run_timers(machine.clock.advance(1))
    scheduler.begin("cut", replica.truncate_to(2), lambda _: done.append("cut"))
    for _ in range(5):
        machine.broker.run_timers(machine.clock.advance(1))
    assert (done, replica.log.log_end_offset) == ([], 5)
    for _ in range(5):
        machine.pass_time(5)
    assert sorted(done) == ["cut", "written out"]
    assert (replica.log.log_end_offset, replica.log.synced_offset) == (2, 2)


def test_a_log_whose_every_sync_leads_to_another_append_is_written_out_all_the_same() -> None:
    """The stop of the broker waited for its whole time limit, because the next sync always began first."""
    machine = Machine(ottla_journal_bytes=0)
    create(machine, "t")
    partition, batch = machine.broker.partitions.get("t", 0), build(None, [b"v"], 0)
    assert partition is not None
    synced: list[int] = []
    done: list[str] = []

    def append(error_code: int = NONE) -> None:
        synced.append(error_code)
        if not done and not partition.append(bytearray(batch), (read_header(batch),), machine.clock.now()).error_code:
            partition.when_synced(partition.log.log_end_offset, append)

    def step() -> None:
        machine.disk.run_syncs()
        machine.broker.run_timers(machine.clock.advance(1))

    append()
    for _ in range(5):
        step()
    assert len(synced) > 4, "one sync follows the other"
    machine.broker.scheduler.begin("write out", machine.broker.partitions.write_out(), lambda _: done.append("written out"))
    for _ in range(20):
        step()
    assert done == ["written out"]
    assert partition.log.synced_offset == partition.log.log_end_offset
