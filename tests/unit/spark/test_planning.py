"""Planning: offsets become ranges, limits are kept to, ranges cover what was asked for exactly once, losses are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.client.types import TopicPartition
from ottla.spark.errors import OptionError
from ottla.spark.read_plan import (
    EARLIEST,
    LATEST,
    AtGroup,
    AtOffsets,
    AtTime,
    AtTimes,
    Bound,
    Everywhere,
    PartitionOffsets,
    Range,
    find_lost,
    lost_ends,
    ranges,
    resolve,
    split,
    trim,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Brokers:
    """Two partitions: a-0 holds offsets 10 to 99 at times 1000 to 1089, a-1 is empty at offset 5."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return {each: {A0: 10, A1: 5}[each] for each in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return {each: {A0: 100, A1: 5}[each] for each in partitions}

    def at_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {each: max(10, time - 990) if each == A0 and time < 1090 else None for each, time in timestamps_ms.items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return {A0: 42}


def start(bound: Bound, latest_otherwise: bool = False) -> PartitionOffsets:
    return resolve(bound, [A0, A1], Brokers(), edge="starting", latest_otherwise=latest_otherwise)


def test_words_become_offsets() -> None:
    assert start(Everywhere(EARLIEST)) == {A0: 10, A1: 5}
    assert start(Everywhere(LATEST)) == {A0: 100, A1: 5}
    assert start(AtOffsets({A0: 42, A1: LATEST})) == {A0: 42, A1: 5}


def test_a_group_starts_where_it_stands_and_at_the_first_record_where_it_has_committed_nothing() -> None:
    assert start(AtGroup()) == {A0: 42, A1: 5}


def test_times_become_offsets_and_what_they_do_not_reach_is_told_or_read_from_the_end() -> None:
    assert start(AtTime(1020), latest_otherwise=True) == {A0: 30, A1: 5}
    assert start(AtTimes({A0: 1020, A1: 0}), latest_otherwise=True) == {A0: 30, A1: 5}
    with pytest.raises(OptionError, match=r"a-1 hold no record.*startingOffsetsByTimestampStrategy"):
        start(AtTime(1020))


def test_offsets_for_each_partition_are_given_for_all_and_no_other() -> None:
    with pytest.raises(OptionError, match="startingOffsets leaves out a-1"):
        start(AtOffsets({A0: 42}))
    with pytest.raises(OptionError, match="startingOffsets names b-0"):
        start(AtOffsets({A0: 42, A1: 1, B0: 1}))


OFFSETS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8)


def as_offsets(pairs: list[tuple[int, int]]) -> tuple[PartitionOffsets, PartitionOffsets]:
    starts = {TopicPartition("t", index): low for index, (low, _) in enumerate(pairs)}
    return starts, {TopicPartition("t", index): low + size for index, (low, size) in enumerate(pairs)}


@given(OFFSETS, st.none() | st.integers(1, 40), st.none() | st.integers(1, 300))
@example([(0, 2)], 3, None)
def test_split_ranges_cover_everything_once_within_the_wishes(
    pairs: list[tuple[int, int]], min_partitions: int | None, max_records: int | None
) -> None:
    wholes = ranges(*as_offsets(pairs))
    pieces = split(wholes, min_partitions=min_partitions, max_records=max_records)
    for whole in wholes:
        mine = [piece for piece in pieces if piece.partition == whole.partition]
        assert [mine[0].start, *(piece.end for piece in mine)] == [*(piece.start for piece in mine), whole.end]
        assert mine[0].start == whole.start
    assert all(piece.size > 0 for piece in pieces)
    assert max_records is None or all(piece.size <= max_records for piece in pieces)
    assert min_partitions is None or len(pieces) >= min(min_partitions, sum(whole.size for whole in wholes))


def test_min_partitions_cut_the_largest_first() -> None:
    pieces = split([Range("a", 0, 0, 90), Range("a", 1, 0, 10)], min_partitions=4)
    assert [piece.partition for piece in pieces] == [0, 0, 0, 1]


def test_losses_are_told_for_each_partition() -> None:
    clauses = find_lost({A0: 3, A1: 50, B0: 1}, {A0: 10, A1: 0}, {A0: 100, A1: 20})
    assert clauses == [
        "a-0 was to be read from offset 3 and begins at 10 now",
        "a-1 was to be read from offset 50 and ends at 20 now",
        "b-0 was to be read from offset 1 and is gone",
    ]
    assert find_lost({A0: 10}, {A0: 10}, {A0: 10}) == []


def test_a_range_beyond_the_end_of_its_partition_is_told() -> None:
    assert lost_ends([Range("a", 0, 90, 120), Range("a", 1, 0, 5)], {A0: 100, A1: 5}) == [
        "a-0 was to be read to offset 120 and ends at 100 now"
    ]


def test_accepted_losses_read_on_with_what_is_left() -> None:
    wholes = [Range("a", 0, 3, 120), Range("a", 1, 50, 60), Range("b", 0, 1, 2)]
    assert trim(wholes, {A0: 10, A1: 2}, {A0: 100, A1: 20}) == [Range("a", 0, 10, 100), Range("a", 1, 2, 20)]
