"""Admission: limits of a micro-batch are kept to, no partition starves, and too little waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.client.types import TopicPartition
from ottla.spark.options import ReadOptions, read_options
from ottla.spark.read_plan import PartitionOffsets
from ottla.spark.streams.admission import admit, enough, is_limited, limit_rows, within_bytes

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
PLAIN = read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "a"}, streaming=True)
OFFSETS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8)


def options(**fields: Any) -> ReadOptions:
    return replace(PLAIN, **fields)


def as_offsets(pairs: list[tuple[int, int]]) -> tuple[PartitionOffsets, PartitionOffsets]:
    starts = {TopicPartition("t", index): low for index, (low, _) in enumerate(pairs)}
    return starts, {TopicPartition("t", index): low + size for index, (low, size) in enumerate(pairs)}


@given(OFFSETS, st.integers(1, 3000))
@example([(0, 1), (0, 1), (0, 1), (0, 1000)], 5)
def test_a_limit_is_kept_to_exactly_and_no_partition_starves(pairs: list[tuple[int, int]], limit: int) -> None:
    starts, ends = as_offsets(pairs)
    chosen = limit_rows(starts, ends, limit)
    sizes = {each: ends[each] - starts[each] for each in ends}
    taken = {each: chosen[each] - starts[each] for each in ends}
    held = sum(size > 0 for size in sizes.values())
    assert sum(taken.values()) == min(sum(sizes.values()), max(limit, held))
    assert all(0 <= taken[each] <= sizes[each] for each in ends)
    assert all(taken[each] > 0 for each in ends if sizes[each])


def test_a_limit_takes_in_proportion_to_what_each_holds() -> None:
    assert limit_rows({A0: 0, A1: 100}, {A0: 900, A1: 200}, 100) == {A0: 90, A1: 110}


@given(OFFSETS, st.lists(st.floats(0.1, 5000), min_size=8, max_size=8), st.integers(1, 1_000_000))
def test_bytes_are_kept_to_and_no_partition_starves(pairs: list[tuple[int, int]], means: list[float], most: int) -> None:
    starts, ends = as_offsets(pairs)
    sizes = dict(zip(starts, means, strict=False))
    chosen = within_bytes(starts, ends, most, sizes)
    taken = {each: chosen[each] - starts[each] for each in ends}
    assert sum(taken[each] * sizes[each] for each in ends) <= most + sum(sizes.values())
    assert all(0 <= taken[each] <= ends[each] - starts[each] for each in ends)
    assert all(taken[each] > 0 for each in ends if ends[each] > starts[each])


def test_a_partition_of_unknown_size_counts_as_the_mean_of_the_others_and_none_known_is_no_limit() -> None:
    starts, ends = {A0: 0, A1: 0}, {A0: 100, A1: 100}
    assert within_bytes(starts, ends, 1000, {A0: 10.0}) == {A0: 50, A1: 50}
    assert within_bytes(starts, ends, 1000, {}) == ends


def test_all_limits_hold_together() -> None:
    starts, ends = {A0: 0, A1: 0}, {A0: 1000, A1: 10}
    sizes = {A0: 10.0, A1: 10.0}
    assert admit(starts, ends, options(max_offsets_per_trigger_per_partition=100), sizes) == {A0: 100, A1: 10}
    both = options(max_offsets_per_trigger_per_partition=100, max_offsets_per_trigger=11, max_bytes_per_trigger=900)
    taken = admit(starts, ends, both, sizes)
    assert sum(taken.values()) == 11
    assert admit(starts, ends, PLAIN, {}) == ends


@pytest.mark.parametrize("limit", ["max_offsets_per_trigger", "max_bytes_per_trigger", "max_offsets_per_trigger_per_partition"])
def test_each_of_the_limits_makes_a_stream_limited(limit: str) -> None:
    assert is_limited(options(**{limit: 5}))
    assert not is_limited(options(min_offsets_per_trigger=5))


def test_too_little_waits_until_the_delay_is_over() -> None:
    waiting = options(min_offsets_per_trigger=10, max_trigger_delay_ms=1000)
    assert enough(0, 5000, waiting), "nothing at all begins no micro-batch, and needs no delay"
    assert not enough(9, 999, waiting)
    assert enough(9, 1000, waiting)
    assert enough(10, 0, waiting)
    assert enough(1, 0, PLAIN)
