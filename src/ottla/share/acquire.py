"""The decision which fetched records a member acquires (KIP-932, KIP-1206), by in-flight batch.

| records of an in-flight batch | acquired at once |
|---|---|
| never delivered, or after the window | all that are wanted, and the rest of the log's batch with the last of them |
| delivered less than half of the limit's times | the whole batch |
| delivered half of the limit's times or more | half of the batch, a quarter after the next delivery and so on; no other batch |
| before their last delivery | one record; no other batch |

Smaller and smaller parts keep one bad record from archiving its neighbours. The limit is `group.share.delivery.count.limit`. A
request with a record limit never gets more records than it wants.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Final

from ottla.share.cells import ARCHIVED, AVAILABLE, UNREAD, free_cell, held_cell
from ottla.share.locks import lock_deadline
from ottla.share.outcome import NO_OUTCOME, AcquiredRange, AcquireRecords, ShareLimits, ShareOutcome, WindowGrowth
from ottla.share.window import CellChange, InFlightRun, InFlightWindow

MIN_THROTTLED_DELIVERIES: Final = 2
"""The lower limit of `throttle_limit`: records that were delivered less often are never acquired in parts."""

_base_offset = itemgetter(0)


def acquire(window: InFlightWindow, limits: ShareLimits, asked: AcquireRecords, now_ms: int) -> ShareOutcome:
    """Decide which of the fetched records the member acquires."""
    if asked.max_records <= 0 or not asked.batches or asked.batches[-1][1] < window.start_offset:
        return NO_OUTCOME
    last_offset, max_records = _reach(window, limits, asked)
    if max_records <= 0:
        return NO_OUTCOME
    draft = _AcquireDraft(window, limits, asked, last_offset, max_records)
    draft.acquire_from_window()
    draft.acquire_after_window()
    return draft.finish(now_ms)


def in_flight_count(window: InFlightWindow) -> int:
    """Return the number of records that count for `share.partition.max.record.locks`."""
    return window.end_offset - window.start_offset + 1 if window else 0


def _reach(window: InFlightWindow, limits: ShareLimits, asked: AcquireRecords) -> tuple[int, int]:
    """Return the last offset that may be acquired, and how many records at most."""
    last_offset = asked.batches[-1][1]
    room = min(asked.max_records, limits.max_record_locks - in_flight_count(window))
    if room > 0 or asked.fetch_offset > window.end_offset:
        return last_offset, room
    # The window is full, but records in it are fetched again: nothing after its end.
    return min(last_offset, window.end_offset), min(asked.max_records, window.end_offset - asked.fetch_offset + 1)


class _AcquireDraft:
    """An acquisition in preparation: the ranges so far, in order of offsets, and how many records may still be acquired."""

    def __init__(
        self, window: InFlightWindow, limits: ShareLimits, asked: AcquireRecords, last_offset: int, max_records: int
    ) -> None:
        self.window = window
        self.delivery_limit = limits.delivery_count_limit
        self.lock_duration_ms = limits.lock_duration_ms
        self.throttle_limit = max(MIN_THROTTLED_DELIVERIES, -(-self.delivery_limit // 2))
        """The number of deliveries from which on records are acquired in parts of their batch."""
        self.asked = asked
        self.last_offset = last_offset
        self.left = max_records
        """The number of records that may still be acquired. A whole batch makes it negative."""
        self.ranges: list[AcquiredRange] = []
        self.bounds: list[int] = []
        """The offsets at which in-flight batches begin after the acquisition."""
        self.growth: WindowGrowth | None = None
        self.remainder: CellChange | None = None
        """New records of the window that are not acquired now."""

    def acquire_from_window(self) -> None:
        """Acquire from each in-flight batch that was fetched again and has records to acquire."""
        window = self.window
        offset = max(self.asked.batches[0][0], window.start_offset)
        while self.left > 0 and (found := window.acquirable_from(offset, self.last_offset)) is not None:
            first, last = window.batch_of(found)
            runs = [run for run in window.runs(found, min(last, self.last_offset)) if run.cell.is_acquirable]
            if runs[0].cell is UNREAD or runs[0].cell == UNREAD:
                self._acquire_unread(runs)
            else:
                self._acquire_again(runs, last - first + 1)
            offset = last + 1

    def acquire_after_window(self) -> None:
        """Acquire records that join the window."""
        window = self.window
        if self.left <= 0 or (window and window.end_offset >= self.last_offset):
            return
        first = max(self.asked.batches[0][0], window.end_offset + 1 if window else window.end_offset)
        last = self._last_wanted(first, self.last_offset)
        self.growth = WindowGrowth(first, last)
        self._acquire_new(first, last)

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

    def _acquire_unread(self, runs: Sequence[InFlightRun]) -> None:
        """Acquire records in the window that have no state yet, as many as are wanted."""
        for first, last, _ in runs:
            if self.left > 0:
                self._acquire_new(first, self._last_wanted(first, last))

    def _acquire_again(self, runs: Sequence[InFlightRun], batch_count: int) -> None:
        """Acquire records of one in-flight batch again. A batch in parts is the only one that the member acquires from."""
        is_in_parts = max(run.cell.delivery_count for run in runs) >= self.throttle_limit
        if is_in_parts and self.ranges:
            self.left = 0
            return
        parts = list(self._parts(runs, batch_count))
        self.ranges += parts
        self.left = 0 if is_in_parts else self.left - sum(last - first + 1 for first, last, _ in parts)

    def _parts(self, runs: Sequence[InFlightRun], batch_count: int) -> Iterator[AcquiredRange]:
        """Yield the ranges of one in-flight batch that are acquired at once."""
        allowed = self.left if self.asked.is_record_limited else batch_count
        has_isolation = self.delivery_limit > MIN_THROTTLED_DELIVERIES
        taken, is_halved = 0, False
        for first, last, cell in runs:
            count = cell.delivery_count
            if has_isolation and count == self.delivery_limit - 1:
                if not taken:
                    yield AcquiredRange(first, first, count + 1)
                return
            if count >= self.throttle_limit and not is_halved:
                is_halved = True
                # Each further delivery halves the part of the batch that is acquired at once.
                allowed = min(allowed, max(1, batch_count >> (count - self.throttle_limit + 1)))
            here = max(1, min(last - first + 1, allowed - taken))
            yield AcquiredRange(first, first + here - 1, count + 1)
            taken += here
            if taken >= allowed:
                return

    def _last_wanted(self, first: int, last: int) -> int:
        """Return the end of the log's batch that contains the last record wanted from `first` on, but at most `last`."""
        if self.left >= last - first + 1:
            return last
        return min(last, _last_offset_with(self.asked.batches, first + self.left - 1))

    def _acquire_new(self, first: int, last: int) -> None:
        """Acquire records for the first time. With a record limit, all records after it become available."""
        if self.asked.is_record_limited:
            starts, last_acquired = [first], min(last, first + self.left - 1)
        else:
            starts, last_acquired = [first, *self._batch_starts(first, last)], last
        for start, after in pairwise([*starts, last_acquired + 1]):
            self.ranges.append(AcquiredRange(start, after - 1, 1))
        self.bounds += starts
        if self.growth is None:
            self.bounds.append(last_acquired + 1)
        elif last_acquired < last:
            self.remainder = CellChange(last_acquired + 1, last, free_cell(AVAILABLE, 0))
        self.left -= last_acquired - first + 1

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
