"""The sender against a broker of a few lines that checks sequences as Kafka does, over a link that loses and delays answers."""

from __future__ import annotations

import struct
from collections import deque
from typing import Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.connection.metadata import Metadata
from ottla.client.errors import ConnectionFailed, KafkaError, TimedOut
from ottla.client.keywords import ProducerKeywords
from ottla.client.producer.partition_queue import Identity, Outgoing
from ottla.client.producer.sender import Send, Sender
from ottla.client.settings.clients import ProducerSettings, parse
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import build, open_batches
from ottla.records.batches.header import check, read_header
from ottla.wire import errors as codes
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.api.produce import ProduceRequest, ProduceResponse

TOPIC = "t"
PARTITIONS = 3


def metadata(leader: int = 1) -> Metadata:
    made = Metadata()
    partition = MetadataResponse.MetadataResponsePartition
    topic = MetadataResponse.MetadataResponseTopic(
        name=TOPIC, partitions=[partition(partition_index=index, leader_id=leader) for index in range(PARTITIONS)]
    )
    node = MetadataResponse.MetadataResponseBroker
    made.update(MetadataResponse(brokers=[node(node_id=1, host="h", port=1), node(node_id=2, host="h", port=2)], topics=[topic]))
    return made


def outgoing(number: int, partition: int = 0, deadline_ms: int = 1_000_000) -> Outgoing:
    data = bytearray(build(None, [struct.pack(">i", number)], 0))
    return Outgoing(TopicPartition(TOPIC, partition), data, 1, deadline_ms)


class Broker:
    """Keeps what it is sent, by partition, if the sequence is the one expected; answers repetitions as duplicates.

    As Kafka does, it takes any sequence from a producer that it does not know yet, and knows the last five batches of the others.
    """

    def __init__(self) -> None:
        self.logs: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self._expected: dict[tuple[int, int], int] = {}
        self._last: dict[tuple[int, int], deque[int]] = {}

    def produce(self, request: ProduceRequest, refuse: int = codes.NONE, *, written: bool = False) -> ProduceResponse:
        answers = []
        for topic in request.topic_data:
            for part in topic.partition_data:
                code = self._append(part.index, memoryview(bytes(part.records or b""))) if written or not refuse else refuse
                code = code or refuse
                answers.append(ProduceResponse.PartitionProduceResponse(index=part.index, error_code=code, base_offset=0))
        return ProduceResponse(responses=[ProduceResponse.TopicProduceResponse(name=TOPIC, partition_responses=answers)])

    def _append(self, partition: int, batch: memoryview) -> int:
        code, header = check(batch)
        assert header is not None, code
        key = (header.producer_id, partition)
        expected = self._expected.get(key, header.base_sequence)
        last = self._last.setdefault(key, deque(maxlen=5))
        if header.base_sequence in last:
            return codes.NONE
        if header.base_sequence != expected:
            return codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        last.append(header.base_sequence)
        self._expected[key] = expected + header.record_count
        self.logs[partition] += [struct.unpack(">i", record.value or b"")[0] for record in open_batches(batch).records()]
        return codes.NONE


def sender(**settings: Unpack[ProducerKeywords]) -> Sender:
    made = Sender(metadata(), parse(ProducerSettings, settings))
    made.set_identity(Identity(7, 0))
    return made


OK, LOST_ANSWER, LOST_REQUEST, NOT_LEADER, FULL_REPLICAS, AFTER_APPEND = range(6)
fates = st.lists(st.sampled_from([OK, OK, OK, LOST_ANSWER, LOST_REQUEST, NOT_LEADER, FULL_REPLICAS, AFTER_APPEND]), max_size=60)


