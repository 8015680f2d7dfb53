"""Exactly once with Apache Kafka's own programs: a Java copy loop, Kafka Streams, and a source of Kafka Connect, killed at work."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.apache_kafka import Unavailable, class_path, free_port, java
from tests.support import jars
from tests.support.clients.confluent import Confluent
from tests.support.java import LIGHT
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(240)]
PATIENCE_S = 60
SETTINGS: dict[str, object] = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}
"""What a killed program has left open is ended soon."""

Pair = tuple[str, str]


@pytest.fixture
def killable(peer_name: str, tmp_path: Path) -> Iterator[Peer]:
    """A broker of the test's own, to kill."""
    with start_peer(peer_name, tmp_path, SETTINGS) as peer:
        yield peer


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
    producer = Producer({"bootstrap.servers": address})
    partitions = Confluent(address).partitions(topic)
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


class Committed:
    """Follows what is committed in one topic; `pairs` are the keys and values, of each partition in order."""

    def __init__(self, address: str, topic: str) -> None:
        self.pairs: list[Pair] = []
        settings = {"bootstrap.servers": address, "group.id": "reader", "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "reconnect.backoff.max.ms": 200, "enable.auto.commit": False, "log_level": 0})
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(Confluent(address).partitions(topic))])

    def wait_for(self, count: int, program: subprocess.Popen[bytes], log: Path) -> None:
        """Read until there are so many. Fails when the program ends before, or after a minute, with the end of its log."""

        def reads() -> bool:
            assert program.poll() is None, f"the program ended: {log.read_text()[-3000:]}"
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.pairs.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
            return len(self.pairs) >= count

        eventually(reads, timeout_s=PATIENCE_S, what=f"{count} records are committed")

    def close(self) -> None:
        """Fails where no marker of a transaction stands between the records."""
        ends = [self._consumer.get_watermark_offsets(place, PATIENCE_S)[1] for place in self._consumer.assignment()]
        self._consumer.close()
        assert sum(ends) > len(self.pairs), "what is there was written without transactions"


def test_a_word_count_of_kafka_streams_goes_on_from_its_restored_store(killable: Peer, tmp_path: Path) -> None:
    command = had(lambda: jars.program("WordCount", jars.streams(), tmp_path / "classes"))
    for topic in ("lines", "counts"):
        Confluent(killable.address).create_topic(topic, 2)
    log, state, wanted = tmp_path / "streams.log", tmp_path / "state", Counter[str]()
    counts = Committed(killable.address, "counts")
    for life in range(3):
        lines = [f"again life{life} word{number % 3}" for number in range(20)]
        write(killable.address, "lines", lines)
        wanted.update(word for line in lines for word in line.split())
        with running([*command, killable.address, str(state), "lines", "counts"], log) as program:
            if life == 1:
                killable.restart(kill=True)
            counts.wait_for(wanted.total(), program, log)
        shutil.rmtree(state)  # so that the next life has the counts from their changelog
    counts.close()
    for word, count in wanted.items():
        assert [value for key, value in counts.pairs if key == word] == [str(number) for number in range(1, count + 1)]
    assert "Exception" not in log.read_text().replace("DisconnectException", "")


def copier(broker: Peer, home: Path, life: str) -> list[str]:
    command = had(lambda: jars.program("Copier", class_path(), home / "classes"))
    return [*command, broker.address, str(home / f"{life}.notes"), life, "copier", "copier", "classic", "originals", "copies"]


def test_a_java_loop_that_is_killed_with_its_broker_copies_each_record_once(killable: Peer, tmp_path: Path) -> None:
    for topic in ("originals", "copies"):
        Confluent(killable.address).create_topic(topic, 2)
    log, wanted = tmp_path / "copier.log", list[str]()
    copies = Committed(killable.address, "copies")
    for life in ("first", "second"):
        more = [f"{life}-{number}" for number in range(400)]
        wanted += more
        write(killable.address, "originals", more)
        with running(copier(killable, tmp_path, life), log) as program:
            copies.wait_for(len(wanted) - 300, program, log)
            killable.restart(kill=True)
            copies.wait_for(len(wanted) - 100, program, log)
    with running(copier(killable, tmp_path, "last"), log) as program:
        copies.wait_for(len(wanted), program, log)
    copies.close()
    assert sorted(value.split()[-1] for _, value in copies.pairs) == sorted(wanted)


def worker(broker: Peer, home: Path, port: int) -> list[str]:
    """The command of a distributed worker whose sources are exactly once."""
    (home / "plugins").mkdir(exist_ok=True)
    kept = {f"{kind}.storage.{what}": value for kind in ("config", "offset", "status") for what, value in _storage(kind)}
    converters = {f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")}
    settings = {
        "bootstrap.servers": broker.address,
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
        **converters,
    }
    path = home / "worker.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return [java(), *LIGHT, "-cp", jars.connect(), "org.apache.kafka.connect.cli.ConnectDistributed", str(path)]


def _storage(kind: str) -> list[Pair]:
    few = [("partitions", "1")] if kind != "config" else []
    return [("topic", f"connect-{kind}"), ("replication.factor", "1"), *few]


def create_connector(port: int, file: Path) -> bool:
    """Whether the worker took a source that reads the lines of a file."""
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": "lines",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }
    url, headers = f"http://127.0.0.1:{port}/connectors/lines/config", {"Content-Type": "application/json"}
    wanted = urllib.request.Request(url, json.dumps(config).encode(), headers, method="PUT")
    try:
        with urllib.request.urlopen(wanted, timeout=10) as answer:
            return int(answer.status) in (200, 201)
    except OSError:
        return False


def test_a_source_of_kafka_connect_that_is_killed_writes_each_line_once(killable: Peer, tmp_path: Path) -> None:
    port, file, log = free_port(), tmp_path / "lines.txt", tmp_path / "connect.log"
    command = had(lambda: worker(killable, tmp_path, port))
    Confluent(killable.address).create_topic("lines")
    file.touch()
    lines, wanted = Committed(killable.address, "lines"), list[str]()
    for life in range(2):
        with running(command, log) as program:
            if life == 0:
                eventually(lambda: create_connector(port, file), timeout_s=PATIENCE_S, what="the worker takes a connector")
            for part in range(3):
                more = [f"line {life} {part} {number}" for number in range(50)]
                wanted += more
                with file.open("a") as out:
                    out.writelines(f"{line}\n" for line in more)
                if life == 1 and part == 1:
                    killable.restart(kill=True)
                lines.wait_for(len(wanted) - 20 * (part == 2), program, log)
    with running(command, log) as program:
        lines.wait_for(len(wanted), program, log)
    lines.close()
    assert [value for _, value in lines.pairs] == wanted
