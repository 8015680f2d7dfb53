"""The blocking clients against a live broker: what people do with them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Unpack

import pytest

import ottla
from ottla.client.consumer.rebalance_listeners import Listener
from ottla.client.keywords import ConsumerKeywords, ProducerKeywords
from ottla.records.batches.columns import murmur2
from tests.support.peers import Peer
from tests.support.waiting import eventually


def fill(broker: Peer, topic: str, count: int, **settings: Unpack[ProducerKeywords]) -> None:
    with ottla.Producer(broker.address, **settings) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode(), key=str(number % 7).encode())


def reader(
    broker: Peer,
    *topics: str,
    on_assigned: Listener | None = None,
    on_revoked: Listener | None = None,
    **settings: Unpack[ConsumerKeywords],
) -> ottla.Consumer:
    chosen: ConsumerKeywords = {"bootstrap_servers": broker.address, "auto_offset_reset": "earliest", **settings}
    return ottla.Consumer(*topics, on_assigned=on_assigned, on_revoked=on_revoked, **chosen)


def drain(consumer: ottla.Consumer, count: int) -> list[ottla.ConsumerRecord]:
    """The next `count` records; fails when they do not come."""
    found: list[ottla.ConsumerRecord] = []
    while len(found) < count:
        records = consumer.poll(10_000, max_records=count - len(found))
        assert records, f"only {len(found)} of {count} records came"
        found += records
    return found


def test_a_record_comes_back_as_it_was_sent(broker: Peer, topic: str) -> None:
    headers = [("trace", b"\x00\x01"), ("empty", None), ("trace", b"again")]
    with ottla.Producer(broker.address) as producer:
        sent = producer.send(topic, b"value", key=b"key", partition=2, headers=headers, timestamp_ms=1_700_000_000_123).result(10)
        empty = producer.send(topic, None, partition=2, timestamp_ms=5).result(10)
    assert (sent.topic, sent.partition, sent.offset, sent.timestamp) == (topic, 2, 0, 1_700_000_000_123)
    assert empty.offset == 1
    with reader(broker, topic) as consumer:
        first, second = drain(consumer, 2)
    assert (first.topic, first.partition, first.offset, first.key, first.value) == (topic, 2, 0, b"key", b"value")
    assert (first.timestamp, first.timestamp_type, list(first.headers)) == (1_700_000_000_123, 0, headers)
    assert (second.key, second.value, second.timestamp) == (None, None, 5)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_brings_all_records_in_order_of_their_partition(broker: Peer, topic: str, codec: Any) -> None:
    fill(broker, topic, 2_000, compression_type=codec, batch_size=4_000)
    with reader(broker, topic) as consumer:
        found = drain(consumer, 2_000)
    assert sorted(int(record.value or b"") for record in found) == list(range(2_000))
    for partition in range(3):
        here = [record for record in found if record.partition == partition]
        assert [record.offset for record in here] == list(range(len(here)))
        assert [int(record.value or b"") for record in here] == sorted(int(record.value or b"") for record in here)
    assert {record.partition for record in found} == {(murmur2(b"%d" % key) & 0x7FFFFFFF) % 3 for key in range(7)}


def test_batches_are_arrow_and_hold_what_records_hold(broker: Peer, topic: str) -> None:
    pytest.importorskip("pyarrow")
    fill(broker, topic, 500)
    found: list[tuple[object, ...]] = []
    with reader(broker, topic) as consumer:
        for batch in consumer.batches(timeout_ms=10_000):
            assert batch.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
            found += [tuple(row[name] for name in ("partition", "offset", "value")) for row in batch.to_pylist()]
            if len(found) == 500:
                break
    with reader(broker, topic) as consumer:
        assert sorted(found) == sorted((record.partition, record.offset, record.value) for record in drain(consumer, 500))


def test_iterating_ends_when_nothing_came_for_the_time_given(broker: Peer, topic: str) -> None:
    fill(broker, topic, 10)
    with reader(broker, topic) as consumer:
        assert len(list(consumer.records(timeout_ms=1_500))) == 10


def test_a_consumer_sees_records_written_after_it_began(broker: Peer, topic: str) -> None:
    with reader(broker, topic, auto_offset_reset="latest") as consumer, ottla.Producer(broker.address) as producer:
        for where in consumer.assignment():
            consumer.position(where)
        for number in range(3):
            producer.send(topic, b"%d" % number).result(10)
            [record] = drain(consumer, 1)
            assert record.value == b"%d" % number


def test_threads_may_share_a_producer(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, batch_size=2_000) as producer:

        def send(number: int) -> None:
            for turn in range(500):
                producer.send(topic, b"%d %d" % (number, turn), key=b"%d" % number)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send, range(4)))
    with reader(broker, topic) as consumer:
        found = drain(consumer, 2_000)
    for number in range(4):
        turns = [int(record.value.split()[1]) for record in found if record.key == b"%d" % number and record.value]
        assert turns == list(range(500))


def test_many_values_are_sent_at_once(broker: Peer, topic: str, unique: Callable[[str], str]) -> None:
    values = [b"%d" % number for number in range(10_000)]
    with ottla.Producer(broker.address, batch_size=10_000, buffer_memory=100_000, enable_idempotence=True) as producer:
        sent = [
            part
            for start in range(0, 10_000, 500)
            for part in producer.send_values(topic, values[start : start + 500], partition=1)
        ]
        assert sum(count for _, count in sent) == 10_000
        offsets = [delivery.result().offset + index for delivery, count in sent for index in range(count)]
        (short,) = producer.send_values(topic, [b"last", b"x" * 2_000_000, b"never"])
        assert short[1] == 1
        with pytest.raises(TypeError, match="a list of bytes"):
            producer.send_values(topic, [b"a", None])  # type: ignore[list-item]  # the mistake
        with pytest.raises(ottla.SettingError, match="not 99"):
            producer.send_values(topic, [b"a"], partition=99)
        with pytest.raises(ottla.KafkaError):
            producer.send_values(unique("no topic"), [b"a"])
    assert offsets == list(range(10_000))
    with reader(broker, topic) as consumer:
        found = drain(consumer, 10_001)
    assert [record.value for record in found if record.partition == 1 and record.value != b"last"] == values


def test_memory_that_is_full_makes_send_wait_and_loses_nothing(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, buffer_memory=20_000, batch_size=2_000) as producer:
        deliveries = [producer.send(topic, b"x" * 500, partition=0) for _ in range(400)]
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(400))


def test_a_send_that_cannot_be_fails_with_one_sentence(broker: Peer, topic: str, unique: Callable[[str], str]) -> None:
    with ottla.Producer(broker.address, max_request_size=1_000) as producer:
        with pytest.raises(ottla.BrokerError, match="max_request_size=1000") as raised:
            producer.send(topic, b"x" * 2_000)
        assert not raised.value.retriable
        with pytest.raises(ottla.SettingError, match="partitions 0 to 2, not 3"):
            producer.send(topic, b"x", partition=3)
        with pytest.raises(ottla.SettingError, match="is not a topic's name"):
            producer.send("no/such/topic", b"x")
    with pytest.raises(ottla.Closed):
        producer.send(topic, b"x")


def test_without_a_broker_there_is_a_clear_error_in_the_time_given() -> None:
    with pytest.raises(ottla.KafkaError, match=r"127\.0\.0\.1:1"), ottla.Producer("127.0.0.1:1", max_block_ms=300) as producer:
        producer.send("t", b"x")


@pytest.mark.since("0.10.1", "offsets by the times of records")
def test_seeking_pausing_and_positions(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=1_000 + number)
    with reader(broker) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        assert consumer.assignment() == {(topic, 0), (topic, 1)}
        assert consumer.end_offsets([(topic, 0), (topic, 2)]) == {(topic, 0): 10, (topic, 2): 0}
        assert consumer.beginning_offsets([(topic, 1)]) == {(topic, 1): 0}
        assert consumer.offsets_for_times({(topic, 0): 1_005})[ottla.TopicPartition(topic, 0)].offset == 3
        consumer.seek((topic, 0), 9)
        consumer.pause((topic, 1))
        assert [record.value for record in drain(consumer, 1)] == [b"18"]
        assert consumer.poll(300) == []
        consumer.resume((topic, 1))
        assert len(drain(consumer, 10)) == 10
        assert (consumer.position((topic, 0)), consumer.position((topic, 1))) == (10, 10)
        consumer.seek_to_beginning()
        assert len(drain(consumer, 20)) == 20
        consumer.seek_to_end((topic, 0))
        assert consumer.position((topic, 0)) == 10


def test_an_offset_that_is_gone_is_an_error_where_no_reset_is_wanted(broker: Peer, topic: str) -> None:
    with reader(broker, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        with pytest.raises(ottla.KafkaError, match="auto_offset_reset is none"):
            consumer.poll(5_000)
        consumer.seek((topic, 0), 1_000)
        with pytest.raises(ottla.OffsetOutOfRange):
            consumer.poll(5_000)


@pytest.mark.since("0.11.0", "requests for metadata that create no topic")
def test_a_topic_that_does_not_exist_is_an_error(broker: Peer, unique: Callable[[str], str]) -> None:
    with reader(broker) as consumer, pytest.raises(ottla.UnknownTopic):
        consumer.assign([(unique("missing"), 0)])


def test_a_pattern_takes_the_topics_that_match(broker: Peer, admin: ottla.Admin, unique: Callable[[str], str]) -> None:
    names = [unique("pattern-a"), unique("pattern-a"), unique("pattern-b")]
    for name in names:
        admin.create_topic(name, 1, 1)
        fill(broker, name, 3)
    with reader(broker) as consumer:
        consumer.subscribe(pattern="pattern-a-.*")
        assert {record.topic for record in drain(consumer, 6)} == set(names[:2]) == consumer.subscription()


@pytest.mark.since("0.11.0", "idempotence")
def test_a_restart_in_the_middle_loses_and_repeats_nothing(own_broker: Peer) -> None:
    with ottla.Admin(own_broker.address) as admin:
        admin.create_topic("t", 2, 1)
    with ottla.Producer(own_broker.address, batch_size=500) as producer, reader(own_broker, "t") as consumer:
        for number in range(200):
            producer.send("t", b"%d" % number)
        assert len(drain(consumer, 100)) == 100
        late = [producer.send("t", b"%d" % number) for number in range(200, 400)]
        own_broker.restart(kill=True)
        late += [producer.send("t", b"%d" % number) for number in range(400, 600)]
        producer.flush(30_000)
        assert all(delivery.result(0).offset >= 0 or delivery.result(0).offset == -1 for delivery in late)
        rest = eventually(lambda: consumer.poll(5_000, max_records=1), what="records after the restart")
        rest += drain(consumer, 499)
    with reader(own_broker, "t") as consumer:
        assert sorted(int(record.value or b"") for record in drain(consumer, 600)) == list(range(600))
        assert consumer.poll(500) == []
    assert len(rest) == 500


def test_a_producer_learns_of_new_partitions_once_its_metadata_is_old(broker: Peer, admin: ottla.Admin, topic: str) -> None:
    with ottla.Producer(broker.address, metadata_max_age_ms=100) as producer:
        assert len(producer.partitions_for(topic)) == 3
        admin.create_partitions({topic: 5})
        eventually(lambda: len(producer.partitions_for(topic)) == 5)


@pytest.mark.parametrize("serializer", [None, "str"])
def test_a_producer_writes_without_idempotence_to_old_brokers_unless_it_asks_for_it(
    serializer: Literal["str"] | None, caplog: pytest.LogCaptureFixture
) -> None:
    values: list[Any] = [b"1", b"2"] if serializer is None else ["1", "2"]
    with ottla.Broker(release="0.10.2", num_partitions=1) as broker:
        with ottla.Producer(broker.address, value_serializer=serializer) as producer:
            assert [producer.send("t", value).result(20).offset for value in values] == [0, 1]
        assert caplog.text.count("written without idempotence") == 1
        with ottla.Producer(broker.address, value_serializer=serializer, enable_idempotence=True) as producer:
            delivery = producer.send("t", values[0])
            with pytest.raises(ottla.NotSupported, match=r"idempotence needs Kafka 0\.11"):
                delivery.result(20)
