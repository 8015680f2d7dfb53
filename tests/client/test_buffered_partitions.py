"""Iterations over several partitions whose chunks are handed out by one call: whatever happens between two of them takes effect."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

import ottla
from tests.support.peers import Peer

COUNT, PARTITIONS = 50, 3


@pytest.fixture
def filled(broker: Peer, topic: str) -> str:
    """A topic with 50 records in each of its three partitions."""
    with ottla.Producer(broker.address, linger_ms=1_000) as producer:
        for number in range(COUNT):
            for partition in range(PARTITIONS):
                producer.send(topic, b"%d" % number, partition=partition)
    return topic


def reader(broker: Peer, topic: str, group_id: str | None = None) -> ottla.Consumer:
    return ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", group_id=group_id)


def all_of(*partitions: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in partitions for offset in range(COUNT)]


def test_a_partition_that_is_paused_meanwhile_is_read_once_it_is_resumed(broker: Peer, filled: str) -> None:
    with reader(broker, filled) as consumer:
        records = consumer.records(timeout_ms=500)
        first = next(records).partition
        others = [partition for partition in range(PARTITIONS) if partition != first]
        consumer.pause(*((filled, partition) for partition in others))
        assert [(record.partition, record.offset) for record in records] == all_of(first)[1:]
        consumer.resume(*((filled, partition) for partition in others))
        found = sorted((record.partition, record.offset) for record in islice(consumer, 2 * COUNT))
        assert found == all_of(*others)


def test_a_seek_in_another_partition_takes_effect_before_it_is_read(broker: Peer, filled: str) -> None:
    with reader(broker, filled) as consumer:
        records = consumer.records()
        first = next(records).partition
        other, third = (first + 1) % PARTITIONS, (first + 2) % PARTITIONS
        consumer.seek((filled, other), COUNT - 2)
        found = sorted((record.partition, record.offset) for record in islice(records, 2 * COUNT + 1))
        assert found == sorted([*all_of(first)[1:], *all_of(other)[-2:], *all_of(third)])


def test_a_wakeup_is_raised_before_the_next_partition_and_loses_nothing(broker: Peer, filled: str) -> None:
    with reader(broker, filled) as consumer:
        records = iter(consumer)
        found = [next(records)]
        consumer.wakeup()
        with pytest.raises(ottla.WokenUp):
            found.extend(records)
        assert {record.partition for record in found} == {found[0].partition}
        found.extend(islice(consumer, PARTITIONS * COUNT - len(found)))
        assert sorted((record.partition, record.offset) for record in found) == all_of(*range(PARTITIONS))


def test_a_batch_is_processed_once_the_next_partition_is_asked_for(broker: Peer, filled: str, unique: Callable[[str], str]) -> None:
    pytest.importorskip("pyarrow")
    group_id = unique("group")
    with reader(broker, filled, group_id) as consumer:
        batches = consumer.batches()
        done, open_ = (next(batches).column("partition")[0].as_py() for _ in range(2))
        assert done != open_
        consumer.close(finished=False)
    with reader(broker, filled, group_id) as consumer:
        committed = {partition: consumer.committed((filled, partition)) for partition in range(PARTITIONS)}
        assert {partition: found and found.offset for partition, found in committed.items()} == {
            done: COUNT,
            open_: 0,
            3 - done - open_: 0,
        }
