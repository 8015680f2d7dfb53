"""The decision which fetched records a member acquires (KIP-932, KIP-1206), by in-flight batch.

Records that were delivered often are acquired in smaller and smaller parts of their batch, and alone in their last attempt, so that
one bad record does not archive its neighbours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from ottla.share.cells import ARCHIVED, AVAILABLE, UNREAD, free_cell, held_cell
from ottla.share.locks import lock_deadline
from ottla.share.outcome import NO_OUTCOME, AcquiredRange, AcquireRecords, ShareLimits, ShareOutcome, WindowGrowth
from ottla.share.window import CellChange, InFlightRun, InFlightWindow

MIN_THROTTLED_DELIVERIES: Final = 2
"""Records that were delivered less often are never acquired in parts."""

_base_offset = itemgetter(0)


def acquire(window: InFlightWindow, limits: ShareLimits, asked: AcquireRecords, now_ms: int) -> ShareOutcome:
    """Decide which of the fetched records the member acquires."""
    if asked.max_records <= 0 or not asked.batches or asked.batches[-1][1] < window.start_offset:
        return NO_OUTCOME
    last_offset, max_records = _room(window, limits, asked)
    if max_records <= 0:
        return NO_OUTCOME
    draft = _AcquireDraft(window, limits, asked, last_offset, max_records)
    draft.acquire_fetched()
    return draft.finish(now_ms)


def in_flight_count(window: InFlightWindow) -> int:
    """Return the number of records that count for `share.partition.max.record.locks`."""
    return window.end_offset - window.start_offset + 1 if window else 0


def _room(window: InFlightWindow, limits: ShareLimits, asked: AcquireRecords) -> tuple[int, int]:
    """Return the last offset that may be acquired, and how many records at most."""
    last_offset = asked.batches[-1][1]
    room = min(asked.max_records, limits.max_record_locks - in_flight_count(window))
    if room > 0 or asked.fetch_offset > window.end_offset:
        return last_offset, room
    # The window is full, but records in it are fetched again: nothing after its end.
    return min(last_offset, window.end_offset), min(asked.max_records, window.end_offset - asked.fetch_offset + 1)


class _AcquireDraft:
    """An acquisition in preparation: the ranges so far, in order of offsets."""

    def __init__(self, window: InFlightWindow, limits: ShareLimits, asked: AcquireRecords, last_offset: int, room: int) -> None:
        self.window = window
        self.limit = limits.delivery_count_limit
        self.lock_duration_ms = limits.lock_duration_ms
        self.throttle_limit = max(MIN_THROTTLED_DELIVERIES, -(-self.limit // 2))
        self.asked = asked
        self.last_offset = last_offset
        self.room = room
        self.ranges: list[AcquiredRange] = []
        self.bounds: list[int] = []
        self.growth: WindowGrowth | None = None
        self.remainder: CellChange | None = None

    def acquire_fetched(self) -> None:
        """Acquire from the in-flight batches that were fetched again, then new records after the window."""
        window = self.window
        base = self.asked.batches[0][0]
        offset: int | None = max(base, window.start_offset)
        while self.room > 0 and offset is not None:
            offset = window.acquirable_from(offset, self.last_offset) if window else None
            if offset is not None:
                offset = self._acquire_from_batch(offset)
        if self.room > 0 and (not window or window.end_offset < self.last_offset):
            after = window.end_offset + 1 if window else window.end_offset
            self._acquire_new(max(base, after), self.last_offset, self.room, is_growth=True)

    def finish(self, now_ms: int) -> ShareOutcome:
        """Return the outcome: stale and aborted records are archived, all others are locked."""
        deadline_ms = lock_deadline(now_ms, self.lock_duration_ms)
        member_id = self.asked.member_id
        changes = list(self._stale())
        has_archived = bool(changes)
        acquired: list[AcquiredRange] = []
        for part, is_aborted in _split_aborted(self.ranges, self.asked.aborted):
            first, last, count = part
            if is_aborted:
                has_archived = True
                changes.append(CellChange(first, last, free_cell(ARCHIVED, count)))
            else:
                acquired.append(part)
                changes.append(CellChange(first, last, held_cell(count, member_id, deadline_ms)))
        if self.remainder is not None:
            changes.append(self.remainder)
        if not changes:
            return NO_OUTCOME
        outcome = ShareOutcome(acquired=tuple(acquired), changes=changes, growth=self.growth, bounds=self.bounds)
        return outcome._replace(trims=True, wakes=True) if has_archived else outcome

    def _acquire_from_batch(self, offset: int) -> int | None:
        """Acquire from the in-flight batch that contains the offset. Returns where to go on; None if nothing more is acquired."""
        first, last = self.window.batch_of(offset)
        runs = [run for run in self.window.runs(offset, min(last, self.last_offset)) if run.cell.is_acquirable]
        if runs[0].cell is UNREAD or runs[0].cell == UNREAD:
            for run in runs:
                self.room -= self._acquire_new(run.first_offset, run.last_offset, self.room)
            return last + 1
        is_throttled = max(run.cell.delivery_count for run in runs) >= self.throttle_limit
        if is_throttled and self.ranges:
            self.room = 0
            return None
        self.room -= self._acquire_again(runs, last - first + 1)
        if is_throttled:
            self.room = 0
        return last + 1

    def _acquire_again(self, runs: Sequence[InFlightRun], batch_count: int) -> int:
        """Acquire records of one in-flight batch again. Returns how many."""
        taken, isolates, has_throttled = 0, self.limit > MIN_THROTTLED_DELIVERIES, False
        allowed = self.room if self.asked.is_record_limited else batch_count
        for first, last, cell in runs:
            count = cell.delivery_count
            is_last_attempt = isolates and count == self.limit - 1
            if is_last_attempt and taken:
                break
            if count >= self.throttle_limit and not has_throttled:
                has_throttled = True
                # Each further delivery halves the part of the batch that is acquired at once.
                allowed = min(allowed, max(1, batch_count >> (count - self.throttle_limit + 1)))
            here = 1 if is_last_attempt else max(1, min(last - first + 1, allowed - taken))
            self.ranges.append(AcquiredRange(first, first + here - 1, count + 1))
            taken += here
            if is_last_attempt or taken >= allowed:
                break
        return taken

    def _acquire_new(self, first: int, last: int, max_records: int, *, is_growth: bool = False) -> int:
        """Acquire records for the first time, as one in-flight batch or as batches of at least the asked size. Returns how many."""
        if max_records <= 0:
            return 0
        if max_records < last - first + 1:
            aligned = _last_offset_with(self.asked.batches, first + max_records - 1)
            last = aligned if is_growth else min(last, aligned)
        if is_growth:
            self.growth = WindowGrowth(first, last)
        if self.asked.is_record_limited:
            return self._acquire_limited(first, last, max_records)
        begin = first
        self.bounds.append(first)
        for bound in self._batch_starts(first, last):
            self.ranges.append(AcquiredRange(begin, bound - 1, 1))
            self.bounds.append(bound)
            begin = bound
        self.ranges.append(AcquiredRange(begin, last, 1))
        if not is_growth:
            self.bounds.append(last + 1)
        return last - first + 1

    def _acquire_limited(self, first: int, last: int, max_records: int) -> int:
        """Acquire no more than so many new records. The rest of their batch joins the window as available records."""
        taken = min(last - first + 1, max_records)
        self.ranges.append(AcquiredRange(first, first + taken - 1, 1))
        self.bounds.append(first)
        if self.growth is None:
            self.bounds.append(first + taken)
        elif first + taken <= last:
            self.remainder = CellChange(first + taken, last, free_cell(AVAILABLE, 0))
        return taken

    def _batch_starts(self, first: int, last: int) -> Iterator[int]:
        """Yield where in-flight batches begin after the first: at batches of the log, each at least the asked size later."""
        if last - first + 1 <= self.asked.batch_size:
            return
        begin = first
        for base, _ in self.asked.batches:
            if base > last:
                break
            if base - begin >= self.asked.batch_size:
                yield base
                begin = base

    def _stale(self) -> Iterator[CellChange]:
        """Yield available records that compaction removed: between the fetch offset and the first fetched batch."""
        base = self.asked.batches[0][0]
        if self.asked.fetch_offset < base and self.window:
            for first, last, cell in self.window.runs(max(self.asked.fetch_offset, self.window.start_offset), base - 1):
                if cell.state == AVAILABLE:
                    yield CellChange(first, last, free_cell(ARCHIVED, cell.delivery_count))


def _last_offset_with(batches: Sequence[tuple[int, int]], offset: int) -> int:
    """Return the last offset of the log's batch that contains the offset; the offset itself if no batch does."""
    at = bisect_right(batches, offset, key=_base_offset) - 1
    return batches[at][1] if at >= 0 and offset <= batches[at][1] else offset


def _split_aborted(ranges: Sequence[AcquiredRange], aborted: Sequence[tuple[int, int]]) -> Iterator[tuple[AcquiredRange, bool]]:
    """Yield the ranges, cut at the bounds of aborted batches, each with whether it is aborted."""
    at = 0
    for first, last, count in ranges:
        while first <= last:
            while at < len(aborted) and aborted[at][1] < first:
                at += 1
            if at == len(aborted) or aborted[at][0] > last:
                yield AcquiredRange(first, last, count), False
                break
            if aborted[at][0] > first:
                yield AcquiredRange(first, aborted[at][0] - 1, count), False
                first = aborted[at][0]
            until = min(last, aborted[at][1])
            yield AcquiredRange(first, until, count), True
            first = until + 1
