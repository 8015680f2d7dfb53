"""Cuts of followers in a broker: beside a change of leaders, compaction, checkpoints, and a disk that refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.replication.replica import Replica
from ottla.log.checkpoints import CLEANED_OFFSETS, RECOVERY_POINTS, read_offsets
from ottla.log.producer_state.snapshots import run_to_end
from ottla.ports import StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.wire.errors import NONE
from tests.support.cluster_machine import ClusterMachine, role

COMPACT: dict[str, Any] = {"cleanup_policy": "compact", "segment_bytes": 400, "min_cleanable_dirty_ratio": 0.01}
SETTINGS = {"log.cleaner.backoff.ms": "100"}


def following(machine: ClusterMachine, leader_epoch: int = 5, **settings: Any) -> Replica:
    assert machine.tell_roles(role(2, leader_epoch)) == [NONE]
    replica = machine.replica()
    replica.configure(replace(replica.config, **settings))
    replica.log.config = replica.config
    return replica


def copy(machine: ClusterMachine, *offsets: int, leader_epoch: int = 5, keys: int = 3) -> None:
    for offset in offsets:
        batch = build([b"key %d" % (offset % keys)], [b"%d in epoch %d" % (offset, leader_epoch)], 1000)
        batch[0:8] = offset.to_bytes(8, "big")
        batch[12:16] = leader_epoch.to_bytes(4, "big")
        machine.replica().append_as_follower(memoryview(batch), machine.clock.now())


def synced(machine: ClusterMachine) -> None:
    machine.broker.partitions.syncs.want(machine.replica())
    machine.settle()
    machine.pass_time(60_000)  # a checkpoint says that all of it is on stable storage


def cut(machine: ClusterMachine, offset: int) -> list[str]:
    """Begin a cut; what comes of it is in the returned list once it is over."""
    over: list[str] = []
    machine.broker.scheduler.begin(
        "cut", machine.replica().truncate_to(offset), lambda _: over.append("done"), lambda failure: over.append(str(failure))
    )
    return over


def pass_turns(machine: ClusterMachine, turns: int = 10) -> None:
    for _ in range(turns):
        machine.pass_time(5)


def offsets(replica: Replica) -> list[int]:
    found: list[int] = []
    offset = replica.log.log_start_offset
    while (part := replica.log.read(offset, 1 << 20, until_offset=replica.log.log_end_offset)) is not None:
        found += [header.base_offset for _, header in batches(part.read())]
        offset = found[-1] + 1
    return found


def noted(machine: ClusterMachine, name: str) -> int | None:
    return read_offsets(machine.disk, name).get(("t", 0))


def test_no_later_leader_has_its_batches_cut_because_of_what_an_earlier_one_said() -> None:
    machine = ClusterMachine()
    following(machine)
    copy(machine, *range(5))
    synced(machine)
    over = cut(machine, 2)  # it waits for the recovery point to be lowered
    assert over == []
    assert machine.tell_roles(role(3, 6)) == [NONE]
    pass_turns(machine)
    assert over == ["done"]
    assert offsets(machine.replica()) == [0, 1, 2, 3, 4]


def test_a_cut_into_a_gap_leaves_a_log_that_opens_after_a_kill() -> None:
    """The recovery point must not be within the gap: the log ends before it."""
    machine = ClusterMachine()
    replica = following(machine)
    copy(machine, 0, 1, 2, 20, 21)
    synced(machine)
    cut(machine, 10)
    pass_turns(machine)
    assert replica.log.log_end_offset == 3
    assert (noted(machine, RECOVERY_POINTS) or 0) <= 3
    machine.kill()
    assert machine.tell_roles(role(2, 6)) == [NONE]
    assert machine.replica().offline is None
    assert offsets(machine.replica()) == [0, 1, 2]


def compacted(machine: ClusterMachine) -> Replica:
    replica = following(machine, **COMPACT)
    copy(machine, *range(40))
    synced(machine)
    replica.set_high_watermark(40)
    for _ in range(40):
        machine.pass_time(50)
    assert machine.broker.cleaner.cleaned_offset(replica) > 10
    return replica


@pytest.mark.parametrize("then", ["goes on", "kill"])
def test_what_follows_a_cut_is_compacted_again(then: str) -> None:
    machine = ClusterMachine(**SETTINGS)
    replica = compacted(machine)
    cut(machine, 10)
    pass_turns(machine)
    end = replica.log.log_end_offset
    assert end <= 10
    assert machine.broker.cleaner.cleaned_offset(replica) <= end
    assert (noted(machine, CLEANED_OFFSETS) or 0) <= end
    if then == "kill":
        machine.kill()
        replica = following(machine, 6, **COMPACT)
    copy(machine, *range(end, 60), leader_epoch=6)
    replica.set_high_watermark(60)
    machine.broker.partitions.syncs.want(replica)
    for _ in range(60):
        machine.pass_time(50)
    sealed = [offset for offset in offsets(replica) if offset < replica.log.segments[-1].base_offset]
    assert len({offset % 3 for offset in sealed}) == len(sealed)


def test_a_compaction_that_is_overtaken_by_a_cut_begins_again() -> None:
    machine = ClusterMachine(**SETTINGS)
    replica = following(machine, **COMPACT)
    copy(machine, *range(400))
    synced(machine)
    replica.set_high_watermark(400)
    for _ in range(100):
        machine.broker.run_timers(machine.clock.advance(10))
        if any(name.endswith(".cleaned") for name in machine.disk.list("t-0")):
            break
    over = cut(machine, 200)
    pass_turns(machine)
    assert over == ["done"]
    copy(machine, *range(replica.log.log_end_offset, 300), leader_epoch=6)
    replica.set_high_watermark(300)
    machine.broker.partitions.syncs.want(replica)
    for _ in range(100):
        machine.pass_time(50)
    sealed = [offset for offset in offsets(replica) if offset < replica.log.segments[-1].base_offset]
    assert 0 < len(sealed) <= 3


@pytest.mark.expects_errors("a checkpoint could not be written")
@pytest.mark.parametrize("after", range(0, 40, 2))
def test_readers_never_see_beyond_a_cut_that_the_disk_refused(after: int) -> None:
    machine = ClusterMachine()
    replica = following(machine, segment_bytes=200)
    copy(machine, *range(12))
    synced(machine)
    replica.set_high_watermark(12)
    machine.disk.fail(after)
    over = cut(machine, 3)
    pass_turns(machine)
    machine.disk.heal()
    assert replica.high_watermark <= replica.log.log_end_offset
    if "sync" in over[0]:
        return  # whoever asked for the cut takes the replica offline
    if over != ["done"]:
        over = cut(machine, 3)
        pass_turns(machine)
        assert over == ["done"]
    assert offsets(replica) == [0, 1, 2]


def test_a_replica_whose_cut_is_not_finished_leads_only_once_it_is() -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2)
    replica = following(machine, segment_bytes=200)
    copy(machine, *range(12))
    plan = run_to_end(replica.log.plan_cut(3))
    assert plan is not None
    machine.disk.fail(0)
    with pytest.raises(StorageFailed):
        replica.log.cut(plan)
    machine.disk.fail(0)
    with pytest.raises(StorageFailed):
        replica.log.assign_leader_epoch(7)
    assert machine.tell_roles(role(1, 8, isr=(1,))) == [NONE]
    assert machine.disk.list("t-0").count("00000000000000000004.log") == 0
    assert replica.log.epochs.entries == [(5, 0), (8, 3)]
