"""Interceptors of running clients: they see and replace records, and are told of outcomes and commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import ottla
from tests.support.peers import Peer
from tests.support.waiting import eventually


class Recorder:
    """An interceptor of producers and consumers that notes what it gets."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[ottla.ProducerRecord, ottla.RecordMetadata | None, ottla.KafkaError | None]] = []
        self.consumed: list[list[object]] = []
        self.committed: list[Mapping[ottla.TopicPartition, ottla.OffsetAndMetadata]] = []
        self.closed = 0

    def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
        return record._replace(value=record.value.upper(), headers=[("seen", b"1")])

    def on_acknowledgement(
        self, record: ottla.ProducerRecord, metadata: ottla.RecordMetadata | None, error: ottla.KafkaError | None
    ) -> None:
        self.outcomes.append((record, metadata, error))

    def on_consume(self, records: list[ottla.ConsumerRecord[Any, Any]]) -> list[ottla.ConsumerRecord[Any, Any]]:
        self.consumed.append([record.value for record in records])
        return [record for record in records if record.value != "SKIP"]

    def on_commit(self, offsets: Mapping[ottla.TopicPartition, ottla.OffsetAndMetadata]) -> None:
        self.committed.append(offsets)

    def close(self) -> None:
        self.closed += 1


def test_a_producer_sends_what_its_interceptors_return(broker: Peer, topic: str) -> None:
    recorder = Recorder()
    with ottla.Producer(broker.address, interceptors=[recorder], value_serializer="str") as producer:
        delivered: list[int] = []
        delivery = producer.send(topic, "v", partition=1, on_delivery=lambda done: delivered.append(done.partition))
        assert delivery.result(20).partition == 1
        producer.flush()
        assert delivered == [1]
        with pytest.raises(ottla.SerializationFailed):
            producer.send(topic, "\ud800")
        eventually(lambda: len(recorder.outcomes) == 2)
    assert recorder.closed == 1
    (record, metadata, error), (refused, nothing, failure) = recorder.outcomes
    assert (record.value, record.partition, metadata, error) == ("V", 1, delivery.result(), None)
    assert (refused.value, nothing) == ("\ud800", None)
    assert isinstance(failure, ottla.SerializationFailed)
    with ottla.Consumer(bootstrap_servers=broker.address) as consumer:
        consumer.assign([(topic, 1)])
        consumer.seek_to_beginning()
        (found,) = consumer.poll(10_000)
    assert (found.value, list(found.headers)) == (b"V", [("seen", b"1")])


def test_each_record_that_send_refuses_has_an_outcome_too(broker: Peer, topic: str) -> None:
    recorder = Recorder()

    def no_partition(*fields: object) -> int:
        raise LookupError("no partition")

    with ottla.Producer(broker.address, interceptors=[recorder], partitioner=no_partition) as producer:
        with pytest.raises(TypeError):
            producer.send(topic, "text")  # type: ignore[arg-type]  # the mistake
        with pytest.raises(LookupError):
            producer.send(topic, b"v")
    assert [type(error) for _, _, error in recorder.outcomes] == [ottla.KafkaError, ottla.KafkaError]
    assert [type(error.__cause__) for _, _, error in recorder.outcomes if error] == [TypeError, LookupError]


def test_an_interceptor_that_sees_an_error_does_not_keep_flush_from_raising_it(
    broker: Peer, admin: ottla.Admin, unique: Callable[[str], str]
) -> None:
    topic, recorder = unique("smaller"), Recorder()
    admin.create_topic(topic, 1, configs={"max.message.bytes": "1000"})
    with ottla.Producer(broker.address, interceptors=[recorder]) as producer:
        producer.send(topic, b"v" * 2_000)
        with pytest.raises(ottla.DeliveryFailed):
            producer.flush()
    assert [type(error) for _, _, error in recorder.outcomes] == [ottla.BrokerError]


@pytest.mark.parametrize("iterates", [False, True])
def test_a_consumer_hands_out_what_its_interceptors_return(
    broker: Peer, topic: str, unique: Callable[[str], str], iterates: bool
) -> None:
    with ottla.Producer(broker.address, linger_ms=50) as producer:
        for value in (b"A", b"SKIP", b"B"):
            producer.send(topic, value, partition=0)
    recorder = Recorder()
    with ottla.Consumer(
        topic,
        bootstrap_servers=broker.address,
        group_id=unique("group"),
        auto_offset_reset="earliest",
        interceptors=[recorder],
        value_deserializer="str",
        enable_auto_commit=False,
    ) as consumer:
        if iterates:
            found = [record.value for _, record in zip(range(2), consumer.records(timeout_ms=20_000), strict=False)]
        else:
            found = [record.value for record in consumer.poll(20_000)]
        assert found == ["A", "B"]
        consumer.commit()
        assert consumer.position((topic, 0)) == 3
    assert recorder.consumed == ([["A"], ["SKIP"], ["B"]] if iterates else [["A", "SKIP", "B"]])
    assert recorder.committed[-1][ottla.TopicPartition(topic, 0)].offset == 3
    assert recorder.closed == 1


def test_asynchronous_producers_have_interceptors_too(broker: Peer, topic: str) -> None:
    recorder = Recorder()

    async def send() -> ottla.RecordMetadata:
        async with ottla.AsyncProducer(broker.address, interceptors=[recorder]) as producer:
            return await (await producer.send(topic, b"v", key=b"k"))

    written = asyncio.run(send())
    assert [(record.key, metadata, error) for record, metadata, error in recorder.outcomes] == [(b"k", written, None)]
    assert recorder.closed == 1
