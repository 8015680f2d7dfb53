"""A transaction, lived at random: producers, markers, timeouts and restarts in any order, until every transition was seen."""

from __future__ import annotations

import random
from collections.abc import Callable

from ottla.coord.runtime.machine import Due
from ottla.coord.transactions.additions import AddPartitions
from ottla.coord.transactions.inputs import DAY_MS, Ended, EndTransaction, IdExpiryKey, TimeoutsKey
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.transitions import differences
from tests.unit.coord.test_transactions import Coordinator
from tools.machines_page import START, Transition

STEPS = 1_000
PLACES = frozenset({("t", 0)})


class Life:
    """One transactional id, its producers, and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.coordinator = Coordinator()
        self.producers = [(-1, -1)]

    @property
    def state(self) -> str:
        known = self.coordinator.machine.by_id.get("a")
        return START if known is None else known.status.label

    def happen(self) -> Transition:
        before, event = self.state, self.random.choice(list(EVENTS))
        EVENTS[event](self)
        return Transition(before, event, self.state)

    def init(self) -> None:
        """A new producer, or one that gets another epoch."""
        known = self.random.choice((self.producers[-1], (-1, -1)))
        body = InitProducerIdRequest(
            transactional_id="a",
            transaction_timeout_ms=60_000,
            producer_id=known[0],
            producer_epoch=known[1],
        )
        response = self.coordinator.request(body)
        assert isinstance(response, InitProducerIdResponse)
        if not response.error_code:
            self.producers.append((response.producer_id, response.producer_epoch))

    def add(self) -> None:
        self.coordinator.request(AddPartitions("a", *self.producers[-1], PLACES, 2))

    def end(self, *, committed: bool) -> None:
        ended = self.coordinator.request(EndTransaction("a", *self.producers[-1], committed, 2))
        assert isinstance(ended, Ended)
        if not ended.error_code:
            self.producers.append((ended.producer_id, ended.producer_epoch))

    def pass_timeout(self) -> None:
        self.coordinator.ms += 70_000
        self.coordinator.request(Due(TimeoutsKey()))

    def pass_week(self) -> None:
        self.coordinator.ms += 8 * DAY_MS
        self.coordinator.request(Due(IdExpiryKey()))


EVENTS: dict[str, Callable[[Life], None]] = {
    "InitProducerId": Life.init,
    "AddPartitionsToTxn": Life.add,
    "EndTxn (commit)": lambda life: life.end(committed=True),
    "EndTxn (abort)": lambda life: life.end(committed=False),
    "markers written": lambda life: life.coordinator.carry_out(),
    "transaction timeout": Life.pass_timeout,
    "id expired": Life.pass_week,
    "restart": lambda life: life.coordinator.restart(),
}


def test_every_transition_of_a_transaction_is_in_its_table() -> None:
    life = Life(seed=1)
    assert differences("ottla.coord.transactions.transaction", (life.happen() for _ in range(STEPS))) == {}
