"""The iterator that makes records one by one returns what `records` returns at once, compiled or not."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.types import TopicPartition
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Columns, open_batches, record_iterator
from ottla.records.batches.record import ConsumerRecord
from ottla.records.compression import codecs

WHERE = TopicPartition("t", 3)
FIELD = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=3), FIELD), max_size=2)
ROWS = st.lists(st.tuples(FIELD, FIELD, HEADERS), min_size=1, max_size=5)
BATCHES = st.lists(st.tuples(ROWS, st.sampled_from([codecs.NONE, codecs.LZ4])), max_size=5)
STEPS = st.lists(
    st.tuples(st.sampled_from(["next", "next_records", "peek", "skip", "settle", "put_back"]), st.integers(0, 4)), max_size=20
)


def opened(batches: list[tuple[list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]], int]]) -> list[Columns]:
    """Two tables, the second without the first record of its first batch, as after a marker."""
    data, next_offset = [bytearray(), bytearray()], 0
    for number, (rows, codec) in enumerate(batches):
        keys, values, headers = (list(column) for column in zip(*rows, strict=True))
        data[number * 2 // len(batches)] += build(keys, values, [7] * len(rows), headers, codec=codec, base_offset=next_offset)
        next_offset += len(rows)
    first, second = (open_batches(each) for each in data)
    return [first, second.slice(1, len(second))]


@given(BATCHES, STEPS)
@settings(max_examples=60)
def test_it_returns_the_records_of_all_batches_and_counts_them(kernels: SimpleNamespace, batches: object, steps: object) -> None:
    del kernels
    parts = opened(batches)  # type: ignore[arg-type]  # hypothesis has no narrower type
    expected = [record for part in parts for record in part.records(WHERE)]
    records = record_iterator(parts, WHERE)
    taken = processed = 0
    for name, count in steps:  # type: ignore[attr-defined]  # the same
        if name == "next":
            processed = taken
            assert next(records, None) == (expected[taken] if taken < len(expected) else None)
            taken = min(taken + 1, len(expected))
        elif name == "next_records":
            assert records.next_records(count) == expected[taken : taken + count]
            taken = min(taken + count, len(expected))
        elif name == "peek":
            assert records.peek() == (expected[taken] if taken < len(expected) else None)
        elif name == "skip" and taken < len(expected):
            records.skip()
            taken += 1
        elif name == "settle":
            records.settle()
            processed = taken
        elif name == "put_back":
            records.put_back()
            taken = processed
        assert (records.taken, records.processed, records.end) == (taken, processed, len(expected))
    assert [records.offset(index) for index in range(records.end)] == [record.offset for record in expected]
    rest = list(records)
    assert rest == expected[taken:]
    assert all((type(record), record.where) == (ConsumerRecord, WHERE) for record in rest)


def test_after_a_cut_it_ends(kernels: SimpleNamespace) -> None:
    del kernels
    records = record_iterator([open_batches(build(None, [b"a", b"b", b"c"], 7))], WHERE)
    assert next(records).value == b"a"
    records.cut()
    assert (list(records), records.next_records(2), records.peek(), records.end) == ([], [], None, 1)


def test_batches_of_one_record_are_one_run_unless_they_are_compressed(kernels: SimpleNamespace) -> None:
    del kernels
    data = b"".join(build(None, [b"%d" % number], 7, base_offset=number) for number in range(1000))
    records = record_iterator([open_batches(data)], WHERE)
    assert [(record.offset, record.value) for record in records] == [(number, b"%d" % number) for number in range(1000)]


@pytest.mark.parametrize(
    ("spans", "rows", "said"),
    [
        ([0, 6, 0, 0, 0, 0], (0, 1), "outside the data"),
        ([-1, 3, 0, 0, 0, 0], (0, 1), "outside the data"),
        ([0, 0, 3, 3, 0, 0], (0, 1), "outside the data"),
        ([0, 0, 0, 0, 4, 2], (0, 1), "outside the data"),
        ([0, 0, 0, 0, 0], (0, 1), "outside the columns"),
        ([0] * 6, (0, 2), "outside the columns"),
    ],
)
def test_rows_outside_their_data_are_refused(kernels: SimpleNamespace, spans: list[int], rows: tuple[int, int], said: str) -> None:
    one = array("q", [0])
    records = kernels.kernel_record.RecordIterator(ConsumerRecord, WHERE, [(b"12345", one, one, array("i", spans), *rows, 0)])
    with pytest.raises(ValueError, match=said):
        next(records)


def test_rows_in_a_wrong_order_and_other_classes_are_refused(kernels: SimpleNamespace) -> None:
    one = array("q", [0])
    with pytest.raises(ValueError, match="outside the columns"):
        kernels.kernel_record.RecordIterator(ConsumerRecord, WHERE, [(b"", one, one, array("i", [0] * 6), 1, 0, 0)])
    if kernels.kernel_record.COMPILED:
        with pytest.raises(TypeError, match="two classes"):
            kernels.kernel_record.RecordIterator(tuple, WHERE, [])
