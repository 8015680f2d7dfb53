"""The exactly-once sink's committer, run in every world of two transactions, and killed at each of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import product
from typing import Any

from ottla.client.types import TopicPartition
from ottla.once.committer import NotCommitted, Overtaken, SetBack, Torn, commit_batch
from ottla.once.decisions import BatchDecision, BatchVerdict, Handed
from ottla.once.fates import Fate
from ottla.once.names import Work
from ottla.once.steps import (
    Decide,
    DescribeIds,
    EndHanded,
    FenceCommitters,
    FenceWriter,
    ListOpen,
    NoteFinished,
    PrepareHanded,
    ReadBrokerClock,
    ReadDecision,
    SeenId,
)
from tests.support.transitions import differences
from tools.machines_page import Transition

WORK = Work("query", "run", 7)
HANDED = tuple(Handed(f"ottla-once/query/run/p/{number}", number, 0, 1, (TopicPartition("t", 0),)) for number in (1, 2))
STATES = {
    Fate.OPEN: ("Ongoing", 0),
    Fate.COMMITTED: ("CompleteCommit", 1),
    Fate.ABORTED: ("CompleteAbort", 1),
    Fate.MOVED_ON: ("Ongoing", 5),
}
NOW_MS = 1_000_000
MOST_STEPS = 12

Fates = tuple[Fate, ...]


def decided(verdict: BatchVerdict, *, is_finished: bool = False, batch_id: int = WORK.batch_id) -> BatchDecision:
    transactions = HANDED if verdict is BatchVerdict.WRITTEN else ()
    return BatchDecision("run", batch_id, verdict, transactions, NOW_MS, is_finished)


DECISIONS: Mapping[str, BatchDecision | None] = {
    "undecided": None,
    "decided": decided(BatchVerdict.WRITTEN),
    "finished": decided(BatchVerdict.WRITTEN, is_finished=True),
    "void": decided(BatchVerdict.VOID),
}


class CommitterWorld:
    """The decision and the fates of its transactions; `later` are those that they have by the time they are ended."""

    def __init__(self, state: str, fates: Fates, later: Fates) -> None:
        self.state = state
        self.fates, self.later = fates, later
        self.seen: list[Transition] = []

    def move(self, following: str) -> None:
        self.seen.append(Transition(self.state, self._event(), following))
        self.state = following

    def _event(self) -> str:
        found = set(self.fates)
        return f"all {found.pop().value}" if len(found) == 1 else "some ended otherwise"

    def answer(self, step: object) -> Any:
        if isinstance(step, FenceCommitters | ReadDecision):
            return DECISIONS[self.state]
        if isinstance(step, DescribeIds):
            return [self._described(name) for name in step.transactional_ids]
        if isinstance(step, PrepareHanded):
            return [each if self.fates[HANDED.index(each)] is Fate.OPEN else None for each in step.transactions]
        if isinstance(step, EndHanded):
            return self._end(step)
        if isinstance(step, Decide):
            self.move("decided" if step.decision.verdict is BatchVerdict.WRITTEN else "void")
        elif isinstance(step, NoteFinished):
            self.move("finished")
        elif isinstance(step, ListOpen):
            return []
        else:
            assert isinstance(step, ReadBrokerClock | FenceWriter), step
            return NOW_MS
        return None

    def _described(self, transactional_id: str) -> SeenId | None:
        handed = next(each for each in HANDED if each.transactional_id == transactional_id)
        fate = self.fates[HANDED.index(handed)]
        if fate is Fate.FORGOTTEN:
            return None
        name, epochs = STATES[fate]
        return SeenId(name, handed.producer_id, handed.producer_epoch + epochs, 60_000, NOW_MS)

    def _end(self, step: EndHanded) -> list[bool]:
        wanted = Fate.COMMITTED if step.committed else Fate.ABORTED
        self.fates = tuple(later if fate is Fate.OPEN else fate for fate, later in zip(self.fates, self.later, strict=True))
        ended = [self.fates[HANDED.index(each)] is Fate.OPEN for each in step.transactions]
        self.fates = tuple(
            wanted if fate is Fate.OPEN and each in step.transactions else fate
            for fate, each in zip(self.fates, HANDED, strict=True)
        )
        return ended


def committed(world: CommitterWorld, most_steps: int) -> None:
    """Let a committer do so many steps."""
    steps, sent = commit_batch(WORK, HANDED, lambda: NOW_MS, found_decided=False), None
    with suppress(StopIteration, NotCommitted, Overtaken, SetBack):
        try:
            for _ in range(most_steps):
                sent = world.answer(steps.send(sent))
        except Torn:
            world.move("torn")


def worlds() -> Iterator[CommitterWorld]:
    for state, fates, later in product(DECISIONS, product(Fate, repeat=2), product((Fate.OPEN, Fate.ABORTED), repeat=2)):
        yield CommitterWorld(state, fates, later)


def test_every_transition_of_a_batch_is_in_the_table_of_the_sink() -> None:
    seen = set[Transition]()
    for most_steps in range(1, MOST_STEPS):
        for world in worlds():
            committed(world, most_steps)
            seen.update(world.seen)
    assert differences("ottla.once", seen) == {}
