"""Records to Arrow and back: the same values, no Python object per record, both runs of the kernel."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batches import arrow
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import check, read_header
from ottla.records.batches.rows import batches_of, by_partition
from tests.support.arrow import from_arrow
from tests.unit.records.making import HEADERS as HEADER_LISTS
from tests.unit.records.making import ITEMS, Rows, build_rows, simple

pytestmark = pytest.mark.usefixtures("kernels")
EVERY = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
ROWS = st.lists(st.tuples(st.integers(0, 2**40), ITEMS, ITEMS, HEADER_LISTS), min_size=1, max_size=12)


@pytest.mark.slow
@given(rows=ROWS, cut=st.integers(1, 11), start=st.integers(0, 12), length=st.integers(0, 12))
def test_columns_become_arrow_whole_and_in_slices(rows: Rows, cut: int, start: int, length: int) -> None:
    first, second = rows[:cut], rows[cut:]
    view = build_rows(first) + (build_rows(second, base_offset=cut, codec=3) if second else b"")
    columns = open_batches(view).slice(start, start + length)
    batch = arrow.to_arrow(columns, EVERY, topic="t", partition=3, timestamp_type=pa.int64())
    batch.validate(full=True)
    kept = rows[start : start + length]
    assert batch.schema.names == list(EVERY)
    assert batch["key"].to_pylist() == [row[1] for row in kept]
    assert batch["value"].to_pylist() == [row[2] for row in kept]
    assert batch["offset"].to_pylist() == list(range(len(rows)))[start : start + length]
    assert batch["timestamp"].to_pylist() == [row[0] for row in kept]
    assert batch["headers"].to_pylist() == [[{"key": name, "value": value} for name, value in row[3]] for row in kept]
    assert batch["topic"].to_pylist() == ["t"] * len(kept)
    assert batch["partition"].to_pylist() == [3] * len(kept)
    assert batch["timestampType"].to_pylist() == [0] * len(kept)


@given(rows=ROWS, start=st.integers(0, 11), codec=st.integers(0, 4), batch_bytes=st.integers(0, 300))
def test_arrow_becomes_batches(rows: Rows, start: int, codec: int, batch_bytes: int) -> None:
    times, keys, values, headers = (list(column) for column in zip(*rows, strict=True))
    entries = [[{"key": name, "value": value} for name, value in own] for own in headers]
    made = from_arrow(
        pa.array(values, pa.binary())[start:],
        pa.array(keys, pa.binary())[start:],
        pa.array(times, pa.int64())[start:],
        pa.array(entries, arrow.HEADERS)[start:],
        codec=codec,
        batch_bytes=batch_bytes,
    )
    batches = list(made)
    assert [check(memoryview(batch))[0] for batch in batches] == [0] * len(batches)
    opened = [record for batch in batches for record in open_batches(batch).records()]
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in opened] == rows[start:]


def test_batches_keep_to_their_size_and_count_their_sequences() -> None:
    batches = list(from_arrow(pa.array([bytes(100)] * 100), producer_id=1, base_sequence=2**31 - 50, batch_bytes=2000))
    assert all(len(batch) <= 2000 + 61 for batch in batches)
    headers = [read_header(batch) for batch in batches]
    assert sum(header.record_count for header in headers) == 100
    sequence = 2**31 - 50
    for header in headers:
        assert header.base_sequence == sequence
        sequence = (sequence + header.record_count) % 2**31


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    batches = list(from_arrow(pa.array([b"a", bytes(5000), b"b"]), batch_bytes=1000))
    assert [read_header(batch).record_count for batch in batches] == [1, 1, 1]


@pytest.mark.parametrize("kind", ["string", "large_string", "large_binary", "binary_view", "string_view"])
def test_other_layouts_of_bytes_are_taken(kind: str) -> None:
    values = pa.array(["x", None, "yy"], pa.string()).cast(getattr(pa, kind)())
    (batch,) = from_arrow(values, values, 5)
    assert [(record.key, record.value) for record in open_batches(batch).records()] == [
        (b"x", b"x"), (None, None), (b"yy", b"yy")
    ]  # fmt: skip


def test_arrow_timestamps_of_any_unit_are_taken_as_milliseconds() -> None:
    moment = datetime(2013, 1, 1, 5, 15, 0, 123000, tzinfo=UTC)
    for unit in ("s", "ms", "us", "ns"):
        (batch,) = from_arrow(pa.array([b""]), timestamps=pa.array([moment]).cast(pa.timestamp(unit, tz="UTC"), safe=False))
        assert read_header(batch).base_timestamp == int(moment.timestamp()) * 1000 + (0 if unit == "s" else 123)


def test_a_timestamp_that_milliseconds_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="out of bounds"):
        list(from_arrow(pa.array([b"v"]), timestamps=pa.array([2**62], pa.timestamp("s"))))


def test_a_null_timestamp_is_refused() -> None:
    with pytest.raises(ValueError, match="null"):
        list(from_arrow(pa.array([b"", b""]), timestamps=pa.array([1, None])))


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="as many rows"):
        list(from_arrow(pa.array([b"", b""]), pa.array([b""])))


def test_offsets_and_timestamps_are_shared_not_copied() -> None:
    columns = open_batches(simple(3))
    batch = arrow.to_arrow(columns)
    columns.offsets[0] = 77
    assert batch["offset"].to_pylist() == [77, 1, 2]
    assert str(batch.schema.field("timestamp").type) == "timestamp[ms, tz=UTC]"


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 1000, arrow.MOST_REPEATED, arrow.MOST_REPEATED + 1])
def test_topic_and_partition_are_repeated_for_each_row(rows: int) -> None:
    data = build_rows([(7, None, b"", [])] * (rows or 1))
    batch = arrow.to_arrow(
        open_batches(data).slice(0, rows), ("topic", "partition", "key", "headers"), topic="flights", partition=3
    )
    expected = {"topic": ["flights"] * rows, "partition": [3] * rows, "key": [None] * rows, "headers": [[]] * rows}
    assert batch.to_pydict() == expected
    batch.validate(full=True)


def test_rows_go_to_the_partition_of_their_key_in_their_order() -> None:
    keys = [b"a", None, b"b", b"a", b"c", None]
    rows = arrow.arrow_rows(pa.array([b"%d" % index for index in range(6)]), pa.array(keys, pa.binary()), 0)
    partitions = rows.partitions(4)
    assert [partition == -1 for partition in partitions] == [key is None for key in keys]
    placed = array("i", [max(partition, 0) for partition in partitions])
    starts, order = by_partition(placed, 4)
    found = {}
    for partition in range(4):
        for batch in batches_of(rows, order, starts[partition], starts[partition + 1]):
            found[partition] = [record.value for record in open_batches(batch).records()]
    expected: dict[int, list[bytes]] = {}
    for index, partition in enumerate(placed):
        expected.setdefault(partition, []).append(b"%d" % index)
    assert found == expected


def test_broken_arrow_offsets_never_lead_outside_the_data(kernels: SimpleNamespace) -> None:
    at, sizes = array("i", bytes(8)), array("i", bytes(8))
    kernels.kernel_arrow.spans_from_offsets(array("i", [-(2**31), 2**31 - 1, 5]), b"", 0, at, sizes)
    assert list(sizes) == [2**31 - 1, 0]
    with pytest.raises(ValueError, match="outside"):
        kernels.kernel_arrow.gather(b"12345", at, sizes, array("i", bytes(12)), 0, 0, bytearray(9), bytearray(1))
    with pytest.raises(ValueError, match="outside"):
        kernels.kernel_arrow.murmur2_partitions(b"12345", at, sizes, 3, array("i", bytes(8)))


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
     (b"a-little-bit-longer-string", -1486304829), (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
     (b"abc", 479470107), (b"", 275646681)],
)  # fmt: skip
def test_murmur2_is_that_of_kafkas_clients(kernels: SimpleNamespace, key: bytes, hashed: int) -> None:
    assert kernels.kernel_arrow.murmur2(key) == hashed


@given(st.binary(max_size=40))
def test_murmur2_agrees_with_kafka_python(kernels: SimpleNamespace, key: bytes) -> None:
    partitioner = pytest.importorskip("kafka.partitioner.default", reason="kafka-python is not installed")
    assert kernels.kernel_arrow.murmur2(key) & 0xFFFFFFFF == partitioner.murmur2(key)


def test_groups_outside_their_range_are_refused(kernels: SimpleNamespace) -> None:
    for groups in ([-1], [2]):
        with pytest.raises(ValueError, match="range"):
            kernels.kernel_arrow.group_rows(array("i", groups), array("i", bytes(12)), array("i", bytes(4)))
