"""The ends of acquisitions without an acknowledgement: closed sessions, expired locks, and a log that starts later."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from ottla.share.cells import ACQUIRED, ARCHIVED, AVAILABLE, NO_MEMBER, Cell, free_cell
from ottla.share.window import CellChange, InFlightWindow

MOST_RELEASED: Final = 250
"""The most runs that are released at once."""
MOST_EXAMINED: Final = 1_000
"""The most runs that are examined at once for a release. It takes about a millisecond, as does the change of all of them."""


def release_member(
    window: InFlightWindow, member_id: str, first_offset: int, delivery_count_limit: int, token: int
) -> tuple[list[CellChange], int | None]:
    """Return the changes that release a member's records from an offset on, as if the member released each of them.

    The second value is the offset at which the release must continue; None at the end of the window.
    """
    changes: list[CellChange] = []
    runs = window.runs(max(first_offset, window.start_offset), window.end_offset) if window else iter(())
    for first, last, cell in islice(runs, MOST_EXAMINED):
        if cell.state == ACQUIRED and cell.member_id == member_id:
            if len(changes) == MOST_RELEASED:
                return changes, first
            state, count = abandon(cell, delivery_count_limit)[:2]
            changes.append(CellChange(first, last, Cell(state, count, NO_MEMBER, cell.deadline_ms, token, cell)))
    return changes, next((first for first, _, _ in runs), None)


def expire(window: InFlightWindow, due: Iterable[tuple[int, int]], delivery_count_limit: int, now_ms: int) -> list[CellChange]:
    """Return the changes of records whose lock has ended: available again, or archived after their last attempt.

    `due` are locked ranges, in any order. A range that was acquired again meanwhile has a later deadline.
    """
    changes: list[CellChange] = []
    position = window.start_offset
    for first_offset, last_offset in sorted(due):
        if last_offset < position:  # it was acknowledged in time, as most are
            continue
        for first, last, cell in window.runs(max(first_offset, position), last_offset):
            if cell.state == ACQUIRED and cell.deadline_ms <= now_ms:
                changes.append(CellChange(first, last, abandon(cell, delivery_count_limit)))
        position = last_offset + 1
    return changes


def abandon(cell: Cell, delivery_count_limit: int) -> Cell:
    """Return the cell after the delivery failed: available, or archived if it was the last attempt."""
    state = AVAILABLE if cell.delivery_count < delivery_count_limit else ARCHIVED
    return free_cell(state, cell.delivery_count)


def holds_before(window: InFlightWindow, offset: int) -> bool:
    """Return whether a member holds a record before the offset."""
    return any(cell.state == ACQUIRED or cell.token for _, _, cell in window.runs(window.start_offset, offset - 1))
