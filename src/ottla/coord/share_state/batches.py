"""State batches: ranges of offsets with a delivery state and a delivery count. Values only.

A combined list is sorted and has no overlaps. Of two batches that overlap, the one with the larger delivery count wins for the
common offsets; with equal counts, the one with the larger delivery state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final

StateBatch = tuple[int, int, int, int]
"""First offset, last offset, delivery state and delivery count. A NamedTuple of these fields is one, too."""

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
"""The delivery states that are stored, by KIP-932."""

UNKNOWN_OFFSET: Final = -1
"""The start offset of a share partition that is not known yet; in an update, the start offset stays unchanged."""

WHOLE: Final = 32
"""The most batches that are combined as a whole. In longer lists, only the neighbors of new batches are."""

_first = itemgetter(0)
_last = itemgetter(1)
_Ranked = tuple[int, int, int, int]
"""A batch in the order of its rank: first offset, last offset, delivery count, delivery state."""


def is_well_formed(batches: Sequence[StateBatch]) -> bool:
    """Return whether no batch ends before it begins."""
    return all(batch[0] <= batch[1] for batch in batches)


def combine(stored: Sequence[StateBatch], added: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Combine the batches of a combined list with new ones, without offsets below `start_offset`.

    Neighbors with the same state become one batch, except some that touch a batch which was complete before, as in Kafka. In long
    lists, fewer of these remain than in Kafka.
    """
    kept, new = _without_prefix(stored, start_offset), added
    if start_offset != UNKNOWN_OFFSET:
        new = [each for batch in added for each in _trim(batch, start_offset)]
    if len(kept) <= WHOLE:
        return tuple(_merge([*kept, *new]))
    return tuple(_insert(kept, _merge(new)) if new else kept)


def _without_prefix(batches: Sequence[StateBatch], start_offset: int) -> Sequence[StateBatch]:
    """Return a sorted list without offsets below `start_offset`."""
    if not batches or batches[0][0] >= start_offset:
        return batches
    at = bisect_left(batches, start_offset, key=_last)
    if at < len(batches) and batches[at][0] < start_offset:
        return (*_trim(batches[at], start_offset), *batches[at + 1 :])
    return batches[at:] if at else batches


def _trim(batch: StateBatch, start_offset: int) -> tuple[StateBatch, ...]:
    first, last, state, count = batch
    if last < start_offset:
        return ()
    return ((max(first, start_offset), last, state, count),)


def _merge(batches: Sequence[StateBatch]) -> Sequence[StateBatch]:
    """Merge batches in any order into a sorted list without overlaps."""
    if len(batches) < 2:
        return batches
    ranked: list[_Ranked] = sorted([(first, last, count, state) for first, last, state, count in batches])
    return [(first, last, state, count) for knot in _knots(ranked) for first, last, count, state in _untie(knot)]


def _knots(ranked: Sequence[_Ranked]) -> Iterator[list[_Ranked]]:
    """Divide sorted batches where neighbors are apart for good. Most batches are alone."""
    knot, end = [ranked[0]], ranked[0][1]
    for batch in ranked[1:]:
        if batch[0] > end + 1 or (len(knot) == 1 and _are_apart(knot[0], batch)):
            yield knot
            knot, end = [], batch[1]
        knot.append(batch)
        end = max(end, batch[1])
    yield knot


def _untie(knot: list[_Ranked]) -> Sequence[_Ranked]:
    """Resolve the first two batches of a sorted list again and again, as in Kafka. If they are apart, the first is complete."""
    complete: list[_Ranked] = []
    while len(knot) > 1:
        earlier = heappop(knot)
        if _are_apart(earlier, knot[0]):
            complete.append(earlier)
            continue
        for part in _resolve(earlier, heappop(knot)):
            heappush(knot, part)
    return complete + knot


def _are_apart(earlier: _Ranked, later: _Ranked) -> bool:
    """Return whether batches neither overlap nor, with the same state, touch."""
    distance = later[0] - earlier[1]
    return distance > 1 or (distance == 1 and later[2:] != earlier[2:])


def _resolve(earlier: _Ranked, later: _Ranked) -> Sequence[_Ranked]:
    """Return batches without overlaps for two batches that overlap, in their order, or that have the same state and touch."""
    first, last, count, state = earlier
    other_first, other_last, other_count, other_state = later
    if (count, state) == (other_count, other_state):
        return [(first, max(last, other_last), count, state)]
    if (other_count, other_state) < (count, state):
        return [earlier, (last + 1, other_last, other_count, other_state)] if other_last > last else [earlier]
    parts = [later]
    if first < other_first:
        parts.append((first, other_first - 1, count, state))
    if other_last < last:
        parts.append((other_last + 1, last, count, state))
    return parts


def _insert(kept: Sequence[StateBatch], new: Sequence[StateBatch]) -> Sequence[StateBatch]:
    """Insert the batches of one combined list into a long one, and look only at those that they overlap or touch."""
    combined: list[StateBatch] = []
    at = 0
    for batch in new:
        low = bisect_left(kept, batch[0] - 1, at, key=_last)
        high = bisect_right(kept, batch[1] + 1, low, key=_first)
        combined += kept[at:low]
        neighbors = kept[low:high]
        if combined and combined[-1][1] >= batch[0] - 1:
            neighbors = [combined.pop(), *neighbors]
        combined += _lay_over(neighbors, batch) if neighbors else (batch,)
        at = high
    combined += kept[at:]
    return combined


def _lay_over(neighbors: Sequence[StateBatch], batch: StateBatch) -> Sequence[StateBatch]:
    """Return the result of one batch and those that it overlaps or touches, which are sorted and apart."""
    first, last, state, count = batch
    rank = count, state
    for each in (neighbors[0], neighbors[-1]):
        if (each[3], each[2]) == rank:
            first, last = min(first, each[0]), max(last, each[1])
    parts = [(begin, min(end, first - 1), its, n) for begin, end, its, n in neighbors[:1] if begin < first and (n, its) < rank]
    rest = [(max(begin, last + 1), end, its, n) for begin, end, its, n in neighbors[-1:] if end > last and (n, its) < rank]
    for each in neighbors:
        if (each[3], each[2]) > rank:
            if first < each[0]:
                parts.append((first, each[0] - 1, state, count))
            parts.append(each)
            first = each[1] + 1
    if first <= last:
        parts.append((first, last, state, count))
    return parts + rest
