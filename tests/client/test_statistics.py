"""The statistics callback: on the user's thread while it polls, iterates or flushes, and on the loop of asynchronous clients."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

import ottla
from tests.support.peers import Peer
from tests.support.waiting import eventually


class Calls:
    """A callback that notes its threads and snapshots, and fails the first time."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.snapshots: list[ottla.MetricsSnapshot] = []

    def __call__(self, snapshot: ottla.MetricsSnapshot) -> None:
        self.threads.append(threading.current_thread())
        self.snapshots.append(snapshot)
        if len(self.threads) == 1:
            raise ZeroDivisionError("the first one")


def test_a_consumer_calls_on_the_thread_that_waits_for_records(broker: Peer, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls()
    with ottla.Consumer(topic, bootstrap_servers=broker.address, on_statistics=calls, statistics_interval_ms=10) as consumer:
        eventually(lambda: consumer.poll(30) == [] and len(calls.threads) > 1, what="two calls")
        count = len(calls.threads)
        assert list(consumer.records(timeout_ms=200)) == []
        assert len(calls.threads) > count
        assert consumer.lag()
    assert set(calls.threads) == {threading.current_thread()}
    assert calls.snapshots[-1].value("last-poll-seconds-ago") < 60
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == ["on_statistics raised an exception"]


def test_a_callback_may_use_its_consumer(broker: Peer, topic: str) -> None:
    found: list[object] = []

    def on_statistics(snapshot: ottla.MetricsSnapshot) -> None:
        found.append(consumer.lag())

    consumer: ottla.Consumer[bytes, bytes]
    with ottla.Consumer(
        topic, bootstrap_servers=broker.address, on_statistics=on_statistics, statistics_interval_ms=10
    ) as consumer:
        eventually(lambda: consumer.poll(30) == [] and found, what="a call")
    assert found[0]


def test_a_producer_calls_on_the_thread_that_polls_or_flushes(broker: Peer, topic: str) -> None:
    calls = Calls()
    with ottla.Producer(broker.address, on_statistics=calls, statistics_interval_ms=5) as producer:
        producer.send(topic, b"v").result(20)
        eventually(lambda: producer.poll(20) == 0 and len(calls.threads) == 1, what="a call")
        producer.send(topic, b"v").result(20)

        def flush_again() -> bool:
            producer.flush()
            return len(calls.threads) > 1

        eventually(flush_again, what="another call")
    assert set(calls.threads) == {threading.current_thread()}
    assert calls.snapshots[-1].value("record-send-total") == 2


def test_asynchronous_clients_await_their_callback(broker: Peer) -> None:
    async def use() -> int:
        done = asyncio.Event()

        async def on_statistics(snapshot: ottla.MetricsSnapshot) -> None:
            await asyncio.sleep(0)
            done.set()

        async with ottla.AsyncProducer(broker.address, on_statistics=on_statistics, statistics_interval_ms=5):
            await asyncio.wait_for(done.wait(), 20)
        return 1

    assert asyncio.run(use()) == 1


def test_a_blocking_client_refuses_a_coroutine_function(broker: Peer) -> None:
    async def on_statistics(snapshot: ottla.MetricsSnapshot) -> None: ...

    with pytest.raises(ottla.SettingError, match="which a blocking client cannot await"):
        ottla.Producer(broker.address, on_statistics=on_statistics)
