"""Share partitions whose state is read and written by a share coordinator that takes its time, fails, or has a newer leader."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.wire.errors import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    INVALID_RECORD_STATE,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.held_states import HeldStates
from tests.support.machine import Machine
from tests.support.producing import create, delete, produce
from tests.support.share_members import ACCEPT, RELEASE, SHARE_ACKNOWLEDGE, PlayedMember

T = ("t", 0)


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    create(machine, "t")
    for value in (b"a", b"b", b"c"):
        produce(machine, value)
    return machine


@pytest.fixture
def states(machine: Machine) -> HeldStates:
    return HeldStates(machine)


def waiting(member: PlayedMember, **fields: Any) -> DelayedReply:
    pending = member.begin(**{"max_wait_ms": 10_000, **fields})
    assert isinstance(pending, DelayedReply)
    assert not pending.done
    return pending


def test_fetches_of_two_members_wait_for_one_read_of_the_state(machine: Machine, states: HeldStates) -> None:
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    first, second = waiting(one, max_records=1), waiting(other, max_records=1)
    assert len(states.reads) == 1
    states.answer_reads()
    assert one.end(first)[T].acquired == [(0, 0, 1)]
    assert other.end(second)[T].acquired == [(1, 1, 1)]


def test_a_state_that_cannot_be_read_is_an_error_and_is_read_again_by_the_next_fetch(machine: Machine, states: HeldStates) -> None:
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    first, second = waiting(one), waiting(other)
    states.answer_reads(COORDINATOR_NOT_AVAILABLE)
    assert one.end(first)[T].error_code == COORDINATOR_NOT_AVAILABLE
    assert other.end(second)[T].error_code == COORDINATOR_NOT_AVAILABLE
    assert states.reads == [], "nobody reads it while nobody asks"
    pending = waiting(one)
    states.answer_reads()
    assert one.end(pending)[T].acquired == [(0, 2, 1)]


def test_a_fetch_ends_in_time_although_the_state_is_not_read_yet(machine: Machine, states: HeldStates) -> None:
    member = PlayedMember(machine)
    pending = waiting(member, max_wait_ms=50)
    machine.pass_time(50)
    assert member.end(pending) == {}
    states.answer_reads()
    assert member.fetch()[T].acquired == [(0, 2, 1)]


def test_acknowledged_records_are_nobodys_until_they_are_stored(machine: Machine, states: HeldStates) -> None:
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    pending = waiting(one)
    states.answer_reads()
    one.end(pending)
    acknowledged = one.begin_acknowledge(("t", 0, [(0, 0, [ACCEPT]), (1, 2, [RELEASE])]))
    assert isinstance(acknowledged, DelayedReply)
    assert other.fetch()[T].acquired == []
    again = one.begin_acknowledge(("t", 0, [(0, 0, [ACCEPT])]))
    assert again.responses[0].partitions[0].error_code == INVALID_RECORD_STATE
    states.answer_writes()
    assert acknowledged.done
    assert other.fetch()[T].acquired == [(1, 2, 2)]


def test_what_could_not_be_stored_is_held_by_its_member_as_before(machine: Machine, states: HeldStates) -> None:
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    pending = waiting(one)
    states.answer_reads()
    one.end(pending)
    acknowledged = one.begin_acknowledge(("t", 0, [(0, 2, [ACCEPT])]))
    states.answer_writes(COORDINATOR_NOT_AVAILABLE)
    answer = machine.finish(SHARE_ACKNOWLEDGE, 2, acknowledged)
    assert answer.responses[0].partitions[0].error_code == COORDINATOR_NOT_AVAILABLE
    assert other.fetch()[T].acquired == []
    acknowledged = one.begin_acknowledge(("t", 0, [(0, 2, [ACCEPT])]))
    states.answer_writes()
    answer = machine.finish(SHARE_ACKNOWLEDGE, 2, acknowledged)
    assert answer.responses[0].partitions[0].error_code == NONE


def test_a_fenced_state_is_read_again(machine: Machine, states: HeldStates) -> None:
    member = PlayedMember(machine)
    pending = waiting(member)
    states.answer_reads()
    member.end(pending)
    acknowledged = member.begin_acknowledge(("t", 0, [(0, 0, [ACCEPT])]))
    states.answer_writes(FENCED_LEADER_EPOCH)
    answer = machine.finish(SHARE_ACKNOWLEDGE, 2, acknowledged)
    assert answer.responses[0].partitions[0].error_code == NOT_LEADER_OR_FOLLOWER
    states.start_offset = 2
    pending = waiting(member)
    states.answer_reads()
    assert member.end(pending)[T].acquired == [(2, 2, 1)]


def test_a_fetch_with_acknowledgements_is_answered_once_they_are_stored(machine: Machine, states: HeldStates) -> None:
    member = PlayedMember(machine)
    pending = waiting(member, max_records=1)
    states.answer_reads()
    member.end(pending)
    pending = waiting(member, acks=[("t", 0, [(0, 0, [ACCEPT])])], max_records=1)
    produce(machine, b"d")
    assert not pending.done
    states.answer_writes()
    got = member.end(pending)[T]
    assert (got.acquired, got.acknowledge_error_code) == ([(1, 1, 1)], NONE)


def test_a_session_that_ends_while_its_fetch_waits_acquires_nothing(machine: Machine, states: HeldStates) -> None:
    member, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    pending = waiting(member)
    ended = member.begin_acknowledge(epoch=-1)
    assert ended.error_code == NONE
    states.answer_reads()
    assert pending.done
    following = waiting(other)
    states.answer_reads()
    assert other.end(following)[T].acquired == [(0, 2, 1)]


def test_a_deleted_topic_ends_its_share_partitions(machine: Machine, states: HeldStates) -> None:
    member = PlayedMember(machine)
    pending = waiting(member)
    states.answer_reads()
    member.end(pending)
    acknowledged = member.begin_acknowledge(("t", 0, [(0, 0, [ACCEPT])]))
    assert isinstance(acknowledged, DelayedReply)
    delete(machine, "t")
    assert len(machine.broker.shares) == 0
    states.answer_writes()
    assert acknowledged.done
    create(machine, "t")
    answer = machine.ask(78, 2, member.fetch_request(max_wait_ms=10))
    assert [part.error_code for part in answer.responses[0].partitions] == [UNKNOWN_TOPIC_OR_PARTITION]


def test_share_partitions_of_a_group_without_members_are_forgotten(machine: Machine, states: HeldStates) -> None:
    member = PlayedMember(machine)
    pending = waiting(member)
    states.answer_reads()
    member.end(pending)
    machine.broker.on_disconnect(machine.peer)
    assert len(machine.broker.shares) == 1, "the release of its records is not stored yet"
    states.answer_writes()
    assert len(machine.broker.shares) == 0
