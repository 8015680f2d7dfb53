"""The asynchronous clients on a loop of the caller's."""

from __future__ import annotations

import asyncio

import pytest

import ottla
from tests.support.peers import Peer


def test_a_round_trip_on_the_callers_loop(broker: Peer, topic: str) -> None:
    async def go() -> list[int]:
        async with ottla.AsyncProducer(broker.address) as producer:
            deliveries = [await producer.send(topic, b"%d" % number) for number in range(1_000)]
            deliveries += [delivery for delivery, _ in await producer.send_values(topic, [b"1000", b"1001"])]
            await producer.flush()
            assert all(delivery.done() for delivery in deliveries)
            assert (await deliveries[0]).topic == topic
        async with ottla.AsyncConsumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
            return [int(record.value or b"") async for record in consumer.records(timeout_ms=1_500)]

    assert sorted(asyncio.run(go())) == list(range(1_002))


def test_a_delivery_calls_back(broker: Peer, topic: str) -> None:
    async def go() -> list[int]:
        heard: list[int] = []
        async with ottla.AsyncProducer(broker.address, linger_ms=0) as producer:
            delivery = await producer.send(topic, b"v", partition=1)
            delivery.add_done_callback(lambda done: heard.append(done.result().offset))
            await delivery
            delivery.add_done_callback(lambda done: heard.append(done.result().partition))
        return heard

    assert asyncio.run(go()) == [0, 1]


def test_a_waiting_consumer_can_be_cancelled_and_leaves_nothing_behind(broker: Peer, topic: str) -> None:
    async def go() -> int:
        async with ottla.AsyncConsumer(topic, bootstrap_servers=broker.address) as consumer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await consumer.poll(60_000)
        return len(asyncio.all_tasks())

    assert asyncio.run(go()) == 1


def test_many_consumers_live_on_one_loop(broker: Peer, topic: str) -> None:
    async def read(number: int) -> int:
        async with ottla.AsyncConsumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
            return len(await consumer.poll(10_000))

    async def go() -> list[int]:
        async with ottla.AsyncProducer(broker.address) as producer:
            await (await producer.send(topic, b"v"))
        return await asyncio.gather(*(read(number) for number in range(8)))

    assert asyncio.run(go()) == [1] * 8