def play(made: Sender, broker: Broker, send: Send, fate: int, now_ms: int) -> None:
    if fate == LOST_REQUEST:
        made.broken(send, ConnectionFailed("lost"), now_ms)
    elif fate == LOST_ANSWER:
        broker.produce(send.request)
        made.broken(send, ConnectionFailed("lost"), now_ms)
    elif fate == NOT_LEADER:
        made.on_answer(send, broker.produce(send.request, codes.NOT_LEADER_OR_FOLLOWER), now_ms)
    elif fate == FULL_REPLICAS:
        made.on_answer(send, broker.produce(send.request, codes.NOT_ENOUGH_REPLICAS), now_ms)
    elif fate == AFTER_APPEND:
        made.on_answer(send, broker.produce(send.request, codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND, written=True), now_ms)
    else:
        made.on_answer(send, broker.produce(send.request), now_ms)


@given(st.lists(st.integers(0, PARTITIONS - 1), max_size=40), fates, st.integers(1, 5))
def test_whatever_the_link_does_each_batch_is_written_once_and_in_order(
    partitions: list[int], fate: list[int], window: int
) -> None:
    made, broker = sender(max_in_flight_requests_per_connection=window), Broker()
    batches = [outgoing(number, partition) for number, partition in enumerate(partitions)]
    for batch in batches:
        made.add(batch)
    now_ms, luck = 0, iter(fate)
    under_way: list[Send] = []
    while not made.idle:
        under_way += made.requests(now_ms)
        if under_way:
            play(made, broker, under_way.pop(0), next(luck, OK), now_ms)
        now_ms += 50
        if made.wants_metadata:
            made.metadata = metadata()
            made.wants_metadata.clear()
    assert all(batch.done and batch.error is None for batch in batches)
    for partition, log in broker.logs.items():
        assert log == [number for number, where in enumerate(partitions) if where == partition]


def test_no_more_requests_are_under_way_than_allowed_and_one_batch_of_a_partition_in_each() -> None:
    made, broker = sender(max_in_flight_requests_per_connection=2), Broker()
    for number in range(6):
        made.add(outgoing(number))
    [first] = made.requests(0)
    assert made.requests(0) == [], "the first batch of a producer goes alone: until it is written, any sequence would be taken"
    made.on_answer(first, broker.produce(first.request), 0)
    sends = made.requests(0)
    assert [len(send.batches) for send in sends] == [1, 1]
    made.on_answer(sends[0], broker.produce(sends[0].request), 0)
    assert len(made.requests(0)) == 1


def test_a_batch_that_is_repeated_stays_among_the_five_that_a_broker_remembers() -> None:
    made, broker = sender(), Broker()
    batches = [outgoing(number) for number in range(12)]
    for batch in batches:
        made.add(batch)
    [first] = made.requests(0)
    made.on_answer(first, broker.produce(first.request), 0)
    now_ms = 0
    for _ in range(3):  # the oldest is written, and refused each time; those behind it are written
        oldest, *others = made.requests(now_ms)
        made.on_answer(oldest, broker.produce(oldest.request, codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND, written=True), now_ms)
        for send in others:
            made.on_answer(send, broker.produce(send.request), now_ms)
        now_ms += 1_000
    while not made.idle:
        for send in made.requests(now_ms):
            made.on_answer(send, broker.produce(send.request), now_ms)
    assert [batch.error for batch in batches] == [None] * 12
    assert broker.logs[0] == list(range(12))


def test_an_owed_answer_of_a_former_leader_bounds_what_is_written_by_the_next() -> None:
    made, broker = sender(), Broker()
    for number in range(12):
        made.add(outgoing(number))
    [first] = made.requests(0)
    made.on_answer(first, broker.produce(first.request), 0)
    owed, *others = made.requests(0)
    broker.produce(owed.request)  # copied to the next leader before the former one fell silent
    while others:
        for send in others:
            made.on_answer(send, broker.produce(send.request), 0)
        others = made.requests(0)
    assert broker.logs[0] == list(range(6))
    made.broken(owed, ConnectionFailed("lost"), 0)
    while not made.idle:
        for send in made.requests(1_000):
            made.on_answer(send, broker.produce(send.request), 1_000)
    assert broker.logs[0] == list(range(12))


