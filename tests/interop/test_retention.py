"""A served broker whose retention takes all that a topic holds, or most of it all the time: the topic goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.log.checkpoints import RECOVERY_POINTS
from ottla.testing import BrokerProcess
from tests.support.waiting import eventually

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

HOUSEKEEPING = {
    "num.partitions": 1,
    "log.retention.check.interval.ms": 1000,
    "log.retention.ms": 7 * 24 * 3_600_000,
    "log.flush.offset.checkpoint.interval.ms": 500,
    "log.segment.delete.delay.ms": 0,
}
LONG_AGO_MS = 1000
TOPIC = "idle"

Forget = Callable[[BrokerProcess], None]


def produce(broker: BrokerProcess, count: int, *, size: int = 10, timestamp: int = 0) -> None:
    """All of them acknowledged, by a sync."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "acks": "all", "message.timeout.ms": 10_000})
    outcomes: list[object] = []
    for _ in range(count):
        producer.produce(TOPIC, b"x" * size, timestamp=timestamp, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(20) == 0
    assert outcomes == [None] * count


def offsets(broker: BrokerProcess) -> tuple[int, int]:
    """(where the log starts, where it ends)."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
    try:
        found: tuple[int, int] = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(TOPIC, 0), timeout=10)
        return found
    finally:
        consumer.close()


def age(broker: BrokerProcess) -> None:
    """Retention takes records with old timestamps by itself."""


def delete_records(broker: BrokerProcess) -> None:
    to_the_end = [confluent_kafka.TopicPartition(TOPIC, 0, -1)]
    client = admin.AdminClient({"bootstrap.servers": broker.address})
    for done in client.delete_records(to_the_end).values():
        done.result(10)


def noted(broker: BrokerProcess, offset: int) -> bool:
    file = broker.data_dir / RECOVERY_POINTS
    return file.exists() and f"{TOPIC} 0 {offset}" in [line.strip() for line in file.read_text().splitlines()]


def complaints(broker: BrokerProcess) -> list[str]:
    return [line for line in broker.log.splitlines() if "ERROR" in line or "Traceback" in line]


@pytest.mark.rows(1, seconds=5)
@pytest.mark.interop
@pytest.mark.parametrize(("forget", "timestamp"), [(age, LONG_AGO_MS), (delete_records, 0)])
def test_a_topic_that_lost_all_its_records_takes_new_ones(tmp_path: Path, forget: Forget, timestamp: int) -> None:
    with BrokerProcess(tmp_path / "data", HOUSEKEEPING) as broker:
        produce(broker, 5, timestamp=timestamp)
        forget(broker)
        eventually(lambda: offsets(broker) == (5, 5))
        eventually(lambda: not (broker.data_dir / f"{TOPIC}-0" / "00000000000000000000.log").exists())
        produce(broker, 5)
        eventually(lambda: noted(broker, 10), what="checkpoints go on being written")
        assert complaints(broker) == []
        assert broker.stop() == 0
        broker.start()
        assert offsets(broker) == (5, 10)
        assert complaints(broker) == []


@pytest.mark.interop
def test_a_topic_that_is_kept_small_takes_records_all_the_time(tmp_path: Path) -> None:
    settings = HOUSEKEEPING | {"log.segment.bytes": 1 << 20, "log.retention.bytes": 1 << 20}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        produced = starts = 0
        while starts < 3:
            before = offsets(broker)[0] if produced else 0
            produce(broker, 200, size=10_000)
            produced += 200
            starts += offsets(broker)[0] > before
        eventually(lambda: noted(broker, produced), what="checkpoints go on being written")
        assert complaints(broker) == []
