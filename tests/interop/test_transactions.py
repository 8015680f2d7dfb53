"""Transactions of other people's clients: what is committed is read once, what is aborted never, and the fenced stay out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.testing import BrokerProcess
from tests.support import java
from tests.support.clients.confluent import Confluent
from tests.support.peers import Peer

Unique = Callable[[str], str]
PATIENCE_S = 60


def producer_of(address: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(PATIENCE_S)
    return producer


def committed_values(address: str, topic: str, level: str = "read_committed") -> list[bytes]:
    """All values that a reader sees up to the end, each partition's in order."""
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"reader-{topic}",
            "isolation.level": level,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    partitions = list(reader.list_topics(topic, PATIENCE_S).topics[topic].partitions)
    reader.assign([TopicPartition(topic, index, 0) for index in partitions])
    values: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < len(partitions):
        message = reader.poll(PATIENCE_S)
        assert message is not None, "the broker answers"
        index, value = message.partition(), message.value()
        assert index is not None
        if message.error():
            ended.add(index)
        else:
            assert value is not None
            values.append(value)
    reader.close()
    return values


def produce(producer: Producer, topic: str, values: list[bytes], partitions: int = 1) -> None:
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)


def test_readers_of_what_is_committed_see_whole_transactions_in_all_partitions(broker: Peer, unique: Unique) -> None:
    topic = unique("whole")
    Confluent(broker.address).create_topic(topic, 3)
    producer = producer_of(broker.address, topic)
    commit, abort = producer.commit_transaction, producer.abort_transaction
    for name, end in ((b"a", commit), (b"b", abort), (b"c", commit)):
        producer.begin_transaction()
        produce(producer, topic, [name + b"%d" % number for number in range(9)], partitions=3)
        end(PATIENCE_S)
    assert sorted(committed_values(broker.address, topic)) == sorted(b"%c%d" % (c, n) for c in b"ac" for n in range(9))
    assert len(committed_values(broker.address, topic, "read_uncommitted")) >= 18


def test_the_next_transaction_begins_and_ends_at_once_after_any_other(broker: Peer, unique: Unique) -> None:
    """Markers of the last one may be on their way: whoever sends the next end meanwhile is told to wait, and is not fenced."""
    topic = unique("sequel")
    Confluent(broker.address).create_topic(topic, 3)
    producer = producer_of(broker.address, topic)
    ends = {True: producer.commit_transaction, False: producer.abort_transaction}
    wanted: list[bytes] = []
    for number in range(40):
        is_committed = bool(number & 1 if number < 20 else number & 2)  # each kind of end after each
        values = [b"%d-%d" % (number, each) for each in range(number % 4 + 1)]
        producer.begin_transaction()
        produce(producer, topic, values, partitions=3)
        ends[is_committed](PATIENCE_S)
        wanted += values if is_committed else []
    assert sorted(committed_values(broker.address, topic)) == sorted(wanted)


