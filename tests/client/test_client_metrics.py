"""The metrics of clients, with the names and groups of Kafka's Java clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import ottla
from tests.support.peers import Peer


def test_a_producer_counts_what_it_sent(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, client_id="me") as producer:
        for _ in range(100):
            producer.send(topic, b"v" * 100, partition=1)
        producer.flush()
        metrics = producer.metrics()
    assert metrics.client_id == "me"
    assert metrics.value("record-send-total") == metrics.value("record-send-total", topic=topic) == 100
    assert metrics.value("record-send-rate") > 0
    assert metrics.value("byte-total", topic=topic) > 10_000
    assert 100 < metrics.value("record-size-avg") < 120
    assert metrics.value("request-latency-avg") > 0
    assert metrics.value("connection-count") >= 1
    assert metrics.value("buffer-available-bytes") == metrics.value("buffer-total-bytes")
    assert metrics.value("flush-time-ns-total") > 0
    assert metrics.find("outgoing-byte-total", group="producer-node-metrics")


def test_purged_records_are_no_errors(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send(topic, b"v").result(20)
        producer.send(topic, b"v")
        producer.purge()
        metrics = producer.metrics()
    assert (metrics.value("record-error-total"), metrics.value("record-send-total", topic=topic) >= 1) == (0, True)


@pytest.mark.since("0.11.0", "the first offset of a partition in answers to fetches")
def test_a_consumer_counts_what_it_read_and_its_group(broker: Peer, topic: str, unique: Callable[[str], str]) -> None:
    with ottla.Producer(broker.address) as producer:
        for _ in range(30):
            producer.send(topic, b"v", partition=1)
    settings = {"group_id": unique("group"), "auto_offset_reset": "earliest"}
    with ottla.Consumer(topic, bootstrap_servers=broker.address, **settings) as consumer:  # type: ignore[call-overload]  # a dict
        count = 0
        while count < 30:
            count += len(consumer.poll(1_000, max_records=10))
        consumer.commit()
        metrics = consumer.metrics()
    assert metrics.value("records-consumed-total", topic=topic) == 30
    assert metrics.value("records-lag", topic=topic, partition=1) == 0
    assert metrics.value("records-lead-min", group="consumer-fetch-manager-metrics", topic=topic, partition=1) >= 10
    assert metrics.value("assigned-partitions") == 3
    assert metrics.value("rebalance-total") == 1
    assert metrics.value("commit-total") >= 1
    assert metrics.value("join-time-max") > 0
    assert metrics.value("fetch-total") >= 1


def test_a_fetch_that_begins_within_a_batch_counts_the_records_that_are_handed_out(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send_values(topic, [b"v"] * 10, partition=0)
    with ottla.Consumer(bootstrap_servers=broker.address) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 7)
        assert len(consumer.poll(10_000)) == 3
        assert consumer.metrics().value("records-consumed-total") == 3


def test_admins_and_asynchronous_clients_have_metrics_too(broker: Peer, topic: str) -> None:
    async def ask() -> None:
        async with ottla.AsyncAdmin(broker.address) as admin, ottla.AsyncProducer(broker.address) as producer:
            await admin.list_topics()
            await (await producer.send(topic, b"v"))
            assert admin.metrics().value("request-total", group="admin-client-metrics") > 0
            assert producer.metrics().value("record-send-total") == 1

    asyncio.run(ask())
