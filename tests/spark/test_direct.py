"""A task reads the files of a partition's leader: the same rows as from the broker, which serves no fetch for them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from bench.apache_kafka import free_port
from tests.spark.conftest import Topics
from tests.support.peers import start_peer
from tests.support.recorder import Recorder

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

from ottla.spark.batch_reader import BatchReader
from ottla.spark.options import read_options  # only where there is PySpark
from ottla.spark.schema import source_schema

FETCH = (1).to_bytes(2, "big")


class Site:
    """A broker whose requests are kept, and its data directory."""

    def __init__(self, recorder: Recorder, home: Path) -> None:
        self.recorder = recorder
        self.home = home
        self.topics = Topics(recorder.address, lambda stem: stem)

    def read(self, topic: str, **options: str) -> list[tuple[Any, ...]]:
        given = {"kafka.bootstrap.servers": self.recorder.address, "subscribe": topic, "includeHeaders": "true", **options}
        asked = read_options(given, streaming=False)
        reader = BatchReader(asked, source_schema(asked.columns))
        found = [batch for piece in reader.partitions() for batch in reader.read(piece)]
        return [tuple(row.values()) for batch in found for row in batch.to_pylist()]

    def fetches(self) -> int:
        return sum(frame[4:6] == FETCH for frame in self.recorder.frames)

    def read_files(self, topic: str, directory: str | None = None, **options: str) -> list[tuple[Any, ...]]:
        """Read without a fetch."""
        before = self.fetches()
        found = self.read(topic, **{"ottla.directory": directory or str(self.home)}, **options)
        assert self.fetches() == before
        return found


@contextmanager
def recorded(kind: str, home: Path) -> Iterator[Site]:
    port = free_port()
    with start_peer(kind, home, {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as broker:
        host, _, own_port = broker.address.rpartition(":")
        with Recorder(port, (host, int(own_port))) as recorder:
            yield Site(recorder, home / ("data" if kind == "ottla" else "kafka/data"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with recorded("ottla", tmp_path_factory.mktemp("direct")) as made:
        yield made


def fill(site: Site, topic: str, codec: str, count: int = 2_000) -> None:
    producer = Producer({"bootstrap.servers": site.recorder.address, "compression.type": codec, "batch.num.messages": 50})
    for number in range(count):
        producer.produce(topic, b"%0200d" % number, b"%d" % number, partition=number % 2, headers=[("n", b"%d" % number)])
    assert producer.flush(20) == 0


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_rows_of_many_segments_are_those_that_the_broker_has(site: Site, unique: Callable[[str], str], codec: str) -> None:
    topic = site.topics.make(2, unique("files"), {"internal.segment.bytes": "30000"})
    fill(site, topic, codec)
    for options in ({}, {"minPartitions": "9"}, {"maxOpenedBytes": "20000"}):
        rows = site.read_files(topic, **options)
        assert len(rows) == 2_000
        assert rows == site.read(topic, **options)


def test_what_is_committed_is_known_from_the_files_too(site: Site, unique: Callable[[str], str]) -> None:
    check_transactions(site, site.topics.make(1, unique("transactions")))


@pytest.mark.full(seconds=14)
def test_the_files_of_apache_kafka_are_read_while_it_writes_them(tmp_path: Path) -> None:
    with recorded("apache-kafka", tmp_path) as site:
        topic = site.topics.make(2, "files", {"segment.bytes": "1048576"})
        fill(site, topic, "none", 12_000)
        rows = site.read_files(topic, minPartitions="9")
        assert len(rows) == 12_000
        assert rows == site.read(topic, minPartitions="9")
        check_transactions(site, site.topics.make(1, "transactions"))


def check_transactions(site: Site, topic: str) -> None:
    producer = Producer({"bootstrap.servers": site.recorder.address, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(8):
        producer.begin_transaction()
        producer.produce(topic, str(number))
        assert producer.flush(20) == 0
        if number < 7:
            (producer.abort_transaction if number % 3 else producer.commit_transaction)(20)
    level = {"kafka.isolation.level": "read_committed"}
    rows = site.read_files(topic, **level)
    assert [row[1] for row in rows] == [b"0", b"3", b"6"]
    assert rows == site.read(topic, **level)
    assert [row[1] for row in site.read_files(topic)] == [b"%d" % number for number in range(8)]
    producer.abort_transaction(20)


def test_a_topic_made_anew_is_read_from_its_own_files(site: Site, unique: Callable[[str], str]) -> None:
    topic = site.topics.make(2, unique("anew"))
    fill(site, topic, "none", 20)
    assert len(site.read_files(topic)) == 20
    site.topics.remove(topic)
    site.topics.make(2, topic)
    fill(site, topic, "none", 10)
    assert len(site.read_files(topic)) == 10


def foreign(tmp_path: Path, cluster_id: str) -> str:
    (tmp_path / "meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\nnode.id=1\n")
    return str(tmp_path)


def test_where_there_are_no_such_files_the_brokers_are_asked_and_the_log_says_why(
    site: Site, unique: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = site.topics.make(2, unique("elsewhere"))
    fill(site, topic, "none", 20)
    for directory, reason in (
        (str(tmp_path / "absent"), "No such file or directory"),
        (foreign(tmp_path, "other"), "it is that of node 1 of cluster other, and .* is led by node 1 of cluster"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert len(site.read(topic, **{"ottla.directory": directory})) == 20
        assert re.search(f"{topic}-0 is read from its brokers from offset 0 on: .*{reason}", caplog.text)
    assert len(site.read_files(topic, f"{tmp_path},{site.home}")) == 20