def test_partitions_share_a_request_up_to_its_size_and_take_turns() -> None:
    size = len(outgoing(0).data)
    made = sender(max_request_size=2 * size, max_in_flight_requests_per_connection=1)
    for number in range(6):
        made.add(outgoing(number, number % PARTITIONS))
    broker, seen = Broker(), []
    for _ in range(3):
        [send] = made.requests(0)
        seen += [batch.where.partition for batch in send.batches]
        made.on_answer(send, broker.produce(send.request), 0)
    assert seen == [0, 1, 2, 0, 1, 2]


def test_nothing_leaves_without_an_identity_or_a_leader() -> None:
    made = Sender(metadata(), ProducerSettings())
    made.add(outgoing(1))
    assert made.requests(0) == []
    assert made.wants_identity
    made.set_identity(Identity(7, 0))
    made.metadata.forget_leader(TOPIC, 0)
    assert made.requests(0) == []
    assert made.wants_metadata == {TOPIC}
    made.metadata = metadata(leader=2)
    assert [send.node_id for send in made.requests(0)] == [2]


def test_without_idempotence_batches_carry_no_producer() -> None:
    made = Sender(metadata(), ProducerSettings(enable_idempotence=False))
    batch = outgoing(1)
    made.add(batch)
    assert len(made.requests(0)) == 1
    assert read_header(batch.data).producer_id == -1


def test_brokers_without_producer_ids_get_one_batch_of_a_partition_at_a_time_so_that_they_stay_in_order() -> None:
    made = Sender(metadata(), ProducerSettings())
    batches = [outgoing(1), outgoing(2), outgoing(3, partition=1)]
    for batch in batches:
        made.add(batch)
    assert made.requests(0) == []
    assert made.wants_identity
    made.send_without_identity()
    [send] = made.requests(0)
    assert send.batches == [batches[0], batches[2]]
    assert {read_header(batch.data).producer_id for batch in send.batches} == {-1}
    assert not made.wants_identity


def test_a_repetition_waits_for_its_back_off() -> None:
    made, broker = sender(retry_backoff_ms=100), Broker()
    made.add(outgoing(1))
    [send] = made.requests(0)
    made.on_answer(send, broker.produce(send.request, codes.NOT_ENOUGH_REPLICAS), 1_000)
    assert made.requests(1_099) == []
    assert made.next_wake_ms(1_099) == 1_100
    assert len(made.requests(1_100)) == 1


def test_a_final_refusal_fails_one_batch_and_the_next_goes_on_under_a_new_identity() -> None:
    made, broker = sender(max_in_flight_requests_per_connection=1), Broker()
    first, second = outgoing(1), outgoing(2)
    made.add(first)
    made.add(second)
    [send] = made.requests(0)
    made.on_answer(send, broker.produce(send.request, codes.MESSAGE_TOO_LARGE), 0)
    assert isinstance(first.error, KafkaError)
    assert made.requests(0) == []
    assert made.wants_identity
    made.set_identity(Identity(8, 0))
    [send] = made.requests(0)
    made.on_answer(send, broker.produce(send.request), 0)
    assert second.error is None
    assert broker.logs[0] == [2]


@pytest.mark.parametrize("code", [codes.UNKNOWN_PRODUCER_ID, codes.INVALID_PRODUCER_EPOCH])
def test_an_identity_that_the_broker_forgot_is_replaced_and_nothing_is_lost(code: int) -> None:
    made, broker = sender(), Broker()
    batches = [outgoing(1), outgoing(2)]
    for batch in batches:
        made.add(batch)
    for send in made.requests(0):
        made.on_answer(send, broker.produce(send.request, code), 0)
    assert made.requests(200) == []
    made.set_identity(Identity(8, 0))
    while not made.idle:
        for send in made.requests(200):
            made.on_answer(send, broker.produce(send.request), 200)
    assert broker.logs[0] == [1, 2]


