"""ShareFetch: records are acquired once, by turns, redelivered when they are released, and waited for."""

from __future__ import annotations

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.wire.errors import (
    INVALID_RECORD_STATE,
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    NONE,
    SHARE_SESSION_NOT_FOUND,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.machine import Machine
from tests.support.producing import create, delete, produce
from tests.support.share_members import (
    ACCEPT,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    PlayedMember,
    initialize,
)

T = ("t", 0)


@pytest.fixture
def machine() -> Machine:
    machine = Machine(group_share_record_lock_duration_ms=15_000)
    create(machine, "t")
    initialize(machine)
    return machine


def test_records_are_acquired_once_and_accepted(machine: Machine) -> None:
    produce(machine, b"a", b"b", b"c")
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    got = one.fetch(max_wait_ms=1000)[T]
    assert (got.error_code, got.acquired, got.values) == (NONE, [(0, 2, 1)], [b"a", b"b", b"c"])
    assert other.fetch()[T].acquired == []
    assert one.acknowledge(("t", 0, [(0, 2, [ACCEPT])])) == {T: NONE}
    produce(machine, b"d")
    assert other.fetch()[T].acquired == [(3, 3, 1)]
    assert one.fetch() == {}


def test_a_released_record_is_delivered_again_with_a_higher_count(machine: Machine) -> None:
    produce(machine, b"a", b"b", b"c")
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    one.fetch(max_wait_ms=1000)
    one.acknowledge(("t", 0, [(0, 0, [ACCEPT]), (1, 2, [RELEASE, REJECT])]))
    assert other.fetch(max_wait_ms=1000)[T].acquired == [(1, 1, 2)]


def test_a_waiting_fetch_gets_what_is_produced_and_what_another_releases(machine: Machine) -> None:
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    first, second = one.begin(max_wait_ms=5000), other.begin(max_wait_ms=5000)
    assert isinstance(first, DelayedReply)
    assert isinstance(second, DelayedReply)
    machine.pass_time(10)
    produce(machine, b"a")
    assert (first.done, second.done) == (True, False)
    assert one.end(first)[T].acquired == [(0, 0, 1)]
    one.acknowledge(("t", 0, [(0, 0, [RELEASE])]))
    machine.pass_time(1)
    assert second.done
    assert other.end(second)[T].acquired == [(0, 0, 2)]


def test_a_fetch_without_records_ends_after_its_time(machine: Machine) -> None:
    member = PlayedMember(machine)
    pending = member.begin(max_wait_ms=500)
    assert isinstance(pending, DelayedReply)
    machine.pass_time(499)
    assert not pending.done
    machine.pass_time(1)
    got = member.end(pending)
    assert (got[T].acquired, got[T].error_code) == ([], NONE)
    assert member.fetch(max_wait_ms=1000) == {}


def test_locks_end_in_time_and_wake_a_waiting_member(machine: Machine) -> None:
    produce(machine, b"a")
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    one.fetch(max_wait_ms=1000)
    pending = other.begin(max_wait_ms=30_000)
    assert isinstance(pending, DelayedReply)
    for _ in range(151):
        machine.pass_time(100)
    assert pending.done
    assert other.end(pending)[T].acquired == [(0, 0, 2)]
    assert one.acknowledge(("t", 0, [(0, 0, [ACCEPT])])) == {T: INVALID_RECORD_STATE}


def test_a_closed_connection_releases_what_its_members_hold(machine: Machine) -> None:
    produce(machine, b"a")
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    one.fetch(max_wait_ms=1000)
    machine.broker.on_disconnect(machine.peer)
    assert len(machine.broker.share_sessions) == 0
    machine.settle()
    assert [(first, last) for first, last, _ in other.fetch(max_wait_ms=1000)[T].acquired] == [(0, 0)]


def test_a_final_fetch_acknowledges_and_releases_the_rest(machine: Machine) -> None:
    produce(machine, b"a", b"b")
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    one.fetch(max_wait_ms=1000)
    got = one.fetch([("t", 0, [(0, 0, [ACCEPT])])], epoch=-1)
    assert got[T].acknowledge_error_code == NONE
    assert [(first, last) for first, last, _ in other.fetch(max_wait_ms=1000)[T].acquired] == [(1, 1)]
    answer = machine.ask(SHARE_FETCH, 2, one.fetch_request(epoch=5))
    assert answer.error_code == SHARE_SESSION_NOT_FOUND


def test_the_epochs_of_a_session_are_checked(machine: Machine) -> None:
    member = PlayedMember(machine)
    produce(machine, b"a")
    assert machine.ask(SHARE_FETCH, 2, member.fetch_request(epoch=1)).error_code == SHARE_SESSION_NOT_FOUND
    assert machine.ask(SHARE_ACKNOWLEDGE, 2, member.acknowledge_request([], epoch=0)).error_code == INVALID_SHARE_SESSION_EPOCH
    assert machine.ask(SHARE_ACKNOWLEDGE, 2, member.acknowledge_request([], epoch=-1)).error_code == SHARE_SESSION_NOT_FOUND
    member.fetch(max_wait_ms=1000)
    assert machine.ask(SHARE_FETCH, 2, member.fetch_request(epoch=2)).error_code == INVALID_SHARE_SESSION_EPOCH
    acks = [("t", 0, [(0, 0, [ACCEPT])])]
    assert machine.ask(SHARE_FETCH, 2, member.fetch_request(acks, epoch=0)).error_code == INVALID_REQUEST
    assert member.acknowledge(*acks) == {T: NONE}


def test_unknown_topics_and_partitions_have_errors_of_their_own(machine: Machine) -> None:
    create(machine, "gone")
    initialize(machine, "gone")
    member = PlayedMember(machine, "m", "g", ("t", 0), ("t", 7), ("gone", 0))
    request = member.fetch_request(max_wait_ms=1000)
    request.topics[0].topic_id, zeros = bytes(16), request.topics[0].topic_id
    answer = machine.ask(SHARE_FETCH, 2, request)
    codes = {part.error_code for topic in answer.responses for part in topic.partitions if bytes(topic.topic_id) != zeros}
    assert UNKNOWN_TOPIC_ID in codes
    again = PlayedMember(machine, "m", "g", ("t", 0), ("t", 7), ("gone", 0))
    got = again.fetch(max_wait_ms=1000)
    assert got["t", 7].error_code == UNKNOWN_TOPIC_OR_PARTITION
    delete(machine, "gone")
    answer = machine.ask(SHARE_FETCH, 2, again.fetch_request(max_wait_ms=1000))
    errors = [part.error_code for topic in answer.responses for part in topic.partitions]
    assert errors == [UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION]


def test_a_fetch_in_record_limit_mode_gets_no_more_than_it_asked_for(machine: Machine) -> None:
    produce(machine, *[b"%d" % number for number in range(10)])
    member, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    assert member.fetch(max_wait_ms=1000, max_records=3, share_acquire_mode=RECORD_LIMIT)[T].acquired == [(0, 2, 1)]
    got = other.fetch(max_wait_ms=1000, max_records=3)[T]
    assert (got.acquired[0][0], got.acquired[-1][1]) == (3, 9)


def test_only_the_batches_with_acquired_records_are_sent(machine: Machine) -> None:
    for number in range(20):
        produce(machine, b"%d" % number)
    member = PlayedMember(machine)
    got = member.fetch(max_wait_ms=1000, max_records=5)[T]
    assert got.acquired == [(0, 4, 1)]
    assert got.values == [b"0", b"1", b"2", b"3", b"4"]
    assert member.fetch(max_records=5)[T].values == [b"5", b"6", b"7", b"8", b"9"]


def test_partitions_of_a_session_have_turns(machine: Machine) -> None:
    create(machine, "many", 3)
    initialize(machine, "many")
    for index in range(3):
        for _ in range(3):
            produce(machine, b"x", topic="many", index=index)
    member = PlayedMember(machine, "m", "g", *[("many", index) for index in range(3)])
    seen = []
    for _ in range(6):
        got = member.fetch(max_wait_ms=1000, max_records=1)
        seen.append(next(place[1] for place, each in got.items() if each.acquired))
    assert sorted(seen[:3]) == sorted(seen[3:]) == [0, 1, 2]
