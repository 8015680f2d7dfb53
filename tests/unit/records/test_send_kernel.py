"""The quick way of a record into its batch: it encodes what others decode, and leaves everything unusual to its caller."""

from __future__ import annotations

from array import array
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batches.builder import encode_headers, seal
from ottla.records.batches.columns import Record, murmur2, open_batches
from ottla.records.batches.header import HEADER_BYTES, MAGIC, BatchHeader
from tests.unit.records.making import HEADERS, ITEMS, ROWS, Rows, records_of

LIMIT = 1 << 20


def appender(kernels: SimpleNamespace, **other: Any) -> Any:
    settings = {"partitions": True, "most_pending_bytes": 1 << 40, "most_record_bytes": LIMIT, "check": None, **other}
    return kernels.kernel_send.RecordAppender(lambda: 5_999_999, nullcontext(), **settings)


def ready(kernels: SimpleNamespace, count: int = 1, **other: Any) -> tuple[Any, list[Any]]:
    """An appender with an open batch for each partition of topic t, and the batches."""
    made = appender(kernels, **other)
    batches = [kernels.kernel_send.RecordBuffer(LIMIT) for _ in range(count)]
    made.set_count("t", count)
    for partition, batch in enumerate(batches):
        made.open("t", partition, batch)
    made.stick("t", 0)
    return made, batches


def records(buffer: Any) -> list[Record]:
    """What a consumer would read of the batch."""
    data = buffer.out[: buffer.end]
    times = (buffer.base_timestamp, buffer.max_timestamp)
    header = BatchHeader(0, 0, -1, MAGIC, 0, 0, buffer.record_count - 1, *times, -1, -1, -1, buffer.record_count)
    return list(open_batches(seal(header, bytearray(data))).records())


@given(ROWS)
def test_records_are_read_as_they_were_added(kernels: SimpleNamespace, rows: Rows) -> None:
    buffer = kernels.kernel_send.RecordBuffer(LIMIT)
    for index, (time, key, value, headers) in enumerate(rows):
        assert buffer.add(key, value, encode_headers(headers) if headers else None, time) == index
    assert records(buffer) == records_of(rows)
    times = memoryview(buffer.times).cast("q").tolist()
    runs = dict(zip(times[::2], times[1::2], strict=True))
    known: list[int] = []
    for index in range(len(rows)):
        known.append(runs.get(index, known[-1] if known else 0))
    assert known == [time for time, _, _, _ in rows]


@given(ITEMS, ITEMS, HEADERS, st.none() | st.integers(0, 2**62))
def test_the_quick_way_writes_what_it_is_given(
    kernels: SimpleNamespace, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], time: int | None
) -> None:
    made, [batch] = ready(kernels)
    for index in range(2):
        delivery = made.append("t", value, key, None, headers, time)
        assert (delivery.batch, delivery.index) == (batch, index)
    assert records(batch) == records_of([(5 if time is None else time, key, value, headers)] * 2)
    assert made.pending_bytes == batch.end - HEADER_BYTES


@given(HEADERS)
def test_headers_are_encoded_as_everywhere(kernels: SimpleNamespace, headers: list[tuple[str, bytes | None]]) -> None:
    assert kernels.kernel_send.encode_headers(headers) == encode_headers(headers)
    assert kernels.kernel_send.encode_headers(tuple(headers)) == encode_headers(headers)


@given(st.binary(max_size=40), st.integers(1, 12))
def test_a_key_goes_where_kafka_puts_it(kernels: SimpleNamespace, key: bytes, count: int) -> None:
    made, batches = ready(kernels, count)
    assert made.append("t", b"v", key, None, None, None).batch is batches[(murmur2(key) & 0x7FFFFFFF) % count]


def test_records_without_a_key_stay_at_the_sticky_partition(kernels: SimpleNamespace) -> None:
    made, batches = ready(kernels, 3)
    made.stick("t", 2)
    assert made.append("t", b"v", None, None, None, None).batch is batches[2]
    made.stick("t", -1)
    assert made.append("t", b"v", None, None, None, None) is None


class Text(str):
    """A string that could have an equality of its own."""


class Data(bytes):
    """Bytes that could have a length of their own."""


UNUSUAL: dict[str, tuple[object, ...]] = {
    "another topic": ("u", b"v", None, None, None, None),
    "a topic that is no string": (b"t", b"v", None, None, None, None),
    "a topic of a subclass": (Text("t"), b"v", None, None, None, None),
    "a value to copy": ("t", bytearray(b"v"), None, None, None, None),
    "a value of a subclass": ("t", Data(b"v"), None, None, None, None),
    "a value that is no bytes": ("t", "v", None, None, None, None),
    "a key to copy": ("t", b"v", memoryview(b"k"), None, None, None),
    "a partition without a batch": ("t", b"v", None, 1, None, None),
    "a negative partition": ("t", b"v", None, -1, None, None),
    "a huge partition": ("t", b"v", None, 1 << 70, None, None),
    "a partition that is no int": ("t", b"v", None, True, None, None),
    "a negative time": ("t", b"v", None, None, None, -1),
    "a huge time": ("t", b"v", None, None, None, 1 << 63),
    "a time that is no int": ("t", b"v", None, None, None, 1.5),
    "headers in a dict": ("t", b"v", None, None, {"a": b"b"}, None),
    "headers of lists": ("t", b"v", None, None, [["a", b"b"]], None),
    "headers of three": ("t", b"v", None, None, [("a", b"b", b"c")], None),
    "a header's name in bytes": ("t", b"v", None, None, [(b"a", b"b")], None),
    "a header's name that is no UTF-8": ("t", b"v", None, None, [("\ud800", b"b")], None),
    "a header's text": ("t", b"v", None, None, [("a", "b")], None),
    "a large value": ("t", bytes(LIMIT), None, None, None, None),
    "a large key": ("t", None, bytes(LIMIT), None, None, None),
    "large headers": ("t", None, None, None, [("a", bytes(LIMIT))], None),
}


