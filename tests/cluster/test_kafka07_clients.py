"""Ottla's own clients of Kafka 0.7 against a listener of 0.7: from a list and through a real ZooKeeper, alone and in groups."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla import CommitFailed, KafkaError, NotSupported, SettingError, TopicPartition
from ottla.kafka07.net.registration import CONNECT
from tests.support.waiting import eventually
from tests.support.zookeeper import ZooKeeper, started

PATIENCE_MS = 60_000
SESSION_MS = 2_000
CHROOTS = count(1)
FIRST = 1 << 16
"""The number of the first partition of broker 1."""
ALL: dict[str, Any] = {"api_version": "0.7", "auto_offset_reset": "earliest"}


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(release="0.7.2", num_partitions=3) as broker:
        yield broker


def read(consumer: ottla.Consumer, wanted: int) -> list[ottla.ConsumerRecord]:
    found: list[ottla.ConsumerRecord] = []
    while len(found) < wanted:
        records = consumer.poll(PATIENCE_MS)
        assert records, f"{len(found)} of {wanted} have come"
        found += records
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_what_is_produced_is_read_with_its_places(broker: ottla.Broker, codec: Any) -> None:
    values = [b"%d" % number for number in range(500)]
    with ottla.Producer(broker.address, api_version="0.7", compression_type=codec) as producer:
        assert len(producer.partitions_for("t")) == 3
        deliveries = [producer.send("t", value, partition=1) for value in values]
        producer.flush()
        assert {delivery.result(0).offset for delivery in deliveries} == {-1}
    with ottla.Consumer("t", bootstrap_servers=broker.address, **ALL) as consumer:
        records = read(consumer, 500)
        assert [record.value for record in records] == values
        assert {record.partition for record in records} == {1}
        offsets = [record.offset for record in records]
        assert offsets == sorted(offsets)
        end = consumer.end_offsets([("t", 1)])[TopicPartition("t", 1)]
        assert consumer.position(("t", 1)) == end
        assert consumer.beginning_offsets([("t", 1)]) == {("t", 1): 0}
        middle = records[250].offset
        consumer.seek(("t", 1), middle)
        assert read(consumer, 1)[0].offset == middle
    if codec == "none":
        assert offsets[:3] == [0, 11, 22]


def test_a_broker_of_another_release_is_no_broker_of_0_7() -> None:
    with (
        ottla.Broker() as newer,
        ottla.Producer(newer.address, api_version="0.7", max_block_ms=500) as producer,
        pytest.raises(KafkaError, match=r"Kafka 0\.7"),
    ):
        producer.partitions_for("t")


def test_an_offset_within_a_message_is_said_to_be_none(broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address, api_version="0.7") as producer:
        producer.send("t", b"\0" * 100, partition=0)
    with ottla.Consumer(bootstrap_servers=broker.address, **ALL) as consumer:
        consumer.assign([("t", 0)])
        consumer.seek(("t", 0), 40)
        with pytest.raises(KafkaError, match="No message begins at this position"):
            consumer.poll(PATIENCE_MS)
        consumer.seek(("t", 0), 10_000)
        assert read(consumer, 1)[0].offset == 0


def test_a_message_larger_than_what_is_fetched_at_once_is_told(broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address, api_version="0.7") as producer:
        producer.send("t", b"v" * 2_000, partition=0)
    with (
        ottla.Consumer("t", bootstrap_servers=broker.address, max_partition_fetch_bytes=1_000, **ALL) as consumer,
        pytest.raises(KafkaError, match="larger than max_partition_fetch_bytes=1000"),
    ):
        consumer.poll(PATIENCE_MS)


def test_what_0_7_has_not_is_refused_with_a_sentence(broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address, api_version="0.7") as producer:
        with pytest.raises(NotSupported, match="no headers"):
            producer.send("t", b"v", headers=[("h", b"x")]).result(60)
        with pytest.raises(NotSupported, match="cannot be null"):
            producer.send("t", None).result(60)
    with pytest.raises(SettingError, match=r"Kafka 0\.7 keeps groups in ZooKeeper"):
        ottla.Consumer("t", bootstrap_servers=broker.address, group_id="g", **ALL)
    with pytest.raises(SettingError, match=r"zookeeper_connect is for brokers of Kafka 0\.7"):
        ottla.Producer(broker.address, zookeeper_connect="localhost:2181")
    with (
        ottla.Consumer(bootstrap_servers=broker.address, **ALL) as consumer,
        pytest.raises(NotSupported, match="zookeeper_connect"),
    ):
        consumer.subscribe(pattern="t.*")


def test_batches_of_arrow_come_of_0_7(broker: ottla.Broker) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[arrow]'")
    with ottla.Producer(broker.address, api_version="0.7") as producer:
        for number in range(10):
            producer.send("t", b"%d" % number, partition=2)
    with ottla.Consumer("t", bootstrap_servers=broker.address, **ALL) as consumer:
        batch = next(consumer.batches(PATIENCE_MS))
        assert batch.column("value").to_pylist() == [b"%d" % number for number in range(batch.num_rows)]
        assert batch.column("offset").to_pylist() == [11 * number for number in range(batch.num_rows)]


# --- through ZooKeeper


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
    with started(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def connect(zookeeper: ZooKeeper) -> str:
    return f"{zookeeper.address}/own/{next(CHROOTS)}"


@contextmanager
def registered(connect: str) -> Iterator[ottla.Broker]:
    given: dict[str, Any] = {CONNECT.replace(".", "_"): connect, "zookeeper_session_timeout_ms": SESSION_MS}
    with ottla.Broker(release="0.7.2", num_partitions=4, **given) as broker:
        yield broker


def through(connect: str, **more: Any) -> dict[str, Any]:
    return {**ALL, "zookeeper_connect": connect, "zookeeper_session_timeout_ms": SESSION_MS, "rebalance_backoff_ms": 200, **more}


def write(connect: str, numbers: range) -> None:
    with ottla.Producer(api_version="0.7", zookeeper_connect=connect) as producer:
        for number in numbers:
            producer.send("t", b"%d" % number, key=b"%d" % number)


def numbers(records: list[ottla.ConsumerRecord]) -> set[int]:
    return {int(record.value or b"") for record in records}


@pytest.mark.java
def test_brokers_and_topics_are_found_in_zookeeper(connect: str) -> None:
    with registered(connect):
        with ottla.Producer(api_version="0.7", zookeeper_connect=connect) as producer:
            assert producer.partitions_for("t") == [("t", FIRST)]  # nobody knows it yet: the first partition of each broker
            producer.send("t", b"0").result(60)
            eventually(lambda: len(producer.partitions_for("t")) == 4, timeout_s=60)
        write(connect, range(1, 100))
        with ottla.Consumer("t", **through(connect)) as consumer:
            assert numbers(read(consumer, 100)) == set(range(100))
            assert consumer.assignment() == {("t", FIRST + index) for index in range(4)}


@pytest.mark.java
def test_offsets_are_kept_for_the_group_and_reading_goes_on_there(connect: str) -> None:
    with registered(connect):
        write(connect, range(50))
        with ottla.Consumer("t", group_id="g", enable_auto_commit=False, **through(connect)) as consumer:
            assert numbers(read(consumer, 50)) == set(range(50))
            consumer.commit()
            places = {where: offset.offset for where, offset in consumer.positions().items()}
            with pytest.raises(NotSupported, match="in ZooKeeper"):
                consumer.group_metadata()
        write(connect, range(50, 60))
        with ottla.Consumer("t", group_id="g", **through(connect)) as consumer:
            assert numbers(read(consumer, 10)) == set(range(50, 60))
            assert {where: consumer.committed(where).offset for where in places} == places  # type: ignore[union-attr]  # all are committed
            with pytest.raises(CommitFailed, match="assigned these partitions to other members"):
                consumer.commit({("t", FIRST + 99): 5})


@pytest.mark.java
def test_patterns_are_registered_as_0_7_does_and_new_topics_are_read(connect: str) -> None:
    with registered(connect):
        write(connect, range(10))
        with ottla.Consumer(group_id="g", **through(connect)) as consumer:
            consumer.subscribe(pattern="t|later")
            assert numbers(read(consumer, 10)) == set(range(10))
            with ottla.Producer(api_version="0.7", zookeeper_connect=connect) as producer:
                producer.send("later", b"7")
            assert numbers(read(consumer, 1)) == {7}


READER = """
import ottla, sys
with ottla.Consumer(
    "t", group_id="g", zookeeper_connect=sys.argv[1], api_version="0.7", auto_offset_reset="earliest",
    zookeeper_session_timeout_ms=int(sys.argv[2]), rebalance_backoff_ms=200, auto_commit_interval_ms=100,
) as consumer:
    for record in consumer:
        print(record.value.decode(), flush=True)
