"""Behaviours of consumers that the test suites of other clients check (docs/client-behaviours.md), each in a few lines."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

import ottla
from tests.client.test_producer_consumer import drain, reader
from tests.support.peers import Peer

Call = Callable[[ottla.Consumer], object]


@pytest.fixture
def where(broker: Peer, admin: ottla.Admin, topic: str) -> ottla.TopicPartition:
    """A partition of ten records, whose times are 1000 to 1009: retention by time would delete them."""
    admin.alter_configs(ottla.ConfigResource.topic(topic), set={"retention.ms": -1})
    with ottla.Producer(broker.address) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1000 + number)
    return ottla.TopicPartition(topic, 0)


def read_numbers(consumer: ottla.Consumer, count: int) -> list[int]:
    return [int(record.value or b"") for _, record in zip(range(count), consumer, strict=False)]


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"), [(0, 0), (1000, 0), (1004, 4), (1009, 9), (1010, -1), (-2, 0), (-1, 10)], ids=str
)
def test_offsets_are_found_by_time(timestamp_ms: int, offset: int, broker: Peer, where: ottla.TopicPartition) -> None:
    with reader(broker) as consumer:
        assert consumer.offsets_for_times({where: timestamp_ms})[where].offset == offset
        empty = ottla.TopicPartition(where.topic, 1)
        assert consumer.offsets_for_times({where: 1000, empty: 1000})[empty].offset == -1
        assert consumer.offsets_for_times({}) == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.offsets_for_times({("no-such-topic", 0): 1}),
        lambda c: c.beginning_offsets([("no-such-topic", 0)]),
        lambda c: c.end_offsets([("no-such-topic", 0)]),
        lambda c: c.partitions_for("no-such-topic"),
        lambda c: c.assign([("no-such-topic", 0)]),
    ],
)
def test_a_question_about_a_topic_that_does_not_exist_raises_unknown_topic(call: Call, broker: Peer) -> None:
    with reader(broker, default_api_timeout_ms=1_000) as consumer, pytest.raises(ottla.UnknownTopic):
        call(consumer)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.seek(("flights", 7), 0),
        lambda c: c.seek_to_beginning(("flights", 7)),
        lambda c: c.seek_to_end(("flights", 7)),
        lambda c: c.seek_to_time(1, ("flights", 7)),
        lambda c: c.position(("flights", 7)),
        lambda c: c.current_lag(("flights", 7)),
        lambda c: c.pause(("flights", 7)),
        lambda c: c.resume(("flights", 7)),
    ],
)
def test_a_partition_that_is_not_assigned_is_refused(call: Call, broker: Peer, where: ottla.TopicPartition) -> None:
    with reader(broker) as consumer:
        consumer.assign([where])
        with pytest.raises(ottla.KafkaError, match="flights-7"):
            call(consumer)
        assert read_numbers(consumer, 2) == [0, 1]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.poll(),
        lambda c: next(c.records()),
        lambda c: c.subscribe("flights"),
        lambda c: c.assign([("flights", 0)]),
        lambda c: c.commit(),
        lambda c: c.commit_soon(),
        lambda c: c.committed(("flights", 0)),
        lambda c: c.end_offsets([("flights", 0)]),
        lambda c: c.offsets_for_times({("flights", 0): 0}),
        lambda c: c.partitions_for("flights"),
    ],
)
def test_every_call_of_a_closed_consumer_raises_closed(call: Call, broker: Peer, unique: Callable[[str], str]) -> None:
    consumer = reader(broker, group_id=unique("group"))
    consumer.close()
    consumer.close()
    with pytest.raises(ottla.Closed):
        call(consumer)


@pytest.mark.parametrize(
    "call", [lambda c: c.commit(), lambda c: c.commit_soon(), lambda c: c.committed(("flights", 0)), lambda c: c.group_metadata()]
)
def test_without_a_group_nothing_is_committed(call: Call, broker: Peer) -> None:
    with reader(broker) as consumer, pytest.raises(ottla.SettingError, match="group_id"):
        call(consumer)


def test_seeking_moves_within_and_beyond_what_was_fetched(broker: Peer, where: ottla.TopicPartition) -> None:
    with reader(broker, fetch_max_wait_ms=10) as consumer:
        consumer.assign([where])
        assert read_numbers(consumer, 3) == [0, 1, 2]
        for offset in (7, 1, 9, 0):
            consumer.seek(where, offset)
            assert consumer.position(where) == offset
            assert read_numbers(consumer, 1) == [offset]
        consumer.seek_to_end()
        assert consumer.position(where) == 10
        assert consumer.poll(50) == []
        consumer.seek_to_beginning(where)
        assert read_numbers(consumer, 10) == list(range(10))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_seek_into_a_batch_hands_out_no_earlier_record(codec: Any, broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, compression_type=codec, linger_ms=1_000) as producer:
        producer.send_values(topic, [b"%d" % number for number in range(10)], partition=0)
    with reader(broker) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 6)
        assert read_numbers(consumer, 4) == [6, 7, 8, 9]


@pytest.mark.parametrize("settings", [{"max_partition_fetch_bytes": 1}, {"fetch_max_bytes": 1}], ids=str)
def test_records_larger_than_a_fetch_may_be_are_read(settings: dict[str, Any], broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, linger_ms=0) as producer:
        for number in range(4):
            producer.send(topic, bytes([number]) * 5_000, partition=number % 2).result(20)
    with reader(broker, topic, **settings) as consumer:
        assert sorted((record.value or b"")[0] for record in drain(consumer, 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("most", [1, 3, 10, 50])
def test_no_list_of_poll_is_longer_than_max_poll_records(most: int, broker: Peer, where: ottla.TopicPartition) -> None:
    with reader(broker, where.topic, max_poll_records=most) as consumer:
        lists: list[list[Any]] = []
        while sum(len(each) for each in lists) < 10:
            lists.append(consumer.poll(20_000))
    assert max(len(each) for each in lists) <= most
    assert [int(record.value) for records in lists for record in records] == list(range(10))


@pytest.mark.parametrize(
    "given", [7, ottla.OffsetAndMetadata(7), ottla.OffsetAndMetadata(7, "a note"), ottla.OffsetAndMetadata(7, "\u00fc", 0)], ids=str
)
def test_an_offset_is_committed_with_its_metadata(
    given: Any, broker: Peer, where: ottla.TopicPartition, unique: Callable[[str], str]
) -> None:
    with reader(broker, group_id=unique("group"), enable_auto_commit=False) as consumer:
        assert consumer.committed(where) is None
        consumer.commit({where: given})
        found = consumer.committed(where)
        consumer.commit({})
        assert consumer.committed(where) == found
    assert found is not None
    assert (found.offset, found.metadata) == (7, getattr(given, "metadata", ""))


def test_partitions_of_assign_begin_at_the_committed_offsets_of_the_group(
    broker: Peer, where: ottla.TopicPartition, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    with reader(broker, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([where])
        assert read_numbers(consumer, 4) == [0, 1, 2, 3]
        consumer.commit()
    with reader(broker, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([where])
        assert consumer.position(where) == 4
        assert read_numbers(consumer, 1) == [4]
        consumer.seek_to_committed()
        assert read_numbers(consumer, 1) == [4]


def test_a_commit_does_not_wait_for_a_long_fetch(broker: Peer, where: ottla.TopicPartition, unique: Callable[[str], str]) -> None:
    slow: dict[str, Any] = {"fetch_max_wait_ms": 60_000, "fetch_min_bytes": 1_000_000, "request_timeout_ms": 90_000}
    with reader(broker, group_id=unique("group"), enable_auto_commit=False, **slow) as consumer:
        consumer.assign([where])
        consumer.poll(0)
        began = time.monotonic()
        consumer.commit({where: 3})
        assert consumer.committed(where) is not None
        assert consumer.end_offsets([where]) == {where: 10}
        assert time.monotonic() - began < slow["fetch_max_wait_ms"] / 2_000


def test_a_new_subscription_replaces_the_one_before(
    broker: Peer, where: ottla.TopicPartition, admin: ottla.Admin, unique: Callable[[str], str]
) -> None:
    other = unique("client")
    admin.create_topic(other, 1)
    with reader(broker, where.topic, group_id=unique("group")) as consumer:
        assert read_numbers(consumer, 1) == [0]
        consumer.subscribe(other)
        assert consumer.subscription() == {other}
        while consumer.assignment() != {(other, 0)}:
            consumer.poll(20)
        consumer.subscription().clear()
        consumer.assignment().clear()
        assert (consumer.subscription(), consumer.assignment()) == ({other}, {(other, 0)})
        consumer.unsubscribe()
        assert (consumer.subscription(), consumer.assignment(), consumer.poll(20)) == (set(), set(), [])


def test_a_pattern_matches_no_internal_topic(broker: Peer, where: ottla.TopicPartition, unique: Callable[[str], str]) -> None:
    with reader(broker, group_id=unique("group")) as consumer:
        consumer.subscribe(pattern=f"{where.topic}|__consumer_offsets")
        assert read_numbers(consumer, 1) == [0]
        assert consumer.subscription() == {where.topic}


def test_a_paused_partition_keeps_its_position_and_others_go_on(broker: Peer, where: ottla.TopicPartition) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send(where.topic, b"100", partition=1)
    other = ottla.TopicPartition(where.topic, 1)
    with reader(broker) as consumer:
        consumer.assign([where, other])
        consumer.pause(where)
        assert read_numbers(consumer, 1) == [100]
        assert consumer.paused() == {where}
        consumer.incremental_unassign([other])
        assert (consumer.paused(), consumer.position(where)) == ({where}, 0)
        consumer.resume(where)
        assert read_numbers(consumer, 10) == list(range(10))


def test_a_session_that_the_broker_does_not_allow_is_an_error(
    broker: Peer, where: ottla.TopicPartition, unique: Callable[[str], str]
) -> None:
    short: dict[str, Any] = {"session_timeout_ms": 200, "heartbeat_interval_ms": 100}
    refused = pytest.raises(ottla.BrokerError, match="INVALID_SESSION_TIMEOUT")
    with reader(broker, where.topic, group_id=unique("group"), **short) as consumer, refused:
        consumer.poll(20_000)


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_markers_alone_move_a_reader_to_the_end(outcome: str, broker: Peer, topic: str, unique: Callable[[str], str]) -> None:
    with ottla.Producer(broker.address, transactional_id=unique("id")) as producer:
        for number in range(3):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0).result(20)
            (producer.commit_transaction if outcome == "commit" else producer.abort_transaction)()
    with reader(broker, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        ends = consumer.end_offsets([(topic, 0)])
        assert [record.offset for record in consumer.records(until=ends)] == ([0, 2, 4] if outcome == "commit" else [])
        assert {topic: consumer.position((topic, 0))} == {topic: 6}


def test_a_record_is_compared_and_pickled_and_a_partition_sorts(broker: Peer, where: ottla.TopicPartition) -> None:
    with reader(broker, where.topic) as consumer:
        record = drain(consumer, 1)[0]
    assert pickle.loads(pickle.dumps(record)) == record
    assert record.timestamp_type == 0
    places = [ottla.TopicPartition("b", 0), ottla.TopicPartition("a", 10), ottla.TopicPartition("a", 9)]
    assert sorted(places) == [("a", 9), ("a", 10), ("b", 0)]
    assert len({*places, *map(tuple, places)}) == 3


def test_clients_are_made_before_the_loop_runs_and_an_exception_in_the_block_is_raised(
    broker: Peer, where: ottla.TopicPartition
) -> None:
    consumer = ottla.AsyncConsumer(where.topic, bootstrap_servers=broker.address, auto_offset_reset="earliest")
    producer = ottla.AsyncProducer(broker.address)

    async def use() -> None:
        async with producer, consumer:
            await (await producer.send(where.topic, b"10", partition=0))
            assert [int(record.value or b"") async for record in consumer.records(until={where: 11})] == list(range(11))
            raise LookupError("of the program")

    with pytest.raises(LookupError, match="of the program"):
        asyncio.run(use())


def test_offsets_of_an_open_transaction_are_waited_for(
    broker: Peer, admin: ottla.Admin, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    settings: dict[str, Any] = {"group_id": group, "enable_auto_commit": False, "default_api_timeout_ms": 500}
    with ottla.Producer(broker.address, transactional_id=unique("id")) as producer, reader(broker, **settings) as consumer:
        with producer.transaction():
            producer.send_offsets({(topic, 0): 7}, ottla.ConsumerGroupMetadata(group))
            assert admin.list_group_offsets(group, require_stable=False) == {}
            with pytest.raises(ottla.KafkaError):
                consumer.committed((topic, 0))
        assert (consumer.committed((topic, 0)) or ottla.OffsetAndMetadata(-1)).offset == 7


def test_the_identity_of_a_member_is_that_which_the_group_shows(
    broker: Peer, admin: ottla.Admin, where: ottla.TopicPartition, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    with reader(broker, where.topic, group_id=group, enable_auto_commit=False, client_id="board") as consumer:
        assert consumer.group_metadata().member_id == ""
        drain(consumer, 1)
        found = consumer.group_metadata()
        (member,) = admin.describe_group(group).members
    assert (found.group_id, found.member_id, found.generation_id) == (group, member.member_id, 1)
    assert (member.client_id, {place.partition for place in member.assignment}) == ("board", {0, 1, 2})


def test_a_poll_that_waits_longer_than_max_poll_interval_keeps_the_membership(
    broker: Peer, topic: str, unique: Callable[[str], str]
) -> None:
    with reader(broker, topic, group_id=unique("group"), max_poll_interval_ms=300, enable_auto_commit=False) as consumer:
        assert consumer.poll(1_500) == []
        assert consumer.group_metadata().generation_id == 1
        assert len(consumer.assignment()) == 3


@pytest.mark.parametrize("in_group", [True, False], ids=["member", "alone"])
def test_a_pattern_takes_a_topic_that_is_created_later(
    in_group: bool, broker: Peer, admin: ottla.Admin, unique: Callable[[str], str]
) -> None:
    stem = unique("later")
    with reader(broker, group_id=unique("group") if in_group else None, metadata_max_age_ms=100) as consumer:
        consumer.subscribe(pattern=f"{stem}-.*")
        assert consumer.poll(50) == []
        for number in range(2):
            admin.create_topic(f"{stem}-{number}", 1)
            with ottla.Producer(broker.address) as producer:
                producer.send(f"{stem}-{number}", b"%d" % number)
            assert read_numbers(consumer, 1) == [number]
        assert consumer.subscription() == {f"{stem}-0", f"{stem}-1"}
