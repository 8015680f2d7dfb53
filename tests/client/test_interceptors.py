"""Interceptors of running clients: they see and replace records, and are told of outcomes and commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import ottla
from ottla.records.batches.lines import split_lines
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


def lines_of(topic: str, producer: Any) -> Any:
    return producer.send_rows(topic, split_lines(b"skip\na\nb\n", 1, b"\n").rows, 1, partition=1)


def values_of(topic: str, producer: Any) -> Any:
    return producer.send_values(topic, [b"a", b"b"], partition=1)


def table_of(topic: str, producer: Any) -> Any:
    arrow = pytest.importorskip("pyarrow")
    return producer.send_table(topic, arrow.table({"value": ["a", "b"]}), partition=1)


SENDERS: list[tuple[Callable[[str, Any], Any], Any]] = [
    (lines_of, lambda sent: [number for _, numbers in sent for number in numbers] == [1, 2]),
    (values_of, lambda sent: sum(count for _, count in sent) == 2),
    (table_of, lambda sent: sent == 2),
]


@pytest.mark.parametrize(("send", "is_right"), SENDERS)
@pytest.mark.parametrize("is_async", [False, True])
def test_records_that_are_sent_many_at_a_time_pass_interceptors_too(
    broker: Peer, topic: str, send: Callable[[str, Any], Any], is_right: Callable[[Any], bool], is_async: bool
) -> None:
    recorder = Recorder()

    async def send_async() -> object:
        async with ottla.AsyncProducer(broker.address, interceptors=[recorder], value_serializer="json") as producer:
            return await send(topic, producer)

    if is_async:
        assert is_right(asyncio.run(send_async()))
    else:
        with ottla.Producer(broker.address, interceptors=[recorder], value_serializer="json") as producer:
            assert is_right(send(topic, producer))
    found = read(broker, topic, 2)
    assert [(each.value, each.headers, each.partition) for each in found] == [(b, (("seen", b"1"),), 1) for b in (b"A", b"B")]
    assert [(record.value, metadata and metadata.offset, error) for record, metadata, error in recorder.outcomes] == [
        (b"A", 0, None),
        (b"B", 1, None),
    ]


def read(broker: Peer, topic: str, count: int) -> list[ottla.ConsumerRecord[bytes, bytes]]:
    with ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        return [record for _, record in zip(range(count), consumer.records(timeout_ms=20_000), strict=False)]


KEPT = [b"1", b"2", b"3", b"6", b"7", b"8"]


class Sieve:
    """An interceptor that leaves out records, and replaces one of them if it may."""

    def __init__(self, *, replaces: bool = False) -> None:
        self.replaces = replaces
        self.consumed: list[bytes | None] = []

    def on_consume(self, records: list[ottla.ConsumerRecord[Any, Any]]) -> list[ottla.ConsumerRecord[Any, Any]]:
        self.consumed += [record.value for record in records]
        if self.replaces:
            return [ottla.ConsumerRecord(*record) if record.value == b"5" else record for record in records]
        return [record for record in records if record.value not in (b"0", b"4", b"5", b"9")]


def fill_ten(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send_values(topic, [b"%d" % number for number in range(10)], partition=0)


def sieving(broker: Peer, topic: str, sieve: Sieve) -> ottla.Consumer[bytes, bytes]:
    return ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", interceptors=[sieve])


@pytest.mark.parametrize("form", ["batches", "typed", "columns"])
def test_records_that_are_read_many_at_a_time_pass_interceptors_which_can_leave_some_out(
    broker: Peer, topic: str, form: str
) -> None:
    arrow = pytest.importorskip("pyarrow")
    fill_ten(broker, topic)
    sieve = Sieve()
    with sieving(broker, topic, sieve) as consumer:
        ends = consumer.end_offsets([(topic, 0)])
        if form == "typed":
            schema = arrow.schema([("n", arrow.int64())])
            for _ in range(2):  # "1", the first record that is kept, is no object of JSON
                with pytest.raises(ottla.DeserializationFailed, match="offset 1"):
                    next(consumer.batches(20_000, until=ends, value_format="json", value_schema=schema))
        elif form == "batches":
            assert [value for batch in consumer.batches(until=ends) for value in batch["value"].to_pylist()] == KEPT
        else:
            columns = [columns for part in consumer.columns(until=ends) for columns in part.columns]
            assert [record.value for each in columns for record in each.records()] == KEPT
        assert consumer.position((topic, 0)) == (0 if form == "typed" else 10)
    assert sieve.consumed == [b"%d" % number for number in range(10)], "each once"


def test_interceptors_that_replace_records_of_columns_are_refused(broker: Peer, topic: str) -> None:
    fill_ten(broker, topic)
    with (
        sieving(broker, topic, Sieve(replaces=True)) as consumer,
        pytest.raises(ottla.KafkaError, match=r"replaced records of batches\(\) or columns\(\)"),
    ):
        next(consumer.columns(timeout_ms=10_000))


class Scatter:
    """An interceptor that sends each record where its value says."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[object, str]] = []

    def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
        topic, _, value = record.value.decode().partition("/")
        return record._replace(topic=topic, value=5 if value == "five" else value.encode() or None, key=b"k", timestamp_ms=7)

    def on_acknowledgement(
        self, record: ottla.ProducerRecord, metadata: ottla.RecordMetadata | None, error: ottla.KafkaError | None
    ) -> None:
        self.outcomes.append((record.value, "written" if error is None else type(error).__name__))


def test_interceptors_can_send_rows_to_other_topics_and_each_row_has_an_outcome(
    broker: Peer, admin: ottla.Admin, unique: Callable[[str], str]
) -> None:
    one, other = (unique("scatter") for _ in range(2))
    admin.create_topics([ottla.NewTopic(name, 1, 1) for name in (one, other)])
    scatter = Scatter()
    with ottla.Producer(broker.address, interceptors=[scatter], max_request_size=1_000) as producer:
        rows = [f"{topic}/{value}".encode() for topic, value in ((one, "a"), (one, ""), (other, "b"), (one, "c"))]
        assert sum(count for _, count in producer.send_values(one, rows)) == 4
        producer.flush()
        assert sorted(scatter.outcomes, key=str) == [(None, "written"), *((value, "written") for value in (b"a", b"b", b"c"))]
        scatter.outcomes.clear()
        with pytest.raises(TypeError, match="value is bytes or None, not int"):
            producer.send_values(one, [f"{one}/d".encode(), f"{one}/five".encode()])
        assert scatter.outcomes == [(b"d", "KafkaError"), (5, "KafkaError")], "nothing of the call was queued"
        scatter.outcomes.clear()
        large = b"x" * 2_000
        sent = producer.send_values(one, [f"{one}/e".encode(), f"{one}/".encode() + large, f"{other}/f".encode()])
        assert sum(count for _, count in sent) == 1
        producer.flush()
    assert sorted(scatter.outcomes, key=str) == [(b"e", "written"), (b"f", "KafkaError"), (large, "KafkaError")]
    found = read(broker, one, 4)
    assert [(each.value, each.key, each.timestamp) for each in found] == [(value, b"k", 7) for value in (b"a", None, b"c", b"e")]
    assert [each.value for each in read(broker, other, 1)] == [b"b"]


def test_a_misspelt_argument_is_named_with_interceptors_too(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, interceptors=[Recorder()]) as producer:
        send: Any = producer.send
        with pytest.raises(TypeError, match=r"^Producer\.send\(\) got an unexpected keyword argument 'keys'"):
            send(topic, b"v", keys=b"k")


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
