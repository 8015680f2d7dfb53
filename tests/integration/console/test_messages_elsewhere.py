"""Messages and groups of Apache Kafka in the console, and a tail whose broker goes away and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import ottla
from ottla.console.config import ConsoleConfig
from ottla.testing import BrokerProcess
from tests.integration.console.conftest import console_client
from tests.support.peers import start_peer


@contextmanager
def console_of(address: str) -> Iterator[httpx.Client]:
    with console_client(ConsoleConfig({"bootstrap_servers": address})) as client:
        client.get("/")
        yield client


def read(client: httpx.Client, path: str, **query: Any) -> Any:
    answer = client.get(f"/api{path}", params={"wait_ms": 10_000, **query} if path.endswith("/messages") else query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def texts(page: Any) -> list[str]:
    return [each["value"]["text"] for each in page["messages"]]


def eventually(check: Callable[[], object], seconds: float = 45) -> None:
    """Wait until a check is true."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.java
@pytest.mark.full(seconds=30)
def test_the_pages_show_apache_kafka(tmp_path: Path) -> None:
    with start_peer("apache-kafka", tmp_path) as kafka, console_of(kafka.address) as client:
        with ottla.Admin(kafka.address) as admin:
            admin.create_topic("numbers", 2, 1)
        with ottla.Producer(kafka.address) as producer:
            for number in range(200):
                producer.send("numbers", key=b"k%d" % number, value=b'{"n": %d}' % number, partition=number % 2)
        with ottla.Producer(kafka.address, transactional_id="t") as producer:
            with suppress(ZeroDivisionError), producer.transaction():
                producer.send("numbers", value=b"bad", partition=0)
                producer.flush()
                _ = 1 / 0
            with producer.transaction():
                producer.send("numbers", value=b"open", partition=0)
                producer.flush()
                page = read(client, "/topics/numbers/messages", limit=5, control=True, partition="0")
                offsets = [each["offset"] for each in page["messages"]]
                assert sorted(set(offsets), reverse=True) == offsets
                # Apache Kafka can write a marker twice, when the answer to the first request for it was late.
                states = [each["transaction"] for each in page["messages"]]
                assert list(dict.fromkeys(states)) == ["open", "abort marker", "aborted", ""]
        assert texts(read(client, "/topics/numbers/messages", filter="value.n == 77")) == ['{"n": 77}']
        assert texts(read(client, "/topics/numbers/messages", start="oldest", limit=3, text='"n": 199')) == ['{"n": 199}']
        assert 30 < len(texts(read(client, "/topics/numbers/messages", start="tail"))) <= 40
        for kind in ("classic", "consumer"):
            settings: Any = {"bootstrap_servers": kafka.address, "group_id": kind, "group_protocol": kind}
            with ottla.Consumer("numbers", auto_offset_reset="earliest", **settings) as consumer:
                next(iter(consumer))
                consumer.commit()
                found = read(client, f"/groups/{kind}")
                assert (found["kind"], found["state"], len(found["members"])) == (kind, "Stable", 1)
                assert found["lag"] > 190
                assert "active member" in read(client, f"/groups/{kind}/reset")["sentence"]
            eventually(lambda kind=kind: read(client, f"/groups/{kind}")["state"] == "Empty")  # type: ignore[misc]  # bound now
            assert client.post(f"/api/groups/{kind}/reset", json={"to": "latest"}).status_code == 200
            assert read(client, f"/groups/{kind}")["lag"] == 0
            assert client.post(f"/api/groups/{kind}/delete", json={"typed": kind}).status_code == 200
        assert "Apache Kafka" in read(client, "/clients")["trouble"]


@pytest.mark.full(seconds=10)
def test_a_tail_waits_for_a_broker_that_is_away(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, console_of(broker.address) as client:
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("tailed", 1)
        with ottla.Producer(broker.address) as producer:
            producer.send("tailed", value=b"before").result(10)
        run = read(client, "/topics/tailed/messages", start="tail")["run"]

        def tail() -> Any:
            return read(client, "/topics/tailed/messages", start="tail", run=run, wait_ms=0)

        assert texts(tail()) == ["before"]
        broker.kill()
        eventually(lambda: tail()["trouble"])
        began = time.monotonic()
        assert texts(tail()) == ["before"]
        assert time.monotonic() - began < 3, "a page waits for nothing that it has already"
        broker.restart()
        with ottla.Producer(broker.address) as producer:
            producer.send("tailed", value=b"after").result(20)
        eventually(lambda: texts(tail()) == ["after", "before"])
        assert not tail()["trouble"]
