"""Producers, zombies, restarts and markers in any order: no transaction ends twice, and a fenced producer stays fenced."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.coord.runtime.machine import Due
from ottla.coord.transactions.additions import AddPartitions
from ottla.coord.transactions.inputs import (
    Ended,
    EndTransaction,
    TimeoutsKey,
)
from ottla.coord.transactions.transaction import (
    PREPARED,
    Status,
    weight_of,
)
from tests.unit.coord.test_transactions import PLACES, Coordinator


class AnyOrder(RuleBasedStateMachine):
    """Producers, zombies, restarts and markers in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.producers: list[tuple[int, int]] = []
        self.epochs: dict[int, int] = {}

    @rule(recovers=st.booleans(), which=st.integers(0, 9), keeps=st.booleans())
    def init(self, recovers: bool, which: int, keeps: bool) -> None:
        known = self.producers[which % len(self.producers)] if recovers and self.producers else (-1, -1)
        response = self.coordinator.init("a", *known, keeps=keeps)
        if not response.error_code:
            self.producers.append((response.producer_id, response.producer_epoch))

    @rule(which=st.integers(0, 9), version=st.sampled_from((0, 2)))
    def add(self, which: int, version: int) -> None:
        if self.producers:
            self.coordinator.request(AddPartitions("a", *self.producers[which % len(self.producers)], PLACES, version))

    @rule(which=st.integers(0, 9), committed=st.booleans(), version=st.sampled_from((0, 2)))
    def end(self, which: int, committed: bool, version: int) -> None:
        if not self.producers:
            return
        before = self.coordinator.machine.by_id["a"]
        producer = self.producers[which % len(self.producers)]
        ended = self.coordinator.request(EndTransaction("a", *producer, committed, version))
        assert isinstance(ended, Ended)
        if not ended.error_code and version:
            self.producers.append((ended.producer_id, ended.producer_epoch))
        if ended.error_code:
            assert self.coordinator.machine.by_id["a"] == before, "a refusal changes nothing"

    @rule()
    def carry_out(self) -> None:
        self.coordinator.carry_out()

    @rule(ms=st.sampled_from((1, 30_000, 70_000)))
    def wait(self, ms: int) -> None:
        self.coordinator.ms += ms
        self.coordinator.request(Due(TimeoutsKey()))

    @rule()
    def restart(self) -> None:
        before = {name: known._replace(last_producer_epoch=-1) for name, known in self.coordinator.machine.by_id.items()}
        self.coordinator.restart()
        assert self.coordinator.machine.by_id == before

    @invariant()
    def epochs_never_go_back(self) -> None:
        known = self.coordinator.machine.by_id.get("a")
        if known is None:
            return
        held = known.as_held()
        assert held.producer_epoch >= self.epochs.get(held.producer_id, 0)
        self.epochs[held.producer_id] = held.producer_epoch

    @invariant()
    def what_is_about_to_end_has_its_order(self) -> None:
        known = self.coordinator.machine.by_id.get("a")
        if known is not None and known.status in PREPARED:
            assert (known.producer_id, known.producer_epoch) in [
                (each.producer_id, each.producer_epoch) for each in self.coordinator.orders
            ]

    @invariant()
    def what_is_counted_is_what_there_is(self) -> None:
        assert self.coordinator.machine.weight == sum(map(weight_of, self.coordinator.machine.by_id.values()))

    @invariant()
    def only_open_transactions_can_time_out(self) -> None:
        machine = self.coordinator.machine
        assert set(machine.ongoing) == {name for name, known in machine.by_id.items() if known.status is Status.ONGOING}


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
