"""Mistakes planted into share coordinators and the persister are found by their simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.coordination.coordinators import PartitionLog
from ottla.broker.coordination.share_states import SharePersister, ShareStateCoordinators, StateQuestion
from ottla.coord.share_state import batches, machine, state
from ottla.coord.share_state.batches import StateBatch
from ottla.coord.share_state.machine import ShareStateMachine
from ottla.coord.share_state.records import ShareSnapshot, ShareStateReader, ShareUpdate, StateRecord
from ottla.coord.share_state.state import ShareState
from ottla.wire.errors import NONE
from tests.sim import share_states
from tests.sim.seeds import Violation

MOST_SEEDS = 40
COMBINE, READ_ALL, CHANGE = batches.combine, ShareStateReader.read_all, ShareStateMachine._change
APPLY_UPDATE = ShareState.apply_update


def newest_wins(stored: Sequence[StateBatch], added: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Let the last of two overlapping batches win, whatever their delivery counts."""
    ranked = [(first, last, state, at) for at, (first, last, state, _) in enumerate((*stored, *added))]
    counts = [count for _, _, _, count in (*stored, *added)]
    combined = COMBINE((), ranked, start_offset)
    return tuple((first, last, state, counts[at]) for first, last, state, at in combined)


def no_updates(reader: ShareStateReader, *what: Any) -> list[StateRecord]:
    return [record for record in READ_ALL(reader, *what) if not isinstance(record, ShareUpdate)]


def snapshot_without_news(coordinator: ShareStateMachine, *what: Any) -> StateRecord:
    record = CHANGE(coordinator, *what)
    return record._replace(batches=what[1].batches) if isinstance(record, ShareSnapshot) else record


def keep_old_epochs(known: ShareState, record: ShareUpdate) -> None:
    before = known.newest_leader_epoch, known.leader_epoch
    APPLY_UPDATE(known, record)
    known.newest_leader_epoch, known.leader_epoch = before


def join_without_batches(question: StateQuestion, later: StateQuestion) -> bool:
    if question.operation is not later.operation or question.operation.name != "WRITE":
        return False
    question.finishes += later.finishes
    return True


def count_from_the_newest(coordinator: ShareStateMachine) -> int:
    return max(coordinator._snapshots.values(), default=0)


MISTAKES: dict[str, tuple[str, object, str, Any]] = {
    "answers before the sync": ("was answered with", PartitionLog, "when_durable", lambda log, told: told(NONE)),
    "lets the newest batch win": ("was answered with", state, "combine", newest_wins),
    "forgets updates at a restart": ("was answered with", ShareStateReader, "read_all", no_updates),
    "leaves the last write out of a snapshot": ("was answered with", ShareStateMachine, "_change", snapshot_without_news),
    "fences nobody": ("was answered with", machine, "_fence_error", lambda place, known, operation: NONE),
    "forgets the leader that has read": ("was answered with", ShareState, "apply_update", keep_old_epochs),
    "prunes what is needed": (
        "was answered with",
        ShareStateMachine,
        "redundant_offset",
        property(count_from_the_newest),
    ),
    "counts records from the wrong end": ("was answered with", machine, "LAST", 8),
    "keeps batches below the start": ("was answered with", ShareState, "_move_start", lambda known, offset: None),
    "loses writes that wait": ("was answered with", StateQuestion, "join", join_without_batches),
    "keeps states of deleted topics": ("states of deleted topics", ShareStateCoordinators, "_delete_states", lambda *what: None),
    "gives up without a word": ("not answered in time", SharePersister, "_repeat", lambda persister, question, now: None),
}


def names(seeds: range, name: str) -> str | None:
    """The first violation of this name; None if no seed has one."""
    for seed in seeds:
        try:
            share_states.live(seed)
        except Violation as violation:
            if name in str(violation):
                return str(violation)
    return None


@pytest.mark.rows(4, seconds=3)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    assert names(range(MOST_SEEDS), name)
