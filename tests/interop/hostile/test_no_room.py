"""A disk with no byte left: the broker stops in order, starts, and lets go of what fills the disk; every refusal is exact."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.log.checkpoints import CLEAN_SHUTDOWN
from ottla.log.journal.format import MARK
from ottla.net.disk.reserve import RESERVE
from ottla.testing import BrokerProcess
from ottla.testing.process import DidNotStart
from tests.support.disks import fill, small_disk
from tests.support.frames import Batch, Raw
from tests.support.messages import request
from tests.support.share_world import Lines
from tests.support.waiting import eventually

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

KAFKA_STORAGE_ERROR = 56
RESERVE_BYTES = 2 << 20
INITIALIZE_STATE, WRITE_STATE = 83, 85
SETTINGS = {
    "ottla.reserve.bytes": RESERVE_BYTES,
    "log.segment.delete.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}
BIG = Batch((b"x" * 60_000,)).encode()

pytestmark = [pytest.mark.interop, pytest.mark.expects_errors("No space left on device")]


@contextmanager
def running(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with some topics on a small disk of its own."""
    disk = tmp_path / "disk"
    with small_disk(disk, size_bytes=48 << 20), BrokerProcess(disk / "data", SETTINGS, log_path=tmp_path / "log") as broker:
        with Raw(broker.address) as raw:
            for topic in ("t", "u"):
                assert raw.create_topic(topic) == 0
                assert raw.produce(topic, BIG) == (0, 0)
        eventually((broker.data_dir / MARK).exists, timeout_s=20, what="the journal, which takes room, is complete")
        yield broker


def fill_up(broker: BrokerProcess) -> None:
    """Leave no byte to anybody: what the broker gives back to the disk is taken, too."""
    fill(broker.data_dir.parent / "filler")
    with Raw(broker.address) as raw:
        for _ in range(10):
            if raw.produce("t", BIG)[0]:
                break
        assert raw.produce("t", BIG)[0] == KAFKA_STORAGE_ERROR


def client(broker: BrokerProcess) -> Any:
    return admin.AdminClient({"bootstrap.servers": broker.address})


def assert_is_well(broker: BrokerProcess) -> None:
    assert "Traceback" not in broker.log
    assert "is offline" not in broker.log


def begins_at(broker: BrokerProcess, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
    try:
        found: int = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=10)[0]
        return found
    finally:
        consumer.close()


def commit_until_refused(consumer: Any) -> None:
    """A block that the file has already may still take some: up to 2 MiB, where the system gives files large pages."""
    for _ in range(1000):
        consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 1, metadata="x" * 4000)], asynchronous=False)


def reserve(broker: BrokerProcess) -> int:
    return (broker.data_dir / RESERVE).stat().st_size


