"""Logs that are written out before a stop, while the broker still follows others."""

from __future__ import annotations

from ottla.wire.errors import NONE
from tests.support.cluster_machine import ClusterMachine, role
from tests.support.producing import produce


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
