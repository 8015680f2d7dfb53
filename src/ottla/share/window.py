"""The records in flight of a share partition, as runs: 16 bytes for each run of records in one state, no object for each record.

The window is a step function over all offsets from its start to its end. Offsets without records between two in-flight batches have
no cell. The bounds of in-flight batches are kept apart from the runs, because records are acquired by batch, and a batch keeps its
bounds while runs are divided and joined. The window has offsets and cells, but no rules.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.share.cells import ACKNOWLEDGED, Cell


class CellChange(NamedTuple):
    """The new cell of a range of records in flight."""

    first_offset: int
    last_offset: int
    cell: Cell


class InFlightRun(NamedTuple):
    """A run of records in flight with the same cell."""

    first_offset: int
    last_offset: int
    cell: Cell


class InFlightWindow:
    """The cells of all offsets from `start_offset` to `end_offset`. An empty window has equal offsets: the next one to be read."""

    __slots__ = ("_bounds", "_cells", "_firsts", "_searched_from", "complete_count", "end_offset", "start_offset")

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.complete_count = 0
        """The number of accepted and archived records in the window, also those whose write is under way."""
        self._firsts = array("q")
        self._cells: list[Cell | None] = []
        self._bounds = array("q")
        self._searched_from = start_offset
        """No record before this offset can be acquired."""

    def __bool__(self) -> bool:
        return bool(self._firsts)

    @property
    def first_offset(self) -> int:
        """Return the first offset with a cell, which is after `start_offset` if the log starts between two batches."""
        return self._firsts[0] if self._firsts else self.end_offset

    def runs(self, first_offset: int, last_offset: int) -> Iterator[InFlightRun]:
        """Yield the runs between two offsets, cut at both."""
        firsts, cells, count = self._firsts, self._cells, len(self._firsts)
        at = max(bisect_right(firsts, first_offset) - 1, 0)
        while at < count and firsts[at] <= last_offset:
            cell = cells[at]
            if cell is not None:
                last = firsts[at + 1] - 1 if at + 1 < count else self.end_offset
                if first_offset <= min(last, last_offset):
                    yield InFlightRun(max(firsts[at], first_offset), min(last, last_offset), cell)
            at += 1

    def all_runs(self, first_offset: int = 0) -> Iterator[InFlightRun]:
        """Yield all runs of the window from an offset on."""
        return self.runs(max(first_offset, self.start_offset), self.end_offset) if self else iter(())

    def count_runs(self, first_offset: int, last_offset: int) -> int:
        """Return the number of runs between two offsets, at least 1. A gap between in-flight batches counts as a run."""
        return max(bisect_right(self._firsts, last_offset) - bisect_right(self._firsts, first_offset) + 1, 1)

    def end_of_runs(self, first_offset: int, last_offset: int, most: int) -> int:
        """Return the last offset of the first `most` runs from an offset on, counting gaps as runs, but at most `last_offset`."""
        after = bisect_right(self._firsts, first_offset) + most - 1
        return min(self._firsts[after] - 1, last_offset) if after < len(self._firsts) else last_offset

    def next_present(self, offset: int, last_offset: int) -> int:
        """Return the first offset from this one on that has a cell, but at most `last_offset`."""
        at = bisect_right(self._firsts, offset) - 1
        if at >= 0 and self._cells[at] is not None:
            return offset
        return min(max(self._first_of(at + 1), offset), last_offset)

    def batch_of(self, offset: int) -> tuple[int, int]:
        """Return the bounds of the in-flight batch that contains the offset."""
        after = bisect_right(self._bounds, offset)
        last = self._bounds[after] - 1 if after < len(self._bounds) else self.end_offset
        return self._bounds[after - 1], last

    def last_before_hole(self, offset: int) -> int:
        """Return the offset itself if it has a cell, else the last offset before it that has one."""
        if offset > self.end_offset:
            return self.end_offset
        at = bisect_right(self._firsts, offset) - 1
        return self._firsts[at] - 1 if self._cells[at] is None else offset

    def count_complete(self, first_offset: int) -> int:
        """Return the number of accepted and archived records from an offset on."""
        return sum(last - first + 1 for first, last, cell in self.runs(first_offset, self.end_offset) if cell.state >= ACKNOWLEDGED)

    def first_acquirable(self) -> int | None:
        """Return the first offset that can be acquired; None if there is none."""
        if self._searched_from > self.end_offset:
            return None
        found = self.acquirable_from(max(self._searched_from, self.start_offset), self.end_offset)
        self._searched_from = self.end_offset + 1 if found is None else found
        return found

    def acquirable_from(self, first_offset: int, last_offset: int) -> int | None:
        """Return the first offset between two offsets that can be acquired; None if there is none."""
        if first_offset > last_offset or first_offset > self.end_offset:
            return None
        firsts, cells, count = self._firsts, self._cells, len(self._firsts)
        at = max(bisect_right(firsts, first_offset) - 1, 0)
        while at < count and firsts[at] <= last_offset:
            cell = cells[at]
            if cell is not None and cell.is_acquirable:
                return max(firsts[at], first_offset)
            at += 1
        return None

    def extend(self, first_offset: int, last_offset: int, cell: Cell) -> None:
        """Append a range of records as one in-flight batch. Offsets between the end of the window and the range have no records."""
        if not self:
            self.start_offset = self.end_offset = first_offset
        elif first_offset > self.end_offset + 1:
            self._put_run(self.end_offset + 1, None)
            self._bounds.append(self.end_offset + 1)
        self._put_run(first_offset, cell)
        self._bounds.append(first_offset)
        self.end_offset = last_offset
        if cell.state >= ACKNOWLEDGED:
            self.complete_count += last_offset - first_offset + 1

    def add_bounds(self, offsets: Iterable[int]) -> None:
        """Begin an in-flight batch at each of these offsets."""
        for offset in offsets:
            at = bisect_left(self._bounds, offset)
            if at == len(self._bounds) or self._bounds[at] != offset:
                self._bounds.insert(at, offset)

    def replace(self, changes: Sequence[CellChange]) -> None:
        """Replace the cells of ranges in the window, which are in order and do not overlap."""
        if not changes or (len(changes) == 1 and self._replace_run(changes[0])):
            return
        firsts, cells = self._firsts, self._cells
        # Neighbours take part, since a changed run may become equal to them.
        low = max(bisect_right(firsts, changes[0].first_offset) - 2, 0)
        high = min(bisect_right(firsts, changes[-1].last_offset) + 1, len(firsts))
        bounds, old = [*firsts[low:high], self._first_of(high)], cells[low:high]
        merged = _merge(bounds, old, changes)
        self.complete_count += _complete_in([*merged.firsts, bounds[-1]], merged.cells) - _complete_in(bounds, old)
        firsts[low:high] = array("q", merged.firsts)
        cells[low:high] = merged.cells
        available = next((change.first_offset for change in changes if change.cell.is_acquirable), self._searched_from)
        self._searched_from = min(self._searched_from, available)

    def _replace_run(self, change: CellChange) -> bool:
        """Replace the cell of a whole run that stays apart from its neighbours, as most changes do. Returns whether it is one."""
        first, last, cell = change
        firsts, cells = self._firsts, self._cells
        at = bisect_right(firsts, first) - 1
        if firsts[at] != first or self._first_of(at + 1) != last + 1 or cell in cells[max(at - 1, 0) : at + 2]:
            return False
        old = cells[at]
        was_complete = old is not None and old.state >= ACKNOWLEDGED
        cells[at] = cell
        if was_complete is not (cell.state >= ACKNOWLEDGED):
            self.complete_count += first - last - 1 if was_complete else last + 1 - first
        if cell.is_acquirable and first < self._searched_from:
            self._searched_from = first
        return True

    def trim(self) -> bool:
        """Move the start over all complete records at the front. Returns whether it moved."""
        cells, count = self._cells, len(self._firsts)
        at = 0
        while at < count and ((cell := cells[at]) is None or cell.is_complete):
            at += 1
        if not at:
            return False
        self.drop_before(self._first_of(at))
        return True

    def drop_before(self, offset: int) -> None:
        """Drop all cells before the offset, which becomes the start of the window."""
        if not self or offset > self.end_offset:
            self._clear(offset)
            return
        self._forget_complete(offset)
        at = bisect_right(self._firsts, offset) - 1
        if at >= 0:
            del self._firsts[:at], self._cells[:at]
            self._firsts[0] = offset
            if self._cells[0] is None:
                del self._firsts[:1], self._cells[:1]
            del self._bounds[: max(bisect_right(self._bounds, self._firsts[0]) - 1, 0)]
        self.start_offset = offset

    def _forget_complete(self, offset: int) -> None:
        """Stop counting the complete records before an offset."""
        firsts = self._firsts
        for at, cell in enumerate(self._cells):
            first = firsts[at]
            if first >= offset:
                return
            if cell is not None and cell.state >= ACKNOWLEDGED:
                self.complete_count -= min(self._first_of(at + 1), offset) - first

    def _clear(self, offset: int) -> None:
        del self._firsts[:], self._cells[:], self._bounds[:]
        self.start_offset = self.end_offset = self._searched_from = offset
        self.complete_count = 0

    def _put_run(self, first_offset: int, cell: Cell | None) -> None:
        if not self._cells or self._cells[-1] != cell:
            self._firsts.append(first_offset)
            self._cells.append(cell)

    def _first_of(self, at: int) -> int:
        return self._firsts[at] if at < len(self._firsts) else self.end_offset + 1


class _Merged:
    """A part of the window that is built anew: equal neighbours become one run."""

    __slots__ = ("cells", "firsts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.cells: list[Cell | None] = []

    def put(self, first_offset: int, cell: Cell | None) -> None:
        """Append a run that begins at the offset."""
        if not self.cells or (self.cells[-1] is not cell and self.cells[-1] != cell):
            self.firsts.append(first_offset)
            self.cells.append(cell)


def _merge(bounds: Sequence[int], old: Sequence[Cell | None], changes: Iterable[CellChange]) -> _Merged:
    """Return runs with changes applied. Run number n is from `bounds[n]` to before `bounds[n + 1]`."""
    merged = _Merged()
    at, position, count = 0, bounds[0], len(old)
    for first, last, cell in changes:
        while position < first:
            merged.put(position, old[at])
            if bounds[at + 1] > first:
                break
            at += 1
            position = bounds[at]
        merged.put(first, cell)
        position = last + 1
        while at < count and bounds[at + 1] <= position:
            at += 1
    while position < bounds[-1]:
        merged.put(position, old[at])
        at += 1
        position = bounds[at]
    return merged


def _complete_in(bounds: Sequence[int], cells: Iterable[Cell | None]) -> int:
    """Return the number of accepted and archived records in runs, also those whose write is under way."""
    pairs = zip(bounds, bounds[1:], cells, strict=False)
    return sum(after - first for first, after, cell in pairs if cell is not None and cell.state >= ACKNOWLEDGED)
