"""The asynchronous clients on a loop of the caller's."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Awaitable, Callable

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


def test_records_that_wait_for_a_connection_are_not_overtaken(broker: Peer, topic: str) -> None:
    """Without idempotence, brokers accept batches in any order."""

    async def go() -> int:
        async with ottla.AsyncProducer(broker.address, acks=1, enable_idempotence=False, linger_ms=0) as producer:
            await producer.partitions_for(topic)
            first = await producer.send(topic, b"1", partition=0)
            (opening,) = producer._driver._cluster._links.values()
            while not opening.done():  # noqa: ASYNC110 - the state between this and the end of a task that waits for it
                await asyncio.sleep(0)
            second = await producer.send(topic, b"2", partition=0)  # before the task that waits for the connection runs
            return (await second).offset - (await first).offset

    assert asyncio.run(go()) == 1


def test_a_loop_of_sends_lets_other_tasks_run(broker: Peer, topic: str) -> None:
    async def go() -> int:
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with ottla.AsyncProducer(broker.address, linger_ms=0, batch_size=1_000) as producer:
            await (await producer.send(topic, b"v"))
            other = asyncio.create_task(take_turns())
            for _ in range(1_000):
                await producer.send(topic, bytes(100))
            other.cancel()
        return turns

    assert asyncio.run(go()) > 10


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


def test_a_client_that_is_not_started_refuses_each_call_in_a_sentence_and_closes() -> None:
    async def go() -> None:
        consumer, producer = ottla.AsyncConsumer("t", group_id="g"), ottla.AsyncProducer(transactional_id="x")
        admin = ottla.AsyncAdmin()
        calls: list[Callable[[], Awaitable[object]]] = [
            consumer.poll,
            consumer.commit,
            lambda: anext(aiter(consumer)),
            lambda: anext(consumer.batches()),
            lambda: consumer.position(("t", 0)),
            lambda: consumer.subscribe("t"),
            lambda: producer.send("t", b"v"),
            producer.flush,
            producer.init_transactions,
            admin.list_topics,
        ]
        for call in calls:
            with pytest.raises(ottla.KafkaError, match=r"This Async\w+ is not started: use it within `async with`"):
                await call()
        for use in (consumer.assignment, consumer.positions, producer.unwritten, admin.metrics):
            with pytest.raises(ottla.KafkaError, match="is not started"):
                use()
        await asyncio.gather(consumer.close(), producer.close(), admin.close())

    asyncio.run(go())


def test_an_admin_client_whose_start_failed_is_not_started() -> None:
    async def go() -> None:
        admin = ottla.AsyncAdmin(security_protocol="SSL", ssl_truststore_location="/missing/ca.pem")
        for _ in range(2):
            with pytest.raises(ottla.KafkaError, match=r"^ssl_truststore_location=/missing/ca"):
                await admin.start()
        await admin.close()

    asyncio.run(go())


def test_a_second_start_changes_nothing(broker: Peer, topic: str) -> None:
    async def go() -> int:
        consumer = ottla.AsyncConsumer(topic, bootstrap_servers=broker.address)
        async with consumer, ottla.AsyncProducer(broker.address) as producer, ottla.AsyncAdmin(broker.address) as admin:
            assert await consumer.start() is consumer
            assert await producer.start() is producer
            assert await admin.start() is admin
            await (await producer.send(topic, b"v"))
        with pytest.raises(ottla.Closed):
            await consumer.start()
        return len(asyncio.all_tasks())

    assert asyncio.run(go()) == 1


def test_clients_are_neither_copied_nor_pickled(broker: Peer, topic: str) -> None:
    with (
        ottla.Producer(broker.address) as producer,
        ottla.Consumer(topic, bootstrap_servers=broker.address) as consumer,
        ottla.Admin(broker.address) as admin,
    ):
        for client in (producer, consumer, admin, ottla.AsyncProducer(), ottla.AsyncConsumer(), ottla.AsyncAdmin()):
            for carry in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="objects cannot be copied or pickled: create one where it is used"):
                    carry(client)
