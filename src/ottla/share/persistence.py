"""The persisted states of a share partition: the batches to write, the changes after a write's result, and the loaded window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from ottla.share.cells import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, UNREAD, free_cell
from ottla.share.outcome import StateBatch, StateRead
from ottla.share.release import abandon
from ottla.share.window import CellChange, InFlightRun, InFlightWindow
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    GROUP_ID_NOT_FOUND,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)

_CLIENT_ERRORS: Final = {
    NONE: NONE,
    NOT_COORDINATOR: COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_NOT_AVAILABLE: COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS: COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND: GROUP_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION: UNKNOWN_TOPIC_OR_PARTITION,
    FENCED_LEADER_EPOCH: NOT_LEADER_OR_FOLLOWER,
    FENCED_STATE_EPOCH: NOT_LEADER_OR_FOLLOWER,
}

FENCING_ERRORS: Final = frozenset({FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION})
"""The persister's error codes after which the share partition must be loaded again, if this broker still leads it."""

# No leader persists ACQUIRED. A record on its way to a dead letter queue is never delivered again.
_LOADED: Final = {
    AVAILABLE: AVAILABLE,
    ACQUIRED: AVAILABLE,
    ACKNOWLEDGED: ACKNOWLEDGED,
    ARCHIVING: ARCHIVED,
    ARCHIVED: ARCHIVED,
}


def client_error(error_code: int) -> int:
    """Return the error code that a member gets for an error code of the persister."""
    return _CLIENT_ERRORS.get(error_code, UNKNOWN_SERVER_ERROR)


def state_batches(changes: Iterable[CellChange]) -> tuple[StateBatch, ...]:
    """Return the batches that persist the changes; neighbours with the same state are one batch."""
    batches: list[StateBatch] = []
    first = last = state = count = -1
    for change in changes:
        cell = change.cell
        if change.first_offset == last + 1 and cell.state == state and cell.delivery_count == count and batches:
            batches[-1] = StateBatch(first, change.last_offset, state, count)
        else:
            first, state, count = change.first_offset, cell.state, cell.delivery_count
            batches.append(StateBatch(first, change.last_offset, state, count))
        last = change.last_offset
    return tuple(batches)


def commit(window: InFlightWindow, ranges: Sequence[StateBatch], token: int) -> Iterator[CellChange]:
    """Yield the changes after a write succeeded: its records have their new states for good."""
    for first, last, cell in _runs_of_write(window, ranges):
        if cell.token == token:
            yield CellChange(first, last, free_cell(cell.state, cell.delivery_count))


def roll_back(
    window: InFlightWindow, ranges: Sequence[StateBatch], token: int, delivery_count_limit: int, now_ms: int
) -> Iterator[CellChange]:
    """Yield the changes after a write failed: its records are held as before, unless their lock has ended meanwhile."""
    for first, last, cell in _runs_of_write(window, ranges):
        if cell.token == token and cell.previous is not None:
            held = cell.previous
            yield CellChange(first, last, held if held.deadline_ms > now_ms else abandon(held, delivery_count_limit))


def _runs_of_write(window: InFlightWindow, ranges: Sequence[StateBatch]) -> Iterable[InFlightRun]:
    """Return the runs from the first range of a write to its last: those between them have other tokens."""
    return window.runs(max(ranges[0].first_offset, window.start_offset), ranges[-1].last_offset) if ranges else ()


def is_loadable(read: StateRead) -> bool:
    """Return whether a persisted state is consistent: known states in order, without overlaps, none before the start offset."""
    if read.start_offset < 0:
        return False
    edges = [(read.start_offset - 1, read.start_offset - 1), *((batch[0], batch[1]) for batch in read.batches)]
    if any(first > last for first, last in edges) or any(ahead[1] >= after[0] for ahead, after in pairwise(edges)):
        return False
    return all(state in _LOADED and count >= 0 for _, _, state, count in read.batches)


def load_window(read: StateRead) -> InFlightWindow:
    """Return the window of a persisted state. Records between its batches were perhaps acquired: they are available."""
    window = InFlightWindow(read.start_offset)
    position = read.start_offset
    for first, last, state, count in read.batches:
        if first > position:
            window.extend(position, first - 1, UNREAD)
        window.extend(first, last, free_cell(_LOADED[state], count))
        position = last + 1
    window.trim()
    return window
