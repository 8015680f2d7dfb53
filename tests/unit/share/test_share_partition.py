"""A share partition: who acquires what, what becomes of it, what is persisted, and the errors that Apache Kafka 4.3 has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.share.acknowledge import ACCEPT, GAP, REJECT, RELEASE, RENEW, check_acknowledgements
from ottla.share.cells import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE
from ottla.share.outcome import (
    AcknowledgeRecords,
    AcquireRecords,
    ExpireLocks,
    MoveLogStart,
    ReleaseMember,
    ShareInput,
    ShareLimits,
    ShareOutcome,
    StateRead,
    WriteResult,
)
from ottla.share.partition import SharePartition, ShareStatus
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    GROUP_ID_NOT_FOUND,
    INVALID_RECORD_STATE,
    INVALID_REQUEST,
    NETWORK_EXCEPTION,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)

LOCK_MS = 1_000
TENS = [(first, first + 9) for first in range(0, 100, 10)]
LAST = (1 << 63) - 1

State = tuple[int, int, int, int]


class World:
    """One share partition, a clock, and a persister that stores at once unless it is held."""

    def __init__(self, start: int = 0, states: Sequence[State] = (), *, limit: int = 5, locks: int = 2_000) -> None:
        self.now = 0
        self.partition = SharePartition("group", b"t" * 16, 0, 7, ShareLimits(limit, locks, LOCK_MS))
        self.loaded = self.submit(StateRead(3, start, states))

    def submit(self, asked: ShareInput) -> ShareOutcome:
        return self.partition.submit(asked, self.now)

    def acquire(
        self,
        most: int = 500,
        *,
        member: str = "a",
        batches: Sequence[tuple[int, int]] | None = None,
        size: int = 500,
        limited: bool = False,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, int, int]]:
        at = self.partition.next_fetch_offset
        found = [batch for batch in TENS if batch[1] >= at] if batches is None else batches
        outcome = self.submit(AcquireRecords(member, at, found, most, size, limited, aborted))
        assert outcome.write is None
        return [tuple(each) for each in outcome.acquired]  # type: ignore[misc]  # three numbers

    def acknowledge(self, *batches: tuple[int, int, list[int]], member: str = "a") -> ShareOutcome:
        return self.submit(AcknowledgeRecords(member, batches))

    def store(self, outcome: ShareOutcome, error_code: int = NONE) -> ShareOutcome:
        assert outcome.write is not None
        return self.submit(WriteResult(outcome.write.token, error_code))

    def finish(self, *batches: tuple[int, int, list[int]], member: str = "a") -> None:
        assert self.store(self.acknowledge(*batches, member=member)).error_code == NONE

    def states(self) -> list[State]:
        return [(run.first_offset, run.last_offset, run.cell.state, run.cell.delivery_count) for run in self.partition.runs()]

    def window(self) -> tuple[int, int, int]:
        return self.partition.start_offset, self.partition.end_offset, self.partition.next_fetch_offset


def test_whole_batches_of_the_log_are_acquired_in_batch_optimized_mode() -> None:
    world = World()
    assert world.acquire(15) == [(0, 19, 1)]
    assert world.acquire(5, member="b") == [(20, 29, 1)]
    assert world.window() == (0, 29, 30)


def test_in_flight_batches_are_no_smaller_than_asked() -> None:
    world = World()
    assert world.acquire(40, size=15) == [(0, 19, 1), (20, 39, 1)]
    assert world.acquire(20, size=1) == [(40, 49, 1), (50, 59, 1)]


def test_no_more_records_than_asked_are_acquired_in_record_limit_mode() -> None:
    world = World()
    assert world.acquire(15, limited=True) == [(0, 14, 1)]
    assert world.states() == [(0, 14, ACQUIRED, 1), (15, 19, AVAILABLE, 0)]
    assert world.acquire(3, limited=True) == [(15, 17, 1)]
    assert world.acquire(4, limited=True, member="b") == [(18, 19, 1), (20, 21, 1)]


def test_accepted_records_move_the_start_once_they_are_stored() -> None:
    world = World()
    world.acquire(10)
    outcome = world.acknowledge((0, 9, [ACCEPT]))
    assert outcome.write is not None
    assert outcome.write[1:] == (3, 7, 0, 10, ((0, 9, ACKNOWLEDGED, 1),))
    assert world.window() == (0, 9, 10)
    assert world.store(outcome).error_code == NONE
    assert world.window() == (10, 10, 10)
    assert (world.partition.in_flight_count, world.partition.delivery_complete_count) == (0, 0)


def test_each_record_can_have_a_type_of_its_own() -> None:
    world = World()
    world.acquire(10)
    world.finish((0, 4, [ACCEPT, RELEASE, REJECT, GAP, ACCEPT]), (5, 9, [RELEASE]))
    assert world.states() == [(1, 1, AVAILABLE, 1), (2, 3, ARCHIVED, 1), (4, 4, ACKNOWLEDGED, 1), (5, 9, AVAILABLE, 1)]
    assert world.window() == (1, 9, 1)
    assert world.partition.delivery_complete_count == 3
    assert world.acquire(10) == [(1, 1, 2), (5, 9, 2), (10, 19, 1)]


def test_nobody_gets_records_while_their_release_is_stored() -> None:
    world = World()
    world.acquire(10)
    outcome = world.acknowledge((0, 9, [RELEASE]))
    assert world.window() == (0, 9, 10)
    assert world.acknowledge((0, 9, [ACCEPT])).error_code == INVALID_RECORD_STATE
    assert world.acquire(5, batches=TENS[:1]) == []
    assert world.store(outcome).wakes
    assert world.acquire(5, member="b", batches=TENS[:1]) == [(0, 9, 2)]


@pytest.mark.parametrize(
    ("persisted", "told"),
    [
        (NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE),
        (COORDINATOR_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE),
        (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE),
        (GROUP_ID_NOT_FOUND, GROUP_ID_NOT_FOUND),
        (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION),
        (FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER),
        (FENCED_STATE_EPOCH, NOT_LEADER_OR_FOLLOWER),
        (NETWORK_EXCEPTION, UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_was_not_stored_is_held_as_before(persisted: int, told: int) -> None:
    world = World()
    world.acquire(10)
    before = list(world.partition.runs())
    outcome = world.acknowledge((0, 4, [ACCEPT]), (5, 9, [REJECT]))
    assert world.partition.delivery_complete_count == 10
    assert world.store(outcome, persisted).error_code == told
    assert list(world.partition.runs()) == before
    assert world.partition.delivery_complete_count == 0
    world.finish((0, 9, [ACCEPT]))


def test_what_was_not_stored_before_its_lock_ended_is_available() -> None:
    world = World(limit=2)
    world.acquire(10)
    outcome = world.acknowledge((0, 9, [ACCEPT]))
    world.now = LOCK_MS
    assert world.submit(ExpireLocks()).write is None
    world.store(outcome, COORDINATOR_NOT_AVAILABLE)
    assert world.states() == [(0, 9, AVAILABLE, 1)]
    assert world.partition.next_deadline_ms is None


def test_a_lock_ends_in_time_and_its_end_is_persisted() -> None:
    world = World()
    world.acquire(10)
    world.now = 5
    world.acquire(10, member="b")
    assert world.partition.next_deadline_ms == LOCK_MS
    world.now = LOCK_MS
    outcome = world.submit(ExpireLocks())
    assert outcome.write is not None
    assert outcome.write.batches == ((0, 9, AVAILABLE, 1),)
    assert outcome.wakes
    assert world.partition.next_deadline_ms == LOCK_MS + 10
    assert world.acknowledge((0, 9, [ACCEPT])).error_code == INVALID_RECORD_STATE
    assert world.acquire(10, member="b", batches=TENS[:1]) == [(0, 9, 2)]
    assert world.store(outcome, COORDINATOR_NOT_AVAILABLE).error_code == COORDINATOR_NOT_AVAILABLE
    assert world.states() == [(0, 9, ACQUIRED, 2), (10, 19, ACQUIRED, 1)]


def test_a_renewed_lock_begins_anew_and_nothing_is_persisted() -> None:
    world = World()
    world.acquire(10)
    world.now = LOCK_MS // 2
    renewed = world.acknowledge((2, 5, [RENEW]))
    assert (renewed.error_code, renewed.write, len(renewed.changes)) == (NONE, None, 1)
    world.now = LOCK_MS
    outcome = world.submit(ExpireLocks())
    assert outcome.write is not None
    assert outcome.write.batches == ((0, 1, AVAILABLE, 1), (6, 9, AVAILABLE, 1))
    world.finish((2, 5, [ACCEPT]))


def test_the_last_attempt_archives_what_is_released() -> None:
    world = World(limit=2)
    for _ in range(2):
        world.acquire(10, batches=TENS[:1])
        world.finish((0, 9, [RELEASE]))
    assert world.window() == (10, 10, 10)


@pytest.mark.parametrize("end", ["session", "lock"])
def test_the_last_attempt_archives_what_nobody_acknowledged(end: str) -> None:
    world = World(limit=1)
    world.acquire(10)
    world.now = LOCK_MS
    outcome = world.submit(ReleaseMember("a") if end == "session" else ExpireLocks())
    assert outcome.write is not None
    assert outcome.write.batches == ((0, 9, ARCHIVED, 1),)
    world.store(outcome)
    assert world.window() == (10, 10, 10)


def test_the_end_of_a_session_releases_its_records_alone() -> None:
    world = World()
    world.acquire(10)
    world.acquire(10, member="b")
    assert world.submit(ReleaseMember("c")).write is None
    outcome = world.submit(ReleaseMember("a"))
    assert world.acknowledge((0, 9, [ACCEPT])).error_code == INVALID_RECORD_STATE
    world.store(outcome)
    assert world.states() == [(0, 9, AVAILABLE, 1), (10, 19, ACQUIRED, 1)]


def test_a_bad_record_is_isolated_before_its_last_attempt() -> None:
    """With a limit of 5, a batch of ten is halved from the fourth delivery on, and the fifth has one record alone."""
    world = World(limit=5)
    taken: list[list[tuple[int, int, int]]] = []
    for _ in range(4):
        taken.append(world.acquire(500, batches=TENS[:2]))
        world.submit(ReleaseMember("a"))
        token = world.partition._last_token
        world.submit(WriteResult(token, NONE))
    taken.append(world.acquire(500, batches=TENS[:2]))
    assert taken == [[(0, 19, 1)], [(0, 19, 2)], [(0, 19, 3)], [(0, 9, 4)], [(0, 0, 5)]]
    assert world.acquire(500, batches=TENS[:2]) == [(1, 1, 5)]


def test_records_that_are_delivered_often_come_after_no_others() -> None:
    world = World(limit=4, states=[(0, 4, AVAILABLE, 0), (5, 9, AVAILABLE, 2), (10, 14, AVAILABLE, 0)])
    batches = [(0, 14)]
    assert world.acquire(500, batches=batches) == [(0, 4, 1)]
    assert world.acquire(500, batches=batches) == [(5, 6, 3)]
    assert world.acquire(500, batches=batches) == [(7, 8, 3)]


REFUSED = {
    "beyond what is in flight": (INVALID_REQUEST, (0, 20, [ACCEPT])),
    "after what is in flight": (INVALID_REQUEST, (20, 21, [ACCEPT])),
    "giant": (INVALID_REQUEST, (0, LAST, [ACCEPT])),
    "of another member": (INVALID_RECORD_STATE, (10, 19, [ACCEPT])),
    "partly of another member": (INVALID_RECORD_STATE, (5, 14, [ACCEPT])),
    "accepted already": (INVALID_RECORD_STATE, (4, 6, [ACCEPT])),
    "reversed": (INVALID_REQUEST, (3, 2, [ACCEPT])),
    "of an unknown type": (INVALID_REQUEST, (0, 1, [5])),
    "of a negative type": (INVALID_REQUEST, (0, 1, [-1])),
    "of no type": (INVALID_REQUEST, (0, 1, [])),
    "of too few types": (INVALID_REQUEST, (0, 2, [ACCEPT, ACCEPT])),
    "of too many types": (INVALID_REQUEST, (0, 2, [ACCEPT] * 4)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_acknowledgement_changes_nothing(what: str) -> None:
    world = World()
    world.acquire(10)
    world.acquire(10, member="b")
    world.finish((6, 6, [ACCEPT]))
    before, window = list(world.partition.runs()), world.window()
    error_code, batch = REFUSED[what]
    outcome = world.acknowledge((0, 1, [ACCEPT]), batch)
    assert outcome.error_code == error_code
    assert outcome.error_message
    assert (outcome.write, outcome.changes) == (None, ())
    assert (list(world.partition.runs()), world.window()) == (before, window)


def test_what_was_never_acquired_is_not_in_flight() -> None:
    world = World(start=5)
    assert world.acknowledge((7, 7, [ACCEPT])).error_code == INVALID_RECORD_STATE
    assert world.acknowledge((0, 7, [ACCEPT])).error_code == INVALID_RECORD_STATE


@pytest.mark.parametrize("second", [(2, 4), (4, 4), (0, 9)])
@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, RENEW])
def test_a_record_is_acknowledged_once_in_a_request(second: tuple[int, int], kind: int) -> None:
    world = World()
    world.acquire(10)
    assert world.acknowledge((0, 4, [ACCEPT]), (*second, [kind])).error_code == INVALID_RECORD_STATE
    world.finish((0, 9, [ACCEPT]))


def test_acknowledgements_of_records_before_the_start_are_passed_over() -> None:
    world = World()
    world.acquire(20)
    world.finish((0, 9, [ACCEPT]))
    assert world.acknowledge((0, 9, [REJECT])) == ShareOutcome(changes=[])
    assert world.acknowledge((3, 5, [REJECT])) == ShareOutcome(changes=[])
    outcome = world.acknowledge((5, 14, [ACCEPT]))
    assert outcome.write is not None
    assert outcome.write.batches == ((10, 14, ACKNOWLEDGED, 1),)


REQUESTS: dict[str, tuple[int, list[tuple[int, int, list[int]]]]] = {
    "one": (NONE, [(0, 4, [ACCEPT])]),
    "several that follow each other": (NONE, [(0, 4, [ACCEPT]), (5, 6, [GAP, REJECT])]),
    "of nothing": (NONE, []),
    "touching at one offset": (NONE, [(0, 4, [ACCEPT]), (4, 6, [ACCEPT])]),
    "overlapping": (INVALID_REQUEST, [(0, 4, [ACCEPT]), (3, 6, [ACCEPT])]),
    "descending": (INVALID_REQUEST, [(5, 6, [ACCEPT]), (0, 4, [ACCEPT])]),
    "reversed": (INVALID_REQUEST, [(4, 0, [ACCEPT])]),
    "all negative": (INVALID_REQUEST, [(-5, -2, [ACCEPT])]),
    "negative": (NONE, [(-1, 4, [ACCEPT])]),
    "without types": (INVALID_REQUEST, [(0, 4, [])]),
    "with too few types": (INVALID_REQUEST, [(0, 4, [ACCEPT] * 4)]),
    "with an unknown type": (INVALID_REQUEST, [(0, 4, [5])]),
    "with a negative type": (INVALID_REQUEST, [(0, 4, [-1])]),
    "with a renewal": (NONE, [(0, 4, [RENEW])]),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_requests_are_checked_before_any_share_partition_is_read(what: str) -> None:
    error_code, batches = REQUESTS[what]
    assert check_acknowledgements(batches) == error_code


def test_renewals_need_a_version_and_a_flag() -> None:
    assert check_acknowledgements([(0, 4, [RENEW])], max_type=3) == INVALID_REQUEST
    assert check_acknowledgements([(0, 4, [RENEW])], is_renew=False) == INVALID_REQUEST
    assert check_acknowledgements([(0, 4, [ACCEPT])], max_type=3, is_renew=False) == NONE


def test_records_of_aborted_transactions_are_archived() -> None:
    world = World()
    assert world.acquire(30, aborted=[(5, 9), (10, 19)]) == [(0, 4, 1), (20, 29, 1)]
    assert world.states() == [(0, 4, ACQUIRED, 1), (5, 19, ARCHIVED, 1), (20, 29, ACQUIRED, 1)]
    assert world.partition.delivery_complete_count == 15
    world.finish((0, 4, [ACCEPT]))
    assert world.window() == (20, 29, 30)


def test_a_window_of_aborted_records_does_not_hold_the_rest() -> None:
    world = World(locks=20)
    assert world.acquire(500, aborted=TENS[:2]) == []
    assert world.window() == (20, 20, 20)
    assert world.acquire(500) == [(20, 39, 1)]


def test_compacted_records_are_archived_when_the_log_has_them_no_more() -> None:
    world = World()
    world.acquire(20)
    world.finish((0, 19, [RELEASE]))
    assert world.acquire(500, batches=TENS[1:3]) == [(10, 19, 2), (20, 29, 1)]
    assert world.window()[0] == 10
    assert world.partition.delivery_complete_count == 0


def test_offsets_without_records_between_batches_hold_nothing() -> None:
    world = World()
    assert world.acquire(10) == [(0, 9, 1)]
    assert world.acquire(10, batches=[(20, 29)]) == [(20, 29, 1)]
    assert world.acknowledge((12, 15, [GAP])).error_code == INVALID_REQUEST
    assert world.acknowledge((5, 15, [GAP])).error_code == INVALID_REQUEST
    world.finish((5, 25, [ACCEPT]))
    assert world.states() == [(0, 4, ACQUIRED, 1), (5, 9, ACKNOWLEDGED, 1), (20, 25, ACKNOWLEDGED, 1), (26, 29, ACQUIRED, 1)]
    world.finish((0, 4, [ACCEPT]))
    assert world.window() == (26, 29, 30)


def test_a_log_that_starts_later_drops_what_is_before() -> None:
    world = World()
    world.acquire(30)
    world.finish((10, 14, [ACCEPT]))
    held = world.acknowledge((0, 3, [RELEASE]))
    outcome = world.submit(MoveLogStart(12))
    assert outcome.write is not None
    assert outcome.write[3:] == (12, 3, ())
    assert world.window() == (15, 29, 30)
    assert world.store(held).error_code == NONE
    assert world.submit(MoveLogStart(15)) == ShareOutcome()
    assert world.acknowledge((12, 19, [ACCEPT])).error_code == NONE


def test_a_log_that_starts_after_the_window_leaves_it_empty() -> None:
    world = World()
    world.acquire(30)
    world.submit(MoveLogStart(50))
    assert world.window() == (50, 50, 50)
    assert world.acknowledge((0, 29, [ACCEPT])) == ShareOutcome(changes=[])
    world.now = 2 * LOCK_MS
    assert world.submit(ExpireLocks()).write is None


def test_a_full_window_gives_released_records_alone() -> None:
    world = World(locks=20)
    assert world.acquire(500) == [(0, 19, 1)]
    assert not world.partition.can_acquire
    assert world.acquire(500) == []
    world.finish((5, 6, [RELEASE]))
    assert world.partition.can_acquire
    assert world.acquire(500) == [(5, 6, 2)]
    world.finish((0, 4, [ACCEPT]))
    assert world.acquire(500) == [(20, 29, 1)]


def test_a_smaller_limit_holds_for_what_comes_next() -> None:
    world = World()
    world.acquire(20)
    world.partition.limits = ShareLimits(1, 10, 2 * LOCK_MS)
    assert not world.partition.can_acquire
    world.finish((0, 19, [RELEASE]))
    assert world.window() == (20, 20, 20)
    world.acquire(10)
    assert world.partition.next_deadline_ms == LOCK_MS
    world.now = LOCK_MS
    assert world.submit(ExpireLocks()).write is None
    assert world.partition.next_deadline_ms == 2 * LOCK_MS


def test_what_was_persisted_is_where_the_next_leader_begins() -> None:
    states = [(10, 14, ACKNOWLEDGED, 1), (15, 19, AVAILABLE, 2), (30, 39, ARCHIVED, 5)]
    world = World(10, states)
    assert world.loaded.wakes
    assert world.window() == (15, 39, 15)
    assert world.states() == [(15, 19, AVAILABLE, 2), (20, 29, AVAILABLE, 0), (30, 39, ARCHIVED, 5)]
    assert world.partition.delivery_complete_count == 10
    assert world.acquire(500) == [(15, 19, 3), (20, 29, 1), (40, 99, 1)]


def test_what_was_acquired_by_an_earlier_leader_is_acquired_like_new_records() -> None:
    world = World(0, [(25, 29, ACKNOWLEDGED, 1)])
    assert world.acquire(5) == [(0, 9, 1)]
    assert world.acquire(5, limited=True, member="b") == [(10, 14, 1)]
    assert world.acquire(12, size=5) == [(15, 19, 1), (20, 24, 1), (30, 39, 1)]


def test_a_state_that_is_loaded_once_is_not_loaded_again() -> None:
    world = World(5)
    assert world.submit(StateRead(3, 9)).error_code == UNKNOWN_SERVER_ERROR
    assert world.window() == (5, 5, 5)


@pytest.mark.parametrize(
    "states",
    [
        [(4, 9, 0, 1)],
        [(9, 8, 0, 1)],
        [(5, 9, 0, 1), (9, 12, 0, 1)],
        [(15, 19, 0, 1), (5, 9, 0, 1)],
        [(5, 9, 5, 1)],
        [(5, 9, -1, 1)],
        [(5, 9, 0, -1)],
    ],
)
def test_a_damaged_state_serves_nobody(states: list[State]) -> None:
    world = World(5, states)
    assert world.loaded.error_code == UNKNOWN_SERVER_ERROR
    assert world.partition.status is ShareStatus.FAILED
    assert not world.partition.can_acquire
    assert world.acquire(500, batches=TENS) == []
    assert world.acknowledge((5, 9, [ACCEPT])).error_code == INVALID_RECORD_STATE


def test_states_that_nobody_persists_are_read_as_what_they_must_become() -> None:
    world = World(0, [(0, 4, ACQUIRED, 1), (5, 9, ARCHIVING, 3)])
    assert world.states() == [(0, 4, AVAILABLE, 1), (5, 9, ARCHIVED, 3)]


def test_before_its_state_is_read_a_share_partition_serves_nobody() -> None:
    partition = SharePartition("group", b"t" * 16, 0, 7)
    assert not partition.can_acquire
    assert partition.submit(AcquireRecords("a", 0, TENS, 10, 10), 0) == ShareOutcome()
    assert partition.submit(AcknowledgeRecords("a", [(0, 9, [ACCEPT])]), 0).error_code == INVALID_RECORD_STATE
    assert partition.submit(MoveLogStart(10), 0) == ShareOutcome()


def test_a_fenced_share_partition_refuses_everything() -> None:
    world = World()
    world.acquire(10)
    held = world.acknowledge((0, 4, [ACCEPT]))
    world.partition.fence()
    assert not world.partition.can_acquire
    assert world.acknowledge((5, 9, [ACCEPT])).error_code == NOT_LEADER_OR_FOLLOWER
    assert world.store(held).error_code == NOT_LEADER_OR_FOLLOWER
    assert world.submit(ExpireLocks()).error_code == NOT_LEADER_OR_FOLLOWER


def test_the_result_of_an_unknown_write_changes_nothing() -> None:
    world = World()
    world.acquire(10)
    outcome = world.acknowledge((0, 9, [ACCEPT]))
    world.store(outcome)
    assert world.store(outcome, FENCED_STATE_EPOCH) == ShareOutcome()


def test_two_writes_end_in_any_order() -> None:
    world = World()
    world.acquire(20)
    first, second = world.acknowledge((0, 9, [ACCEPT])), world.acknowledge((10, 19, [ACCEPT]))
    world.store(second)
    assert world.window() == (0, 19, 20)
    world.store(first)
    assert world.window() == (20, 20, 20)
