"""State batches: ranges of offsets with a delivery state and a delivery count. Values only.

A combined list is sorted and has no overlaps. Of two batches that overlap, the one with the larger delivery count wins for the
common offsets; with equal counts, the one with the larger delivery state.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
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
MOST_SINGLE: Final = 16
"""The most new batches that are combined with a long list one by one."""

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
    if not new and len(kept) > WHOLE:
        return tuple(kept)
    if len(kept) <= WHOLE:
        return tuple(_merge([*kept, *new]))
    if len(new) > MOST_SINGLE:
        return _merge_within(kept, new)
    for batch in new:
        kept = _merge_within(kept, (batch,))
    return tuple(kept)


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


def _merge_within(kept: Sequence[StateBatch], new: Sequence[StateBatch]) -> tuple[StateBatch, ...]:
    """Merge new batches with the part of a sorted list that they overlap or touch."""
    low = bisect_left(kept, min(map(_first, new)) - 1, key=_last)
    high = bisect_right(kept, max(map(_last, new)) + 1, key=_first)
    return (*kept[:low], *_merge([*kept[low:high], *new]), *kept[high:])


def _merge(batches: Sequence[StateBatch]) -> Sequence[StateBatch]:
    """Merge batches in any order into a sorted list without overlaps."""
    if len(batches) < 2:
        return batches
    ranked: list[_Ranked] = sorted([(first, last, count, state) for first, last, state, count in batches])
    parts: list[_Ranked] = []
    """The parts of overlapping batches that are left, as a heap."""
    merged: list[StateBatch] = []
    at, end = 1, len(ranked)
    earlier = ranked[0]
    while at < end or parts:
        if parts and (at == end or parts[0] < ranked[at]):
            later = heapq.heappop(parts)
        else:
            later = ranked[at]
            at += 1
        last = earlier[1]
        if later[0] > last + 1 or (later[0] > last and later[2:] != earlier[2:]):
            merged.append((earlier[0], last, earlier[3], earlier[2]))
            earlier = later
            continue
        for part in _resolve(earlier, later):
            heapq.heappush(parts, part)
        if at < end and ranked[at] < parts[0]:
            earlier = ranked[at]
            at += 1
        else:
            earlier = heapq.heappop(parts)
    first, last, count, state = earlier
    merged.append((first, last, state, count))
    return merged


def _resolve(earlier: _Ranked, later: _Ranked) -> list[_Ranked]:
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