"""


@pytest.mark.java
def test_two_share_the_partitions_and_one_takes_all_when_the_other_is_killed(connect: str) -> None:
    with registered(connect), ottla.Consumer("t", group_id="g", **through(connect)) as consumer:
        write(connect, range(40))
        found = numbers(read(consumer, 40))
        other = subprocess.Popen([sys.executable, "-c", READER, connect, str(SESSION_MS)], stdout=subprocess.PIPE, text=True)
        try:
            eventually(lambda: consumer.poll(100) == [] and len(consumer.assignment()) == 2, timeout_s=60)
            write(connect, range(40, 80))
            assert other.stdout is not None
            theirs = {int(other.stdout.readline())}
            found |= numbers(read(consumer, 1))
            other.send_signal(signal.SIGKILL)
            theirs |= {int(line) for line in other.stdout}
        finally:
            other.kill()
            other.wait()
            other.stdout.close()  # type: ignore[union-attr]  # it is a pipe
        write(connect, range(80, 100))

        def all_came() -> bool:
            found.update(numbers(consumer.poll(200)))
            return found | theirs == set(range(100))

        eventually(all_came, timeout_s=60, what="all messages, from either")
        assert len(consumer.assignment()) == 4


@pytest.mark.java
def test_a_member_that_zookeeper_does_not_hear_gives_up_what_others_may_take(tmp_path: Path) -> None:
    gone: list[tuple[str, int]] = []
    with started(tmp_path) as server, registered(f"{server.address}/own"):
        given = through(f"{server.address}/own")
        write(f"{server.address}/own", range(10))
        with ottla.Consumer("t", group_id="g", on_revoked=gone.extend, **given) as consumer:
            assert numbers(read(consumer, 10)) == set(range(10))
            server.kill()
            eventually(lambda: consumer.poll(100) == [] and not consumer.assignment(), timeout_s=60)
            assert len(gone) == 4
            server.start()
            write(f"{server.address}/own", range(10, 20))
            records: list[ottla.ConsumerRecord] = []
            eventually(lambda: records.extend(consumer.poll(200)) or numbers(records) >= set(range(10, 20)), timeout_s=60)  # type: ignore[func-returns-value]  # that is None


def test_a_zookeeper_that_is_not_there_is_told() -> None:
    pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
    given: dict[str, Any] = {"zookeeper_connect": "127.0.0.1:1/own", "zookeeper_session_timeout_ms": 300, "max_block_ms": 500}
    with ottla.Producer(api_version="0.7", **given) as producer, pytest.raises(KafkaError, match="zookeeper_connect"):
        producer.send("t", b"v")
