"""Share fetches of those who may not, of too many, with longest names and largest lists, and beyond their quotas."""

from __future__ import annotations

import pytest

from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close, Peer
from ottla.share.sessions import MOST_HELD_BY_ONE
from ottla.wire.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    SHARE_SESSION_LIMIT_REACHED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNSUPPORTED_VERSION,
)
from tests.support.held_states import HeldStates
from tests.support.machine import Machine, OpenMachine
from tests.support.producing import create, produce
from tests.support.share_members import ACCEPT, SHARE_ACKNOWLEDGE, SHARE_FETCH, PlayedMember, initialize
from tests.unit.broker.test_client_quotas import ANONYMOUS, alter

T = ("t", 0)


class Some:
    """Everything is allowed but what is in `denied`."""

    def __init__(self) -> None:
        self.denied: set[tuple[Resource, str]] = set()

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return operation is not Operation.READ or (resource, name) not in self.denied


def test_a_member_reads_its_group_and_each_topic_by_right() -> None:
    rights = Some()
    machine = OpenMachine(authorizer=rights)
    for name in ("t", "u"):
        create(machine, name)
        initialize(machine, name)
        produce(machine, b"a", topic=name)
    member = PlayedMember(machine, "m", "g", ("t", 0), ("u", 0))
    rights.denied = {(Resource.GROUP, "g")}
    for key, body in ((SHARE_FETCH, member.fetch_request()), (SHARE_ACKNOWLEDGE, member.acknowledge_request([], epoch=1))):
        assert machine.ask(key, 2, body).error_code == GROUP_AUTHORIZATION_FAILED
    assert not len(machine.broker.share_sessions)
    rights.denied = {(Resource.TOPIC, "u")}
    got = member.fetch(max_wait_ms=1000)
    assert (got[T].acquired, got["u", 0].error_code) == ([(0, 0, 1)], TOPIC_AUTHORIZATION_FAILED)
    assert len(machine.broker.shares) == 1, "what may not be read is not loaded"
    rights.denied = {(Resource.TOPIC, "t")}
    got = member.fetch([("t", 0, [(0, 0, [ACCEPT])])], max_wait_ms=1000)
    assert (got[T].error_code, got[T].acknowledge_error_code) == (TOPIC_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED)
    assert got["u", 0].acquired == [(0, 0, 1)]
    assert member.acknowledge(("t", 0, [(0, 0, [ACCEPT])]), ("u", 0, [(0, 0, [ACCEPT])])) == {
        T: TOPIC_AUTHORIZATION_FAILED,
        ("u", 0): NONE,
    }


def test_a_member_beyond_its_quota_gets_its_acknowledgements_answered_and_no_records() -> None:
    machine = Machine()
    create(machine, "t")
    initialize(machine)
    for _ in range(5):
        produce(machine, bytes(5000))
    assert alter(machine, ANONYMOUS, consumer_byte_rate=5000.0) == (NONE, None)
    machine.pass_time(1000)
    member = PlayedMember(machine)
    got = member.fetch(max_wait_ms=1000)[T]
    assert got.acquired
    acks = [("t", 0, [(first, last, [ACCEPT]) for first, last, _ in got.acquired])]
    again = member.fetch(max_wait_ms=1000)
    while machine.rest_ms == 0:
        again = member.fetch(max_wait_ms=1000)
    assert machine.rest_ms > 0
    rested = member.fetch(acks)
    assert (rested[T].acquired, rested[T].acknowledge_error_code) == ([], NONE)
    assert again is not rested
    machine.pass_time(60_000)
    assert member.fetch(max_wait_ms=1000)[T].acquired


def test_a_session_beyond_the_limit_is_refused_after_the_time_of_its_fetch() -> None:
    machine = Machine(group_share_max_share_sessions=2)
    create(machine, "t")
    initialize(machine)
    for name in ("m1", "m2"):
        PlayedMember(machine, name).fetch(max_wait_ms=1000)
    pending = PlayedMember(machine, "m3").begin(max_wait_ms=500)
    assert isinstance(pending, DelayedReply)
    machine.pass_time(499)
    assert not pending.done
    machine.pass_time(1)
    assert machine.finish(SHARE_FETCH, 2, pending).error_code == SHARE_SESSION_LIMIT_REACHED
    assert PlayedMember(machine, "m1").fetch() == {
        T: PlayedMember(machine, "m1").got(machine.ask(SHARE_FETCH, 2, fresh(machine)))[T]
    }


def fresh(machine: Machine) -> object:
    """The first fetch of a member that begins its session again."""
    return PlayedMember(machine, "m1").fetch_request()


@pytest.mark.parametrize("member_id", ["", "x" * 37])
def test_a_member_id_has_a_length(member_id: str) -> None:
    machine = Machine()
    create(machine, "t")
    member = PlayedMember(machine, member_id)
    assert machine.ask(SHARE_FETCH, 2, member.fetch_request()).error_code == INVALID_REQUEST
    assert machine.ask(SHARE_ACKNOWLEDGE, 2, member.acknowledge_request([], epoch=1)).error_code == INVALID_REQUEST
    nameless = member.fetch_request()
    nameless.group_id, nameless.member_id = None, "m"
    assert machine.ask(SHARE_FETCH, 2, nameless).error_code == INVALID_REQUEST


