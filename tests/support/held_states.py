"""A persister of share partitions' states that answers when the test wants it to, in place of the share coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ottla.coord.share_state.inputs import ReadState, StateResult, WriteState
from tests.support.machine import Machine

Done = Callable[[Sequence[StateResult]], None]


class Owed(NamedTuple):
    """A call that has not been answered."""

    group_id: str
    places: Sequence[Any]
    done: Done


class HeldStates:
    """It holds back reads and writes. Use it before the first fetch of a group."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.reads: list[Owed] = []
        self.writes: list[Owed] = []
        self.start_offset = 0
        machine.broker.shares._persister = self  # type: ignore[assignment]  # it has the methods that are called

    def read(self, group_id: str, places: Sequence[ReadState], done: Done) -> None:
        self.reads.append(Owed(group_id, places, done))

    def write(self, group_id: str, places: Sequence[WriteState], done: Done) -> None:
        self.writes.append(Owed(group_id, places, done))

    def answer_reads(self, error_code: int = 0) -> None:
        """Answer all reads: with an error, or a state from `start_offset` on without batches."""
        held, self.reads = self.reads, []
        for owed in held:
            owed.done([StateResult(error_code, start_offset=self.start_offset) for _ in owed.places])
        self.machine.pass_time(1)

    def answer_writes(self, error_code: int = 0) -> None:
        held, self.writes = self.writes, []
        for owed in held:
            owed.done([StateResult(error_code) for _ in owed.places])
        self.machine.pass_time(1)
