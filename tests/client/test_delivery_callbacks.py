"""The outcomes of records: callbacks on the user's thread or on the loop, what flush leaves, and what purge drops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import ottla
from ottla.testing.process import BrokerProcess
from tests.support.peers import Peer


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process


def begun(mortal: BrokerProcess, delivery_timeout_ms: int = 60_000) -> ottla.Producer:
    """A producer that has written a record to topic `t`, whose broker is gone."""
    producer = ottla.Producer(mortal.address, delivery_timeout_ms=delivery_timeout_ms, linger_ms=0)
    producer.send("t", b"0").result(20)
    mortal.kill()
    return producer


def test_callbacks_run_in_order_on_the_thread_that_flushes(broker: Peer, topic: str) -> None:
    told: list[tuple[int, int]] = []
    with ottla.Producer(broker.address) as producer:
        for _ in range(100):
            producer.send(
                topic, b"v", partition=1, on_delivery=lambda done: told.append((threading.get_ident(), done.result().offset))
            )
        producer.flush()
        assert told == [(threading.get_ident(), offset) for offset in range(100)]


def test_poll_waits_for_the_first_callback_and_close_calls_the_rest(broker: Peer, topic: str) -> None:
    told: list[int] = []
    with ottla.Producer(broker.address) as producer:
        assert producer.poll() == 0
        producer.send(topic, b"v", on_delivery=lambda done: told.append(done.partition))
        assert producer.poll(20_000) == 1
        producer.send(topic, b"v", on_delivery=lambda done: told.append(done.partition))
    assert len(told) == 2


def test_a_callback_may_send_flush_and_close(broker: Peer, topic: str) -> None:
    told: list[bytes] = []
    producer = ottla.Producer(broker.address)

    def again(done: ottla.Delivery) -> None:
        producer.send(topic, b"second", on_delivery=lambda done: told.append(b"second"))
        producer.flush()
        told.append(b"first")
        producer.close()

    producer.send(topic, b"first", on_delivery=again)
    producer.flush()
    assert told == [b"second", b"first"]
    with pytest.raises(ottla.Closed):
        producer.send(topic, b"late")


def test_an_exception_of_a_callback_is_raised_after_all_callbacks(
    broker: Peer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    def fail(done: ottla.Delivery) -> None:
        told.append(done.index)
        raise LookupError(f"number {len(told)}")

    with ottla.Producer(broker.address) as producer:
        for _ in range(3):
            producer.send(topic, b"v", partition=0, on_delivery=fail)
        with pytest.raises(LookupError, match="number 1"):
            producer.flush()
        assert len(told) == 3
        assert [line for line in caplog.messages if f"a callback of a record of topic {topic}" in line]
        producer.flush()
        assert producer.send(topic, b"after", partition=0).result(20).offset == 3
        producer.send(topic, b"v", on_delivery=fail)
        with pytest.raises(LookupError, match="number 4"):
            producer.close()


def test_an_error_in_the_block_is_raised_not_that_of_a_callback(broker: Peer, topic: str) -> None:
    def fail(done: ottla.Delivery) -> None:
        raise LookupError

    def use(producer: ottla.Producer) -> None:
        producer.send(topic, b"v", on_delivery=fail)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), ottla.Producer(broker.address) as producer:
        use(producer)


def test_an_error_that_a_callback_has_read_is_not_raised_again(mortal: BrokerProcess) -> None:
    errors: list[str] = []

    def read(done: ottla.Delivery) -> None:
        try:
            done.result()
        except ottla.TimedOut as error:
            errors.append(type(error).__name__)

    with begun(mortal, 300) as producer:
        for _ in range(2):
            producer.send("t", b"v", on_delivery=read)
        producer.flush()
        producer.send("t", b"v", on_delivery=read)
    assert errors == ["TimedOut"] * 3


def test_close_tells_callbacks_of_what_it_dropped_in_order(mortal: BrokerProcess) -> None:
    told: list[int] = []
    producer = begun(mortal)
    for number in range(50):
        producer.send("t", b"v" * 100_000, on_delivery=lambda done, number=number: told.append(number))  # type: ignore[misc]  # the number is bound
    with pytest.raises(ottla.FlushTimedOut) as raised:
        producer.close(100)
    assert raised.value.topics == {"t": 50}
    assert told == list(range(50))


def test_mistaken_callbacks_are_refused_before_the_record_is_queued(broker: Peer, topic: str) -> None:
    async def awaited(done: ottla.Delivery) -> None:
        """Do nothing."""

    with ottla.Producer(broker.address) as producer:
        with pytest.raises(TypeError, match="on_delivery is a function"):
            producer.send(topic, b"v", on_delivery=7)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(TypeError, match="coroutine function"):
            producer.send(topic, b"v", on_delivery=awaited)
        assert producer.unwritten() == {}


def test_threads_that_poll_flush_and_send_call_each_callback_once(broker: Peer, topic: str) -> None:
    told: list[object] = []
    with ottla.Producer(broker.address, linger_ms=1, batch_size=500) as producer:

        def use(number: int) -> None:
            for count in range(500):
                producer.send(topic, b"%d" % count, on_delivery=told.append)
                if count % 50 == number:
                    producer.flush()
                elif count % 10 == 0:
                    producer.poll()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(use, range(4)))
    assert len(told) == len(set(map(id, told))) == 2_000


def test_two_threads_that_close_call_each_callback_once(broker: Peer, topic: str) -> None:
    told: list[object] = []
    producer = ottla.Producer(broker.address, linger_ms=1_000)
    for _ in range(100):
        producer.send(topic, b"v", on_delivery=told.append)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: producer.close(), range(2)))
    assert len(told) == 100


def test_flush_says_how_many_records_are_left(mortal: BrokerProcess) -> None:
    producer = begun(mortal)
    for _ in range(3):
        producer.send("t", b"v")
    assert producer.unwritten() == {"t": 3}
    with pytest.raises(ottla.FlushTimedOut, match="3 records of topic t") as raised:
        producer.flush(50)
    assert raised.value.topics == {"t": 3}
    with suppress(ottla.TimedOut):
        producer.close(0)
    assert producer.unwritten() == {}


def test_purge_drops_what_was_not_sent_and_says_so(mortal: BrokerProcess) -> None:
    told: list[object] = []
    with begun(mortal) as producer:
        deliveries = [producer.send("t", b"v" * 100_000, on_delivery=told.append) for _ in range(30)]
        dropped = producer.purge()
        purged = [delivery for delivery in deliveries if delivery.done()]
        assert 20 <= dropped == len(purged)
        assert producer.poll() == dropped
        for delivery in purged:
            with pytest.raises(ottla.Purged):
                delivery.result(0)
        assert producer.unwritten().get("t", 0) == 30 - dropped
        assert producer.purge() == 0
        with suppress(ottla.FlushTimedOut):
            producer.close(0)


def test_a_purged_producer_goes_on(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, linger_ms=60_000) as producer:
        assert producer.send(topic, b"first", partition=0).done() is False
        assert producer.purge() == 1
        producer.flush()
        delivery = producer.send(topic, b"second", partition=0)
        producer.flush()
        assert delivery.result(0).offset == 0


def test_purge_is_refused_in_a_transaction(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, transactional_id=topic) as producer, producer.transaction():
        delivery = producer.send(topic, b"v")
        with pytest.raises(ottla.TransactionError, match="abort_transaction"):
            producer.purge()
    assert delivery.result(0).topic == topic


def test_the_loop_calls_functions_and_awaits_coroutines(broker: Peer, topic: str) -> None:
    told: list[str] = []

    async def use() -> None:
        async with ottla.AsyncProducer(broker.address) as producer:

            async def awaited(done: ottla.Delivery) -> None:
                await asyncio.sleep(0.01)
                await producer.flush()  # does not wait for this callback itself
                told.append(f"awaited {(await done).offset}")

            def fail(done: ottla.Delivery) -> None:
                raise LookupError

            await producer.send(topic, b"v", partition=2, on_delivery=lambda done: told.append("called"))
            await producer.send(topic, b"v", partition=2, on_delivery=awaited)
            await producer.send(topic, b"v", partition=2, on_delivery=awaited)
            await producer.flush()
            assert told == ["called", "awaited 1", "awaited 2"]
            await producer.send(topic, b"v", on_delivery=fail)
            with pytest.raises(LookupError):
                await producer.flush()
            assert await producer.purge() == 0
            await producer.send(topic, b"v", on_delivery=awaited)

    asyncio.run(use())
    assert told[3:] == ["awaited 0"] or len(told) == 4


def test_a_callback_that_never_returns_holds_no_flush_with_a_limit(broker: Peer, topic: str) -> None:
    async def use() -> bool:
        was_cancelled = False
        producer = await ottla.AsyncProducer(broker.address).start()

        async def wait_for_ever(done: ottla.Delivery) -> None:
            nonlocal was_cancelled
            try:
                await asyncio.Event().wait()
            finally:
                was_cancelled = True

        await (await producer.send(topic, b"v", on_delivery=wait_for_ever))
        with pytest.raises(ottla.TimedOut, match="1 callbacks of on_delivery"):
            await producer.flush(50)
        await producer.close(50)
        return was_cancelled

    assert asyncio.run(use())
