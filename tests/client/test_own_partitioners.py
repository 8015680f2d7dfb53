"""Partitioners of users, and tables of Arrow: where their records go, and how mistakes are refused."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import ottla
from ottla.records.batches.rows import value_rows
from tests.support.peers import Peer


def by_length(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
    return len(value or b"") % count


def read(broker: Peer, topic: str) -> list[ottla.ConsumerRecord]:
    with ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        return [*consumer.records(until=consumer.end_offsets(consumer.partitions_for(topic)))]


def test_each_record_goes_where_the_function_says_and_a_given_partition_wins(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, partitioner=by_length) as producer:
        deliveries = [producer.send(topic, b"v" * size, key=b"k") for size in range(9)]
        deliveries.append(producer.send(topic, b"", partition=2))
        producer.send_values(topic, [b"v" * size for size in range(50)])
        producer.flush()
        assert [delivery.result(0).partition for delivery in deliveries] == [0, 1, 2] * 3 + [2]
    records = read(broker, topic)
    assert len(records) == 60
    assert all(len(record.value or b"") % 3 == record.partition or record.value == b"" for record in records)


def test_rows_keep_their_order_in_each_partition(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, partitioner=by_length, batch_size=300) as producer:
        rows = value_rows([b"%d" % number for number in range(0, 2_000, 7)], 1)
        sent = producer.send_rows(topic, rows, 1)
        assert sorted(number for _, numbers in sent for number in numbers) == list(range(1, rows.row_count))
    for partition in range(3):
        values = [int(record.value or b"") for record in read(broker, topic) if record.partition == partition]
        assert values == sorted(values)


@pytest.mark.parametrize(
    ("result", "kind", "match"),
    [
        (3, ottla.SettingError, "returned 3 for topic .*, which has partitions 0 to 2"),
        (-1, ottla.SettingError, "result of partitioner is a whole number of at least 0"),
        ("1", TypeError, "result of partitioner is a whole number"),
        (None, TypeError, "result of partitioner is a whole number"),
    ],
)
def test_a_wrong_result_is_refused_and_nothing_is_queued(
    broker: Peer, topic: str, result: object, kind: type[Exception], match: str
) -> None:
    with ottla.Producer(broker.address, partitioner=lambda *_: result) as producer:  # type: ignore[arg-type]  # the mistake
        with pytest.raises(kind, match=match):
            producer.send(topic, b"v")
        with pytest.raises(kind, match=match):
            producer.send_values(topic, [b"v"])
        assert producer.unwritten() == {}
        assert producer.send(topic, b"v", partition=1).result(20).partition == 1


def test_an_exception_of_a_partitioner_is_raised_by_send(broker: Peer, topic: str) -> None:
    def fail(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        raise LookupError(topic)

    async def use() -> None:
        async with ottla.AsyncProducer(broker.address, partitioner=fail) as producer:
            with pytest.raises(LookupError, match=topic):
                await producer.send(topic, b"v")

    asyncio.run(use())
    with pytest.raises(ottla.SettingError, match="partitioner must be a function"):
        ottla.Producer(broker.address, partitioner=7)  # type: ignore[call-overload]  # the mistake


def test_a_partitioner_may_use_its_producer_and_runs_on_several_threads(broker: Peer, topic: str) -> None:
    def send_copy(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        if value == b"first":
            producer.send(topic, b"copy")
        return 0

    with ottla.Producer(broker.address, partitioner=send_copy) as producer, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: producer.send(topic, b"first"), range(200)))
    assert len(read(broker, topic)) == 400


def test_a_table_is_sent_with_keys_headers_and_timestamps(broker: Peer, topic: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    count = 150_000
    headers = arrow.array([[("h", b"1")]] * count, arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())])))
    table = arrow.table(
        {
            "id": [b"%d" % (number % 100) for number in range(count)],
            "text": [None if number == 7 else str(number) for number in range(count)],
            "at": arrow.array(range(count), arrow.timestamp("ms")),
            "headers": headers,
        }
    )
    with ottla.Producer(broker.address) as producer:
        assert producer.send_table(topic, table, key="id", value="text", timestamp="at", headers="headers") == count
        assert producer.send_table(topic, table.slice(5, 3), value="text", partition=0) == 3
        assert producer.send_table(topic, table.slice(0, 2).to_batches()[0], value="text") == 2
    records = read(broker, topic)
    assert len(records) == count + 5
    found = {record.timestamp: record for record in records if record.headers}
    assert found[7].value is None
    assert (found[149_999].key, found[149_999].value, found[149_999].headers) == (b"99", b"149999", (("h", b"1"),))


def test_a_table_without_names_sends_its_columns_of_the_names_of_a_records_parts_and_drops_none(broker: Peer, topic: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    header = arrow.list_(arrow.struct([("name", arrow.string()), ("value", arrow.binary())]))
    columns = {
        "timestamp": arrow.array([5], arrow.int64()),
        "value": ["v"],
        "headers": arrow.array([[("h", b"1")]], header),
        "key": ["k"],
    }
    with ottla.Producer(broker.address) as producer:
        assert producer.send_table(topic, arrow.table(columns), partition=0) == 1
        assert producer.send_table(topic, arrow.table(columns), value="key", partition=0) == 1  # no other than the named one
        with pytest.raises(ottla.SettingError, match="column 'age' is no part of a record: name the columns to send"):
            producer.send_table(topic, arrow.table({**columns, "age": [7]}), partition=0)
    whole, named = read(broker, topic)
    assert (whole.key, whole.value, whole.headers, whole.timestamp) == (b"k", b"v", (("h", b"1"),), 5)
    assert (named.key, named.value, named.headers) == (None, b"k", ())


def test_mistakes_with_tables_are_refused_before_a_row_is_sent(broker: Peer, topic: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"value": ["a", "b" * 2_000, "c"], "number": [1, 2, 3]})
    with ottla.Producer(broker.address, max_request_size=1_000) as producer:
        with pytest.raises(TypeError, match=r"takes a pyarrow\.Table or RecordBatch, not a dict"):
            producer.send_table(topic, {"value": ["a"]})
        with pytest.raises(ottla.SettingError, match=r"0 columns 'text'.*\(value, number\)"):
            producer.send_table(topic, table, value="text")
        with pytest.raises(TypeError, match="Column 'number' of the table is of type int64: cast it"):
            producer.send_table(topic, table, key="number")
        assert producer.unwritten() == {}
        with pytest.raises(ottla.BrokerError, match=r"Row 1 exceeds max_request_size: the 1 rows before it are queued"):
            producer.send_table(topic, table, value="value")
    assert [record.value for record in read(broker, topic)] == [b"a"]