def test_a_copy_loop_that_aborts_now_and_then_copies_each_record_once(broker: Peer, unique: Unique) -> None:
    source, target = unique("source"), unique("target")
    client = Confluent(broker.address)
    client.create_topic(source, 2)
    client.create_topic(target, 2)
    plain = Producer({"bootstrap.servers": broker.address})
    wanted = [b"%d" % number for number in range(400)]
    produce(plain, source, wanted, partitions=2)
    plain.flush(PATIENCE_S)
    producer = producer_of(broker.address, target)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": target,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    copied = rounds = 0
    while copied < len(wanted):
        batch = consumer.consume(40, 1)
        if not batch:
            continue
        rounds += 1
        assert rounds < 200, "it comes to an end"
        producer.begin_transaction()
        ends: dict[int, int] = {}
        for message in batch:
            index, offset = message.partition(), message.offset()
            assert index is not None
            assert offset is not None
            ends[index] = offset + 1
            producer.produce(target, message.value(), partition=index)
        offsets = [TopicPartition(source, index, offset) for index, offset in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
        if rounds % 3:
            producer.commit_transaction(PATIENCE_S)
            copied += len(batch)
            continue
        producer.abort_transaction(PATIENCE_S)
        for place in consumer.committed(consumer.assignment(), PATIENCE_S):
            consumer.seek(TopicPartition(source, place.partition, max(place.offset, 0)))
    consumer.close()
    assert sorted(committed_values(broker.address, target)) == sorted(wanted)


def test_a_producer_is_fenced_by_the_next_one_with_its_id(broker: Peer, unique: Unique) -> None:
    topic = unique("fenced")
    Confluent(broker.address).create_topic(topic)
    first = producer_of(broker.address, topic)
    first.begin_transaction()
    produce(first, topic, [b"zombie"])
    first.flush(PATIENCE_S)
    second = producer_of(broker.address, topic)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()
    second.begin_transaction()
    produce(second, topic, [b"new"])
    second.commit_transaction(PATIENCE_S)
    assert committed_values(broker.address, topic) == [b"new"]


@pytest.mark.full(seconds=9)
def test_an_open_transaction_hides_what_comes_behind_it_until_it_times_out(broker: Peer, unique: Unique) -> None:
    topic = unique("timeout")
    Confluent(broker.address).create_topic(topic)
    stuck = Producer({"bootstrap.servers": broker.address, "transactional.id": topic, "transaction.timeout.ms": 1_500})
    stuck.init_transactions(PATIENCE_S)
    stuck.begin_transaction()
    produce(stuck, topic, [b"never"])
    stuck.flush(PATIENCE_S)
    plain = Producer({"bootstrap.servers": broker.address})
    produce(plain, topic, [b"behind"])
    plain.flush(PATIENCE_S)
    assert committed_values(broker.address, topic) == []
    for _ in range(PATIENCE_S):
        if committed_values(broker.address, topic) == [b"behind"]:
            return
    raise AssertionError("the transaction is still open")


def test_aiokafka_copies_with_offsets_in_the_transaction(broker: Peer, unique: Unique) -> None:
    source, target = unique("from"), unique("to")
    for topic in (source, target):
        Confluent(broker.address).create_topic(topic)
    plain = Producer({"bootstrap.servers": broker.address})
    produce(plain, source, [b"%d" % number for number in range(50)])
    plain.flush(PATIENCE_S)

    async def copy() -> None:
        consumer = AIOKafkaConsumer(
            source,
            bootstrap_servers=broker.address,
            group_id=target,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        producer = AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id=target)
        await consumer.start()
        await producer.start()
        copied = 0
        while copied < 50:
            for place, records in (await consumer.getmany(timeout_ms=1000, max_records=20)).items():
                async with producer.transaction():
                    for record in records:
                        await producer.send_and_wait(target, record.value)
                    await producer.send_offsets_to_transaction({place: records[-1].offset + 1}, target)
                copied += len(records)
        await producer.stop()
        await consumer.stop()

    asyncio.run(asyncio.wait_for(copy(), PATIENCE_S))
    assert committed_values(broker.address, target) == [b"%d" % number for number in range(50)]


@pytest.mark.java
def test_kafkas_own_producer_commits(broker: Peer, unique: Unique) -> None:
    topic = unique("java")
    Confluent(broker.address).create_topic(topic)
    load = ("--topic", topic, "--num-records", "500", "--record-size", "10", "--throughput", "-1", "--transactional-id", topic)
    java.run(java.PRODUCER_PERFORMANCE, *load, "--transaction-duration-ms", "20", "--bootstrap-server", broker.address)
    assert len(committed_values(broker.address, topic)) == 500


@pytest.mark.rows(1, seconds=8)
@pytest.mark.parametrize("kill", [False, True])
def test_a_broker_that_starts_again_ends_what_was_decided_and_keeps_open_what_was_not(tmp_path: Path, kill: bool) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        for topic in ("ended", "open"):
            Confluent(broker.address).create_topic(topic)
        ended, still_open = producer_of(broker.address, "ended"), producer_of(broker.address, "open")
        for round_number in range(20):
            ended.begin_transaction()
            produce(ended, "ended", [b"%d" % round_number])
            ended.commit_transaction(PATIENCE_S)
        still_open.begin_transaction()
        produce(still_open, "open", [b"before"])
        still_open.flush(PATIENCE_S)
        broker.restart(kill=kill)
        assert committed_values(broker.address, "ended") == [b"%d" % number for number in range(20)]
        assert committed_values(broker.address, "open") == []
        produce(still_open, "open", [b"after"])
        still_open.commit_transaction(PATIENCE_S)
        assert committed_values(broker.address, "open") == [b"before", b"after"]
