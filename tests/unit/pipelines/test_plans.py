"""A replay is cut into parts that hold each offset once, and all partitions come forward together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.replay import OffsetRange, Span, as_json, from_json, partition_counts, parts_of

SPANS = st.lists(
    st.builds(
        lambda topic, partition, first, rows, gaps: Span(topic, partition, first, first + rows + gaps - 1, rows),
        st.sampled_from(["a", "b"]),
        st.integers(0, 5),
        st.integers(0, 1000),
        st.integers(1, 500),
        st.integers(0, 50),
    ),
    unique_by=lambda span: span[:2],
    min_size=1,
)


@pytest.mark.slow
@given(SPANS, st.integers(1, 400))
def test_every_offset_is_in_one_part_and_those_of_a_partition_in_order(spans: list[Span], rows_per_part: int) -> None:
    parts = parts_of(spans, rows_per_part)
    for span in spans:
        pieces = [piece for part in parts for piece in part if piece[:2] == span[:2]]
        assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
        assert (pieces[0].start, pieces[-1].end) == (span.first, span.last + 1)
    assert from_json(as_json(parts)) == parts


def test_parts_are_as_large_as_asked_for() -> None:
    parts = parts_of([Span("a", 0, 10, 29, 20), Span("a", 1, 0, 9, 10)], 10)
    assert parts[0] == [OffsetRange("a", 0, 10, 16), OffsetRange("a", 1, 0, 3)]
    assert len(parts) == 3
    assert parts_of([], 10) == []


def test_topics_get_as_many_partitions_as_their_records_had() -> None:
    assert partition_counts([Span("a", 4, 0, 0, 1), Span("a", 1, 0, 0, 1), Span("b", 0, 0, 0, 1)]) == {"a": 5, "b": 1}
