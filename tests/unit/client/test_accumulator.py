"""Records on their way into batches, and the partitions they choose."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import BrokerError, Closed
from ottla.client.producer.accumulator import BATCH_OVERHEAD_BYTES, Accumulator, PendingBatch
from ottla.client.producer.partitioner import Partitioner
from ottla.client.types import RecordMetadata, TopicPartition
from ottla.records.batches.columns import murmur2, open_batches
from ottla.records.batches.lines import split_lines
from ottla.records.batches.rows import Rows, value_rows


def accumulator(
    batch_size: int = 1000, linger_ms: int = 5, partitioner: Partitioner | None = None, delivery_timeout_ms: int = 1000
) -> Accumulator:
    chosen = partitioner or Partitioner(lambda count: 0)
    return Accumulator(
        batch_size=batch_size,
        linger_ms=linger_ms,
        delivery_timeout_ms=delivery_timeout_ms,
        max_record_bytes=10_000,
        partitioner=chosen,
        clock=lambda: 7_999_999,
    )


def at(now_ms: int) -> Callable[[], int]:
    return lambda: now_ms


def never(where: TopicPartition) -> bool:
    return False


def always(where: TopicPartition) -> bool:
    return True


def test_a_batch_lingers_until_its_time_has_come() -> None:
    made = accumulator(linger_ms=5)
    batch, index = made.append("t", 0, 1, None, b"v", None, 1, at(100))
    assert index == 0
    assert made.close(104, never) == ([], 105)
    assert made.close(105, never) == ([batch], None)


def test_a_full_batch_does_not_linger_and_the_next_record_opens_another() -> None:
    made = accumulator(batch_size=200)
    first, _ = made.append("t", 0, 1, None, b"v" * 100, None, 1, at(100))
    second, _ = made.append("t", 0, 1, None, b"v" * 100, None, 1, at(100))
    assert second is not first
    assert made.close(100, never).batches == [first]


def test_what_would_only_queue_may_grow_beyond_its_time() -> None:
    made = accumulator()
    batch, _ = made.append("t", 0, 1, None, b"v", None, 1, at(100))
    assert made.close(200, lambda where: True).batches == []
    assert made.append("t", 0, 1, None, b"w", None, 1, at(200))[0] is batch
    assert made.close(200, never).batches == [batch]


def test_the_time_to_deliver_a_batch_begins_with_its_first_record() -> None:
    made = accumulator(delivery_timeout_ms=4000)
    batch, _ = made.append("t", 0, 1, None, b"v", None, 1, at(100))
    made.append("t", 0, 1, None, b"v", None, 1, at(3000))
    assert made.close(3900, never).batches == [batch]
    assert batch.deadline_ms == 4100


def test_a_batch_behind_others_is_held_until_its_time_is_up_and_no_longer() -> None:
    made = accumulator(linger_ms=5, delivery_timeout_ms=4000)
    batch, _ = made.append("t", 0, 1, None, b"v", None, 1, at(100))
    assert made.close(4099, always) == ([], 4100)
    assert made.close(4100, always).batches == [batch]


def test_lingering_leaves_time_to_deliver() -> None:
    made = accumulator(linger_ms=10_000, delivery_timeout_ms=4000)
    batch, _ = made.append("t", 0, 1, None, b"v", None, 1, at(100))
    assert made.close(2100, never).batches == [batch]


def test_nothing_lingers_once_that_is_ended() -> None:
    made = accumulator(linger_ms=60_000)
    batch, _ = made.append("t", 0, 1, None, b"v", None, 1, at(100))
    made.end_linger()
    assert made.close(101, never).batches == [batch]


def test_memory_is_counted_until_a_batch_is_done() -> None:
    made = accumulator()
    batch, _ = made.append("t", 0, 1, b"key", b"value", [("name", b"header")], 1, at(100))
    assert made.pending_bytes == batch.size > BATCH_OVERHEAD_BYTES
    made.release(batch)
    assert (made.pending_bytes, made.end_linger()) == (0, [])


def test_a_record_larger_than_any_request_is_refused_at_once() -> None:
    made = accumulator()
    with pytest.raises(BrokerError, match="max_request_size=10000") as raised:
        made.append("t", 0, 1, None, b"v" * 10_000, None, 1, at(100))
    assert raised.value.name == "MESSAGE_TOO_LARGE"
    assert made.pending_bytes == 0


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    made = accumulator(batch_size=100)
    batch, _ = made.append("t", 0, 1, None, b"v" * 5_000, None, 1, at(100))
    assert made.append("t", 0, 1, None, b"v", None, 1, at(100))[0] is not batch


record = st.tuples(
    st.none() | st.binary(max_size=40),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3),
    st.integers(0, 1 << 40),
)


@pytest.mark.slow
@given(st.lists(record, min_size=1, max_size=30), st.integers(100, 2_000))
def test_every_record_ends_up_in_a_batch_once_in_order_and_within_the_size_counted(
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]], batch_size: int
) -> None:
    made = accumulator(batch_size=batch_size)
    for key, value, headers, timestamp in records:
        made.append("t", 0, 1, key, value, headers, timestamp, at(0))
    found = []
    for batch in made.close(1_000, never).batches:
        data = batch.encode(codec=0)
        assert len(data) == batch.size <= max(batch_size, batch.size * (batch.record_count == 1))
        found += [(one.key, one.value, list(one.headers), one.timestamp) for one in open_batches(data).records()]
    assert found == records


def test_a_delivery_knows_its_place_once_the_batch_is_done() -> None:
    made = accumulator()
    batch, _ = made.append("t", 3, 1, None, b"v", None, 41, at(0))
    made.append("t", 3, 1, None, b"w", None, 42, at(0))
    heard: list[int] = []
    batch.watch(lambda: heard.append(1))
    batch.finish(base_offset=7, log_append_time_ms=-1, error=None)
    batch.watch(lambda: heard.append(2))
    assert heard == [1, 2]
    assert batch.outcome(1) == RecordMetadata("t", 3, 8, 42)


def test_a_watcher_that_raises_keeps_none_of_the_others_from_hearing() -> None:
    batch, _ = accumulator().append("t", 3, 1, None, b"v", None, 41, at(0))
    heard: list[int] = []
    batch.watch(lambda: heard.append(1))
    batch.watch(lambda: [].pop())
    batch.watch(lambda: heard.append(2))
    with pytest.raises(IndexError):
        batch.finish(base_offset=7, log_append_time_ms=-1, error=None)
    assert heard == [1, 2]


def test_a_watcher_is_called_once_and_one_that_comes_late_at_once() -> None:
    batch, _ = accumulator().append("t", 3, 1, None, b"v", None, 41, at(0))
    heard: list[int] = []
    batch.watch(lambda: batch.watch(lambda: heard.append(1)))
    batch.finish()
    batch.watch(lambda: heard.append(2))
    assert heard == [1, 2]


def test_the_quick_way_needs_an_open_batch_and_both_ways_keep_the_order() -> None:
    made = accumulator(batch_size=200)
    assert made.append_quickly("t", b"v", None, None, None, None) is None
    first, _ = made.append("t", None, 1, None, b"0", None, 1, at(100))
    for number in (1, 2):
        delivery = made.append_quickly("t", b"%d" % number, b"k" if number == 2 else None, None, [("h", b"x")], None)
        assert delivery is not None
        assert (delivery.batch, delivery.index) == (first, number)
    made.append("t", 0, 1, None, b"3", None, 1, at(100))
    assert made.append_quickly("t", b"v" * 150, None, None, None, None) is None
    second, _ = made.append("t", None, 1, None, b"v" * 150, None, 1, at(100))
    assert second is not first
    assert made.pending_bytes == first.size + second.size
    assert made.close(100, never).batches == [first]
    records = open_batches(first.encode(codec=0)).records()
    assert [(record.value, record.timestamp) for record in records] == [(b"0", 1), (b"1", 7), (b"2", 7), (b"3", 1)]
    assert [first.timestamp(index) for index in range(4)] == [1, 7, 7, 1]


def test_nothing_is_added_quickly_to_a_batch_that_was_closed_dropped_or_abandoned() -> None:
    for end in (Accumulator.drop, Accumulator.abandon, lambda made: made.close(1_000, never), lambda made: made.recount()):
        made = accumulator()
        batch, _ = made.append("t", None, 1, None, b"0", None, 1, at(100))
        assert made.append_quickly("t", b"1", None, None, None, None) is not None
        end(made)
        assert made.append_quickly("t", b"2", None, None, None, None) is None
        assert batch.record_count == 2
    made = accumulator()
    made.append("t", None, 1, None, b"0", None, 1, at(100))
    made.end(lambda: None)
    assert made.append_quickly("t", b"2", None, None, None, None) is None


def test_after_a_batch_of_keyless_records_the_quick_way_waits_for_the_next_choice() -> None:
    numbers = iter([0, 0, 1, 0])
    made = accumulator(partitioner=Partitioner(lambda count: next(numbers)))
    for partition in (0, 1):
        batch, _ = made.append("t", None, 2, None, b"v", None, 1, at(100))
        delivery = made.append_quickly("t", b"w", None, None, None, None)
        assert delivery is not None
        assert delivery.batch is batch
        assert batch.where.partition == partition
        made.append("t", 1 - partition, 2, None, b"v", None, 1, at(100))
        made.close(1_000, never)
        assert made.append_quickly("t", b"w", None, None, None, None) is None


def test_a_check_comes_before_each_record_that_is_added_quickly() -> None:
    checks: list[int] = []
    made = Accumulator(
        batch_size=1000,
        linger_ms=5,
        delivery_timeout_ms=1000,
        max_record_bytes=10_000,
        partitioner=Partitioner(lambda count: 0),
        clock=lambda: 0,
        check=lambda: checks.append(1),
    )
    made.append("t", None, 1, None, b"0", None, 1, at(100))
    made.append_quickly("t", b"1", None, None, None, None)
    assert checks == [1, 1]


def test_a_finished_batch_keeps_the_times_of_its_records_and_not_their_bytes() -> None:
    made = accumulator()
    batch, _ = made.append("t", 0, 1, None, b"v" * 500, None, 5, at(100))
    made.append("t", 0, 1, None, b"v", None, 6, at(100))
    batch.encode(codec=0)
    batch.finish(base_offset=3)
    assert len(batch.out) == 0
    assert [batch.outcome(index) for index in range(2)] == [RecordMetadata("t", 0, 3, 5), RecordMetadata("t", 0, 4, 6)]


def test_a_delivery_that_failed_says_why() -> None:
    made = accumulator()
    batch, _ = made.append("t", 3, 1, None, b"v", None, 41, at(0))
    [gone] = made.abandon()
    gone.finish(base_offset=-1, log_append_time_ms=-1, error=Closed("closed"))
    with pytest.raises(Closed):
        batch.outcome(0)


def test_keys_decide_the_partition_as_kafka_does() -> None:
    chosen = Partitioner(lambda count: 0)
    assert chosen.partition("t", b"21", 7) == (murmur2(b"21") & 0x7FFFFFFF) % 7
    # murmur2("foobar") is -790332482 in Kafka's own tests.
    assert chosen.partition("t", b"foobar", 1_000) == (-790332482 & 0x7FFFFFFF) % 1_000


@given(st.integers(2, 9), st.lists(st.integers(0, 8), min_size=5, max_size=5))
def test_keyless_records_stay_until_the_batch_closes_and_then_move(count: int, draws: list[int]) -> None:
    numbers = iter(draws * 10)
    chosen = Partitioner(lambda below: next(numbers) % below)
    for _ in range(4):
        partition = chosen.partition("t", None, count)
        assert chosen.partition("t", None, count) == partition
        chosen.leave("t", (partition + 1) % count)
        assert chosen.partition("t", None, count) == partition
        chosen.leave("t", partition)
        assert chosen.partition("t", None, count) != partition


Sent = dict[int, list[tuple[bytes | None, bytes | None]]]
KEYS = st.none() | st.sampled_from([b"a", b"b", b"c", b"d"])


def contents(batches: list[PendingBatch]) -> Sent:
    found: Sent = {}
    for batch in batches:
        records = open_batches(batch.encode(codec=1)).records()
        assert batch.record_count == len(records)
        assert [batch.timestamp(index) for index in range(len(records))] == [record.timestamp for record in records]
        found.setdefault(batch.where.partition, []).extend((record.key, record.value) for record in records)
    return found


def rows_of(records: list[tuple[bytes | None, bytes]], *, keyed: bool) -> Rows:
    text = b"".join((b"%b:" % (b"-" if key is None else key) if keyed else b"") + value + b"\n" for key, value in records)
    return split_lines(text, 7, b"\n", b":" if keyed else b"", b"-").rows


@given(
    st.lists(st.tuples(KEYS, st.integers(0, 150)), max_size=30),
    st.lists(st.integers(0, 30), max_size=3),
    st.booleans(),
    st.none() | st.just(2),
)
def test_rows_go_where_each_record_by_itself_would(
    records: list[tuple[bytes | None, int]], cuts: list[int], keyed: bool, partition: int | None
) -> None:
    lines = [(key if keyed else None, b"v" * length) for key, length in records]
    one, many = accumulator(batch_size=400), accumulator(batch_size=400)
    for each in (one, many):
        each.append("t", 0, 3, b"k", b"first", [("h", None)], 1, at(100))
    for key, value in lines:
        one.append("t", partition, 3, key, value, None, 7, at(100))
    rows = rows_of(lines, keyed=keyed)
    ends = sorted({min(cut, len(lines)) for cut in cuts} | {len(lines)})
    added = [
        part
        for start, end in zip([0, *ends], ends, strict=False)
        for part in many.extend("t", partition, 3, rows, start, end, at(100))
    ]
    many.append("t", 0, 3, b"k", b"last", None, 1, at(100))
    one.append("t", 0, 3, b"k", b"last", None, 1, at(100))
    assert sorted(row for part in added for row in part.rows) == list(range(len(lines)))
    for part in added:
        placed = open_batches(part.batch.encode(codec=0)).records()
        own = placed[part.first_index : part.first_index + len(part.rows)]
        assert [(record.key, record.value) for record in own] == [lines[row] for row in part.rows]
    closed = many.close(1000, never).batches
    assert all(batch.size <= 400 for batch in closed)
    assert contents(closed) == contents(one.close(1000, never).batches)
    for batch in closed:
        many.release(batch)
    assert many.pending_bytes == 0


def test_rows_end_before_one_that_is_too_large() -> None:
    made = accumulator()
    rows = value_rows([b"a", b"b", b"x" * 10_000, b"c"], 7)
    ((batch, first, numbers),) = made.extend("t", 0, 1, rows, 0, 4, at(100))
    assert (batch.record_count, first, numbers) == (2, 0, range(2))
    assert made.extend("t", 0, 1, rows, 2, 4, at(100)) == []
    assert made.extend("t", 0, 1, value_rows([], 7), 0, 0, at(100)) == []


def test_rows_that_cannot_be_added_leave_no_batch_without_records_behind() -> None:
    one = accumulator()
    rows = value_rows([b"v"], 0)
    rows.value_data = b""
    with pytest.raises(ValueError, match="outside its data"):
        one.extend("t", 0, 1, rows, 0, 1, at(0))
    assert one.end_linger() == []
    assert one.pending_bytes == 0
    assert one.append_quickly("t", b"v", None, 0, None, None) is None, "nothing calls close for a record that is added quickly"
    assert one.append("t", 0, 1, None, b"v", None, 0, at(0))[1] == 0


def test_rows_of_several_times_are_told_by_their_own() -> None:
    made = accumulator()
    mixed = value_rows([b"c", b"d"], 0)
    mixed.only_timestamp, mixed.timestamps = None, memoryview(array("q", [5, 4]))
    for rows in (value_rows([b"a"], 7), value_rows([b"b"], 9), mixed):
        ((batch, _, _),) = made.extend("t", 0, 1, rows, 0, rows.row_count, at(100))
    batch.encode(codec=0)
    assert [batch.timestamp(index) for index in range(4)] == [7, 9, 5, 4]
