"""The synchronous path of Spark tasks, against a live broker."""

from __future__ import annotations

import pickle
import time

import pytest

import ottla
from ottla.net.client import ranges
from ottla.net.client.ranges import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, RangeSettings
from ottla.records.columns import build, open_batches
from tests.support.peers import Peer


@pytest.fixture
def settings(broker: Peer) -> RangeSettings:
    made = RangeSettings(broker.address, request_timeout_ms=10_000, fetch_max_wait_ms=100)
    assert pickle.loads(pickle.dumps(made)) == made
    return made


def values(settings: RangeSettings, topic: str, partition: int, start: int, end: int) -> list[bytes | None]:
    found = []
    for piece in ranges.fetch_range(settings, topic, partition, start, end):
        columns = open_batches(piece.records, from_offset=piece.from_offset, until_offset=piece.until_offset)
        found += [record.value for record in columns.records()]
    return found


def write(settings: RangeSettings, topic: str, partition: int, batches: int, size: int = 10) -> None:
    with ranges.produce(settings) as producer:
        for number in range(batches):
            producer.send(topic, partition, build(None, [b"%d" % (number * size + row) for row in range(size)], 1_000 + number))


def test_a_range_is_exact_whatever_batches_it_cuts(settings: RangeSettings, topic: str) -> None:
    write(settings, topic, 1, 20)
    assert values(settings, topic, 1, 0, 200) == [b"%d" % number for number in range(200)]
    assert values(settings, topic, 1, 37, 114) == [b"%d" % number for number in range(37, 114)]
    assert values(settings, topic, 1, 5, 5) == []


def test_a_range_larger_than_one_answer_comes_in_pieces(broker: Peer, topic: str) -> None:
    small = RangeSettings(broker.address, max_partition_fetch_bytes=1_000)
    write(small, topic, 0, 100)
    pieces = list(ranges.fetch_range(small, topic, 0, 0, 1_000))
    assert len(pieces) > 5
    assert values(small, topic, 0, 0, 1_000) == [b"%d" % number for number in range(1_000)]


def test_batches_land_in_the_order_they_were_sent_and_say_where(settings: RangeSettings, topic: str) -> None:
    with ranges.produce(settings) as producer:
        assert producer.partition_count(topic) == 3
        for number in range(30):
            producer.send(topic, number % 3, build(None, [b"%d" % number], 0))
        written = producer.flush()
    assert sorted((place.partition, place.offset) for place in written) == [(p, o) for p in range(3) for o in range(10)]
    assert values(settings, topic, 2, 0, 10) == [b"%d" % number for number in range(2, 30, 3)]


def test_offsets_by_time_and_at_both_ends(settings: RangeSettings, topic: str) -> None:
    write(settings, topic, 0, 5)
    where = ottla.TopicPartition(topic, 0)
    assert ranges.list_offsets(settings, {where: EARLIEST_TIMESTAMP})[where].offset == 0
    assert ranges.list_offsets(settings, {where: LATEST_TIMESTAMP})[where].offset == 50
    assert ranges.list_offsets(settings, {where: 1_003})[where].offset == 30
    assert ranges.list_offsets(settings, {where: 9_999})[where].offset == -1
    assert ranges.list_offsets(settings, {}) == {}


def test_topics_and_partitions_are_listed(settings: RangeSettings, topic: str) -> None:
    assert topic in ranges.list_topics(settings)
    assert ranges.partitions(settings, [topic]) == {topic: [0, 1, 2]}
    with pytest.raises(ottla.UnknownTopic):
        ranges.partitions(settings, [topic + "-not"])


def test_a_range_that_is_gone_is_an_error_at_once(settings: RangeSettings, topic: str) -> None:
    write(settings, topic, 0, 1)
    with pytest.raises(ottla.OffsetOutOfRange):
        values(settings, topic, 0, 500, 600)


def test_a_range_beyond_the_end_is_an_error_after_the_time_allowed(broker: Peer, topic: str) -> None:
    hasty = RangeSettings(broker.address, request_timeout_ms=500, fetch_max_wait_ms=100)
    write(hasty, topic, 0, 1)
    with pytest.raises(ottla.TimedOut, match="the range ends at 20: the high watermark is 10"):
        values(hasty, topic, 0, 0, 20)


def test_a_batch_that_the_broker_refuses_is_raised(settings: RangeSettings, topic: str) -> None:
    broken = bytearray(build(None, [b"x"], 0))
    broken[22] |= 0x20  # a control batch, which no client may send
    with pytest.raises(ottla.BrokerError, match="INVALID_RECORD"), ranges.produce(settings) as producer:
        producer.send(topic, 0, broken)


def test_without_a_broker_there_is_one_clear_error_from_either_kind_of_client() -> None:
    with pytest.raises(ottla.ConnectionFailed) as blocking:
        ranges.list_topics(RangeSettings("127.0.0.1:1", request_timeout_ms=200))
    with pytest.raises(ottla.ConnectionFailed) as through_a_loop, ottla.Admin("127.0.0.1:1", default_api_timeout_ms=200) as admin:
        admin.list_topics()
    said = str(blocking.value)
    assert str(through_a_loop.value) == said
    assert said == (
        "None of bootstrap_servers=127.0.0.1:1 could be reached: start a broker there, or name another. "
        "No connection to 127.0.0.1:1: Connection refused."
    )


def test_writing_survives_a_broker_that_is_killed(own_broker: Peer) -> None:
    settings = RangeSettings(own_broker.address)
    with ottla.Admin(own_broker.address) as admin:
        admin.create_topic("t", 1)
    with ranges.produce(settings) as producer:
        for number in range(60):
            if number == 30:
                own_broker.restart(kill=True)
            # The time of a batch is what a restarted broker judges by whether its producer is still about.
            producer.send("t", 0, build(None, [b"%d" % number], int(time.time() * 1000)))
    assert values(settings, "t", 0, 0, 60) == [b"%d" % number for number in range(60)]
