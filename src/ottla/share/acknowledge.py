"""The decision of an acknowledgement: which records change, to which states, and what is persisted.

Acknowledged records change at once, with a token; until the result of the write, no member can acquire or acknowledge them. A
refused acknowledgement changes nothing.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from ottla.share.cells import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, NO_MEMBER, Cell
from ottla.share.locks import lock_deadline
from ottla.share.outcome import AcknowledgeRecords, ShareLimits
from ottla.share.window import CellChange, InFlightWindow
from ottla.wire.errors import INVALID_RECORD_STATE, INVALID_REQUEST, NONE

GAP: Final = 0
"""The type for an offset without a record that a member can read."""

ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3

RENEW: Final = 4
"""The type that begins the acquisition lock anew (KIP-1222)."""

_STATES: Final = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}
_FIRST_OFFSET: Final = itemgetter(0)
_SAME_TYPES: Final = re.compile(rb"(.)\1*", re.DOTALL)

AcknowledgementRange = tuple[int, int, Sequence[int]]
"""First offset, last offset, and one type for all records or one for each."""

Fault = tuple[int, str]
"""An error code and its sentence."""


def check_acknowledgements(
    batches: Sequence[AcknowledgementRange], previous: int = -1, *, max_type: int = RENEW, is_renew: bool = True
) -> int:
    """Return the error code of a partition's acknowledgements as they are in a request, before any session is read.

    `previous` is the last offset of the range before them. `max_type` is 4 from version 2 of the requests on, before 3. `is_renew`
    is the request's field `IsRenewAck`.
    """
    for first, last, types in batches:
        if first < previous or not _is_well_formed(first, last, types, max_type):
            return INVALID_REQUEST
        if not is_renew and RENEW in types:
            return INVALID_REQUEST
        previous = last
    return NONE


def _is_well_formed(first: int, last: int, types: Sequence[int], max_type: int = RENEW) -> bool:
    if first > last or not types or (len(types) > 1 and len(types) != last - first + 1):
        return False
    return min(types) >= GAP and max(types) <= max_type


def acknowledge(
    window: InFlightWindow, limits: ShareLimits, asked: AcknowledgeRecords, now_ms: int, token: int
) -> list[CellChange] | Fault:
    """Return the changes of an acknowledgement in order of offsets, or its refusal."""
    changes: list[CellChange] = []
    claimed: list[tuple[int, int]] = []
    deadline_ms = lock_deadline(now_ms, limits.lock_duration_ms)
    known, cells = None, dict[int, Cell]()
    # The last cell, and its successors by type. Most neighbours have equal cells, and share the successors.
    for first, last, types in asked.batches:
        fault = _find_fault(window, first, last, types)
        if fault is not None:
            return fault
        if last < window.start_offset:
            continue
        if not _claim(claimed, max(first, window.start_offset), last):
            return INVALID_RECORD_STATE, "The offset is acknowledged twice in one request."
        for begin, end, cell, kind in _typed_runs(window, first, last, types):
            if cell is not known:
                fault = _ownership_fault(cell, asked.member_id)
                if fault is not None:
                    return fault
                known, cells = cell, {}
            if kind not in cells:
                cells[kind] = _successor(cell, kind, limits.delivery_count_limit, deadline_ms, token)
            changes.append(CellChange(begin, end, cells[kind]))
    changes.sort(key=_FIRST_OFFSET)
    return changes


def divide(window: InFlightWindow, batches: Sequence[AcknowledgementRange], most: int) -> list[list[AcknowledgementRange]]:
    """Return ranges in parts of about `most` types and runs. No part ends at an offset without a record: that is a fault."""
    parts: list[list[AcknowledgementRange]] = [[]]
    room = most
    for first, last, types in batches:
        begin, is_single = first, len(types) == 1
        while begin <= last:
            if room <= 0:
                parts.append([])
                room = most
            end = window.end_of_runs(begin, last, room) if is_single else min(begin + room - 1, last)
            end = window.next_present(end, last)
            parts[-1].append((begin, end, types if is_single else types[begin - first : end - first + 1]))
            room -= window.count_runs(begin, end) if is_single else end - begin + 1
            begin = end + 1
    return parts


def _find_fault(window: InFlightWindow, first: int, last: int, types: Sequence[int]) -> Fault | None:
    """Return why no member can acknowledge a range of offsets."""
    if not _is_well_formed(first, last, types):
        return INVALID_REQUEST, "The batch or its acknowledge types are invalid."
    if last < window.start_offset:
        return None
    if not window or last < window.first_offset or window.start_offset <= first < window.first_offset:
        return INVALID_RECORD_STATE, "The offsets are not in flight."
    present = window.last_before_hole(last)
    if present < first:
        return INVALID_REQUEST, "The first offset is after the acquired records."
    if present < last:
        return INVALID_REQUEST, "The last offset is after the acquired records."
    return None


def _claim(claimed: list[tuple[int, int]], first: int, last: int) -> bool:
    """Return whether no earlier batch of the request contains one of the offsets, and remember them."""
    if claimed and first <= claimed[-1][1] and any(first <= end and begin <= last for begin, end in claimed):
        return False
    insort(claimed, (first, last))
    return True


def _typed_runs(window: InFlightWindow, first: int, last: int, types: Sequence[int]) -> Iterator[tuple[int, int, Cell, int]]:
    """Yield the first and the last offset, cell and type of the runs of a batch, cut where the type changes."""
    runs = window.runs(max(first, window.start_offset), last)
    if len(types) == 1:
        yield from ((begin, end, cell, types[0]) for begin, end, cell in runs)
        return
    ranges = [(first + match.end(), match[1][0]) for match in _SAME_TYPES.finditer(bytes(types))]
    at = 0
    for begin, end, cell in runs:
        while begin <= end:
            after, kind = ranges[at]
            if after <= begin:
                at += 1
                continue
            yield begin, min(end, after - 1), cell, kind
            begin = after


def _ownership_fault(cell: Cell, member_id: str) -> Fault | None:
    if cell.state != ACQUIRED:
        return INVALID_RECORD_STATE, "The record is not acquired, or its acknowledgement is being stored."
    if cell.member_id != member_id:
        return INVALID_RECORD_STATE, "The record was acquired by another member."
    return None


def _successor(cell: Cell, kind: int, delivery_count_limit: int, deadline_ms: int, token: int) -> Cell:
    """Return the cell of records after an acknowledgement of this type."""
    if kind == RENEW:
        return cell._replace(deadline_ms=deadline_ms)
    state = _STATES[kind]
    if state == AVAILABLE and cell.delivery_count >= delivery_count_limit:
        state = ARCHIVED
    return Cell(state, cell.delivery_count, NO_MEMBER, cell.deadline_ms, token, cell)
