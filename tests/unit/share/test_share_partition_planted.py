"""Mistakes planted into the machine of share partitions are found by the comparison with a state for each record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ottla.share import acknowledge, acquire, partition, persistence, release
from ottla.share import window as window_module
from ottla.share.cells import ARCHIVED, AVAILABLE, Cell
from ottla.share.locks import AcquisitionLocks
from ottla.share.outcome import AcquiredRange, StateRead
from ottla.share.window import CellChange, InFlightWindow
from tests.unit.share.test_share_partition_model import SharePartitionLife

SETTINGS = settings(
    max_examples=600,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def load_batches_alone(read: StateRead) -> InFlightWindow:
    window = InFlightWindow(read.start_offset)
    for first, last, state, count in read.batches:
        window.extend(first, last, Cell(state, count))
    window.trim()
    return window


def count_nothing(
    window: InFlightWindow, member_id: str, first_offset: int, limit: int, token: int
) -> tuple[list[CellChange], int | None]:
    changes, next_offset = RELEASE_MEMBER(window, member_id, first_offset, limit, token)
    fewer = [change._replace(cell=change.cell._replace(delivery_count=change.cell.delivery_count - 1)) for change in changes]
    return fewer, next_offset


def restore_expired(window: InFlightWindow, ranges: Sequence[Any], token: int, limit: int, now_ms: int) -> Iterable[CellChange]:
    return ROLL_BACK(window, ranges, token, limit, -1)


def abort_nothing(ranges: Sequence[AcquiredRange], aborted: Sequence[tuple[int, int]]) -> list[tuple[AcquiredRange, bool]]:
    return [(each, False) for each in ranges]


def release_forever(cell: Any, kind: int, limit: int, deadline_ms: int, token: int) -> Cell:
    return SUCCESSOR(cell, kind, 1_000, deadline_ms, token)


def fill_the_window(window: Any, limits: Any, asked: Any) -> tuple[int, int]:
    return asked.batches[-1][1], asked.max_records


RELEASE_MEMBER = release.release_member
ROLL_BACK = persistence.roll_back
SUCCESSOR = acknowledge._successor

MISTAKES: dict[str, tuple[object, str, Any]] = {
    "acknowledges what others hold": (acknowledge, "_ownership_fault", lambda cell, member_id: None),
    "takes a rejection for a release": (acknowledge, "_STATES", {0: ARCHIVED, 1: 2, 2: AVAILABLE, 3: AVAILABLE}),
    "releases beyond the limit": (acknowledge, "_successor", release_forever),
    "accepts one record twice in a request": (acknowledge, "_claim", lambda claimed, first, last: True),
    "expires beyond the limit": (release, "abandon", lambda cell, limit: Cell(AVAILABLE, cell.delivery_count)),
    "expires nothing": (AcquisitionLocks, "due", lambda locks, now_ms, most: []),
    "does not count deliveries to closed sessions": (partition, "release_member", count_nothing),
    "restores a lock that has ended": (partition, "roll_back", restore_expired),
    "commits nothing": (partition, "commit", lambda window, ranges, token: []),
    "moves over records whose write is under way": (Cell, "is_complete", property(lambda cell: cell.state >= 2)),
    "acquires records whose write is under way": (Cell, "is_acquirable", property(lambda cell: cell.state == AVAILABLE)),
    "has no limit of locks": (acquire, "_reach", fill_the_window),
    "delivers aborted records": (acquire, "_split_aborted", abort_nothing),
    "acquires half a batch of the log": (acquire, "_last_offset_with", lambda batches, offset: offset),
    "forgets what was not persisted": (partition, "load_window", load_batches_alone),
    "miscounts complete records": (window_module, "_complete_in", lambda bounds, cells: 0),
    "does not find released records": (InFlightWindow, "first_acquirable", lambda window: None),
    "keeps stale records": (acquire._AcquireDraft, "_stale", lambda draft: []),
    "isolates no bad record": (acquire, "MIN_THROTTLED_DELIVERIES", 1_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(Exception):  # noqa: B017, PT011  # an assertion of the model, or what the mistake itself raises
        run_state_machine_as_test(SharePartitionLife, settings=SETTINGS)
