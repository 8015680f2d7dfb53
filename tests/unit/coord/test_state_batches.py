"""Combined state batches agree with a model that keeps the state of every offset alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.share_state.batches import UNKNOWN_OFFSET, WHOLE, StateBatch, combine, is_well_formed

SPAN = 60
ByOffset = dict[int, tuple[int, int]]
"""Delivery count and state of each offset."""

batches = st.lists(
    st.builds(
        lambda first, length, state, count: (first, first + length, state, count),
        st.integers(0, SPAN),
        st.integers(0, SPAN // 3),
        st.sampled_from((0, 2, 4)),
        st.integers(0, 3),
    ),
    max_size=8,
)
starts = st.one_of(st.just(UNKNOWN_OFFSET), st.integers(0, SPAN))


def model(start_offset: int, *lists: list[StateBatch] | tuple[StateBatch, ...]) -> ByOffset:
    """The larger count wins for each offset, then the larger state."""
    found: ByOffset = {}
    for batch in (each for some in lists for each in some):
        for offset in range(max(batch[0], start_offset), batch[1] + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (batch[3], batch[2]))
    return found


def by_offset(combined: tuple[StateBatch, ...]) -> ByOffset:
    """The same of a combined list, which names no offset twice and is in order."""
    ends = [offset for batch in combined for offset in batch[:2]]
    assert ends == sorted(ends)
    found = {offset: (count, state) for first, last, state, count in combined for offset in range(first, last + 1)}
    assert len(found) == sum(last - first + 1 for first, last, _, _ in combined)
    return found


@given(batches, batches, starts)
def test_a_combined_list_has_the_winner_of_each_offset(
    earlier: list[StateBatch], later: list[StateBatch], start_offset: int
) -> None:
    stored = combine((), earlier, UNKNOWN_OFFSET)
    combined = combine(stored, later, start_offset)
    assert by_offset(combined) == model(start_offset, earlier, later)


@given(st.data(), batches, starts)
def test_a_long_list_is_combined_in_part_as_it_is_as_a_whole(
    data: st.DataObject, later: list[StateBatch], start_offset: int
) -> None:
    gaps = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from((0, 2))), min_size=WHOLE + 1))
    stored, at = [], 0
    for count, (gap, length, state) in enumerate(gaps):
        stored.append((at + gap, at + gap + length, state, count % 3))
        at += gap + length + 1
    assert len(stored) > WHOLE
    combined = combine(tuple(stored), later, start_offset)
    assert by_offset(combined) == model(start_offset, tuple(stored), later)


@given(batches, starts)
def test_what_is_combined_stays_when_nothing_is_added(some: list[StateBatch], start_offset: int) -> None:
    once = combine((), some, start_offset)
    again = combine(once, (), start_offset)
    assert by_offset(again) == by_offset(once)
    assert combine(again, (), start_offset) == combine(once, (), start_offset)


def test_neighbors_of_one_state_become_one() -> None:
    assert combine(((0, 4, 2, 1),), ((5, 9, 2, 1),), UNKNOWN_OFFSET) == ((0, 9, 2, 1),)
    assert combine(((0, 4, 2, 1),), ((5, 9, 2, 2),), UNKNOWN_OFFSET) == ((0, 4, 2, 1), (5, 9, 2, 2))


def test_a_batch_within_a_weaker_one_divides_it() -> None:
    assert combine(((0, 9, 0, 1),), ((3, 5, 2, 1),), UNKNOWN_OFFSET) == ((0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1))
    assert combine(((0, 9, 4, 1),), ((3, 5, 2, 1),), UNKNOWN_OFFSET) == ((0, 9, 4, 1),)


def test_offsets_below_the_start_are_gone() -> None:
    assert combine(((0, 4, 2, 1), (6, 9, 0, 1)), (), 8) == ((8, 9, 0, 1),)
    assert combine((), ((0, 4, 2, 1),), 5) == ()


def test_offsets_reach_the_largest_that_a_log_can_have() -> None:
    last = (1 << 63) - 1
    assert combine(((0, last, 0, 1),), ((last, last, 2, 1),), last - 1) == ((last - 1, last - 1, 0, 1), (last, last, 2, 1))


def test_a_batch_that_ends_before_it_begins_is_known() -> None:
    assert is_well_formed(((3, 3, 0, 1),))
    assert not is_well_formed(((3, 3, 0, 1), (5, 4, 2, 1)))
