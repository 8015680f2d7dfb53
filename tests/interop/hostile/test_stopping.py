"""Stopping under load: within two seconds, in order, and nothing acknowledged lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import BrokerProcess
from tests.support.clients import CLIENTS
from tests.support.waiting import eventually


class Load:
    """A producer and a consumer at full speed; `acknowledged` grows while they run."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.acknowledged: dict[int, int] = {}
        self._end = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._produce, self._consume)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(20)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.offset()] = int(message.value())

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.address, "acks": "all", "linger.ms": 5, "message.timeout.ms": 3000})
        number = 0
        while not self._end.is_set():
            with contextlib.suppress(BufferError):
                producer.produce("load", b"%d" % number, partition=0, on_delivery=self._delivered)
                number += 1
            producer.poll(0)
        producer.flush(1)

    def _consume(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "load", "enable.auto.commit": False})
        consumer.assign([TopicPartition("load", 0, 0)])
        while not self._end.is_set():
            consumer.consume(1000, 0.1)
        consumer.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as broker:
        CLIENTS[0](broker.address).create_topic("load")
        yield broker


def end(broker: BrokerProcess, how: signal.Signals) -> int:
    """Its exit code; raises `psutil.TimeoutExpired` where it does not come to an end."""
    process = psutil.Process(broker.pid)
    os.kill(broker.pid, how)
    code: int = process.wait(10)
    return code


def everything(address: str, count: int) -> dict[int, int]:
    return {message.offset: int(message.value or b"-1") for message in CLIENTS[0](address).consume("load", count)}


@pytest.mark.rows(1, seconds=4)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_under_load(served: BrokerProcess, how: signal.Signals) -> None:
    with Load(served.address) as load:
        eventually(lambda: len(load.acknowledged) > 5000)
        code = end(served, how)
    assert code == 0, served.log[-2000:]
    assert "Traceback" not in served.log


@pytest.mark.rows(1, seconds=5)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_all_that_was_acknowledged_is_there_again(served: BrokerProcess, how: signal.Signals) -> None:
    with Load(served.address) as load:
        eventually(lambda: len(load.acknowledged) > 5000)
        end(served, how)
    served.start()
    found = everything(served.address, len(load.acknowledged))
    assert {offset: found.get(offset) for offset in load.acknowledged} == load.acknowledged
