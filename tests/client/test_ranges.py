"""Ranges of records and ready batches, as Spark's tasks read and write them, against a live broker."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import pickle
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

import ottla
from ottla.client.settings.clients import ConsumerSettings, ProducerSettings
from ottla.net.client.consumer.range_reader import RangeReader
from ottla.net.client.producer.batch_producer import BatchProducer
from ottla.records.batches.columns import build, open_batches
from ottla.records.batches.header import write_crc
from ottla.spark.brokers import Brokers
from tests.support.peers import Peer


def reading(broker: Peer, *, request_timeout_ms: int = 10_000, max_partition_fetch_bytes: int = 4_194_304) -> ConsumerSettings:
    made = ConsumerSettings(
        bootstrap_servers=broker.address,
        request_timeout_ms=request_timeout_ms,
        default_api_timeout_ms=request_timeout_ms,
        fetch_max_wait_ms=100,
        max_partition_fetch_bytes=max_partition_fetch_bytes,
    )
    assert pickle.loads(pickle.dumps(made)) == made
    return made


def pieces(settings: ConsumerSettings, topic: str, partition: int, start: int, end: int) -> Iterator[list[memoryview]]:
    reader = RangeReader(settings, ottla.TopicPartition(topic, partition), start, end)
    with asyncio.Runner() as runner:
        try:
            while (found := runner.run(reader.next_batches())) is not None:
                yield found
        finally:
            runner.run(reader.close())


def values(settings: ConsumerSettings, topic: str, partition: int, start: int, end: int) -> list[bytes | None]:
    found = []
    for piece in pieces(settings, topic, partition, start, end):
        for records in piece:
            columns = open_batches(records, from_offset=start, until_offset=end)
            found += [record.value for record in columns.records()]
    return found


@asynccontextmanager
async def producing(broker: Peer, acks: str = "all") -> AsyncIterator[BatchProducer]:
    producer = await BatchProducer(
        ProducerSettings(bootstrap_servers=broker.address, acks=acks, enable_idempotence=acks == "all")
    ).start()
    try:
        yield producer
        await producer.flush()
    finally:
        await producer.close()


def write(broker: Peer, topic: str, partition: int, batches: int, size: int = 10, acks: str = "all", width: int = 1) -> None:
    async def work() -> None:
        async with producing(broker, acks) as producer:
            for number in range(batches):
                rows = [b"%0*d" % (width, number * size + row) for row in range(size)]
                await producer.send([(ottla.TopicPartition(topic, partition), build(None, rows, 1_000 + number))])

    asyncio.run(work())


def test_a_producer_that_is_kept_sees_a_topic_grow(broker: Peer, topic: str) -> None:
    async def work() -> list[int]:
        producer = await BatchProducer(ProducerSettings(bootstrap_servers=broker.address, metadata_max_age_ms=1)).start()
        counts = [await producer.partition_count(topic)]
        async with ottla.AsyncAdmin(broker.address) as admin:
            await admin.create_partitions({topic: counts[0] + 3})
        await asyncio.sleep(0.002)
        counts.append(await producer.partition_count(topic))
        await producer.close()
        return counts

    before, after = asyncio.run(work())
    assert after == before + 3


def test_a_range_is_exact_whatever_batches_it_cuts(broker: Peer, topic: str) -> None:
    write(broker, topic, 1, 20)
    settings = reading(broker)
    assert values(settings, topic, 1, 0, 200) == [b"%d" % number for number in range(200)]
    assert values(settings, topic, 1, 37, 114) == [b"%d" % number for number in range(37, 114)]
    assert values(settings, topic, 1, 5, 5) == []


def test_a_range_larger_than_one_answer_comes_in_pieces(broker: Peer, topic: str) -> None:
    small = reading(broker, max_partition_fetch_bytes=1_000)
    write(broker, topic, 0, 100)
    assert len(list(pieces(small, topic, 0, 0, 1_000))) > 5
    assert values(small, topic, 0, 0, 1_000) == [b"%d" % number for number in range(1_000)]


def test_the_pieces_of_a_partition_together_fetch_little_more_than_it_holds(broker: Peer, topic: str) -> None:
    write(broker, topic, 0, 1_000, size=100, width=100)
    settings = reading(broker)
    edges = range(0, 100_001, 10_000)
    ranges = [(0, 100_000), *itertools.pairwise(edges)]
    whole, *cut = (sum(map(len, itertools.chain(*pieces(settings, topic, 0, start, end)))) for start, end in ranges)
    assert sum(cut) < whole * 1.25


@pytest.mark.full(seconds=10)
def test_answers_larger_than_every_buffer_arrive_unharmed_while_earlier_ones_are_still_held(broker: Peer, topic: str) -> None:
    rows = [b"%07d" % number * 500 for number in range(40)]

    async def work() -> None:
        async with producing(broker) as producer:
            for first in range(4_000):
                await producer.send([(ottla.TopicPartition(topic, 0), build(None, rows[first % 40 : first % 40 + 1] * 2, 0))])

    asyncio.run(work())
    held = [records for piece in pieces(reading(broker), topic, 0, 0, 8_000) for records in piece]
    opened = [record.value for records in held for record in open_batches(records).records()]
    assert opened == [rows[first % 40] for first in range(4_000) for _ in range(2)]


def test_batches_land_in_the_order_they_were_sent_and_say_where(broker: Peer, topic: str) -> None:
    async def work() -> list[ottla.RecordMetadata]:
        async with producing(broker) as producer:
            assert await producer.partition_count(topic) == 3
            await producer.send((ottla.TopicPartition(topic, number % 3), build(None, [b"%d" % number], 0)) for number in range(30))
            return await producer.flush()

    written = asyncio.run(work())
    assert sorted((place.partition, place.offset) for place in written) == [(p, o) for p in range(3) for o in range(10)]
    assert values(reading(broker), topic, 2, 0, 10) == [b"%d" % number for number in range(2, 30, 3)]


def test_batches_that_nobody_acknowledges_are_written_all_the_same(broker: Peer, topic: str) -> None:
    write(broker, topic, 0, 200, acks="0")
    assert values(reading(broker), topic, 0, 0, 2_000) == [b"%d" % number for number in range(2_000)]


def test_offsets_by_time_and_at_both_ends(broker: Peer, topic: str) -> None:
    write(broker, topic, 0, 5)
    where = ottla.TopicPartition(topic, 0)
    with Brokers(reading(broker)) as brokers:
        assert brokers.earliest([where]) == {where: 0}
        assert brokers.latest([where]) == {where: 50}
        assert brokers.at_times({where: 1_003}) == {where: 30}
        assert brokers.at_times({where: 9_999}) == {where: None}
        assert brokers.latest([]) == {}


def test_a_range_that_is_gone_is_an_error_at_once(broker: Peer, topic: str) -> None:
    write(broker, topic, 0, 1)
    with pytest.raises(ottla.OffsetOutOfRange):
        values(reading(broker), topic, 0, 500, 600)


def test_a_range_beyond_the_end_is_an_error_after_the_time_allowed(broker: Peer, topic: str) -> None:
    write(broker, topic, 0, 1)
    with pytest.raises(ottla.TimedOut, match="the range ends at 20: the high watermark is 10"):
        values(reading(broker, request_timeout_ms=500), topic, 0, 0, 20)


@pytest.mark.since("2.4", "INVALID_RECORD")
def test_a_batch_that_the_broker_refuses_is_raised(broker: Peer, topic: str) -> None:
    broken = bytearray(build(None, [b"x"], 0))
    broken[22] |= 0x20  # a control batch, which no client may send
    write_crc(broken, 0, len(broken))

    async def work() -> None:
        async with producing(broker) as producer:
            await producer.send([(ottla.TopicPartition(topic, 0), broken)])

    with pytest.raises(ottla.BrokerError, match="INVALID_RECORD"):
        asyncio.run(work())


def test_without_a_broker_there_is_one_clear_error_from_every_client() -> None:
    settings = ConsumerSettings(bootstrap_servers="127.0.0.1:1", request_timeout_ms=200, default_api_timeout_ms=200)
    with pytest.raises(ottla.ConnectionFailed) as reading_fails:
        list(pieces(settings, "t", 0, 0, 1))
    with pytest.raises(ottla.ConnectionFailed) as asking_fails, ottla.Admin("127.0.0.1:1", default_api_timeout_ms=200) as admin:
        admin.list_topics()
    said = str(reading_fails.value)
    assert str(asking_fails.value) == said
    assert said == (
        "None of bootstrap_servers=127.0.0.1:1 could be reached: start a broker there, or change bootstrap_servers. "
        "No connection to 127.0.0.1:1: Connection refused."
    )


def test_reading_starts_no_thread_and_can_be_left_in_the_middle(broker: Peer, topic: str) -> None:
    write(broker, topic, 0, 100)
    before = set(threading.enumerate())
    found = pieces(reading(broker, max_partition_fetch_bytes=1_000), topic, 0, 0, 1_000)
    assert next(found)
    assert set(threading.enumerate()) <= before  # threads of earlier tests can end
    found.close()  # type: ignore[attr-defined]  # it is a generator


def test_what_a_task_writes_through_leaves_no_thread_behind_even_if_it_fails(broker: Peer, topic: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[arrow]'")
    sending = importlib.import_module("ottla.spark.row_sender")

    def task(value: bytes, fails: int) -> None:
        producer = sending.TaskProducer.start(ProducerSettings(bootstrap_servers=broker.address))
        try:
            producer.send(ottla.TopicPartition(topic, 0), build(None, [value], 0))
            assert 1 // (1 - fails)
            producer.flush()
        finally:
            producer.close()

    before = set(threading.enumerate())
    task(b"x", fails=0)
    with pytest.raises(ZeroDivisionError):
        task(b"never sent", fails=1)
    assert set(threading.enumerate()) <= before  # threads of earlier tests can end
    assert values(reading(broker), topic, 0, 0, 1) == [b"x"]


def test_writing_survives_a_broker_that_is_killed(own_broker: Peer) -> None:
    with ottla.Admin(own_broker.address) as admin:
        admin.create_topic("t", 1, 1)

    async def work() -> None:
        async with producing(own_broker) as producer:
            for number in range(60):
                if number == 30:
                    await asyncio.to_thread(own_broker.restart, kill=True)
                # The time of a batch is what a restarted broker judges by whether its producer is still about.
                await producer.send([(ottla.TopicPartition("t", 0), build(None, [b"%d" % number], int(time.time() * 1000)))])

    asyncio.run(work())
    assert values(reading(own_broker), "t", 0, 0, 60) == [b"%d" % number for number in range(60)]
