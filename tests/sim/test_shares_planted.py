"""Mistakes planted into share partitions and coordinators are found by the simulation, under the name of what is not true then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ottla.coord.share_state import machine
from ottla.share import acknowledge, acquire, partition, persistence, release
from ottla.share.cells import ACQUIRED, ARCHIVED, AVAILABLE, Cell
from ottla.share.locks import AcquisitionLocks
from ottla.share.outcome import AcquiredRange, AcquireRecords, ShareOutcome, StateRead
from ottla.share.partition import SharePartition
from ottla.share.window import CellChange, InFlightWindow
from ottla.wire.errors import NONE
from tests.sim import shares
from tests.support.planted import found

MOST_SEEDS = 150
STATE_WRITE = SharePartition._state_write
SUCCESSOR = acknowledge._successor
ACQUIRE = acquire.acquire
STATE_BATCHES, LOAD_WINDOW = persistence.state_batches, persistence.load_window
RELEASE_MEMBER = release.release_member


def write_past_the_end(part: SharePartition, start: int, complete: int, batches: Any) -> Any:
    return STATE_WRITE(part, part.end_offset, complete, batches)


def release_forever(cell: Any, kind: int, limit: int, deadline_ms: int, token: int) -> Cell:
    return SUCCESSOR(cell, kind, 1_000, deadline_ms, token)


def count_no_delivery(window: Any, limits: Any, asked: AcquireRecords, now_ms: int) -> ShareOutcome:
    outcome = ACQUIRE(window, limits, asked, now_ms)
    changes = [change._replace(cell=change.cell._replace(delivery_count=1)) for change in outcome.changes]
    acquired = tuple(each._replace(delivery_count=1) for each in outcome.acquired)
    return outcome._replace(changes=changes, acquired=acquired)


def load_batches_alone(read: StateRead) -> InFlightWindow:
    window = InFlightWindow(read.start_offset)
    for first, last, state, count in read.batches:
        window.extend(first, last, Cell(state, count))
    window.trim()
    return window


def load_earlier(read: StateRead) -> InFlightWindow:
    return LOAD_WINDOW(read._replace(start_offset=max(read.start_offset - 2, 0)))


def release_all(
    window: InFlightWindow, member_id: str, first_offset: int, limit: int, token: int
) -> tuple[list[CellChange], int | None]:
    held = {run.cell.member_id for run in window.all_runs() if run.cell.state == ACQUIRED}
    changes = [change for each in held for change in RELEASE_MEMBER(window, each, first_offset, limit, token)[0]]
    return sorted(changes, key=lambda change: change.first_offset), None


def persist_the_first(changes: Iterable[CellChange]) -> Any:
    return STATE_BATCHES(changes)[:1]


def deliver_aborted(ranges: list[AcquiredRange], aborted: Any) -> Any:
    return [(each, False) for each in ranges]


MISTAKES: dict[str, tuple[str, object, str, Any]] = {
    "acknowledges what others hold": ("held by one", acknowledge, "_ownership_fault", lambda cell, member_id: None),
    "acquires records whose write is under way": (
        "held by one",
        Cell,
        "is_acquirable",
        property(lambda cell: cell.state == AVAILABLE),
    ),
    "releases what all others hold": ("held by one", partition, "release_member", release_all),
    "fences no leader": ("accepted once", machine, "_fence_error", lambda place, state, operation: NONE),
    "confirms what was not stored": ("accepted stays", partition, "client_error", lambda error_code: NONE),
    "persists one batch alone": ("accepted stays", partition, "state_batches", persist_the_first),
    "releases beyond the limit": ("within the limit", acknowledge, "_successor", release_forever),
    "counts one delivery": ("within the limit", partition, "acquire", count_no_delivery),
    "expires nothing": ("locks end", AcquisitionLocks, "due", lambda locks, now_ms, most: []),
    "begins before the stored start": ("start grows", partition, "load_window", load_earlier),
    "persists a start after what is in flight": ("nothing lost", SharePartition, "_state_write", write_past_the_end),
    "forgets what was not persisted": ("nothing lost", partition, "load_window", load_batches_alone),
    "takes a release for a rejection": ("nothing lost", acknowledge, "_STATES", {0: ARCHIVED, 1: 2, 2: ARCHIVED, 3: ARCHIVED}),
    "does not restore after a failure": (
        "agrees",
        partition,
        "roll_back",
        lambda window, ranges, token, *_: persistence.commit(window, ranges, token),
    ),
    "moves over records whose write is under way": ("nothing lost", Cell, "is_complete", property(lambda cell: cell.state >= 2)),
    "delivers aborted records": ("nothing aborted", acquire, "_split_aborted", deliver_aborted),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    assert name in found(name, shares.live, range(MOST_SEEDS))