def test_batches_that_a_recreated_topic_met_out_of_order_go_on_under_a_new_identity() -> None:
    """The topic was missing when the older batches came, and there again when the last came, whose sequence it then expects."""
    made, broker = sender(), Broker()
    batches = [outgoing(number) for number in (1, 2, 3)]
    *missed, last = in_flight(made, broker, *batches)
    for send in missed:
        made.on_answer(send, broker.produce(send.request, codes.UNKNOWN_TOPIC_OR_PARTITION), 0)
    broker = Broker()
    made.on_answer(last, broker.produce(last.request), 0)
    made.metadata = metadata()
    finish_all(made, broker)
    assert [batch.error for batch in batches] == [None] * 3
    assert broker.logs[0] == [3, 1, 2]


def test_the_first_batch_for_a_recreated_topic_goes_alone() -> None:
    made, broker = sender(), Broker()
    for send in in_flight(made, broker, outgoing(1), outgoing(2)):
        made.on_answer(send, broker.produce(send.request, codes.UNKNOWN_TOPIC_OR_PARTITION), 0)
    made.metadata = metadata()
    assert len(made.requests(1_000)) == 1, "any sequence would be taken from a producer that the topic does not know"


def test_a_batch_out_of_order_that_may_still_arrive_fails_with_the_reason() -> None:
    made, broker = sender(), Broker()
    lost, other = outgoing(1), outgoing(2)
    first, second = in_flight(made, broker, lost, other)
    made.broken(first, ConnectionFailed("reset"), 0)
    broker = Broker()  # the topic was made again
    made.on_answer(second, broker.produce(second.request), 0)
    made.metadata = metadata()
    finish_all(made, broker)
    assert "could be written twice" in str(lost.error)
    assert other.error is None
    assert broker.logs[0] == [2]


RECREATED = 6
fates_of_topics = st.lists(
    st.sampled_from([OK, OK, OK, RECREATED, LOST_ANSWER, LOST_REQUEST, NOT_LEADER, AFTER_APPEND]), max_size=60
)


@given(st.lists(st.integers(0, PARTITIONS - 1), max_size=40), fates_of_topics, st.integers(1, 5))
def test_whenever_a_topic_is_recreated_each_batch_ends_and_no_topic_has_it_twice(
    partitions: list[int], fate: list[int], window: int
) -> None:
    made, broker = sender(max_in_flight_requests_per_connection=window), Broker()
    batches = [outgoing(number, partition) for number, partition in enumerate(partitions)]
    for batch in batches:
        made.add(batch)
    topics, now_ms, luck = [broker], 0, iter(fate)
    under_way: list[Send] = []
    while not made.idle:
        under_way += made.requests(now_ms)
        if under_way:
            send, fated = under_way.pop(0), next(luck, OK)
            if fated == RECREATED:
                made.on_answer(send, broker.produce(send.request, codes.UNKNOWN_TOPIC_OR_PARTITION), now_ms)
                broker = Broker()
                topics.append(broker)
            else:
                play(made, broker, send, fated, now_ms)
        now_ms += 50
        made.metadata = metadata()
        if made.wants_identity:
            made.set_identity(Identity(now_ms, 0))
    assert now_ms < 100_000
    for number, batch in enumerate(batches):
        copies = [topic.logs[partitions[number]].count(number) for topic in topics]
        assert max(copies) <= 1
        assert any(copies) if batch.error is None else batch.may_arrive


def test_a_batch_that_cannot_leave_in_time_is_given_up_with_a_reason() -> None:
    made = Sender(metadata(leader=-1), ProducerSettings(delivery_timeout_ms=500))
    batch = outgoing(1, deadline_ms=500)
    made.add(batch)
    made.requests(0)
    assert made.next_wake_ms(0) == 500
    made.expire(499)
    assert not batch.done
    made.expire(500)
    assert isinstance(batch.error, TimedOut)
    assert "delivery_timeout_ms=500" in str(batch.error)
    assert made.idle


