"""What is decided where coordinators know nothing more of a batch's transactions, or epochs have run out."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.types import TopicPartition
from ottla.once.committer import CommitOutcome, NotCommitted, Torn, abort_all, commit_batch
from ottla.once.decisions import BatchDecision, BatchVerdict, Handed
from ottla.once.fates import LAST_EPOCH, Fate, fate_of
from ottla.once.names import Work, prefix_of, run_prefix_of
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
    SeenId,
    Steps,
)

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
    answers = {FenceCommitters: DECIDED, DescribeIds: seen, EndHanded: [True] * 2, ListOpen: [], Decide: None, NoteFinished: None}
    return driven(commit_batch(WORK, (), lambda: 1000, found_decided=True), answers)


def first(now_ms: int, brokers_ms: int = -1, *, open_ids: tuple[str, ...] = ()) -> tuple[CommitOutcome, list[Any]]:
    """Commit a batch whose transactions are open since 0, at a time by the clock here and by that of the brokers."""
    answers: dict[type, Any] = {
        FenceCommitters: None,
        DescribeIds: [OPEN, OPEN],
        PrepareHanded: list(WRITTEN),
        EndHanded: [True] * 2,
    }
    answers |= {Decide: None, NoteFinished: None, ListOpen: list(open_ids), ReadBrokerClock: brokers_ms}
    return driven(commit_batch(WORK, WRITTEN, lambda: now_ms, found_decided=False), answers)


def test_whatever_is_open_of_a_job_that_failed_is_aborted() -> None:
    own = run_prefix_of(WORK) + "1/1"
    steps: Any = abort_all(WORK)
    assert driven(steps, {ListOpen: [own], FenceWriter: None})[1] == [ListOpen(run_prefix_of(WORK)), FenceWriter(own)]


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
    steps = commit_batch(WORK, WRITTEN, lambda: 1000, found_decided=False)
    with pytest.raises(NotCommitted, match="is forgotten too early"):
        driven(steps, {FenceCommitters: None, DescribeIds: [OPEN, None], PrepareHanded: list(WRITTEN)})


def test_the_end_of_epochs_brings_another_producer_id() -> None:
    handed = WRITTEN[0]._replace(producer_epoch=LAST_EPOCH)
    assert fate_of(handed, COMMITTED._replace(producer_id=9, producer_epoch=0)) is Fate.COMMITTED
    assert fate_of(WRITTEN[0], COMMITTED._replace(producer_id=9)) is Fate.MOVED_ON
    assert fate_of(WRITTEN[0], COMMITTED._replace(producer_epoch=1)) is Fate.COMMITTED
    assert fate_of(WRITTEN[0], None) is Fate.FORGOTTEN


def test_what_is_finished_is_noted_and_asked_about_no_more() -> None:
    """Coordinators forget transactional ids in a week, and a job may be started again after that."""
    _, taken = first(1000)
    (noted,) = (step.decision for step in taken if isinstance(step, NoteFinished))
    assert noted.is_finished
    assert taken.index(EndHanded(WRITTEN, committed=True)) < taken.index(NoteFinished(noted))
    outcome, later = driven(
        commit_batch(WORK, (), lambda: 10**12, found_decided=True),
        {FenceCommitters: noted, ListOpen: [], DescribeIds: [None, None]},
    )
    assert outcome is CommitOutcome.WRITTEN_BEFORE
    assert not any(isinstance(step, DescribeIds) for step in later)


@pytest.mark.parametrize("seen", [[COMMITTED, COMMITTED], [OPEN, COMMITTED]])
def test_whoever_finishes_what_another_decided_notes_it(seen: list[SeenId | None]) -> None:
    _, taken = again(seen)
    assert [step.decision.is_finished for step in taken if isinstance(step, NoteFinished)] == [True]


def test_every_batch_clears_away_what_dead_runs_have_opened_meanwhile() -> None:
    _, taken = first(1000)
    assert [step.prefix for step in taken if isinstance(step, ListOpen)] == [prefix_of("query")]


@pytest.mark.parametrize("now_ms", [16 * 60_000, 850_000, -60_000])
def test_the_clock_of_the_brokers_says_how_long_a_batch_took(now_ms: int) -> None:
    """Sixteen minutes ahead of them, nothing was ever committed: each batch seemed to be behind its timeout."""
    outcome, taken = first(now_ms, 5_000)
    assert outcome is CommitOutcome.WRITTEN
    assert [step.decision.decided_ms for step in taken if isinstance(step, Decide)] == [5_000]
    with pytest.raises(NotCommitted, match="took 880 s, too near to the timeout"):
        first(now_ms, 880_000)


def test_brokers_are_not_asked_for_their_time_while_there_is_enough() -> None:
    _, taken = first(1000)
    assert not any(isinstance(step, ReadBrokerClock) for step in taken)
