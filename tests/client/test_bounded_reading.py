"""Reading up to given ends, from a time, with the lag of all partitions, and waits that another thread ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from random import Random

import pytest

import ottla
from tests.support.peers import Peer

COUNT = 200


@pytest.fixture
def filled(broker: Peer, topic: str) -> str:
    """A topic with 200 records in each of its three partitions, in batches of all of them."""
    with ottla.Producer(broker.address, linger_ms=1_000) as producer:
        for number in range(COUNT):
            for partition in range(3):
                producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=1_000 + number)
    return topic


def reader(broker: Peer, topic: str) -> ottla.Consumer:
    return ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest")


def test_an_iteration_ends_at_the_ends_also_within_a_batch_and_goes_on_there(broker: Peer, filled: str) -> None:
    with reader(broker, filled) as consumer:
        ends = {(filled, 0): 150, (filled, 1): 0, (filled, 2): COUNT}
        found = [(record.partition, record.offset) for record in consumer.records(until=ends)]
        assert sorted(found) == [(0, offset) for offset in range(150)] + [(2, offset) for offset in range(COUNT)]
        assert {where[1]: position.offset for where, position in consumer.positions().items()} == {0: 150, 1: 0, 2: COUNT}
        assert consumer.paused() == set()
        rest = [(record.partition, record.offset) for record in consumer.records(timeout_ms=1_000)]
        assert sorted(rest) == [(0, offset) for offset in range(150, COUNT)] + [(1, offset) for offset in range(COUNT)]


def test_other_partitions_wait_and_records_that_were_fetched_before_count(broker: Peer, filled: str) -> None:
    with reader(broker, filled) as consumer:
        consumer.pause((filled, 1), (filled, 2))
        assert len(consumer.poll(10_000, max_records=10)) == 10
        consumer.resume((filled, 2))
        found = [(record.partition, record.offset) for record in consumer.records(until={(filled, 0): 20})]
        assert found == [(0, offset) for offset in range(10, 20)]
        assert consumer.paused() == {(filled, 1)}
        assert [*consumer.records(until={(filled, 0): 20})] == []


def test_columns_and_arrow_batches_end_there_too(broker: Peer, filled: str) -> None:
    pytest.importorskip("pyarrow")
    with reader(broker, filled) as consumer:
        ends = {(filled, partition): 77 for partition in range(3)}
        assert sum(batch.num_rows for batch in consumer.batches(until=ends)) == 3 * 77
        ends = {(filled, partition): 99 for partition in range(3)}
        assert sum(len(columns) for found in consumer.columns(until=ends) for columns in found.columns) == 3 * 22


def test_transaction_markers_count_up_to_the_end(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"in", partition=0)
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
    committed = ottla.Consumer(
        topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    with committed as consumer:
        ends = consumer.end_offsets([(topic, 0)])
        assert ends == {(topic, 0): 4}
        assert [record.value for record in consumer.records(until=ends)] == [b"in"]


def test_members_of_a_group_wait_for_their_assignment(broker: Peer, filled: str, unique: Callable[[str], str]) -> None:
    with ottla.Consumer(
        filled, bootstrap_servers=broker.address, auto_offset_reset="earliest", group_id=unique("group")
    ) as consumer:
        ends = consumer.end_offsets(consumer.partitions_for(filled))
        assert len([*consumer.records(until=ends)]) == 3 * COUNT
        consumer.commit()
        committed = consumer.committed((filled, 1))
        assert committed is not None
        assert committed.offset == COUNT


def test_an_iteration_that_is_left_does_not_hold_partitions(broker: Peer, filled: str) -> None:
    with reader(broker, filled) as consumer:
        for _ in consumer.records(until={(filled, 0): 5}):
            break
        assert len([*consumer.records(timeout_ms=1_000)]) == 3 * COUNT - 1


def test_mistaken_ends_are_refused(broker: Peer, filled: str) -> None:
    with reader(broker, filled) as consumer:
        with pytest.raises(TypeError, match="until is a dict"):
            next(consumer.records(until=[(filled, 0)]))  # type: ignore[arg-type]  # the mistake
        with pytest.raises(ottla.SettingError, match="at least 0"):
            next(consumer.records(until={(filled, 0): -1}))
        assert consumer.poll(10_000)


@pytest.mark.since("0.10.1", "offsets by the times of records")
def test_lag_of_all_partitions_and_seek_to_a_time(broker: Peer, filled: str) -> None:
    with reader(broker, filled) as consumer:
        ends = {(filled, partition): 50 for partition in range(3)}
        assert len([*consumer.records(until=ends)]) == 150
        assert consumer.lag() == {(filled, partition): 150 for partition in range(3)}
        consumer.seek_to_time(1_190)
        assert sorted(record.offset for record in consumer.records(timeout_ms=500)) == sorted([*range(190, COUNT)] * 3)
        consumer.seek_to_time(5_000, (filled, 1))
        assert consumer.position((filled, 1)) == COUNT
        with pytest.raises(ottla.KafkaError):
            consumer.seek_to_time(1_000, (filled, 1), (filled, 7))
        assert consumer.position((filled, 1)) == COUNT


def test_another_thread_wakes_a_waiting_consumer(broker: Peer, topic: str) -> None:
    with reader(broker, topic) as consumer:
        begun = threading.Event()

        def wake() -> None:
            begun.wait(20)
            consumer.wakeup()

        waking = threading.Thread(target=wake)
        waking.start()
        begun.set()
        with pytest.raises(ottla.WokenUp):
            next(iter(consumer))
        waking.join()
        consumer.wakeup()
        consumer.wakeup()
        with pytest.raises(ottla.WokenUp):
            consumer.poll(60_000)
        assert consumer.poll() == []
        with ottla.Producer(broker.address) as producer:
            producer.send(topic, b"v")
        assert [record.value for record in consumer.poll(20_000)] == [b"v"]


def test_an_asynchronous_consumer_is_woken_and_closed(broker: Peer, topic: str) -> None:
    async def use() -> None:
        async with ottla.AsyncConsumer(topic, bootstrap_servers=broker.address) as consumer:
            asyncio.get_running_loop().call_later(0.05, consumer.wakeup)
            with pytest.raises(ottla.WokenUp):
                await consumer.poll(60_000)
            consumer.wakeup()
        consumer.wakeup()

    asyncio.run(use())


def test_partitions_stay_in_order_however_they_are_paused_and_resumed_between_polls(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, batch_size=100, linger_ms=0) as producer:
        for number in range(600):
            producer.send(topic, b"%d" % number, partition=number % 3)
    random, found = Random(7), dict[int, list[int]]()
    settings = {"bootstrap_servers": broker.address, "auto_offset_reset": "earliest", "max_partition_fetch_bytes": 200}
    with ottla.Consumer(topic, **settings) as consumer:  # type: ignore[call-overload]  # settings that two tests could share
        while sum(map(len, found.values())) < 600:
            consumer.resume(*consumer.paused())
            consumer.pause(*((topic, partition) for partition in random.sample(range(3), random.randrange(3))))
            for record in consumer.poll(1_000, max_records=random.choice((1, 3, 7))):
                found.setdefault(record.partition, []).append(record.offset)
    assert found == {partition: list(range(200)) for partition in range(3)}