@pytest.mark.parametrize("fields", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_what_is_unusual_is_left_to_the_caller_with_nothing_changed(kernels: SimpleNamespace, fields: tuple[object, ...]) -> None:
    made, [batch] = ready(kernels)
    assert made.append(*fields) is None
    assert (batch.record_count, batch.end, made.pending_bytes) == (0, HEADER_BYTES, 0)
    assert made.append("t", b"v", None, None, None, None).index == 0


def test_nothing_is_added_while_memory_is_full_or_after_the_end(kernels: SimpleNamespace) -> None:
    made, [batch] = ready(kernels, most_pending_bytes=100)
    made.count(100)
    assert made.append("t", b"v", None, None, None, None) is not None
    assert made.append("t", b"v", None, None, None, None) is None
    made.count(-100)
    assert made.append("t", b"v", None, None, None, None) is not None
    made.is_open = False
    assert made.append("t", b"v", None, None, None, None) is None
    assert batch.record_count == 2


def test_a_forked_child_adds_nothing(kernels: SimpleNamespace) -> None:
    made, _ = ready(kernels)
    kernels.kernel_send.note_fork()
    assert made.append("t", b"v", None, None, None, None) is None
    assert ready(kernels)[0].append("t", b"v", None, None, None, None) is not None


def test_partitions_are_left_to_a_caller_that_has_its_own(kernels: SimpleNamespace) -> None:
    made, _ = ready(kernels, partitions=False)
    assert made.append("t", b"v", None, None, None, None) is None
    assert made.append("t", b"v", b"k", None, None, None) is None
    assert made.append("t", b"v", None, 0, None, None) is not None


def test_a_closed_batch_takes_nothing(kernels: SimpleNamespace) -> None:
    made, [batch] = ready(kernels)
    made.close("t", 0, batch)
    assert made.append("t", b"v", None, 0, None, None) is None
    assert batch.add(None, b"v", None, 0) == -1
    again = kernels.kernel_send.RecordBuffer(LIMIT)
    made.open("t", 0, again)
    made.close("t", 0, batch)
    assert made.append("t", b"v", None, 0, None, None).batch is again


def test_a_batch_is_full_at_its_limit_and_only_its_first_record_may_be_larger(kernels: SimpleNamespace) -> None:
    buffer = kernels.kernel_send.RecordBuffer(300)
    assert buffer.add(None, bytes(1000), None, 0) == 0
    assert buffer.add(None, b"", None, 0) == -1
    buffer = kernels.kernel_send.RecordBuffer(300)
    while buffer.add(None, bytes(20), None, 0) >= 0:
        pass
    assert 300 - 30 < buffer.end <= 300
    assert len(records(buffer)) == buffer.record_count == 8


@given(st.lists(st.integers(-1, 2**31 - 1)))
def test_the_largest_size_of_a_column_is_found(kernels: SimpleNamespace, sizes: list[int]) -> None:
    assert kernels.kernel_arrow.largest(array("i", sizes)) == max([0, *sizes])


def test_room_that_is_reserved_or_taken_over_changes_no_record(kernels: SimpleNamespace) -> None:
    for buffer in (kernels.kernel_send.RecordBuffer(LIMIT), kernels.kernel_send.RecordBuffer(LIMIT, bytearray(b"x" * 5000))):
        buffer.add(None, b"a", None, 1)
        buffer.reserve(10_000)
        buffer.reserve(10)
        buffer.add(None, bytes(9_990), None, 2)
        assert [record.value for record in records(buffer)] == [b"a", bytes(9_990)]
        assert len(buffer.out) >= buffer.end


def test_a_check_that_raises_adds_nothing(kernels: SimpleNamespace) -> None:
    def check() -> None:
        raise LookupError("closed")

    made, [batch] = ready(kernels, check=check)
    with pytest.raises(LookupError, match="closed"):
        made.append("t", b"v", None, None, None, None)
    assert batch.record_count == 0


def test_a_delivery_leaves_all_waiting_to_its_batch(kernels: SimpleNamespace) -> None:
    calls: list[object] = []
    batch = SimpleNamespace(
        where=SimpleNamespace(topic="t", partition=3),
        done=True,
        result=lambda index, timeout: (index, timeout),
        call_when_done=lambda callback, delivery: calls.append((callback, delivery)),
        arrive=lambda index: iter([index]),
        error_of=lambda index: LookupError(index),
    )
    delivery = kernels.kernel_send.Delivery(batch, 5)
    assert (delivery.topic, delivery.partition, delivery.done(), delivery.index) == ("t", 3, True, 5)
    assert delivery.result(2.5) == (5, 2.5)
    assert delivery.error().args == (5,)
    assert list(delivery.__await__()) == [5]
    delivery.add_done_callback(print)
    assert calls == [(print, delivery)]