def test_a_batch_whose_partition_is_gone_fails_for_that_and_not_for_an_earlier_refusal() -> None:
    made, broker = sender(delivery_timeout_ms=500), Broker()
    batch = outgoing(0, PARTITIONS - 1, deadline_ms=500)
    made.add(batch)
    (send,) = made.requests(0)
    made.on_answer(send, broker.produce(send.request, codes.KAFKA_STORAGE_ERROR), 0)
    made.metadata.update(
        MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=1)],
            topics=[
                MetadataResponse.MetadataResponseTopic(
                    name=TOPIC, partitions=[MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=1)]
                )
            ],
        )
    )
    made.expire(500)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(batch.error)
    assert "STORAGE" not in str(batch.error)


def test_a_batch_whose_cluster_was_replaced_by_one_without_its_topic_says_so() -> None:
    made = sender(delivery_timeout_ms=500)
    node = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=1)
    missing = MetadataResponse.MetadataResponseTopic(name=TOPIC, error_code=codes.UNKNOWN_TOPIC_OR_PARTITION)
    batches = [outgoing(0, deadline_ms=500), outgoing(1, deadline_ms=900)]
    for batch, cluster_id in zip(batches, ("A", "B"), strict=True):
        made.metadata.update(MetadataResponse(cluster_id=cluster_id, brokers=[node], topics=[missing]))
        made.add(batch)
        made.expire(batch.deadline_ms)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(batch.error)
    said = ["belong to cluster B, and those before to cluster A" in str(batch.error) for batch in batches]
    assert said == [False, True]


def test_batches_that_end_behind_another_say_why_that_one_was_not_written() -> None:
    made, broker = sender(delivery_timeout_ms=500), Broker()
    batches = [outgoing(number, deadline_ms=500) for number in range(4)]
    for batch in batches[:2]:
        made.add(batch)
    [send] = made.requests(0)
    made.on_answer(send, broker.produce(send.request), 0)  # from now on, several are in flight
    assert batches[0].error is None
    for batch in batches[2:]:
        made.add(batch)
    first, *others = made.requests(0)
    made.on_answer(first, broker.produce(first.request, codes.KAFKA_STORAGE_ERROR), 0)
    for send in others[:1]:
        made.on_answer(send, broker.produce(send.request), 0)
    for send in others[1:]:
        made.on_answer(send, broker.produce(send.request), 600)
    made.expire(600)
    for batch in batches[1:]:
        assert isinstance(batch.error, TimedOut)
        assert "t-0: KAFKA_STORAGE_ERROR" in str(batch.error)


def test_an_error_that_lasts_beyond_the_deadline_is_named() -> None:
    made, broker = sender(), Broker()
    batch = outgoing(1, deadline_ms=100)
    made.add(batch)
    [send] = made.requests(0)
    made.on_answer(send, broker.produce(send.request, codes.NOT_ENOUGH_REPLICAS), 100)
    assert isinstance(batch.error, TimedOut)
    assert "NOT_ENOUGH_REPLICAS" in str(batch.error)


def test_a_batch_that_waits_to_be_repeated_when_its_time_is_over_names_why_it_was_refused() -> None:
    made, broker = sender(), Broker()
    batch = outgoing(1, deadline_ms=100)
    made.add(batch)
    [send] = made.requests(0)
    made.on_answer(send, broker.produce(send.request, codes.KAFKA_STORAGE_ERROR), 50)
    made.expire(100)
    assert isinstance(batch.error, TimedOut)
    assert "KAFKA_STORAGE_ERROR" in str(batch.error)


def test_without_acknowledgements_a_batch_is_done_once_it_left() -> None:
    made = Sender(metadata(), ProducerSettings(acks="0", enable_idempotence=False))
    batch = outgoing(1)
    made.add(batch)
    [send] = made.requests(0)
    made.sent_unanswered(send)
    assert batch.done
    assert batch.error is None
    assert batch.base_offset == -1


