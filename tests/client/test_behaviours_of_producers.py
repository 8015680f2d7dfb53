"""Behaviours of producers that the test suites of other clients check (docs/client-behaviours.md), each in a few lines."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from typing import Any, cast

import pytest

import ottla
from tests.client.test_producer_consumer import drain, reader
from tests.support.peers import Peer


@pytest.fixture
def where(topic: str) -> ottla.TopicPartition:
    """The first partition of a topic that no other test uses."""
    return ottla.TopicPartition(topic, 0)


def read_values(broker: Peer, *places: ottla.TopicPartition) -> list[bytes | None]:
    """Return the committed values of whole partitions."""
    with reader(broker, isolation_level="read_committed") as consumer:
        consumer.assign(places)
        return [record.value for record in consumer.records(until=consumer.end_offsets(places))]


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (b"", b""), (b"k", None), (None, b"v"), (b"", None), (bytearray(b"k"), memoryview(b"v"))]
)
def test_null_and_empty_bytes_stay_apart(key: Any, value: Any, broker: Peer, where: ottla.TopicPartition) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send(where.topic, value, key=key, partition=where.partition)
    with reader(broker, where.topic) as consumer:
        (record,) = drain(consumer, 1)
    assert (record.key, record.value) == (None if key is None else bytes(key), None if value is None else bytes(value))


@pytest.mark.parametrize(
    "headers",
    [[], [("b", b"1"), ("a", b"2"), ("b", b"3")], [("empty", b""), ("null", None)], [("\u00fcber", "\u20ac".encode())]],
    ids=["none", "order", "empty", "unicode"],
)
def test_headers_keep_order_duplicates_and_nulls(
    headers: list[tuple[str, bytes | None]], broker: Peer, where: ottla.TopicPartition
) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send(where.topic, b"v", headers=cast("list[tuple[str, bytes | None]]", iter(headers)))
    with reader(broker, where.topic) as consumer:
        assert list(drain(consumer, 1)[0].headers) == headers


@pytest.mark.parametrize("text", ["caf\u00e9", "\u65e5\u672c", "\U0001f6eb", "a" * 100_000])
def test_text_of_any_script_comes_back(text: str, broker: Peer, where: ottla.TopicPartition) -> None:
    with ottla.Producer(broker.address, key_serializer="str", value_serializer="str") as producer:
        producer.send(where.topic, text, key=text[:9])
    with reader(broker, where.topic, key_deserializer="str", value_deserializer="str") as consumer:
        record: Any = drain(consumer, 1)[0]
    assert (record.key, record.value) == (text[:9], text)


@pytest.mark.parametrize(("acks", "offset"), [("all", 0), (-1, 0), (1, 0), ("1", 0), (0, -1)])
def test_a_result_has_the_place_of_the_record_unless_no_acknowledgement_is_wanted(
    acks: Any, offset: int, broker: Peer, where: ottla.TopicPartition
) -> None:
    now_ms = int(time.time() * 1_000)
    with ottla.Producer(broker.address, acks=acks) as producer:
        written = producer.send(where.topic, b"v", partition=0, timestamp_ms=now_ms).result(20)
    assert (written.topic, written.partition, written.offset, written.timestamp) == (*where, offset, now_ms)
    assert read_values(broker, where) == [b"v"]


def test_a_record_without_a_time_has_that_of_send(broker: Peer, where: ottla.TopicPartition) -> None:
    with ottla.Producer(broker.address) as producer:
        first = producer.send(where.topic, b"a", partition=0).result(20).timestamp
        last = producer.send(where.topic, b"b", partition=0).result(20).timestamp
    with reader(broker, where.topic) as consumer:
        assert [record.timestamp for record in drain(consumer, 2)] == [first, last]
    assert 1_600_000_000_000 < first <= last


def test_flush_close_and_poll_of_an_idle_producer_return_at_once(broker: Peer) -> None:
    producer = ottla.Producer(broker.address)
    producer.flush(0)
    assert producer.poll() == 0
    assert producer.unwritten() == {}
    assert producer.purge() == 0
    producer.close(0)
    producer.close()


@pytest.mark.parametrize("values", [[], [b""], [b"a", b"b"]])
def test_a_batch_of_values_may_be_empty(values: list[bytes], broker: Peer, where: ottla.TopicPartition) -> None:
    with ottla.Producer(broker.address) as producer:
        sent = producer.send_values(where.topic, values, partition=0)
    assert sum(count for _, count in sent) == len(values)
    assert read_values(broker, where) == values


def test_a_partition_that_does_not_exist_is_refused_and_an_own_partitioner_is_not_called_for_a_given_one(
    broker: Peer, where: ottla.TopicPartition
) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("a partition is given")

    with ottla.Producer(broker.address, partitioner=refuse, max_block_ms=500) as producer:
        producer.send(where.topic, b"v", partition=0)
        with pytest.raises(ottla.KafkaError, match="has partitions 0 to 2, not 99"):
            producer.send(where.topic, b"v", partition=99)
    assert read_values(broker, where) == [b"v"]


def test_the_function_for_keys_of_librdkafka_selects_its_partitions(broker: Peer, topic: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    keys = [b"%d" % number for number in range(20)]
    theirs = confluent_kafka.Producer({"bootstrap.servers": broker.address, "partitioner": "consistent"})
    for key in keys:
        theirs.produce(topic, b"theirs", key=key)
    assert theirs.flush(20) == 0
    with ottla.Producer(broker.address, partitioner=lambda _topic, key, _value, count: zlib.crc32(key or b"") % count) as producer:
        for key in keys:
            producer.send(topic, b"ours", key=key)
    found: dict[Any, set[tuple[Any, int]]] = {b"ours": set(), b"theirs": set()}
    with reader(broker, topic) as consumer:
        for record in drain(consumer, 40):
            found[record.value].add((record.key, record.partition))
    assert found[b"ours"] == found[b"theirs"]
    assert len({partition for _, partition in found[b"ours"]}) == 3


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_record_of_half_a_megabyte_comes_back(codec: Any, broker: Peer, where: ottla.TopicPartition) -> None:
    value = json.dumps(list(range(80_000))).encode()
    with ottla.Producer(broker.address, compression_type=codec) as producer:
        producer.send(where.topic, value, partition=0)
    assert read_values(broker, where) == [value]


def test_a_transaction_has_records_of_several_topics_and_batches(
    broker: Peer, admin: ottla.Admin, topic: str, unique: Callable[[str], str]
) -> None:
    other = unique("client")
    admin.create_topic(other, 2)
    places = [ottla.TopicPartition(topic, 0), ottla.TopicPartition(topic, 1), ottla.TopicPartition(other, 1)]
    with ottla.Producer(broker.address, transactional_id=unique("id"), batch_size=200) as producer:
        with producer.transaction():
            for number in range(30):
                for place in places:
                    producer.send(place.topic, b"%d" % number, partition=place.partition)
        with producer.transaction():
            pass  # without records
    for place in places:
        assert read_values(broker, place) == [b"%d" % number for number in range(30)]


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_transaction_are_committed_with_it_or_not_at_all(
    committed: bool, broker: Peer, admin: ottla.Admin, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    with ottla.Producer(broker.address, transactional_id=unique("id")) as producer:
        producer.begin_transaction()
        producer.send(topic, b"v", partition=0)
        producer.send_offsets({(topic, 1): 7}, ottla.ConsumerGroupMetadata(group))
        (producer.commit_transaction if committed else producer.abort_transaction)()
    offsets = {place: found.offset for place, found in admin.list_group_offsets(group).items()}
    assert offsets == ({(topic, 1): 7} if committed else {})
    assert read_values(broker, ottla.TopicPartition(topic, 0)) == ([b"v"] if committed else [])


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.init_transactions(),
        lambda p: p.begin_transaction(),
        lambda p: p.commit_transaction(),
        lambda p: p.abort_transaction(),
        lambda p: p.send_offsets({}, ottla.ConsumerGroupMetadata("g")),
    ],
)
def test_transactions_need_a_transactional_id(call: Callable[[ottla.Producer], object], broker: Peer) -> None:
    with ottla.Producer(broker.address) as producer, pytest.raises(ottla.SettingError, match="transactional_id"):
        call(producer)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.send("flights", b"v"),
        lambda p: p.send_values("flights", [b"v"]),
        lambda p: p.flush(),
        lambda p: p.purge(),
        lambda p: p.partitions_for("flights"),
        lambda p: p.begin_transaction(),
    ],
)
def test_every_call_of_a_closed_producer_raises_closed(call: Callable[[ottla.Producer], object], broker: Peer) -> None:
    producer = ottla.Producer(broker.address, transactional_id="closed")
    producer.close()
    with pytest.raises(ottla.Closed):
        call(producer)


def test_each_instance_is_a_client_of_its_own(broker: Peer, where: ottla.TopicPartition) -> None:
    with ottla.Producer(broker.address) as one, ottla.Producer(broker.address) as two:
        one.send(where.topic, b"1", partition=0).result(20)
        one.close()
        two.send(where.topic, b"2", partition=0).result(20)
    assert read_values(broker, where) == [b"1", b"2"]
