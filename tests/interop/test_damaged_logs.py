"""A served broker that was killed tells damage from a torn tail, serves what is sound, and is mended from outside."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from bench.apache_kafka import Unavailable, class_path, java
from ottla.testing.process import BrokerProcess
from ottla.wire.errors import CORRUPT_MESSAGE
from tests.support.waiting import eventually

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SETTINGS = {"log.flush.offset.checkpoint.interval.ms": 200, "num.partitions": 1, "ottla.journal.bytes": 0}
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def produce(address: str, topic: str, first: int, count: int) -> None:
    """Write in batches of ten, however busy the machine is: which byte is damaged depends on where batches begin."""
    settings = {"bootstrap.servers": address, "acks": "all", "linger.ms": 60_000, "batch.num.messages": 10}
    producer = confluent_kafka.Producer(settings)
    for number in range(first, first + count):
        producer.produce(topic, b"value %d" % number)
    assert producer.flush(60) == 0


def consume(address: str, topic: str, first: int = 0) -> list[bytes]:
    """The values from this offset up to the end of the partition."""
    settings = {"bootstrap.servers": address, "group.id": "g", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, first)])
    found: list[bytes] = []
    while (message := consumer.poll(60)) is not None:
        if message.error() is None:
            found.append(message.value())
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            consumer.close()
            return found
    raise AssertionError(f"the end of {topic} was not reached after {len(found)} values")


def noted(data_dir: Path, wanted: set[str]) -> bool:
    file = data_dir / RECOVERY_POINTS
    return file.exists() and wanted <= {line.strip() for line in file.read_text().splitlines()}


def check(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ottla.cli.main", "log", *words], capture_output=True, text=True, check=False)


@pytest.mark.expects_errors("is offline")
def test_a_killed_broker_with_a_damaged_log_serves_the_others_and_is_repaired(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with BrokerProcess(data_dir, SETTINGS) as broker:
        for topic in ("hurt", "well"):
            produce(broker.address, topic, 0, 200)
        eventually(lambda: noted(data_dir, {"hurt 0 200", "well 0 200"}), timeout_s=60)
        produce(broker.address, "well", 200, 50)
        refused = check("check", str(data_dir))
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "is in use by another broker" in refused.stderr
        broker.kill()

        log = data_dir / "hurt-0" / "00000000000000000000.log"
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 1
        log.write_bytes(data)
        broker.start()
        assert "hurt-0 is offline: hurt-0/00000000000000000000.log: at byte " in broker.log
        assert consume(broker.address, "well") == [b"value %d" % number for number in range(250)]
        assert log.read_bytes() == data
        assert broker.stop() == 0

        told = check("check", str(data_dir))
        assert (told.returncode, told.stdout.startswith("damaged: hurt-0/")) == (1, True)
        mended = check("check", "--repair", str(data_dir))
        assert (mended.returncode, mended.stdout.splitlines()[-1]) == (0, "Nothing is damaged.")
        broker.start()
        found = consume(broker.address, "hurt")
        assert len(found) == 190, "the batch that was damaged is cut out, and no other"
        assert found == [b"value %d" % number for number in range(200) if b"value %d" % number in found]
        produce(broker.address, "hurt", len(found), 1)
    kept = (data_dir / "hurt-0" / "00000000000000000000.log.damaged").read_bytes()
    assert kept in bytes(data)


def flip(log: Path, position: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 1
    log.write_bytes(data)


def hurt(broker: BrokerProcess, data_dir: Path) -> None:
    """Write fifty records in five batches, and start the broker again with a byte flipped in the midst of them."""
    for first in range(0, 50, 10):
        produce(broker.address, "hurt", first, 10)
    assert broker.stop() == 0
    log = data_dir / "hurt-0" / "00000000000000000000.log"
    flip(log, len(log.read_bytes()) // 2)
    broker.start()


@pytest.mark.expects_errors("cannot be read")
def test_clients_hear_of_damage_and_read_on_behind_it(tmp_path: Path) -> None:
    """Nobody loops, nobody is told less than there is: librdkafka and Ottla's own client."""
    data_dir = tmp_path / "data"
    with BrokerProcess(data_dir, SETTINGS) as broker:
        hurt(broker, data_dir)
        with ottla.Consumer(bootstrap_servers=broker.address) as own:
            own.assign([("hurt", 0)])
            own.seek(("hurt", 0), 0)
            seen = read_until_it_fails(own)
            assert 0 < len(seen) < 50
            assert seen == [b"value %d" % number for number in range(len(seen))]
            own.seek(("hurt", 0), 30)
            assert [record.value for record in own.poll(10_000)][:1] == [b"value 30"]
        assert consume_until_it_fails(broker.address, "hurt") == seen
        assert consume(broker.address, "hurt", first=30) == [b"value %d" % number for number in range(30, 50)]
        assert len(re.findall(r"offsets \d+ to \d+ cannot be read", broker.log)) == 1


@pytest.mark.full(seconds=8)
@pytest.mark.expects_errors("cannot be read")
def test_javas_console_consumer_says_which_offset_cannot_be_read(tmp_path: Path) -> None:
    try:
        classes = class_path()
    except Unavailable as reason:
        pytest.skip(f"there is no Apache Kafka here: {reason}")
    data_dir = tmp_path / "data"
    with BrokerProcess(data_dir, SETTINGS) as broker:
        hurt(broker, data_dir)
        tool = [java(), "-Xmx200m", "-cp", classes, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--from-beginning"]
        command = [*tool, "--bootstrap-server", broker.address, "--topic", "hurt", "--timeout-ms", "120000"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        read = ended.stdout.splitlines()
        assert 0 < len(read) < 50
        assert read == [f"value {number}" for number in range(len(read))]
        sentence = f"Encountered corrupt message when fetching offset {len(read)} for topic-partition hurt-0"
        assert sentence in ended.stderr


def read_until_it_fails(consumer: ottla.Consumer) -> list[bytes | None]:
    seen: list[bytes | None] = []
    for _ in range(50):
        try:
            seen += [record.value for record in consumer.poll(1000)]
        except ottla.KafkaError as error:
            return seen if "CORRUPT_MESSAGE" in str(error) else []
    raise AssertionError("the consumer was not told")


def consume_until_it_fails(address: str, topic: str) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    seen: list[bytes | None] = []
    for _ in range(200):
        message = consumer.poll(1)
        if message is not None and message.error():
            assert message.error().code() == CORRUPT_MESSAGE
            consumer.close()
            return seen
        seen += [message.value()] if message is not None else []
    raise AssertionError("the consumer was not told")
