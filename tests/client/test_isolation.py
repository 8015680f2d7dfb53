"""What a reader with isolation_level=read_committed is told while a transaction is open."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Literal

import pytest
from confluent_kafka import Producer

import ottla
from ottla.client.settings.clients import ConsumerSettings
from ottla.spark.brokers import Brokers
from tests.client.test_producer_consumer import reader
from tests.support.peers import Peer

Level = Literal["read_committed", "read_uncommitted"]

pytestmark = pytest.mark.since("0.11.0", "transactions")


@pytest.fixture
def open_transaction(broker: Peer, topic: str) -> Iterator[ottla.TopicPartition]:
    """A partition that holds two records, the second in a transaction that is not ended."""
    with ottla.Producer(broker.address) as plain:
        plain.send(topic, b"before", partition=0).result(20)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": uuid.uuid4().hex, "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"within", partition=0)
    assert producer.flush(20) == 0
    yield ottla.TopicPartition(topic, 0)
    producer.abort_transaction(20)


def test_the_end_is_the_last_stable_offset_only_for_who_reads_what_is_committed(
    broker: Peer, open_transaction: ottla.TopicPartition
) -> None:
    where = open_transaction
    levels: list[tuple[Level, int]] = [("read_committed", 1), ("read_uncommitted", 2)]
    for level, end in levels:
        with reader(broker, isolation_level=level) as consumer:
            assert consumer.end_offsets([where]) == {where: end}
        with Brokers(ConsumerSettings(bootstrap_servers=broker.address, isolation_level=level)) as brokers:
            assert brokers.latest([where]) == {where: end}
