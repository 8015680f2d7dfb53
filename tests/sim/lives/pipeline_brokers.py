"""The brokers of a simulated pipeline: the real machine of transactions, partitions as lists of rows, and a log of decisions.

Markers are written some time after an end was decided, and transactions that are open for too long are aborted. Brokers may die:
what was stored is read back when they start, and the rest is forgotten. Knows what steps of `ottla.once` ask of a broker, and
nothing of who asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from ottla.client.errors import broker_error
from ottla.coord.runtime.machine import Due, Input
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.inputs import Ended, EndTransaction, MarkersWritten, TimeoutsKey, TransactionSettings, WriteMarkers
from ottla.coord.transactions.machine import TransactionMachine
from ottla.coord.transactions.records import decode_record
from ottla.coord.transactions.transaction import NO_TIMESTAMP, Status
from ottla.once.decisions import BatchDecision, Handed
from ottla.once.steps import Identified, SeenId
from ottla.sim.world import World
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.errors import CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE, PRODUCER_FENCED

DECISIONS: Final = ("decisions", 0)
Place = tuple[str, int]
Row = tuple[int, int, int]
"""Batch, partition and number of a row of the input."""
TIMEOUT_LOOK_MS: Final = 1_000


@dataclass(slots=True)
class StoredRow:
    """A row, or a decision, in a partition; `committed` is None while its transaction is open."""

    producer_id: int
    value: Row | BatchDecision
    committed: bool | None = None


class PipelineBrokers:
    """Answers at once; who asks sees to it that time passes, and that answers are lost."""

    def __init__(self, world: World, transaction_version: int, *, two_phase: bool) -> None:
        self._world = world
        self.two_phase = two_phase
        self._version = transaction_version
        self._ids = count(1)
        self._stored: dict[bytes, bytes | None] = {}
        self.coordinator = self._new_coordinator()
        self.starts = 1
        self._is_up = True
        self.logs: dict[Place, list[StoredRow]] = defaultdict(list)
        self._epochs: dict[tuple[Place, int], int] = {}
        self.timed_out = 0
        world.after(TIMEOUT_LOOK_MS, self._look_for_timeouts)

    def _new_coordinator(self) -> TransactionMachine:
        return TransactionMachine(TransactionSettings(transaction_version=self._version), lambda: next(self._ids))

    def die(self, away_ms: int) -> None:
        """Stop at once, and start so much later."""
        if self._is_up:
            self._is_up = False
            self._world.after(away_ms, self._start)

    def _start(self) -> None:
        self._is_up = True
        self.starts += 1
        self.coordinator = self._new_coordinator()
        for key, value in self._stored.items():
            record = decode_record(key, value)
            assert record is not None, "it was stored here"
            self.coordinator.apply(record)
        self._carry_out(self.coordinator.recall(self._world.clock.now()).orders)

    def _ask(self, body: object) -> object:
        self._check_up()
        outcome = self.coordinator.decide(Input(body, token=1), self._world.clock.now())
        for record in outcome.records:
            self.coordinator.apply(record)
            key, value = self.coordinator.encode(record)
            self._stored[key] = value
        self._carry_out(outcome.orders)
        return outcome.replies[0].message if outcome.replies else None

    def _carry_out(self, orders: Iterable[object]) -> None:
        for order in orders:
            assert isinstance(order, WriteMarkers)
            self._world.after(self._world.random.choice((0, 1, 3, 40)), partial(self._mark, order, self.starts))

    def _check_up(self) -> None:
        if not self._is_up:
            _check(COORDINATOR_NOT_AVAILABLE)

    def _look_for_timeouts(self) -> None:
        self._world.after(TIMEOUT_LOOK_MS, self._look_for_timeouts)
        if not self._is_up:
            return
        before = sum(each.status is Status.ONGOING for each in self.coordinator.by_id.values())
        self._ask(Due(TimeoutsKey()))
        self.timed_out += before - sum(each.status is Status.ONGOING for each in self.coordinator.by_id.values())

    def _mark(self, order: WriteMarkers, start: int) -> None:
        if not self._is_up or start != self.starts:
            return  # it was on its way when the brokers died
        for place in order.partitions:
            self._epochs[place, order.producer_id] = order.producer_epoch
            for row in self.logs[place]:
                if row.producer_id == order.producer_id and row.committed is None:
                    row.committed = order.committed
        self._ask(MarkersWritten(order.transactional_id, order.producer_id, order.producer_epoch))

    def init(self, transactional_id: str, timeout_ms: int) -> Identified:
        """Raises `BrokerError`, CONCURRENT_TRANSACTIONS while what was open is being aborted."""
        answer = self._ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms))
        assert isinstance(answer, InitProducerIdResponse)
        _check(answer.error_code)
        return Identified(answer.producer_id, answer.producer_epoch)

    def prepare(self, handed: Handed) -> Handed | None:
        """Without its timeout; None if it is open no more. Raises `BrokerError`."""
        written_as = (handed.producer_id, handed.producer_epoch)
        body = InitProducerIdRequest(
            transactional_id=handed.transactional_id,
            producer_id=handed.producer_id,
            producer_epoch=handed.producer_epoch,
            enable_2pc=True,
            keep_prepared_txn=True,
        )
        answer = self._ask(body)
        assert isinstance(answer, InitProducerIdResponse)
        _check(answer.error_code)
        if (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) != written_as:
            return None
        return handed._replace(prepared=(answer.producer_id, answer.producer_epoch))

    def produce(self, transactional_id: str, identity: Identified, place: Place, values: list[Row] | list[BatchDecision]) -> None:
        """Raises `BrokerError`."""
        added = self._ask(AddPartitions(transactional_id, *identity, frozenset((place,)), self._version))
        assert isinstance(added, Added)
        _check(added.error_code)
        key = (place, identity.producer_id)
        if identity.producer_epoch < self._epochs.get(key, -1):
            _check(PRODUCER_FENCED)
        self._epochs[key] = identity.producer_epoch
        self.logs[place] += [StoredRow(identity.producer_id, value) for value in values]

    def end(self, transactional_id: str, identity: Identified, *, committed: bool) -> Identified:
        """What the producer goes on with. Raises `BrokerError`."""
        answer = self._ask(EndTransaction(transactional_id, *identity, committed, self._version))
        assert isinstance(answer, Ended)
        _check(answer.error_code)
        return Identified(answer.producer_id, answer.producer_epoch) if self._version > 1 else identity

    def describe(self, transactional_id: str) -> SeenId | None:
        """Raises `BrokerError`."""
        self._check_up()
        known = self.coordinator.by_id.get(transactional_id)
        if known is None:
            return None
        started_ms = None if known.started_ms == NO_TIMESTAMP else known.started_ms
        return SeenId(known.status.label, known.producer_id, known.producer_epoch, known.timeout_ms, started_ms)

    def open_ids(self, prefix: str) -> list[str]:
        """Raises `BrokerError`."""
        self._check_up()
        return [
            name for name, known in self.coordinator.by_id.items() if name.startswith(prefix) and known.status is Status.ONGOING
        ]

    def last_decision(self) -> BatchDecision | None:
        """Raises `BrokerError`, CONCURRENT_TRANSACTIONS while one is being written."""
        self._check_up()
        last: BatchDecision | None = None
        for row in self.logs[DECISIONS]:
            if row.committed is None:
                _check(CONCURRENT_TRANSACTIONS)
            elif row.committed:
                assert isinstance(row.value, BatchDecision)
                last = row.value
        return last


def _check(code: int) -> None:
    if code:
        raise broker_error(code, "simulated")
