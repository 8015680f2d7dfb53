"""Ottla's own client, held to an old release, against brokers of that release and against listeners that are it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla.client.errors import NotSupported, SettingError
from ottla.client.keywords import ProducerKeywords
from tests.old.conftest import ManyReleases
from tests.old.today import COUNT
from tests.support.old_kafka import RELEASES, started

Unique = Callable[[str], str]
CODECS = {"0.8.2": ("none", "gzip", "snappy", "lz4"), "2.8": ("none", "gzip", "snappy", "lz4", "zstd")}
SINCE_0_9 = [release for release in RELEASES if release != "0.8.2"]


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def address(request: pytest.FixtureRequest, release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of the release, the real one or Ottla in its place."""
    if request.param == "kafka":
        with started(release, tmp_path_factory.mktemp(release)) as broker:
            yield broker.address
    else:
        with ottla.Broker(release=release) as emulated:
            yield emulated.address


def written(count: int = COUNT) -> list[tuple[int, bytes, bytes]]:
    return [(i, f"k{i}".encode(), f"v{i}".encode()) for i in range(count)]


def produce(address: str, release: str | None, topic: str, codec: Any = "none") -> None:
    with ottla.Producer(address, api_version=release, compression_type=codec, linger_ms=20) as producer:
        sent = [producer.send(topic, value, key=key, partition=0) for _, key, value in written()]
        producer.flush()
        assert [delivery.result(20).offset for delivery in sent] == list(range(COUNT))


def read(consumer: ottla.Consumer, count: int = COUNT) -> list[tuple[int, bytes | None, bytes | None]]:
    found: list[tuple[int, bytes | None, bytes | None]] = []
    for _ in range(200):
        found += [(record.offset, record.key, record.value) for record in consumer.poll(200)]
        if len(found) >= count:
            break
    return found


def consumer(address: str, release: str | None, group: str | None = None) -> ottla.Consumer:
    return ottla.Consumer(
        bootstrap_servers=address, api_version=release, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )


@pytest.mark.java
@pytest.mark.rows(3, seconds=1)
def test_what_is_written_is_read_in_every_codec(address: str, release: str, unique: Unique) -> None:
    for codec in CODECS.get(release, ("none", "gzip", "snappy", "lz4")):
        topic = unique(f"own-{codec}")
        produce(address, release, topic, codec)
        with consumer(address, release) as reading:
            reading.assign([ottla.TopicPartition(topic, 0)])
            assert read(reading) == written()


@pytest.mark.java
@pytest.mark.rows(3, seconds=1)
def test_offsets_are_found_at_the_ends(address: str, release: str, unique: Unique) -> None:
    topic = unique("ends")
    where = ottla.TopicPartition(topic, 0)
    produce(address, release, topic)
    with consumer(address, release) as reading:
        assert reading.beginning_offsets([where]) == {where: 0}
        assert reading.end_offsets([where]) == {where: COUNT}


@pytest.mark.rows(3, seconds=0.5)
@pytest.mark.java
def test_offsets_are_committed_without_being_a_member(address: str, release: str, unique: Unique) -> None:
    topic, group = unique("committed"), unique("alone")
    where = ottla.TopicPartition(topic, 0)
    produce(address, release, topic)
    for expected in (0, 5):
        with consumer(address, release, group) as reading:
            reading.assign([where])
            assert read(reading, 1)[0][0] == expected
            reading.commit({where: ottla.OffsetAndMetadata(5)})
            assert reading.committed(where) == ottla.OffsetAndMetadata(5)


@pytest.mark.java
@pytest.mark.rows(3, seconds=1.5)
def test_a_group_shares_reads_and_commits(address: str, release: str, unique: Unique) -> None:
    topic, group = unique("shared"), unique("group")
    produce(address, release, topic)
    if release == "0.8.2":
        with consumer(address, release, group) as reading:
            reading.subscribe(topic)
            with pytest.raises(NotSupported, match=r"consumer groups need Kafka 0\.9"):
                read(reading)
        return
    with consumer(address, release, group) as reading:
        reading.subscribe(topic)
        assert read(reading) == written()
        reading.commit()
    with consumer(address, release, group) as again:
        again.subscribe(topic)
        assert again.poll(1000) == []


@pytest.mark.rows(3, seconds=0.5)
@pytest.mark.java
def test_a_message_larger_than_a_fetch_may_be_is_an_error_or_comes_whole(address: str, release: str, unique: Unique) -> None:
    topic = unique("large")
    with ottla.Producer(address, api_version=release) as producer:
        producer.send(topic, bytes(50_000), partition=0)
    with ottla.Consumer(bootstrap_servers=address, api_version=release, max_partition_fetch_bytes=10_000) as reading:
        reading.assign([ottla.TopicPartition(topic, 0)])
        reading.seek_to_beginning()
        if release in ("0.8.2", "0.9.0"):
            with pytest.raises(ottla.KafkaError, match="raise that setting"):
                read(reading, 1)
        else:
            assert read(reading, 1) == [(0, None, bytes(50_000))]


def test_a_client_held_to_0_8_1_commits_to_the_store_of_that_time(releases: ManyReleases, unique: Unique) -> None:
    topic, group = unique("zookeeper"), unique("old")
    where = ottla.TopicPartition(topic, 0)
    produce(releases.addresses["0.8.1"], "0.8.1", topic)
    with consumer(releases.addresses["0.8.1"], "0.8.1", group) as reading:
        reading.assign([where])
        reading.commit({where: ottla.OffsetAndMetadata(7)})
        assert reading.committed(where) == ottla.OffsetAndMetadata(7)
    with consumer(releases.addresses["2.8"], None, group) as today:
        assert today.committed(where) is None


def test_headers_are_refused_where_the_format_has_none(releases: ManyReleases, unique: Unique) -> None:
    with ottla.Producer(releases.addresses["0.9.0"], api_version="0.9.0") as producer:
        delivery = producer.send(unique("headed"), b"v", headers=[("name", b"value")])
        with pytest.raises(NotSupported, match=r"headers need Kafka 0\.11"):
            delivery.result(20)


def test_a_broker_that_cannot_be_asked_is_an_error_that_says_what_to_set(releases: ManyReleases) -> None:
    with (
        pytest.raises(ottla.KafkaError, match=r"api_version='0\.9\.0'"),
        ottla.Producer(releases.addresses["0.8.2"], max_block_ms=2000) as producer,
    ):
        producer.send("any", b"v")


@pytest.mark.parametrize(
    ("kind", "settings", "match"),
    [
        (ottla.Producer, {"api_version": "0.5"}, "api_version: There is no release '0.5': choose one of 0.7, 0.8.0"),
        (ottla.Producer, {"api_version": "0.10.2", "enable_idempotence": True}, "needs Kafka 0.11.0"),
        (ottla.Producer, {"api_version": "2.0", "compression_type": "zstd"}, "needs Kafka 2.1"),
    ],
)
def test_what_a_release_cannot_do_is_said_before_it_is_tried(
    kind: type[ottla.Producer], settings: ProducerKeywords, match: str
) -> None:
    with pytest.raises(SettingError, match=match):
        kind("localhost:1", **settings)
