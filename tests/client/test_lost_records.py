"""Records that were sent and not written: whoever keeps no result is told by `flush`, by the end of `with`, and in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.testing.process import BrokerProcess
from tests.support.peers import Peer


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process


def begun(mortal: BrokerProcess, delivery_timeout_ms: int = 500) -> ottla.Producer:
    """A producer that has written a record to topic `t`."""
    producer = ottla.Producer(mortal.address, delivery_timeout_ms=delivery_timeout_ms)
    producer.send("t", b"0").result(20)
    return producer


def test_flush_raises_what_a_broker_that_is_gone_did_not_take(mortal: BrokerProcess, caplog: pytest.LogCaptureFixture) -> None:
    producer = begun(mortal)
    mortal.kill()
    for number in range(10):
        producer.send("t", b"%d" % number)
    with (
        caplog.at_level(logging.ERROR, "ottla.client"),
        pytest.raises(ottla.DeliveryFailed, match="10 records of topic t") as raised,
    ):
        producer.flush()
    assert raised.value.topics == {"t": 10}
    assert [line for line in caplog.messages if "10 records of topic t" in line]
    producer.close()  # nothing is told twice


def lose_three(mortal: BrokerProcess) -> None:
    with begun(mortal) as producer:
        mortal.kill()
        for number in range(3):
            producer.send("t", b"%d" % number)


def test_leaving_with_raises_what_was_lost(mortal: BrokerProcess) -> None:
    with pytest.raises(ottla.DeliveryFailed, match="3 records of topic t"):
        lose_three(mortal)


def test_an_error_in_the_block_is_raised_and_notes_what_was_lost(mortal: BrokerProcess) -> None:
    def fail(producer: ottla.Producer) -> None:
        mortal.kill()
        producer.send("t", b"1")
        raise LookupError

    with pytest.raises(LookupError) as raised, begun(mortal) as producer:
        fail(producer)
    assert any("1 record of topic t" in note for note in raised.value.__notes__)


def test_who_asks_for_each_result_is_told_there_alone(mortal: BrokerProcess) -> None:
    with begun(mortal) as producer:
        mortal.kill()
        deliveries = [producer.send("t", b"%d" % number) for number in range(3)]
        for delivery in deliveries:
            with pytest.raises(ottla.TimedOut):
                delivery.result(20)
        producer.flush()


async def lose_one(mortal: BrokerProcess) -> None:
    async with ottla.AsyncProducer(mortal.address, delivery_timeout_ms=500) as producer:
        await (await producer.send("t", b"0"))
        mortal.kill()
        await producer.send("t", b"1")


def test_leaving_async_with_raises_what_was_lost(mortal: BrokerProcess) -> None:
    with pytest.raises(ottla.DeliveryFailed, match="1 record of topic t"):
        asyncio.run(lose_one(mortal))


def test_a_cancelled_close_raises_no_other_error_and_logs_what_it_cost(
    broker: Peer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def use() -> None:
        producer = await ottla.AsyncProducer(broker.address).start()
        await producer.partitions_for(topic)
        await producer.send(topic, b"v")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)  # `close` now waits for the broker
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(use())
    assert any(f"1 record of topic {topic}" in line for line in caplog.messages)


def test_close_ends_when_the_time_to_deliver_is_over_though_a_broker_owes_the_answer(mortal: BrokerProcess) -> None:
    producer = begun(mortal, delivery_timeout_ms=1_000)
    mortal.pause()
    try:
        for number in range(4_000):
            producer.send("t", b"%d" % number)
        with pytest.raises(ottla.DeliveryFailed, match="4000 records of topic t"):  # and no TimedOut of close itself
            producer.close(timeout_ms=20_000)
    finally:
        mortal.resume()


def test_close_that_gives_up_names_what_was_left(mortal: BrokerProcess) -> None:
    producer = begun(mortal, delivery_timeout_ms=60_000)
    mortal.pause()
    try:
        producer.send("t", b"1")
        with pytest.raises(ottla.TimedOut, match="1 record of topic t"):
            producer.close(timeout_ms=200)
    finally:
        mortal.resume()
