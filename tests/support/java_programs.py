"""Programs of Apache Kafka's world that run beside a test until they are killed, and what can be asked of them."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.apache_kafka import Unavailable, java
from tests.support import jars
from tests.support.clients.confluent import Confluent
from tests.support.java import LIGHT
from tests.support.waiting import eventually

PATIENCE_S = 60
Pair = tuple[str, str]
STRINGS = {f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")}


def had(make: Callable[[], list[str]]) -> list[str]:
    """The command of a program; skips the test where it cannot be had."""
    try:
        return make()
    except Unavailable as missing:
        pytest.skip(f"it cannot run: {missing}")


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program until the block ends; killed with SIGKILL then."""
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def write(address: str, topic: str, values: Sequence[str]) -> None:
    """By turns to all partitions."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    partitions = Confluent(address).partitions(topic)
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(2 * PATIENCE_S) == 0


class Committed:
    """Follows what is committed in one topic; `pairs` are the keys and values, of each partition in order."""

    def __init__(self, address: str, topic: str, *, timeout_s: float = PATIENCE_S) -> None:
        self.pairs: list[Pair] = []
        self._timeout_s = timeout_s
        settings = {"bootstrap.servers": address, "group.id": "reader", "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "reconnect.backoff.max.ms": 200, "enable.auto.commit": False, "log_level": 0})
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(Confluent(address).partitions(topic))])

    def wait_for(self, count: int, program: subprocess.Popen[Any], log: Path) -> None:
        """Read until there are so many. Fails when the program ends before, or after the timeout, with the end of its log."""

        def reads() -> bool:
            assert program.poll() is None, f"the program ended: {log.read_text()[-3000:]}"
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.pairs.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
            return len(self.pairs) >= count

        eventually(reads, timeout_s=self._timeout_s, what=f"{count} records are committed")

    def close(self) -> None:
        """Fails where no marker of a transaction stands between the records."""
        ends = [self._consumer.get_watermark_offsets(place, PATIENCE_S)[1] for place in self._consumer.assignment()]
        self._consumer.close()
        assert sum(ends) > len(self.pairs), "what is there was written without transactions"


def connect_worker(address: str, home: Path, port: int, *, replicas: int = 1) -> list[str]:
    """The command of a distributed worker of Kafka Connect whose sources are exactly once. Raises `Unavailable`."""
    (home / "plugins").mkdir(exist_ok=True)
    kept = {f"{kind}.storage.{what}": value for kind in ("config", "offset", "status") for what, value in _storage(kind, replicas)}
    settings = {
        "bootstrap.servers": address,
        "group.id": "connect",
        "listeners": f"http://127.0.0.1:{port}",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": 200,
        "plugin.path": home / "plugins",
        "plugin.discovery": "only_scan",
        "scheduled.rebalance.max.delay.ms": 0,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "reconnect.backoff.max.ms": 200,
        **kept,
        **STRINGS,
    }
    path = home / f"worker-{port}.properties"
    write_properties(path, settings)
    return [java(), *LIGHT, "-cp", jars.connect(), "org.apache.kafka.connect.cli.ConnectDistributed", str(path)]


def _storage(kind: str, replicas: int) -> list[Pair]:
    few = [("partitions", "1")] if kind != "config" else []
    return [("topic", f"connect-{kind}"), ("replication.factor", str(replicas)), *few]


def write_properties(path: Path, settings: Mapping[str, object]) -> None:
    """A file of Java's, a setting a line."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def create_connector(port: int, name: str, config: Mapping[str, str]) -> bool:
    """Whether the worker at a port took a connector."""
    url, headers = f"http://127.0.0.1:{port}/connectors/{name}/config", {"Content-Type": "application/json"}
    wanted = urllib.request.Request(url, json.dumps(config).encode(), headers, method="PUT")
    try:
        with urllib.request.urlopen(wanted, timeout=10) as answer:
            return int(answer.status) in (200, 201)
    except OSError:
        return False


def states(port: int) -> dict[str, list[str]]:
    """The states of all connectors and of their tasks, as the worker at a port knows them; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/connectors?expand=status", timeout=10) as answer:
            told = json.load(answer)
    except OSError:
        return {}
    return {
        name: [part["state"] for part in (said["status"]["connector"], *said["status"]["tasks"])] for name, said in told.items()
    }


def file_source(file: Path, topic: str) -> dict[str, str]:
    """What makes a connector copy the lines of a file, each once."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }
