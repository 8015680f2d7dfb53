"""Serializers and deserializers of clients against a broker: both faces, threads, and records that cannot be read."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from contextlib import nullcontext
from typing import Any, Literal, TypeVar

import pytest

import ottla
from tests.support.peers import Peer

EARLIEST: Literal["earliest"] = "earliest"


def test_values_return_as_they_were_sent(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, key_serializer="int64", value_serializer="json") as producer:
        for number in range(3):
            producer.send(topic, {"gate": number}, key=number, headers=[("source", b"tower")])
        producer.send(topic, key=7)
    with ottla.Consumer(
        topic, bootstrap_servers=broker.address, key_deserializer="int64", value_deserializer="json", auto_offset_reset=EARLIEST
    ) as consumer:
        found = sorted((record.key, record.value) for record in take(consumer, 4) if record.key is not None and record.key < 7)
        assert found == [(number, {"gate": number}) for number in range(3)]
        consumer.seek_to_beginning()
        polled: list[ottla.ConsumerRecord[int, Any]] = []
        while len(polled) < 4:
            polled += consumer.poll(1_000)
        assert {record.key: record.value for record in polled}[7] is None
        consumer.seek_to_beginning()
        raw = next(found for found in consumer.columns() if any(columns.record_count for columns in found.columns))
        assert all(isinstance(record.key, bytes) for columns in raw.columns for record in columns.records())


Key = TypeVar("Key")
Value = TypeVar("Value")


def take(consumer: ottla.Consumer[Key, Value], count: int) -> list[ottla.ConsumerRecord[Key, Value]]:
    return [record for _, record in zip(range(count), consumer, strict=False)]


def test_the_asynchronous_faces_use_serializers(broker: Peer, topic: str) -> None:
    async def main() -> list[object]:
        async with ottla.AsyncProducer(broker.address, value_serializer=str.encode) as producer:
            await producer.send(topic, "Zürich", partition=0)
            with pytest.raises(ottla.SerializationFailed, match=f"topic {topic} .*a value of type int"):
                await producer.send(topic, 5, partition=0)  # type: ignore[arg-type]  # the mistake
        async with ottla.AsyncConsumer(
            topic, bootstrap_servers=broker.address, value_deserializer=bytes.decode, auto_offset_reset=EARLIEST
        ) as consumer:
            return [record.value for record in await consumer.poll(10_000)]

    assert asyncio.run(main()) == ["Zürich"]


def test_a_serializer_that_raises_touches_no_other_record(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, value_serializer="int32", linger_ms=1_000) as producer:
        for value, is_sent in ((1, True), ("two", False), (3, True), (1 << 40, False), (5, True)):
            with nullcontext() if is_sent else pytest.raises(ottla.SerializationFailed, match=topic):
                producer.send(topic, value, partition=0)  # type: ignore[arg-type]  # some are mistakes
    with ottla.Consumer(
        topic, bootstrap_servers=broker.address, value_deserializer="int32", auto_offset_reset=EARLIEST
    ) as consumer:
        assert [record.value for record in take(consumer, 3)] == [1, 3, 5]


def test_two_threads_send_with_one_serializer(broker: Peer, topic: str) -> None:
    on_threads: set[int] = set()

    def serialize(value: object) -> bytes:
        on_threads.add(threading.get_ident())
        return json.dumps(value).encode()

    def send(start: int) -> None:
        for number in range(start, start + 500):
            producer.send(topic, number)

    with ottla.Producer(broker.address, value_serializer=serialize) as producer:
        threads = [threading.Thread(target=send, args=(start,)) for start in (0, 500)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(on_threads) == 2
    with ottla.Consumer(
        topic, bootstrap_servers=broker.address, value_deserializer=json.loads, auto_offset_reset=EARLIEST
    ) as consumer:
        assert sorted(record.value for record in take(consumer, 1_000) if record.value is not None) == list(range(1_000))


BAD = 2
VALUES = [b"0", b"1", b"bad", b"3", b"4"]


def fill(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address) as producer:
        for value in VALUES:
            producer.send(topic, value, key=b"k", headers=[("h", b"1")], partition=0)


def reader(broker: Peer, topic: str, **settings: Any) -> ottla.Consumer[Any, Any]:
    given: dict[str, Any] = {"auto_offset_reset": EARLIEST, "group_id": topic, "value_deserializer": int, **settings}
    return ottla.Consumer(topic, bootstrap_servers=broker.address, **given)


def committed(broker: Peer, topic: str) -> int:
    with ottla.Admin(broker.address) as admin:
        return admin.list_group_offsets(topic)[ottla.TopicPartition(topic, 0)].offset


@pytest.mark.parametrize("polls", [True, False])
def test_a_record_that_cannot_be_read_is_raised_until_a_seek_past_it(broker: Peer, topic: str, *, polls: bool) -> None:
    fill(broker, topic)
    read: list[int | None] = []

    def read_on(consumer: ottla.Consumer[Any, Any]) -> None:
        if polls:
            while len(read) < len(VALUES) - 1:
                read.extend(record.value for record in consumer.poll(1_000))
        else:
            read.extend(record.value for record in consumer)

    with (
        pytest.raises(ottla.DeserializationFailed, match=f"The value at offset {BAD} of {topic}-0"),
        reader(broker, topic) as consumer,
    ):
        read_on(consumer)
    assert committed(broker, topic) == BAD
    with reader(broker, topic) as consumer:
        for _ in range(2):
            with pytest.raises(ottla.DeserializationFailed) as caught:
                read_on(consumer)
        assert caught.value.data == b"bad"
        assert consumer.position((topic, 0)) == BAD
        consumer.seek((topic, 0), caught.value.offset + 1)
        read.extend(record.value for record in take(consumer, 2))
    assert read == [0, 1, 3, 4]
    assert committed(broker, topic) == len(VALUES)


def test_a_close_does_not_wait_for_a_slow_deserializer_and_commits_none_of_its_records(broker: Peer, topic: str) -> None:
    fill(broker, topic)
    begun, may_end = threading.Event(), threading.Event()
    threads: list[int] = []

    def read_slowly(data: bytes) -> bytes:
        threads.append(threading.get_ident())
        if len(threads) == 2:
            begun.set()
            assert may_end.wait(30)
        return data

    consumer = reader(broker, topic, value_deserializer=read_slowly)

    def close() -> None:
        assert begun.wait(30)
        consumer.close()
        may_end.set()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(ottla.Closed):
        read_all(consumer, len(VALUES), polls=True)
    closer.join()
    assert set(threads) == {threading.get_ident()}
    with reader(broker, topic, value_deserializer="bytes") as other:
        assert len(take(other, len(VALUES))) == len(VALUES)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_a_deserializer_loses_no_record(broker: Peer, topic: str, error: type[BaseException]) -> None:
    fill(broker, topic)
    calls: list[bytes] = []

    def read(data: bytes) -> bytes:
        calls.append(data)
        if len(calls) == 3:
            raise error
        return data

    with reader(broker, topic, value_deserializer=read) as consumer:
        with pytest.raises(error):
            read_all(consumer, len(VALUES), polls=True)
        assert read_all(consumer, len(VALUES), polls=True) == VALUES


def read_all(consumer: ottla.Consumer, count: int, *, polls: bool) -> list[object]:
    if not polls:
        return [record.value for record in take(consumer, count)]
    read: list[object] = []
    while len(read) < count:
        read += [record.value for record in consumer.poll(1_000)]
    return read


@pytest.mark.parametrize("polls", [True, False])
def test_records_that_cannot_be_read_are_skipped_and_counted(
    broker: Peer, topic: str, caplog: pytest.LogCaptureFixture, *, polls: bool
) -> None:
    fill(broker, topic)
    fill(broker, topic)
    with caplog.at_level(logging.WARNING, "ottla.client"), reader(broker, topic, on_bad_record="skip") as consumer:
        assert read_all(consumer, 8, polls=polls) == [0, 1, 3, 4] * 2
    assert committed(broker, topic) == 2 * len(VALUES)
    logged = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert len(logged) == 2, "at once, and at the end"
    assert f"were skipped: 1 record of topic {topic}; the last is offset {BAD} of {topic}-0: invalid literal" in logged[0]


@pytest.mark.parametrize("polls", [True, False])
def test_records_that_cannot_be_read_are_copied_to_the_dead_letter_topic(
    broker: Peer, topic: str, admin: ottla.Admin, *, polls: bool
) -> None:
    dead = f"{topic}-dead"
    admin.create_topic(dead, 1, 1)
    fill(broker, topic)
    with reader(broker, topic, on_bad_record=dead) as consumer:
        assert read_all(consumer, 4, polls=polls) == [0, 1, 3, 4]
    assert committed(broker, topic) == len(VALUES)
    with ottla.Consumer(dead, bootstrap_servers=broker.address, auto_offset_reset=EARLIEST) as consumer:
        (letter,) = consumer.records(timeout_ms=1_000)
    assert (letter.key, letter.value) == (b"k", b"bad")
    headers = dict(letter.headers)
    assert headers.pop("h") == b"1"
    assert headers == {
        "__ottla.errors.topic": topic.encode(),
        "__ottla.errors.partition": b"0",
        "__ottla.errors.offset": b"%d" % BAD,
        "__ottla.errors.field": b"value",
        "__ottla.errors.exception": b"ValueError",
        "__ottla.errors.message": headers["__ottla.errors.message"],
    }
    assert b"invalid literal" in (headers["__ottla.errors.message"] or b"")


@pytest.mark.since("4.0", "settings of topics that hold as soon as they are changed")
def test_the_position_stays_until_the_dead_letter_is_written(broker: Peer, topic: str, admin: ottla.Admin) -> None:
    dead = f"{topic}-dead"
    admin.create_topic(dead, 1, 1, configs={"max.message.bytes": "100"})
    fill(broker, topic)
    with pytest.raises(ottla.BrokerError, match="MESSAGE_TOO_LARGE"), reader(broker, topic, on_bad_record=dead) as consumer:
        read_all(consumer, 4, polls=False)
    assert committed(broker, topic) == BAD
    admin.alter_configs(ottla.ConfigResource.topic(dead), set={"max.message.bytes": "1000"})
    with reader(broker, topic, on_bad_record=dead) as consumer:
        assert read_all(consumer, 2, polls=True) == [3, 4]
    assert committed(broker, topic) == len(VALUES)


def test_a_bad_record_of_the_dead_letter_topic_is_raised(broker: Peer, topic: str) -> None:
    fill(broker, topic)
    sentence = f"seek.. to offset {BAD + 1} to read on; on_bad_record copies no record of the dead-letter topic itself"
    with pytest.raises(ottla.DeserializationFailed, match=sentence), reader(broker, topic, on_bad_record=topic) as consumer:
        read_all(consumer, 4, polls=False)


def test_the_asynchronous_consumer_skips_and_copies(broker: Peer, topic: str, admin: ottla.Admin) -> None:
    admin.create_topic(f"{topic}-dead", 1, 1)
    fill(broker, topic)

    async def values(mode: str) -> list[int]:
        found: list[int] = []
        async with ottla.AsyncConsumer(
            topic, bootstrap_servers=broker.address, auto_offset_reset=EARLIEST, value_deserializer=int, on_bad_record=mode
        ) as consumer:
            async for record in consumer:
                found.append(record.value or 0)
                if len(found) == 4:
                    break
        return found

    for mode in ("skip", f"{topic}-dead"):
        assert asyncio.run(values(mode)) == [0, 1, 3, 4]