def test_giving_up_ends_what_waits_and_leaves_what_is_under_way() -> None:
    made, broker = sender(max_in_flight_requests_per_connection=1), Broker()
    first, second = outgoing(1), outgoing(2)
    made.add(first)
    made.add(second)
    [send] = made.requests(0)
    made.fail_unsent(ConnectionFailed("closing"))
    assert isinstance(second.error, ConnectionFailed)
    assert not first.done
    made.on_answer(send, broker.produce(send.request), 0)
    assert first.error is None


def test_a_batch_whose_answer_is_owed_beyond_its_time_fails_then_and_the_next_goes_on_under_a_new_identity() -> None:
    made, broker = sender(delivery_timeout_ms=500, max_in_flight_requests_per_connection=2), Broker()
    late, other = outgoing(1, deadline_ms=500), outgoing(2, deadline_ms=900)
    made.add(late)
    [send] = made.requests(0)
    assert made.next_wake_ms(0) == 500
    made.expire(500)
    assert isinstance(late.error, TimedOut)
    assert "they may have been written" in str(late.error)
    assert made.idle
    made.add(other)
    assert made.requests(500) == []
    made.set_identity(Identity(7, 1))
    [again] = made.requests(500)
    made.on_answer(send, broker.produce(send.request), 600)  # late, and of no consequence
    made.on_answer(again, broker.produce(again.request), 600)
    assert other.error is None
    assert isinstance(late.error, TimedOut)


def test_a_connection_that_breaks_behind_a_batch_given_up_repeats_nothing() -> None:
    made = sender(delivery_timeout_ms=500)
    late = outgoing(1, deadline_ms=500)
    made.add(late)
    [send] = made.requests(0)
    made.expire(500)
    made.broken(send, ConnectionFailed("reset"), 600)
    assert made.requests(10_000) == []
    assert made.idle


def in_flight(made: Sender, broker: Broker, *batches: Outgoing) -> list[Send]:
    """Requests with one batch each, behind a batch that was written, so that the broker knows the producer."""
    made.add(outgoing(0))
    [send] = made.requests(0)
    made.on_answer(send, broker.produce(send.request), 0)
    for batch in batches:
        made.add(batch)
    return made.requests(0)


def finish_all(made: Sender, broker: Broker) -> None:
    """Send what waits until nothing does, with one more identity if it is wanted."""
    for now_ms in range(1_000, 10_000, 1_000):
        for send in made.requests(now_ms):
            made.on_answer(send, broker.produce(send.request), now_ms)
        if made.wants_identity:
            made.set_identity(Identity(8, 0))
    assert made.idle


def test_a_batch_behind_one_that_was_given_up_is_not_written_twice() -> None:
    """Both were written, and no answer came: the second keeps its identity, by which the broker recognises it."""
    made, broker = sender(delivery_timeout_ms=500), Broker()
    late, other = outgoing(1, deadline_ms=500), outgoing(2, deadline_ms=900)
    for send in in_flight(made, broker, late, other):
        broker.produce(send.request)
        made.broken(send, ConnectionFailed("reset"), 10)
    made.expire(500)
    assert isinstance(late.error, TimedOut)
    [send] = made.requests(500)
    made.on_answer(send, broker.produce(send.request), 500)
    assert other.done
    assert other.error is None
    assert broker.logs[0] == [0, 1, 2]
    last = outgoing(3)
    made.add(last)
    assert made.requests(500) == []
    made.set_identity(Identity(8, 0))
    [send] = made.requests(500)
    made.on_answer(send, broker.produce(send.request), 500)
    assert broker.logs[0] == [0, 1, 2, 3]


def test_a_batch_that_may_still_arrive_behind_one_that_was_given_up_is_not_sent_under_another_identity() -> None:
    made, broker = sender(delivery_timeout_ms=500), Broker()
    late, other = outgoing(1, deadline_ms=500), outgoing(2, deadline_ms=900)
    on_the_way = in_flight(made, broker, late, other)
    for send in on_the_way:
        made.broken(send, ConnectionFailed("reset"), 10)
    made.expire(500)
    [send] = made.requests(500)
    made.on_answer(send, broker.produce(send.request), 500)
    assert "could be written twice" in str(other.error)
    for send in on_the_way:
        broker.produce(send.request)
    assert made.idle
    assert broker.logs[0] == [0, 1, 2]


