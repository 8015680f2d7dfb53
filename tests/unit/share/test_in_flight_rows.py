"""Rows of records in flight: states, members, deliveries, locks, filters, and bounds for share partitions with very many runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.share.acknowledge import ACCEPT, REJECT, RELEASE, RENEW
from ottla.share.in_flight_rows import MOST_RUNS, RUNS_AT_ONCE, GroupInFlight, InFlightQuery, InFlightReader, RunBudget
from ottla.share.outcome import AcknowledgeRecords, AcquireRecords, ExpireLocks, ReleaseMember, ShareLimits, StateRead, WriteResult
from ottla.share.partition import SharePartition
from ottla.wire.errors import NONE

LOCK_MS = 1_000


def partition(*states: tuple[int, int, int, int], limit: int = 5, locks: int = 20_000) -> SharePartition:
    made = SharePartition("group", b"t" * 16, 3, 7, ShareLimits(limit, locks, LOCK_MS))
    made.submit(StateRead(3, 0, states), 0)
    return made


def acquire(machine: SharePartition, member: str, count: int, now_ms: int = 0) -> None:
    offset = machine.next_fetch_offset
    machine.submit(AcquireRecords(member, offset, [(offset, offset + count - 1)], count, count), now_ms)


def acknowledge(machine: SharePartition, member: str, offset: int, kind: int, now_ms: int = 0, *, stored: bool = True) -> None:
    outcome = machine.submit(AcknowledgeRecords(member, [(offset, offset, [kind])]), now_ms)
    assert outcome.error_code == NONE
    if stored and outcome.write is not None:
        machine.submit(WriteResult(outcome.write.token, NONE), now_ms)


def read(machine: SharePartition, now_ms: int = 0, **wanted: Any) -> GroupInFlight:
    reader = InFlightReader(InFlightQuery("group", frozenset({"jobs"}), **wanted), now_ms, RunBudget())
    for _ in reader.read("jobs", machine):
        pass
    return reader.found


def rows(machine: SharePartition, now_ms: int = 0, **wanted: Any) -> list[tuple[object, ...]]:
    found = read(machine, now_ms, **wanted)
    assert {(row.topic, row.partition) for row in found.rows} <= {("jobs", 3)}
    return [tuple(row)[2:] for row in found.rows]


def test_a_row_has_the_state_the_member_the_deliveries_and_the_rest_of_the_lock() -> None:
    machine = partition()
    acquire(machine, "a", 5)
    acquire(machine, "b", 2, now_ms=300)
    for offset, kind in ((1, ACCEPT), (2, RELEASE), (3, REJECT)):
        acknowledge(machine, "a", offset, kind)
    assert rows(machine, now_ms=400) == [
        (0, 0, "acquired", "a", 1, 600, False),
        (1, 1, "acknowledged", "", 1, None, False),
        (2, 2, "available", "", 1, None, False),
        (3, 3, "archived", "", 1, None, False),
        (4, 4, "acquired", "a", 1, 600, False),
        (5, 6, "acquired", "b", 1, 900, False),
    ]
    found = read(machine)
    assert (found.acquired, found.held, found.delivery_count_limit) == ({("jobs", 3): 4}, {"a": 2, "b": 2}, 5)


def test_an_acknowledgement_without_an_answer_of_the_share_coordinator_is_pending() -> None:
    machine = partition()
    acquire(machine, "a", 2)
    acknowledge(machine, "a", 0, ACCEPT, stored=False)
    assert rows(machine) == [(0, 0, "acknowledged", "a", 1, None, True), (1, 1, "acquired", "a", 1, LOCK_MS, False)]
    assert read(machine).held == {"a": 1}, "the member does not hold the record any more"


def test_a_renewed_lock_ends_later_and_one_that_has_ended_is_gone() -> None:
    machine = partition()
    acquire(machine, "a", 2)
    acknowledge(machine, "a", 0, RENEW, now_ms=500)
    assert rows(machine, now_ms=600) == [(0, 0, "acquired", "a", 1, 900, False), (1, 1, "acquired", "a", 1, 400, False)]
    machine.submit(ExpireLocks(), 1_000)
    assert rows(machine, now_ms=1_000)[1] == (1, 1, "available", "", 1, None, False)
    assert read(machine).held == {"a": 1}


def test_the_records_of_a_member_that_is_gone_are_available() -> None:
    machine = partition()
    acquire(machine, "a", 3)
    outcome = machine.submit(ReleaseMember("a"), 0)
    assert outcome.write is not None
    machine.submit(WriteResult(outcome.write.token, NONE), 0)
    assert rows(machine) == [(0, 2, "available", "", 1, None, False)]


def test_rows_are_chosen_by_state_member_and_deliveries() -> None:
    machine = partition((0, 0, 0, 4), (1, 1, 2, 1), (2, 2, 0, 1))
    acquire(machine, "a", 1)
    acquire(machine, "b", 1)
    assert rows(machine, state="acquired") == [
        (0, 0, "acquired", "a", 5, LOCK_MS, False),
        (2, 2, "acquired", "b", 2, LOCK_MS, False),
    ]
    assert [row[:2] for row in rows(machine, member_id="b")] == [(2, 2)]
    assert [row[:2] for row in rows(machine, min_deliveries=5)] == [(0, 0)]
    assert rows(machine, state="acknowledged", member_id="a") == []
    assert read(machine, member_id="b").held == {"a": 1, "b": 1}, "counts are of all records"


def many(count: int) -> SharePartition:
    """Return a share partition in which no two neighbours have the same state."""
    return partition(*((offset, offset, 0, 1 + offset % 2) for offset in range(count)))


def test_ten_thousand_runs_are_counted_and_a_thousand_are_rows() -> None:
    found = read(many(10_000))
    assert (len(found.rows), found.matching, found.unread) == (1_000, 10_000, 0)
    assert found.rows[-1].last_offset == 999


def test_runs_are_read_in_pieces_and_a_share_partition_may_change_between_them() -> None:
    machine = many(3 * RUNS_AT_ONCE)
    reader = InFlightReader(InFlightQuery("group", frozenset({"jobs"})), 0, RunBudget())
    steps: Iterator[None] = reader.read("jobs", machine)
    next(steps)
    assert reader.found.matching == RUNS_AT_ONCE
    machine.submit(StateRead(3, 0), 0)  # refused, and changes nothing
    acquire(machine, "a", 3 * RUNS_AT_ONCE)
    for offset in range(2 * RUNS_AT_ONCE):
        acknowledge(machine, "a", offset, ACCEPT)
    assert machine.start_offset == 2 * RUNS_AT_ONCE
    assert len(list(steps)) == 1
    assert reader.found.rows[-1].last_offset == 3 * RUNS_AT_ONCE - 1


def test_a_request_reads_no_more_runs_than_it_may() -> None:
    machine, budget = many(5_000), RunBudget()
    reader = InFlightReader(InFlightQuery("group", frozenset({"jobs"})), 0, budget)
    pieces = 0
    for _ in range(2 * MOST_RUNS // 5_000):
        pieces += len(list(reader.read("jobs", machine)))
    assert reader.found.matching == MOST_RUNS
    assert reader.found.unread == MOST_RUNS // 5_000
    assert pieces == MOST_RUNS // RUNS_AT_ONCE
