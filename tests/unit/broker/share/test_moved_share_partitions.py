"""Share partitions move with the leadership of their partitions: none is served where its partition is not led."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.wire.errors import NONE, NOT_LEADER_OR_FOLLOWER
from tests.support.cluster_machine import ClusterMachine, role, told
from tests.support.held_states import HeldStates
from tests.support.share_members import ACCEPT, SHARE_ACKNOWLEDGE, SHARE_FETCH, PlayedMember

T = ("t", 0)


@pytest.fixture
def machine() -> ClusterMachine:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    lead(machine, 1, 0)
    append(machine)
    machine.broker.image.features["share.version"] = 1
    return machine


def lead(machine: ClusterMachine, leader: int, epoch: int) -> None:
    assert machine.tell_roles(role(leader, epoch, isr=(leader,), replicas=(1, 2, 3), partition_epoch=epoch)) == [NONE]
    machine.tell_topic(told(0, leader, leader_epoch=epoch, isr=[leader], replicas=[1, 2, 3]))


def append(machine: ClusterMachine) -> None:
    partition = machine.replica()
    batch = build(None, [b"a", b"b"], machine.clock.now().wall_ms)
    headers = [header for _, header in batches(batch)]
    assert partition.append(batch, headers, machine.clock.now()).error_code == NONE


def begun(machine: ClusterMachine, states: HeldStates, member: PlayedMember, **fields: Any) -> None:
    pending = member.begin(max_wait_ms=1000, **fields)
    assert isinstance(pending, DelayedReply)
    states.answer_reads()
    assert member.end(pending)[T].acquired


def test_a_waiting_fetch_is_answered_when_the_leadership_moves(machine: ClusterMachine) -> None:
    states, member = HeldStates(machine), PlayedMember(machine)
    begun(machine, states, member)
    pending = member.begin(max_wait_ms=60_000)
    assert isinstance(pending, DelayedReply)
    lead(machine, 2, 1)
    assert len(machine.broker.shares) == 0
    answer = machine.finish(SHARE_FETCH, 2, pending)
    (part,) = answer.responses[0].partitions
    assert (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch) == (NOT_LEADER_OR_FOLLOWER, 2, 1)
    assert [(node.node_id, node.host) for node in answer.node_endpoints] == [(2, "h2")]


def test_an_acknowledgement_at_the_old_leader_is_refused_with_the_new_one(machine: ClusterMachine) -> None:
    states, member = HeldStates(machine), PlayedMember(machine)
    begun(machine, states, member)
    lead(machine, 3, 1)
    answer = machine.ask(SHARE_ACKNOWLEDGE, 2, member.acknowledge_request([("t", 0, [(0, 1, [ACCEPT])])]))
    (part,) = answer.responses[0].partitions
    assert (part.error_code, part.current_leader.leader_id) == (NOT_LEADER_OR_FOLLOWER, 3)
    assert [node.node_id for node in answer.node_endpoints] == [3]
    assert states.writes == []


def test_a_leader_that_returns_reads_the_state_again_in_its_new_epoch(machine: ClusterMachine) -> None:
    states, member = HeldStates(machine), PlayedMember(machine)
    begun(machine, states, member)
    lead(machine, 2, 1)
    lead(machine, 1, 2)
    pending = member.begin(max_wait_ms=1000)
    assert isinstance(pending, DelayedReply)
    assert [place.leader_epoch for owed in states.reads for place in owed.places] == [2]
    states.start_offset = 1
    states.answer_reads()
    assert member.end(pending)[T].acquired == [(1, 1, 1)]


def test_a_write_that_was_under_way_is_answered_although_the_leadership_has_moved(machine: ClusterMachine) -> None:
    states, member = HeldStates(machine), PlayedMember(machine)
    begun(machine, states, member)
    pending = member.begin_acknowledge(("t", 0, [(0, 1, [ACCEPT])]))
    assert isinstance(pending, DelayedReply)
    lead(machine, 2, 1)
    states.answer_writes()
    answer = machine.finish(SHARE_ACKNOWLEDGE, 2, pending)
    assert answer.responses[0].partitions[0].error_code == NONE


def test_a_deleted_replica_takes_its_share_partitions_along(machine: ClusterMachine) -> None:
    states, member = HeldStates(machine), PlayedMember(machine)
    begun(machine, states, member)
    pending = member.begin(max_wait_ms=60_000)
    assert machine.stop(leader_epoch=-2, delete=True) == NONE
    machine.pass_time(10)
    assert len(machine.broker.shares) == 0
    assert isinstance(pending, DelayedReply)
    assert pending.done


def test_records_wait_for_the_high_watermark(machine: ClusterMachine) -> None:
    assert machine.tell_roles(role(1, 1, isr=(1, 2), replicas=(1, 2, 3), partition_epoch=1)) == [NONE]
    states, member = HeldStates(machine), PlayedMember(machine)
    append(machine)
    pending = member.begin(max_wait_ms=500)
    assert isinstance(pending, DelayedReply)
    states.answer_reads()
    machine.pass_time(500)
    found = member.end(pending)[T].acquired
    assert found in ([(0, 1, 1)], [])
