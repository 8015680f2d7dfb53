"""Today's requests as brokers of Kafka 0.7 get them, and their answers as today's."""

from __future__ import annotations

import pytest

from ottla.client.connection.metadata import Metadata
from ottla.client.consumer.fetch_requests import FetchLimits, FetchPosition, fetch_request, read_fetch
from ottla.client.consumer.list_offsets import list_offsets_request, read_list_offsets
from ottla.client.errors import ConnectionFailed, KafkaError, NotSupported, SettingError
from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings, parse
from ottla.client.types import Node, TopicPartition
from ottla.kafka07 import wire as kafka07
from ottla.kafka07.client import requests
from ottla.kafka07.client.connection import Connection07
from ottla.kafka07.client.metadata import describe, parse_brokers
from ottla.kafka07.client.partitions import BrokerPartition, Partitioner07, java_hash
from ottla.kafka07.records.messages import message_set, messages
from ottla.records.batches.columns import build, open_batches
from ottla.wire import errors as codes
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Message

T0, T1 = TopicPartition("t", 0), TopicPartition("t", BrokerPartition(2, 1).number)


def sent(connection: Connection07, body: Message, token: object, *, expect: bool = True) -> list[kafka07.Request]:
    """The requests that a request of today becomes."""
    found = []
    data = b"".join(bytes(part) for part in connection.send(body, token, expect=expect))  # type: ignore[arg-type]  # no file slices
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(kafka07.decode_request(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


def answered(connection: Connection07, *responses: kafka07.Response) -> list[tuple[object, Message]]:
    out = []
    for response in responses:
        frame = kafka07.encode_response(response)
        data = len(frame).to_bytes(4, "big") + frame
        while data:
            room = connection.buffer()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            out += [(answer.token, answer.body) for answer in connection.receive(count)]
            data = data[count:]
    return out


def produce(*parts: tuple[TopicPartition, bytes], acks: int = 1) -> ProduceRequest:
    topics = [
        ProduceRequest.TopicProduceData(
            name=where.topic, partition_data=[ProduceRequest.PartitionProduceData(index=where.partition, records=batch)]
        )
        for where, batch in parts
    ]
    return ProduceRequest(acks=acks, timeout_ms=1, topic_data=topics)


def test_a_fetch_of_several_partitions_is_one_request_and_one_batch_each() -> None:
    connection = Connection07()
    body = fetch_request({T0: FetchPosition(5, -1), T1: FetchPosition(0, -1)}, FetchLimits(max_partition_fetch_bytes=99))
    expected = kafka07.MultiFetchRequest07([kafka07.FetchRequest07("t", 0, 5, 99), kafka07.FetchRequest07("t", 1, 0, 99)])
    assert sent(connection, body, "token") == [expected]
    data = message_set([b"a", b"bc"])
    both = [kafka07.FetchResponse07(0, data + b"\0\0"), kafka07.FetchResponse07(1, b"")]
    ((token, answer),) = answered(connection, kafka07.MultiFetchResponse07(0, both))
    first, second = read_fetch(answer, 0)  # type: ignore[arg-type]  # the answer to a fetch
    assert token == "token"
    assert (first.where, first.error_code, second.where) == (T0, 0, T1)
    assert [(record.offset, record.value) for record in open_batches(first.records).records()] == [(5, b"a"), (16, b"bc")]
    assert second.error_code == codes.OFFSET_OUT_OF_RANGE


def test_a_message_that_does_not_fit_is_told_as_one() -> None:
    connection = Connection07()
    sent(connection, fetch_request({T0: FetchPosition(0, -1)}, FetchLimits()), 1)
    torn = kafka07.FetchResponse07(0, message_set([b"long" * 10])[:20])
    ((_, answer),) = answered(connection, kafka07.MultiFetchResponse07(0, [torn]))
    (found,) = read_fetch(answer, 0)  # type: ignore[arg-type]  # the answer to a fetch
    assert found.cut_short


def test_messages_are_confirmed_by_the_answer_to_a_question_behind_them() -> None:
    connection = Connection07()
    body = produce((T0, bytes(build(None, [b"a", b""], 0))), (T1, bytes(build([b"key"], [b"c"], 0))))
    multi, question = sent(connection, body, "token")
    assert isinstance(multi, kafka07.MultiProduceRequest07)
    assert [(each.partition, [m.payload for m in messages(each.messages)]) for each in multi.produces] == [
        (0, [b"a", b""]),
        (1, [b"c"]),
    ]
    assert question == kafka07.OffsetsRequest07("t", 1, -1, 1)
    assert len(connection.unanswered) == 1
    ((token, answer),) = answered(connection, kafka07.OffsetsResponse07(0, [12]))
    assert (token, [part.base_offset for topic in answer.responses for part in topic.partition_responses]) == ("token", [-1, -1])  # type: ignore[attr-defined]  # of a produce
    assert not connection.unanswered


def test_without_acks_nothing_is_asked() -> None:
    connection = Connection07()
    body = produce((T0, bytes(build(None, [b"a"], 0))), acks=0)
    assert sent(connection, body, None, expect=False) == [kafka07.ProduceRequest07("t", 0, message_set([b"a"]))]
    assert not connection.unanswered


@pytest.mark.parametrize("codec", [1, 2])
def test_messages_are_compressed_together(codec: int) -> None:
    connection = Connection07(codec)
    request, _ = sent(connection, produce((T0, bytes(build(None, [b"a" * 50] * 20, 0)))), 1)
    assert isinstance(request, kafka07.ProduceRequest07)
    assert len(request.messages) < 500
    assert [message.payload for message in messages(request.messages)] == [b"a" * 50] * 20


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [(build(None, [b"v"], 0, [[("h", b"x")]]), "have no headers"), (build(None, [None], 0), "cannot be null")],
)
def test_what_messages_cannot_hold_is_said(batch: bytearray, sentence: str) -> None:
    with pytest.raises(NotSupported, match=sentence):
        Connection07().send(produce((T0, bytes(batch))), 1)


def test_places_are_asked_one_by_one_and_answered_together() -> None:
    connection = Connection07()
    body = list_offsets_request({T0: -1, T1: 1_000}, read_committed=False, timeout_ms=1)
    found = sent(connection, body, "token")
    assert found == [kafka07.OffsetsRequest07("t", 0, -1, 1), kafka07.OffsetsRequest07("t", 1, 1_000, 1)]
    assert not answered(connection, kafka07.OffsetsResponse07(0, [70]))
    ((_, answer),) = answered(connection, kafka07.OffsetsResponse07(0, []))
    assert [(where, offset.offset) for where, _, offset in read_list_offsets(answer)] == [(T0, 70), (T1, -1)]  # type: ignore[arg-type]  # of these


def test_what_0_7_has_not_is_refused_and_answers_out_of_turn_end_the_connection() -> None:
    with pytest.raises(NotSupported):
        Connection07().send(MetadataRequest(topics=[]), 1)
    with pytest.raises(ConnectionFailed, match="without a request"):
        answered(Connection07(), kafka07.OffsetsResponse07(0, []))


def test_what_was_produced_and_not_confirmed_is_not_sent_again_by_itself() -> None:
    connection = Connection07()
    sent(connection, produce((T0, bytes(build(None, [b"a"], 0)))), 1)
    sent(connection, list_offsets_request({T0: -1}, read_committed=False, timeout_ms=1), 2)
    broken = ConnectionFailed("It broke.")
    of_produce, of_offsets = (connection.failure(each, broken) for each in connection.unanswered)
    assert isinstance(of_produce, ConnectionFailed)
    assert not of_produce.retriable
    assert str(of_produce).endswith("The cause: It broke.")
    assert of_offsets is broken


def test_the_partitions_of_a_broker_are_those_that_it_does_not_refuse() -> None:
    there, wrong, unknown = (
        kafka07.FetchResponse07(code, b"") for code in (kafka07.NONE, kafka07.WRONG_PARTITION, kafka07.UNKNOWN)
    )
    below = kafka07.FetchResponse07(kafka07.OFFSET_OUT_OF_RANGE, b"")
    answer = kafka07.MultiFetchResponse07(0, [there, below, wrong, there, there, there, unknown, unknown, unknown])
    found = list(requests.probe_results(["a", "b", "c"], 3, answer))
    assert found == [("a", 2, 0), ("b", 3, 0), ("c", 0, codes.UNKNOWN_SERVER_ERROR)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a:1,b:2", [Node(0, "a", 1), Node(1, "b", 2)]),
        ("7:a:1, 3:b:2", [Node(7, "a", 1), Node(3, "b", 2)]),
        ("a", [Node(0, "a", 9092)]),
        ("[::1]:5", [Node(0, "::1", 5)]),
    ],
)
def test_brokers_have_the_ids_that_they_are_given(given: str, expected: list[Node]) -> None:
    assert parse_brokers(given) == expected


