"""Whatever members, clocks, logs and persisters do, a share partition agrees with a state for each single record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
from ottla.share.partition import SharePartition
from ottla.wire.errors import FENCED_STATE_EPOCH, NONE, NOT_LEADER_OR_FOLLOWER
from tests.support.share_model import NaiveSharePartition

members = st.sampled_from(["a", "b"])
offsets = st.integers(0, 60)
types = st.one_of(
    st.integers(0, 4).map(lambda kind: [kind]),
    st.lists(st.integers(0, 4), min_size=1, max_size=12),
    st.lists(st.integers(-1, 5), max_size=3),
)


class CoordinatorState:
    """The share coordinator's state of one share partition, offset by offset. A higher delivery count is never overwritten."""

    def __init__(self) -> None:
        self.start = 0
        self.states: dict[int, tuple[int, int]] = {}

    def store(self, start: int, batches: Iterable[tuple[int, int, int, int]]) -> None:
        self.start = start
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                self.states[offset] = max(self.states.get(offset, (-1, -1)), (count, state))
        self.states = {offset: each for offset, each in self.states.items() if offset >= start}

    def batches(self) -> list[tuple[int, int, int, int]]:
        return [(offset, offset, state, count) for offset, (count, state) in sorted(self.states.items())]


class SharePartitionLife(RuleBasedStateMachine):
    """A share partition, the model beside it, a log, and a coordinator."""

    now = 1_000

    @initialize(
        sizes=st.lists(st.integers(1, 7), min_size=4, max_size=14),
        holes=st.lists(st.integers(0, 2), min_size=14, max_size=14),
        is_aborted=st.lists(st.sampled_from([False, False, False, True]), min_size=14, max_size=14),
        limits=st.builds(ShareLimits, st.integers(2, 6), st.integers(4, 40), st.just(100)),
    )
    def begin(self, sizes: list[int], holes: list[int], is_aborted: list[bool], limits: ShareLimits) -> None:
        self.log: list[tuple[int, int]] = []
        position = 0
        for size, hole in zip(sizes, holes, strict=False):
            self.log.append((position + hole, position + hole + size - 1))
            position = self.log[-1][1] + 1
        self.aborted = [batch for batch, flag in zip(self.log, is_aborted, strict=False) if flag]
        self.limits = limits
        self.coordinator = CoordinatorState()
        self.unstored: dict[int, tuple[int, Any]] = {}
        self.load()

    def load(self) -> None:
        self.real = SharePartition("group", b"t" * 16, 0, 1, self.limits)
        self.model = NaiveSharePartition(self.limits)
        self.model.load(self.coordinator.start, self.coordinator.batches())
        self.unstored.clear()
        self.submit(StateRead(1, self.coordinator.start, self.coordinator.batches()))

    def submit(self, asked: ShareInput) -> ShareOutcome:
        before = self.shown()
        outcome = self.real.decide(asked, self.now)
        assert self.shown() == before
        if outcome.error_code and not isinstance(asked, WriteResult):
            assert outcome == ShareOutcome(outcome.error_code, outcome.error_message)
        self.real.apply(outcome)
        return outcome

    def shown(self) -> tuple[object, ...]:
        real = self.real
        return list(real.runs()), real.start_offset, real.end_offset, real.next_fetch_offset, real.delivery_complete_count

    def check_write(self, outcome: ShareOutcome, expected: Sequence[int], start: int) -> None:
        if not expected:
            assert outcome.write is None
            return
        write = outcome.write
        assert write is not None
        assert (write.token, write.state_epoch, write.leader_epoch, write.start_offset) == (self.model.token, 1, 1, start)
        assert write.delivery_complete_count == self.model.complete_count()
        states = {offset: (state, count) for first, last, state, count in write.batches for offset in range(first, last + 1)}
        assert list(states) == list(expected)
        assert states == {offset: (self.model.states[offset].state, self.model.states[offset].count) for offset in expected}
        self.unstored[write.token] = (start, write.batches)

    @rule(
        member=members,
        most=st.integers(0, 25),
        size=st.integers(1, 12),
        limited=st.booleans(),
        count=st.integers(1, 5),
        is_committed=st.booleans(),
        back=st.sampled_from([0, 0, 0, 0, 3]),
    )
    def acquire(self, member: str, most: int, size: int, limited: bool, count: int, is_committed: bool, back: int) -> None:
        fetch = max(self.real.next_fetch_offset - back, self.real.start_offset)
        at = bisect_left(self.log, fetch, key=lambda batch: batch[1])
        batches = self.log[at : at + count]
        aborted = [batch for batch in self.aborted if batch in batches] if is_committed else []
        outcome = self.submit(AcquireRecords(member, fetch, batches, most, size, limited, aborted))
        expected = self.model.acquire(member, fetch, batches, most, size, limited, aborted, self.now)
        acquired = [(offset, times) for first, last, times in outcome.acquired for offset in range(first, last + 1)]
        assert acquired == expected
        assert (outcome.write, outcome.error_code) == (None, NONE)

    @rule(member=members, first=offsets, length=st.integers(-1, 20), kinds=types)
    def acknowledge_anything(self, member: str, first: int, length: int, kinds: list[int]) -> None:
        self.acknowledge(member, [(first, first + length, kinds)])

    @rule(member=members, data=st.data(), kinds=types)
    def acknowledge_records_in_flight(self, member: str, data: st.DataObject, kinds: list[int]) -> None:
        batches = []
        for first, last, _ in list(self.real.runs())[:3]:
            begin = data.draw(st.integers(first, last))
            end = data.draw(st.integers(begin, last + 2))
            batches.append((begin, end, (kinds * 30)[: end - begin + 1] if len(kinds) > 1 else kinds))
        self.acknowledge(member, batches)

    @rule(data=st.data(), kind=st.integers(0, 4), again=st.sampled_from([(), (1,), (2,), (4,)]), is_moving=st.booleans())
    def acknowledge_held_records(self, data: st.DataObject, kind: int, again: tuple[int, ...], is_moving: bool) -> None:
        held = [run for run in self.real.runs() if run.cell.member_id]
        if not held:
            return
        first, last, cell = data.draw(st.sampled_from(held))
        begin = data.draw(st.integers(first, last))
        batches = [(begin, last, [kind]), *((data.draw(st.integers(first, last)), last, [each]) for each in again)]
        token = self.acknowledge(cell.member_id, batches)
        if token and is_moving:
            self.finish(token, is_stored=True, is_lost=False)
            self.load()

    @rule(member=members, kinds=st.lists(st.sampled_from([0, 1, 2, 2, 2, 3, 5, 5, 5]), min_size=1, max_size=5))
    def deliver_several_times(self, member: str, kinds: list[int]) -> None:
        for kind in kinds:
            self.acquire(member, 25, 12, False, 3, False, 0)
            if kind == 5:
                self.expire_locks(110)
                continue
            batches = [(run.first_offset, run.last_offset, [kind]) for run in self.real.runs() if run.cell.member_id == member]
            token = self.acknowledge(member, batches)
            if token:
                self.finish(token, is_stored=True, is_lost=False)

    @rule(kinds=st.lists(st.integers(0, 3), min_size=1, max_size=3), is_stored=st.booleans())
    def store_the_last_first(self, kinds: list[int], is_stored: bool) -> None:
        held = [run for run in self.real.runs() if run.cell.member_id]
        tokens = [
            self.acknowledge(run.cell.member_id, [(run.first_offset, run.last_offset, [kind])])
            for run, kind in zip(held, kinds, strict=False)
        ]
        for token in tokens[:0:-1]:
            self.finish(token, is_stored=is_stored, is_lost=False)

    @rule(data=st.data(), kind=st.integers(0, 3), passed_ms=st.sampled_from([0, 60, 110]))
    def fail_to_store(self, data: st.DataObject, kind: int, passed_ms: int) -> None:
        token = self.acknowledge(
            "a", [(run.first_offset, run.last_offset, [kind]) for run in self.real.runs() if run.cell.member_id == "a"]
        )
        if token:
            self.expire_locks(passed_ms)
            self.finish(token, is_stored=False, is_lost=data.draw(st.booleans()))

    def acknowledge(self, member: str, batches: list[tuple[int, int, list[int]]]) -> int:
        """Acknowledge batches. Returns the token of the write; 0 without one."""
        start = self.model.start
        outcome = self.submit(AcknowledgeRecords(member, batches))
        error_code, expected = self.model.acknowledge(member, batches, self.now)
        assert outcome.error_code == error_code
        self.check_write(outcome, expected, start)
        return outcome.write.token if outcome.write else 0

    @rule(member=members)
    def end_session(self, member: str) -> None:
        start = self.model.start
        outcome = self.submit(ReleaseMember(member))
        self.check_write(outcome, self.model.release(member), start)

    @rule(passed_ms=st.integers(0, 110))
    def let_time_pass(self, passed_ms: int) -> None:
        self.now += passed_ms

    @rule(passed_ms=st.integers(0, 110))
    def expire_locks(self, passed_ms: int) -> None:
        self.now += passed_ms
        start = self.model.start
        outcome = self.submit(ExpireLocks())
        expected = self.model.expire(self.now)
        self.check_write(outcome, expected, start)
        assert self.real.next_deadline_ms is None or self.real.next_deadline_ms > self.now

    @rule(offset=offsets)
    def move_log_start(self, offset: int) -> None:
        outcome = self.submit(MoveLogStart(offset))
        self.log = [batch for batch in self.log if batch[1] >= offset]
        complete = self.model.move_start(offset)
        write = outcome.write
        assert (write is None) == (complete is None)
        if write is not None:
            assert (write.start_offset, write.delivery_complete_count, write.batches) == (offset, complete, ())
            self.unstored[write.token] = (offset, ())

    @rule(at=st.integers(0, 13))
    def compact_a_batch_away(self, at: int) -> None:
        if at < len(self.log) - 1:
            del self.log[at]

    @precondition(lambda self: self.unstored)
    @rule(data=st.data(), is_stored=st.booleans(), is_lost=st.booleans())
    def end_write(self, data: st.DataObject, is_stored: bool, is_lost: bool) -> None:
        self.finish(data.draw(st.sampled_from(sorted(self.unstored))), is_stored, is_lost)

    def finish(self, token: int, is_stored: bool, is_lost: bool) -> None:
        """End a write. A write that failed may have been stored all the same: its answer was lost."""
        start, batches = self.unstored.pop(token)
        if is_stored or is_lost:
            self.coordinator.store(max(start, self.coordinator.start), batches)
        outcome = self.submit(WriteResult(token, NONE if is_stored else FENCED_STATE_EPOCH))
        assert outcome.error_code == (NONE if is_stored else NOT_LEADER_OR_FOLLOWER)
        assert outcome.write is None
        self.model.end_write(token, is_stored, self.now)

    @rule(limits=st.builds(ShareLimits, st.integers(2, 6), st.integers(4, 40), st.sampled_from([50, 100, 200])))
    def change_limits(self, limits: ShareLimits) -> None:
        self.limits = self.real.limits = self.model.limits = limits

    @rule()
    def move_to_another_leader(self) -> None:
        self.load()

    @invariant()
    def agrees(self) -> None:
        real, model = self.real, self.model
        assert (real.start_offset, real.end_offset) == (model.start, model.end)
        found = {offset: run.cell for run in real.runs() for offset in range(run.first_offset, run.last_offset + 1)}
        assert list(found) == sorted(model.states)
        for offset, cell in found.items():
            each = model.states[offset]
            deadline = cell.deadline_ms if each.deadline else 0
            assert (cell.state, cell.delivery_count, cell.member_id, cell.token) == (
                each.state,
                each.count,
                each.member,
                each.token,
            )
            assert deadline == each.deadline
        assert real.next_fetch_offset == model.next_fetch()
        assert real.delivery_complete_count == model.complete_count()
        assert real.in_flight_count == (model.end - model.start + 1 if model.states else 0)
        runs = list(real.runs())
        assert all(one.last_offset + 1 < two.first_offset or one.cell != two.cell for one, two in pairwise(runs))


SharePartitionLife.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
TestSharePartitionLife = SharePartitionLife.TestCase