def test_a_batch_that_never_left_behind_one_that_was_given_up_goes_on_under_another_identity() -> None:
    made, broker = sender(delivery_timeout_ms=500), Broker()
    late, other = outgoing(1, deadline_ms=500), outgoing(2, deadline_ms=900)
    for send in in_flight(made, broker, late, other):
        made.broken(send, ConnectionFailed("refused"), 10, was_sent=False)
    made.expire(500)
    [send] = made.requests(500)
    made.on_answer(send, broker.produce(send.request), 500)
    made.set_identity(Identity(8, 0))
    [send] = made.requests(700)
    made.on_answer(send, broker.produce(send.request), 700)
    assert other.error is None
    assert broker.logs[0] == [0, 2]


def test_a_batch_that_is_too_large_goes_on_as_its_parts_before_the_batches_behind_it() -> None:
    made, broker = sender(), Broker()

    def split(batch: Outgoing) -> tuple[Outgoing, Outgoing]:
        second = outgoing(2)
        second.start = 1
        return outgoing(1), second

    whole = Outgoing(
        TopicPartition(TOPIC, 0), build(None, [struct.pack(">i", number) for number in (1, 2)], 0), 2, 1_000_000, split=split
    )
    last = outgoing(3)
    made.add(whole)
    [send] = made.requests(0)
    made.add(last)
    made.on_answer(send, broker.produce(send.request, codes.MESSAGE_TOO_LARGE), 0)
    assert (whole.done, whole.error) == (True, None)
    while not made.idle:
        for send in made.requests(0):
            made.on_answer(send, broker.produce(send.request), 0)
    assert broker.logs[0] == [1, 2, 3]
    assert last.error is None


def test_both_parts_of_a_batch_stay_among_the_five_that_a_broker_remembers() -> None:
    made, broker = sender(), Broker()

    def split(batch: Outgoing) -> tuple[Outgoing, Outgoing]:
        second = outgoing(2)
        second.start = 1
        return outgoing(1), second

    pair = bytearray(build(None, [struct.pack(">i", number) for number in (1, 2)], 0))
    whole = Outgoing(TopicPartition(TOPIC, 0), pair, 2, 1_000_000, split=split)
    for batch in (outgoing(0), whole, *map(outgoing, range(3, 12))):
        made.add(batch)
    [first] = made.requests(0)
    made.on_answer(first, broker.produce(first.request), 0)
    sends = made.requests(0)
    made.on_answer(sends[0], broker.produce(sends[0].request, codes.MESSAGE_TOO_LARGE), 0)
    for send in sends[1:]:
        made.on_answer(send, broker.produce(send.request), 0)
    owed, *others = made.requests(1_000)
    broker.produce(owed.request)
    while others:
        for send in others:
            made.on_answer(send, broker.produce(send.request), 1_000)
        others = made.requests(1_000)
    made.broken(owed, ConnectionFailed("lost"), 1_000)
    while not made.idle:
        for send in made.requests(2_000):
            made.on_answer(send, broker.produce(send.request), 2_000)
    assert broker.logs[0] == list(range(12))


def test_a_batch_goes_at_once_to_the_leader_that_a_broker_names() -> None:
    made, broker = sender(), Broker()
    made.add(outgoing(1))
    [send] = made.requests(0)
    refused = broker.produce(send.request, codes.NOT_LEADER_OR_FOLLOWER)
    refused.responses[0].partition_responses[0].current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=7, leader_epoch=9)
    refused.node_endpoints = [ProduceResponse.NodeEndpoint(node_id=7, host="h", port=7)]
    made.on_answer(send, refused, 0)
    [send] = made.requests(0)
    assert (send.node_id, made.wants_metadata) == (7, set())
