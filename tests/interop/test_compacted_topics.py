"""Compacted topics of many segments, read to the end by other people's clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log.checkpoints import CLEANED_OFFSETS
from ottla.testing import BrokerProcess
from tests.support.java import CONSUME, run
from tests.support.waiting import eventually

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

HOUSEKEEPING = {"log.cleaner.backoff.ms": 200, "log.segment.delete.delay.ms": 0}
TOPIC = "compacted"
SEGMENT_BYTES = 2000
ROUNDS = 400
"""Each round writes one key that stays and one that the next round writes again: hundreds of segments lose their last batch."""

END = b"end"

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("compacted") / "data", HOUSEKEEPING) as broker:
        configs = {"cleanup.policy": "compact", "internal.segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
        client = admin.AdminClient({"bootstrap.servers": broker.address})
        client.create_topics([admin.NewTopic(TOPIC, 1, config=configs)])[TOPIC].result(10)
        produce(broker)
        eventually(lambda: is_compacted(broker.data_dir), timeout_s=30, what="the topic is compacted")
        yield broker


def is_compacted(data_dir: Path) -> bool:
    """Whether compaction has come to the newest segment."""
    newest = max(int(path.stem) for path in (data_dir / f"{TOPIC}-0").glob("*.log"))
    file = data_dir / CLEANED_OFFSETS
    return file.exists() and f"{TOPIC} 0 {newest}" in [line.strip() for line in file.read_text().splitlines()]


def produce(broker: BrokerProcess) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "batch.num.messages": 1, "linger.ms": 0})
    for number in range(ROUNDS):
        producer.produce(TOPIC, b"%0400d" % number, key=b"key-%d" % (number % 150))
        producer.produce(TOPIC, b"%0700d" % number, key=b"same")
    producer.produce(TOPIC, END, key=END)
    assert producer.flush(20) == 0


def keys() -> set[bytes]:
    return {b"key-%d" % number for number in range(150)} | {b"same", END}


def test_librdkafka_reads_them_to_the_end(compacted: BrokerProcess) -> None:
    settings = {
        "bootstrap.servers": compacted.address,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
    }
    consumer = confluent_kafka.Consumer(settings | {"fetch.message.max.bytes": 1000, "enable.auto.commit": False})
    found: set[bytes] = set()
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        for _ in range(5000):
            message = consumer.poll(10)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                break
            found.add(message.key())
    finally:
        consumer.close()
    assert found == keys()


@pytest.mark.full(seconds=15)
def test_the_java_client_reads_them_to_the_end(compacted: BrokerProcess) -> None:
    where = ["--bootstrap-server", compacted.address, "--topic", TOPIC, "--from-beginning", "--timeout-ms", "8000"]
    shown = ["--formatter-property", "print.key=true", "--formatter-property", "print.value=false"]
    small = ["--command-property", "max.partition.fetch.bytes=1000"]
    assert {line.encode() for line in run(CONSUME, *where, *shown, *small).splitlines()} == keys()
