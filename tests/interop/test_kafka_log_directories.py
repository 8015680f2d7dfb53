"""A partition's directory that Apache Kafka wrote opens as our log: same batches, times, epochs and producers, clean or killed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from ottla.log.log import Log, LogConfig
from ottla.net.disk import RealDisk
from ottla.ports import Now
from ottla.records.columns import open_batches
from tests.support.peers import start_peer

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

COUNT = 30_000
FIRST_MS = time.time_ns() // 10**6 - 3_600_000
SEGMENT_BYTES = 1 << 20
LOG_FILE_BYTES = "log.segment.bytes"


def fill(address: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": address})
    client.create_topics([admin.NewTopic("t", 1, 1, config={"retention.ms": "-1"})])["t"].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    for number in range(COUNT):
        producer.produce("t", b"%d" % number * 20, timestamp=FIRST_MS + number)
        if number % 5000 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


def opened(home: Path, *, clean: bool) -> Log:
    disk = RealDisk(str(home), lambda call: call())
    return Log.open(disk, "t-0", LogConfig(retention_ms=-1), Now(time.time_ns() // 10**6, 0), clean=clean)


def check(log: Log) -> None:
    assert (log.log_start_offset, log.log_end_offset, log.leader_epoch) == (0, COUNT, 0)
    assert len(log.segments) > 1
    offset, values = 0, 0
    while (part := log.read(offset, 1 << 20, until_offset=COUNT, min_one_batch=True)) is not None:
        columns = open_batches(part.read(), check_crcs=True)
        assert columns.offsets[0] == offset
        values += columns.record_count
        offset = columns.next_offset
    assert values == COUNT
    for number in (0, 1, COUNT // 3, COUNT - 1):
        assert log.offset_for_timestamp(FIRST_MS + number) == (FIRST_MS + number, number)
    assert log.max_timestamp_offset() == (FIRST_MS + COUNT - 1, COUNT - 1)
    [producer] = log.producers.by_id.values()
    assert (producer.batches[-1].last_sequence, producer.batches[-1].last_offset) == (COUNT - 1, COUNT - 1)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True])
def test_what_apache_kafka_wrote_is_read_and_written_on(tmp_path: Path, kill: bool) -> None:
    with start_peer("apache-kafka", tmp_path, {LOG_FILE_BYTES: SEGMENT_BYTES}) as peer:
        fill(peer.address)
        if kill:
            peer.restart(kill=True)  # so that the state after a crash is what Apache Kafka itself makes of it
        kept = tmp_path / "kept"
        if not kill:
            peer.stop()  # type: ignore[attr-defined]  # Apache Kafka's harness has it
        shutil.copytree(tmp_path / "kafka" / "data" / "t-0", kept / "t-0", ignore=shutil.ignore_patterns("*.tmp"))
    log = opened(kept, clean=not kill)
    check(log)
    log.close()
    check(opened(kept, clean=True))