def test_two_brokers_of_one_id_are_refused() -> None:
    with pytest.raises(SettingError, match="one id to several"):
        parse_brokers("1:a:1,b:2")


def test_numbers_name_brokers_and_their_partitions() -> None:
    assert [BrokerPartition(0, 3).number, BrokerPartition(1, 2).number] == [3, 65_538]
    for pair in (BrokerPartition(0, 0), BrokerPartition(9, 65_535), BrokerPartition(-5, 1), BrokerPartition(1 << 31, 0)):
        assert BrokerPartition.of(pair.number) == pair
    with pytest.raises(KafkaError):
        _ = BrokerPartition(0, 65_536).number


def test_keys_choose_partitions_as_in_java() -> None:
    assert [java_hash(key.encode()) for key in ("", "a", "hello", "Aa", "BB", "ü", "😀", "polygenelubricants")] == [
        0, 97, 99162322, 2112, 2112, 252, 1772899, -(1 << 31),
    ]  # fmt: skip
    metadata = Metadata()
    metadata.update(describe([Node(0, "a", 1), Node(1, "b", 1)], {"t": {1: 2, 0: 1}}, {}))
    chosen = Partitioner07(lambda count: count - 1, metadata)
    assert chosen.partition("t", b"a", 3) == BrokerPartition(1, 0).number  # 97 % 3 == 1
    without_a_key = chosen.partition("t", None, 3)
    assert without_a_key == chosen.partition("t", None, 3) == BrokerPartition(1, 1).number
    chosen.leave("t", without_a_key)
    assert chosen.partition("t", None, 3) != without_a_key


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (ProducerSettings, {"compression_type": "lz4"}, "no compression_type=lz4"),
        (ProducerSettings, {"enable_idempotence": True}, "enable_idempotence needs"),
        (ProducerSettings, {"transactional_id": "t"}, "no transactional_id=t"),
        (ConsumerSettings, {"isolation_level": "read_committed"}, "no isolation_level=read_committed"),
        (ConsumerSettings, {"security_protocol": "SSL"}, "no security_protocol=SSL"),
        (AdminSettings, {}, "no admin requests"),
    ],
)
def test_settings_that_0_7_has_not_are_refused(kind: type[ProducerSettings], given: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        parse(kind, {"api_version": "0.7.2", **given})


def test_no_message_is_sent_that_brokers_of_0_7_drop_without_a_word() -> None:
    assert parse(ProducerSettings, {"api_version": "0.7"}).max_request_size == 1_000_000
    assert parse(ProducerSettings, {"api_version": "0.7", "max_request_size": 2_000_000}).max_request_size == 2_000_000
    assert parse(ProducerSettings, {}).max_request_size == 1_048_576
