"""A share coordinator: its machine, and the log that it would have."""

from __future__ import annotations

from itertools import count

from ottla.coord.runtime.machine import Due, Input, Outcome
from ottla.coord.runtime.record_reader import RecordRows
from ottla.coord.share_state.inputs import (
    DeleteState,
    InitializeState,
    PruneLog,
    ReadState,
    SharePlace,
    ShareStateSettings,
    StateOperation,
    StateRequest,
    StateResult,
    WriteState,
)
from ottla.coord.share_state.machine import ShareStateMachine
from ottla.coord.share_state.records import (
    ShareStateReader,
    StateRecord,
)
from ottla.ports import Now

TOPIC, OTHER, UNKNOWN = b"T" * 16, b"O" * 16, b"U" * 16
PARTITIONS = {TOPIC: 4, OTHER: 4}


class ShareCoordinator:
    """A machine, and the log that it would have."""

    def __init__(self, **given: int) -> None:
        self.settings = ShareStateSettings(**given)
        self.now = Now(1_000_000, 1_000_000)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.first = 0
        self.machine = self._new()
        self.timers: dict[object, int] = {}
        self._tokens = count(1)

    def _new(self) -> ShareStateMachine:
        weight: list[ShareStateMachine] = []
        machine = ShareStateMachine(
            self.settings,
            lambda topic_id: PARTITIONS.get(topic_id, 0),
            lambda: weight[0].weight,
            lambda: self.first + len(self.log),
        )
        weight.append(machine)
        return machine

    def take(self, outcome: Outcome[StateRecord]) -> Outcome[StateRecord]:
        """Store and apply an outcome."""
        stored = [self.machine.encode(record) for record in outcome.records]
        self.log += stored
        for record in outcome.records:
            self.machine.apply(record)
        self.timers.update((timer.key, timer.deadline_ms or 0) for timer in outcome.timers)
        return outcome

    def decide(self, body: object) -> Outcome[StateRecord]:
        return self.take(self.machine.decide(Input(body, token=next(self._tokens)), self.now))

    def ask(self, operation: StateOperation, *places: SharePlace, group: str = "g") -> list[StateResult]:
        """The results of a request."""
        outcome = self.decide(StateRequest(operation, group, places))
        (reply,) = outcome.replies
        assert isinstance(reply.message, list)
        return reply.message

    def initialize(self, partition: int = 0, state_epoch: int = 0, start: int = -1, topic: bytes = TOPIC) -> StateResult:
        return self.ask(StateOperation.INITIALIZE, InitializeState(topic, partition, state_epoch, start))[0]

    def read(self, partition: int = 0, leader_epoch: int = 0, topic: bytes = TOPIC) -> StateResult:
        return self.ask(StateOperation.READ, ReadState(topic, partition, leader_epoch))[0]

    def summary(self, partition: int = 0, topic: bytes = TOPIC) -> StateResult:
        return self.ask(StateOperation.READ_SUMMARY, ReadState(topic, partition, -1))[0]

    def delete(self, partition: int = 0, topic: bytes = TOPIC) -> StateResult:
        return self.ask(StateOperation.DELETE, DeleteState(topic, partition))[0]

    def write(
        self,
        *batches: tuple[int, int, int, int],
        partition: int = 0,
        state: int = 0,
        leader: int = 0,
        start: int = -1,
        complete: int = 0,
        topic: bytes = TOPIC,
    ) -> StateResult:
        place = WriteState(topic, partition, state, leader, start, complete, batches)
        return self.ask(StateOperation.WRITE, place)[0]

    def pass_time(self, ms: int) -> list[object]:
        """The orders of all timers that are due meanwhile."""
        until_ms = self.now.mono_ms + ms
        orders: list[object] = []
        while self.timers and min(self.timers.values()) <= until_ms:
            key = min(self.timers, key=lambda each: self.timers[each])
            at_ms = self.timers.pop(key)
            self.now = Now(self.now.wall_ms + at_ms - self.now.mono_ms, at_ms)
            orders += self.decide(Due(key)).orders
        self.now = Now(self.now.wall_ms + until_ms - self.now.mono_ms, until_ms)
        return orders

    def prune(self, orders: list[object]) -> None:
        for order in orders:
            assert isinstance(order, PruneLog)
            self.log = self.log[order.offset - self.first :]
            self.first = order.offset

    def restart(self) -> None:
        """Load a machine from the log, in two pieces."""
        self.machine = self._new()
        half = len(self.log) // 2
        for begin, part in ((0, self.log[:half]), (half, self.log[half:])):
            for record in read(part, self.first + begin):
                self.machine.apply(record)
        self.timers = {}
        self.take(self.machine.recall(self.now))


def read(pairs: list[tuple[bytes, bytes | None]], first: int = 0) -> list[StateRecord]:
    """The records of a piece of the log."""
    reader = ShareStateReader()
    return list(reader.read_all(rows_of(pairs, first), lambda row: reader.read(*pairs[row])))


def rows_of(pairs: list[tuple[bytes, bytes | None]], first: int = 0) -> RecordRows:
    data, places = b"", []
    for key, value in pairs:
        places.append((len(data), len(key), len(data) + len(key), -1 if value is None else len(value)))
        data += key + (value or b"")
    columns = [list(column) for column in zip(*places, strict=True)] if places else [[], [], [], []]
    return RecordRows(data, range(first, first + len(pairs)), *columns)
