"""What is decided where coordinators know nothing more of a batch's transactions, or epochs have run out."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.types import TopicPartition
from ottla.once.committing import CommitOutcome, NotCommitted, Torn, committing
from ottla.once.decisions import BatchDecision, BatchVerdict, Handed
from ottla.once.fates import LAST_EPOCH, Fate, fate_of
from ottla.once.names import Work
from ottla.once.steps import Decide, DescribeIds, EndHanded, ListOpen, PrepareHanded, SeenId, Steps, TakeLead

WORK = Work("query", "run", 7)
WRITTEN = tuple(Handed(name, 1, 0, 5, (TopicPartition("t", 0),)) for name in "ab")
DECIDED = BatchDecision("run0", 7, BatchVerdict.WRITTEN, WRITTEN, 0)
OPEN = SeenId("Ongoing", 1, 0, 900_000, 0)
COMMITTED = SeenId("CompleteCommit", 1, 0, 900_000, None)


def driven(steps: Steps[CommitOutcome], answers: dict[type, Any]) -> tuple[CommitOutcome, list[Any]]:
    """The result of steps with an answer for each kind of them, and the steps."""
    taken = []
    step = next(steps)
    while True:
        taken.append(step)
        try:
            step = steps.send(answers[type(step)])
        except StopIteration as end:
            return end.value, taken


def again(seen: list[SeenId | None]) -> tuple[CommitOutcome, list[Any]]:
    """Commit a batch that was decided before, whose transactions are as coordinators tell now."""
    answers = {TakeLead: DECIDED, DescribeIds: seen, EndHanded: [True] * 2, ListOpen: [], Decide: None}
    return driven(committing(WORK, (), lambda: 1000, found_decided=True, is_first=True), answers)


def test_what_was_decided_and_ended_is_not_written_again() -> None:
    outcome, taken = again([COMMITTED, COMMITTED])
    assert outcome is CommitOutcome.WRITTEN_BEFORE
    assert not any(isinstance(step, EndHanded) for step in taken)


def test_what_was_decided_and_is_open_is_ended() -> None:
    outcome, taken = again([OPEN, COMMITTED])
    assert outcome is CommitOutcome.WRITTEN_BEFORE
    assert EndHanded(WRITTEN[:1], committed=True) in taken


@pytest.mark.parametrize("seen", [[None, None], [COMMITTED, None], [OPEN, None]])
def test_ids_that_are_known_no_more_stop_the_query_and_nothing_is_guessed(seen: list[SeenId | None]) -> None:
    with pytest.raises(Torn, match=r"rows in t-0, are (forgotten|forgotten and open|open and forgotten)"):
        again(seen)


def test_a_batch_with_an_id_that_is_known_no_more_is_written_again() -> None:
    steps = committing(WORK, WRITTEN, lambda: 1000, found_decided=False, is_first=True)
    with pytest.raises(NotCommitted, match="is forgotten before it was to be"):
        driven(steps, {TakeLead: None, DescribeIds: [OPEN, None], PrepareHanded: list(WRITTEN)})


def test_the_end_of_epochs_brings_another_producer_id() -> None:
    handed = WRITTEN[0]._replace(producer_epoch=LAST_EPOCH)
    assert fate_of(handed, COMMITTED._replace(producer_id=9, producer_epoch=0)) is Fate.COMMITTED
    assert fate_of(WRITTEN[0], COMMITTED._replace(producer_id=9)) is Fate.MOVED_ON
    assert fate_of(WRITTEN[0], COMMITTED._replace(producer_epoch=1)) is Fate.COMMITTED
    assert fate_of(WRITTEN[0], None) is Fate.FORGOTTEN