def test_a_reserve_is_kept_and_made_again_when_there_is_room(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        assert reserve(broker) == RESERVE_BYTES
        broker.kill()
        os.truncate(broker.data_dir / RESERVE, RESERVE_BYTES // 2)  # as if the other half had been spent
        fill(broker.data_dir.parent / "filler")
        broker.start()
        assert reserve(broker) <= RESERVE_BYTES // 2
        (broker.data_dir.parent / "filler").unlink()
        eventually(lambda: reserve(broker) == RESERVE_BYTES, timeout_s=20, what="the reserve is whole again")
        with Raw(broker.address) as raw:
            assert raw.produce("t", BIG)[0] == 0


def test_a_broker_on_a_full_disk_stops_in_order_and_starts(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        fill_up(broker)
        for _ in range(3):
            assert broker.stop() == 0
            assert (broker.data_dir / CLEAN_SHUTDOWN).exists()
            assert_is_well(broker)
            broker.start()
            with Raw(broker.address) as raw:
                assert raw.fetch("u", 0)[:2] == (0, 1)


@pytest.mark.full(seconds=4)
def test_a_broker_that_was_killed_on_a_full_disk_starts_there(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        fill_up(broker)
        for _ in range(2):
            broker.kill()
            broker.start()
            with Raw(broker.address) as raw:
                assert raw.fetch("u", 0)[:2] == (0, 1)
        assert_is_well(broker)


@pytest.mark.full(seconds=4)
def test_topics_are_deleted_on_a_full_disk_and_their_room_is_used_again(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        fill_up(broker)
        using = client(broker)
        using.delete_topics(["u"])["u"].result(10)
        with Raw(broker.address) as raw:
            eventually(lambda: raw.produce("t", BIG)[0] == 0, timeout_s=20, what="appends resume")
        broker.restart()
        with Raw(broker.address) as raw:
            assert raw.fetch("u", 0)[0] == 3
        assert_is_well(broker)


@pytest.mark.full(seconds=4)
def test_records_are_deleted_on_a_full_disk_for_good(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        fill_up(broker)
        asked = [confluent_kafka.TopicPartition("u", 0, 1)]
        using = client(broker)
        (done,) = using.delete_records(asked).values()
        assert done.result(10).low_watermark == 1
        broker.kill()
        broker.start()
        assert begins_at(broker, "u") == 1
        assert_is_well(broker)


@pytest.mark.full(seconds=6)
def test_a_shorter_retention_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        with Raw(broker.address) as raw:
            assert all(raw.produce("t", BIG)[0] == 0 for _ in range(100))
        fill_up(broker)
        using = client(broker)
        shorter = admin.ConfigResource(
            admin.ConfigResource.Type.TOPIC,
            "t",
            incremental_configs=[admin.ConfigEntry("retention.ms", "1000", incremental_operation=admin.AlterConfigOpType.SET)],
        )
        (done,) = using.incremental_alter_configs([shorter]).values()
        done.result(10)
        eventually(lambda: begins_at(broker, "t") > 0, timeout_s=20, what="old records go")
        with Raw(broker.address) as raw:
            eventually(lambda: raw.produce("t", BIG)[0] == 0, timeout_s=20, what="appends resume")
        assert_is_well(broker)


def test_a_commit_of_offsets_is_refused_and_taken_again_when_there_is_room(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        settings = {"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer(settings)
        position = [confluent_kafka.TopicPartition("t", 0, 1)]
        consumer.commit(offsets=position, asynchronous=False)
        fill_up(broker)
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            commit_until_refused(consumer)
        assert refused.value.args[0].code() == confluent_kafka.KafkaError.NOT_COORDINATOR
        assert [one.offset for one in consumer.committed(position, timeout=10)] == [1]
        (broker.data_dir.parent / "filler").unlink()
        consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 2)], asynchronous=False)
        assert [one.offset for one in consumer.committed(position, timeout=10)] == [2]
        consumer.close()
        assert_is_well(broker)


def store_until_refused(broker: BrokerProcess) -> None:
    """Store states of a share partition, as other brokers do, until none is taken any more."""
    with Lines(broker.address) as lines, ottla.Admin(broker.address) as client:
        topic_id = client.describe_topics("t")["t"].topic_id

        def is_stored(key: int, **state: Any) -> bool:
            topics = [{"topic_id": topic_id, "partitions": [{"partition": 0, "state_epoch": 0, **state}]}]
            told = lines.ask("line", key, 0, request(key, 0, group_id="other", topics=topics))
            return bool(told.results[0].partitions[0].error_code == 0)

        is_stored(INITIALIZE_STATE, start_offset=0)
        starts = count(0, 20_000)
        for size in (2_000, 1):  # large ones fill the room of the file soon, small ones entirely
            is_taken = True
            while is_taken:
                start = next(starts)
                runs = [{"first_offset": start + 2 * at, "last_offset": start + 2 * at, "delivery_count": 1} for at in range(size)]
                is_taken = is_stored(WRITE_STATE, leader_epoch=0, start_offset=start, state_batches=runs)


@pytest.mark.full(seconds=30)
def test_an_acknowledgement_is_refused_and_its_record_comes_again_when_there_is_room(tmp_path: Path) -> None:
    with running(tmp_path) as broker, ottla.Admin(broker.address) as client:
        configs: dict[str, str | int] = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": 15_000}
        client.alter_configs(ottla.ConfigResource.group("workers"), set=configs)
        settings: dict[str, Any] = {"share_acknowledgement_mode": "explicit", "default_api_timeout_ms": 60_000}
        with ottla.ShareConsumer("u", bootstrap_servers=broker.address, group_id="workers", **settings) as worker:
            (record,) = worker.poll(30_000)
            fill_up(broker)
            store_until_refused(broker)
            worker.acknowledge(record)
            with pytest.raises(ottla.AcknowledgeFailed):  # it is tried again until the record's lock ends
                worker.commit()
            (broker.data_dir.parent / "filler").unlink()
        with ottla.ShareConsumer("u", bootstrap_servers=broker.address, group_id="workers", **settings) as worker:
            (again,) = worker.poll(60_000)
            worker.acknowledge(again)
            worker.commit()
        assert (again.offset, again.value) == (record.offset, record.value)
        assert_is_well(broker)


def test_a_new_directory_on_a_full_disk_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size_bytes=1 << 20) as disk:
        fill(disk / "filler")
        with pytest.raises(DidNotStart, match="the disk is full; make room there, or choose another") as refused:
            BrokerProcess(disk / "data", log_path=tmp_path / "log").start()
        assert refused.value.code == 1
