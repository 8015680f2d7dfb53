"""Long acknowledgements and ends of sessions are served in small steps, with the results of small ones."""

from __future__ import annotations

import pytest

from ottla.broker.coordination.share_states import SharePersister
from ottla.broker.share import share_partitions
from ottla.ports import Now
from ottla.share import release
from ottla.wire.errors import INVALID_RECORD_STATE, NONE
from tests.support.machine import Machine
from tests.support.producing import create, produce
from tests.support.share_members import ACCEPT, RECORD_LIMIT, REJECT, RELEASE, PlayedMember, initialize
from tests.support.work import measured

T = ("t", 0)
RECORDS = 2_000
SESSIONS = 600
CALLS_OF_A_SESSION = 150
MOST_CALLS = 10_000
"""In one step: about two milliseconds of work."""


@pytest.fixture
def machine() -> Machine:
    machine = Machine(group_share_record_lock_duration_ms=15_000)
    create(machine, "t")
    initialize(machine)
    return machine


def holder(machine: Machine, records: int) -> PlayedMember:
    """A member that holds this number of records."""
    produce(machine, *[b"x"] * records)
    member = PlayedMember(machine)
    assert member.fetch(max_wait_ms=1000, max_records=records, batch_size=records)[T].acquired == [(0, records - 1, 1)]
    return member


def test_alternating_types_of_many_records_are_acknowledged_in_small_steps(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = holder(machine, RECORDS)
    flush = SharePersister.flush
    with measured(monkeypatch) as work, work.piece("bundle"):

        def flush_measured(persister: SharePersister, now: Now) -> None:
            with work.piece("states are stored"):
                flush(persister, now)

        monkeypatch.setattr(SharePersister, "flush", flush_measured)
        assert member.acknowledge(("t", 0, [(0, RECORDS - 1, [ACCEPT, RELEASE] * (RECORDS // 2))])) == {T: NONE}
    assert work.most_calls.calls <= MOST_CALLS, work.most_calls
    other = PlayedMember(machine, "m2")
    got = other.fetch(max_wait_ms=1000, max_records=RECORDS, batch_size=RECORDS)[T].acquired
    assert got == [(offset, offset, 2) for offset in range(1, RECORDS, 2)]


def test_a_long_acknowledgement_that_is_refused_at_its_end_changes_nothing(machine: Machine) -> None:
    member = holder(machine, RECORDS)
    assert member.acknowledge(("t", 0, [(RECORDS - 1, RECORDS - 1, [ACCEPT])])) == {T: NONE}
    types = [ACCEPT, REJECT] * (RECORDS // 2)
    assert member.acknowledge(("t", 0, [(0, RECORDS - 1, types)])) == {T: INVALID_RECORD_STATE}
    assert member.acknowledge(("t", 0, [(0, RECORDS - 2, types[:-1])])) == {T: NONE}


def test_a_member_that_returns_gets_no_records_before_its_earlier_ones_are_released(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "MOST_EXAMINED", 1)
    monkeypatch.setattr(share_partitions, "RUNS_AT_ONCE", 1)
    produce(machine, *[b"x"] * 40)
    member, other = PlayedMember(machine), PlayedMember(machine, "m2")
    for turn in range(40):
        (member, other)[turn % 2].fetch(max_wait_ms=1000, max_records=1, batch_size=1, share_acquire_mode=RECORD_LIMIT)
    member.fetch(epoch=-1)
    returned = PlayedMember(machine)
    taken = returned.fetch(max_wait_ms=1000)[T].acquired
    machine.settle()
    assert {count for _, _, count in taken} == {2}
    offsets = [offset for first, last, _ in taken for offset in range(first, last + 1)]
    assert returned.acknowledge(("t", 0, [(offset, offset, [ACCEPT]) for offset in offsets])) == {T: NONE}


def test_many_changes_of_a_share_partition_wake_many_sessions_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(machine, b"x")
    for number in range(SESSIONS):
        PlayedMember(machine, f"m{number}").fetch(max_records=1)
    (led,) = machine.broker.shares
    assert len(led.watchers) == SESSIONS
    for session in led.watchers.values():
        session.due.clear()
    with measured(monkeypatch) as work, work.piece("bundle"):
        for _ in range(100):
            machine.broker.shares.mark_due(led)
        machine.pass_time(20)
    assert sum(piece.calls for piece in work.pieces) <= SESSIONS * CALLS_OF_A_SESSION
    assert work.most_calls.calls <= MOST_CALLS
    assert all(session.due for session in led.watchers.values())


def test_the_work_of_closed_sessions_grows_with_their_number_alone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(machine, b"x")
    for number in range(SESSIONS):
        PlayedMember(machine, f"m{number}").fetch(max_records=1)
    with measured(monkeypatch) as work, work.piece("bundle"):
        machine.broker.on_disconnect(machine.peer)
        machine.settle()
    assert len(machine.broker.share_sessions) == 0
    assert sum(piece.calls for piece in work.pieces) <= SESSIONS * CALLS_OF_A_SESSION
    assert work.most_calls.calls <= MOST_CALLS


def test_connections_that_close_at_once_share_one_job(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(machine, b"x")
    for number in range(SESSIONS):
        PlayedMember(machine, f"m{number}").fetch(max_records=1)
    sessions = list(machine.broker.share_sessions)
    for session in sessions:
        machine.broker.share_sessions.evict(session)
    machine.broker.shares.release(sessions[:-1])
    with measured(monkeypatch) as work, work.piece("bundle"):
        machine.broker.shares.release(sessions[-1:])
    assert [piece.job for piece in work.pieces] == ["bundle"], "the job goes on later"
    machine.pass_time(200)
    assert not list(machine.broker.shares), "share partitions without sessions are dropped"
