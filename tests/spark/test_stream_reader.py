"""What Spark's driver asks of a stream's reader, asked without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from bench.apache_kafka import free_port
from tests.spark.conftest import Topics
from tests.support.peers import start_peer
from tests.support.recorder import Recorder

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

from pyspark.sql.streaming.datasource import ReadAllAvailable  # only where there is PySpark

from ottla.spark import reading
from ottla.spark.errors import DataLoss
from ottla.spark.options import read_options
from ottla.spark.reading import StreamReader
from ottla.spark.schema import source_schema

LIST_OFFSETS = (2).to_bytes(2, "big")


def stream(address: str, topic: str, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest", **options}
    parsed = read_options(given, streaming=True)
    return StreamReader(parsed, source_schema(parsed.columns))


@pytest.fixture
def seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """New partitions show in the next call."""
    monkeypatch.setattr(reading, "_PARTITIONS_KEPT_S", 0.0)


def grow_and_lose(topics: Topics, topic: str) -> None:
    """A second partition with three records, of which two are deleted."""
    topics.grow(topic, 2)
    topics.produce(topic, [{"value": str(number), "partition": 1} for number in range(3)])
    for deleted in topics.delete_records([TopicPartition(topic, 1, 2)]):
        assert deleted.low_watermark == 2


@pytest.mark.usefixtures("seen_at_once")
def test_a_new_partition_that_has_lost_its_first_records_is_a_loss(topics: Topics) -> None:
    topic = topics.make(1)
    reader = stream(topics.address, topic)
    start = reader.initialOffset()
    grow_and_lose(topics, topic)
    with pytest.raises(DataLoss, match=f"{topic}-1 was to be read from offset 0 and begins at 2 now"):
        reader.latestOffset(start, ReadAllAvailable())
    end = {topic: {"0": 0, "1": 3}}
    with pytest.raises(DataLoss, match=f"{topic}-1 was to be read from offset 0 and begins at 2 now"):
        reader.partitions(start, end)
    reader.stop()


@pytest.mark.usefixtures("seen_at_once")
def test_where_losses_are_accepted_a_new_partition_is_read_from_what_is_left(topics: Topics) -> None:
    topic = topics.make(1)
    reader = stream(topics.address, topic, failOnDataLoss="false")
    start = reader.initialOffset()
    grow_and_lose(topics, topic)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {topic: {"0": 0, "1": 3}}
    assert [tuple(piece.value) for piece in reader.partitions(start, end)] == [(topic, 1, 2, 3)]
    reader.stop()


@pytest.fixture
def recorded(peer_name: str, tmp_path: Path) -> Iterator[Recorder]:
    """A broker behind a proxy that keeps every request."""
    port = free_port()
    with start_peer(peer_name, tmp_path, {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as peer:
        host, _, own_port = peer.address.rpartition(":")
        with Recorder(port, (host, int(own_port))) as recorder:
            yield recorder


def idle(reader: StreamReader, start: dict[str, Any], calls: int) -> None:
    for _ in range(calls):
        assert reader.latestOffset(start, ReadAllAvailable()) == start


def test_an_idle_stream_asks_for_offsets_no_more_than_once_a_call_and_sees_what_comes(recorded: Recorder) -> None:
    topics = Topics(recorded.address, lambda stem: stem)
    topic = topics.make(1)
    reader = stream(recorded.address, topic)
    start = reader.initialOffset()
    before = len(recorded.frames)
    idle(reader, start, 10)
    asked = [frame for frame in recorded.frames[before:] if frame[4:6] == LIST_OFFSETS]
    assert len(asked) <= 10
    topics.produce(topic, [{"value": "1"}])
    assert reader.latestOffset(start, ReadAllAvailable()) == {topic: {"0": 1}}
    reader.stop()