def test_share_groups_can_be_switched_off() -> None:
    machine = Machine()
    create(machine, "t")
    machine.broker.image.features["share.version"] = 0
    assert machine.ask(SHARE_FETCH, 2, PlayedMember(machine).fetch_request()).error_code == UNSUPPORTED_VERSION


def test_an_unknown_acquire_mode_changes_nothing() -> None:
    machine = Machine()
    create(machine, "t")
    assert machine.ask(SHARE_FETCH, 2, PlayedMember(machine).fetch_request(share_acquire_mode=2)).error_code == INVALID_REQUEST
    assert not len(machine.broker.share_sessions)


def test_a_session_of_many_partitions_is_read_in_steps_and_each_partition_has_its_turn() -> None:
    count = 700
    machine = Machine()
    create(machine, "t", count)
    states = HeldStates(machine)
    for index in (0, 350, 699):
        produce(machine, b"a", index=index)
    member = PlayedMember(machine, "m", "g", *[("t", index) for index in range(count)])
    pending = member.begin(max_wait_ms=60_000, max_records=1)
    assert isinstance(pending, DelayedReply)
    for _ in range(20):
        machine.pass_time(1)
    assert sum(len(owed.places) for owed in states.reads) == count
    states.answer_reads()
    for _ in range(5000):
        if pending.done:
            break
        machine.pass_time(1)
    found = [place for place, got in member.end(pending).items() if got.acquired]
    for _ in range(2):
        found += [place for place, got in member.fetch(max_wait_ms=1000, max_records=1).items() if got.acquired]
    assert sorted(found) == [("t", 0), ("t", 350), ("t", 699)]
    machine.broker.on_disconnect(machine.peer)
    for _ in range(200):
        machine.pass_time(1)
    states.answer_writes()
    assert len(machine.broker.shares) == 0


def test_a_session_has_no_more_partitions_than_the_limit() -> None:
    machine = Machine()
    create(machine, "t")
    HeldStates(machine)
    many = PlayedMember(machine, "m", "g", *[("t", index) for index in range(MOST_HELD_BY_ONE + 1)])
    answer = machine.ask(SHARE_FETCH, 2, many.fetch_request())
    assert answer.error_code == SHARE_SESSION_LIMIT_REACHED
    assert machine.broker.share_sessions.held == 0


def test_the_longest_names_are_served() -> None:
    machine = Machine()
    topic, group = "t" * 249, "g" * 249
    create(machine, topic)
    initialize(machine, topic, group)
    produce(machine, b"a", topic=topic)
    member = PlayedMember(machine, "m" * 36, group, (topic, 0))
    assert member.fetch(max_wait_ms=1000)[topic, 0].acquired == [(0, 0, 1)]
    assert member.acknowledge((topic, 0, [(0, 0, [ACCEPT])])) == {(topic, 0): NONE}


def test_each_record_of_a_large_request_has_an_acknowledgement_of_its_own() -> None:
    machine = Machine()
    create(machine, "t")
    initialize(machine, share_partition_max_record_locks="4000")
    for _ in range(4):
        produce(machine, *[b"x"] * 500)
    member = PlayedMember(machine)
    got = member.fetch(max_wait_ms=1000, max_records=2000)[T]
    assert got.acquired[-1][1] == 1999
    types = [1 + offset % 3 for offset in range(2000)]
    pending = member.begin_acknowledge(("t", 0, [(0, 1999, types)]))
    for _ in range(1000):
        if not isinstance(pending, DelayedReply) or pending.done:
            break
        machine.pass_time(1)
    answer = machine.finish(SHARE_ACKNOWLEDGE, 2, pending) if isinstance(pending, DelayedReply) else pending
    assert answer.responses[0].partitions[0].error_code == NONE
    again = member.fetch(max_wait_ms=1000, max_records=2000)[T].acquired
    assert sum(last - first + 1 for first, last, _ in again) == sum(kind == 2 for kind in types)


def test_a_request_with_too_many_acknowledge_types_closes_its_connection() -> None:
    machine = Machine()
    create(machine, "t")
    member = PlayedMember(machine)
    acks = [("t", 0, [(0, 100_000, [ACCEPT] * 100_001)])]
    assert isinstance(machine.ask(SHARE_ACKNOWLEDGE, 2, member.acknowledge_request(acks, epoch=1)), Close)


def test_a_topic_that_is_created_later_is_found_by_its_id() -> None:
    machine = Machine()
    create(machine, "t")
    create(machine, "u")
    member = PlayedMember(machine)
    request = member.fetch_request(max_wait_ms=100)
    request.topics[0].topic_id = b"\1" * 16
    answer = machine.ask(SHARE_FETCH, 2, request)
    assert answer.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID
    machine.broker.image._names[b"\1" * 16] = "t"
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    partition.topic_id = b"\1" * 16
    HeldStates(machine)
    member.epoch = 1
    answer = machine.ask(SHARE_FETCH, 2, member.fetch_request(max_wait_ms=100))
    assert answer.responses == [], "it is loading"
