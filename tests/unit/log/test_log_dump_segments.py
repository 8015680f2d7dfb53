"""Apache Kafka's `DumpLogSegments` reads every file that the log writes, and finds nothing wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.log.log import Log, LogConfig
from ottla.net.disk import RealDisk
from ottla.records.build import build
from tests.support.java import run
from tests.unit.log.batches import NOW, append

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = ("Mismatch", "mismatch", "Missing", "not found", "out of order", "corrupt", "Exception", "isvalid: false")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Several segments, of all codecs, idempotent producers among them; closed in order."""
    disk = RealDisk(str(tmp_path), lambda call: call())
    log = Log.open(disk, "t-0", LogConfig(segment_bytes=15_000, index_interval_bytes=1000), NOW, topic_id=bytes(range(16)))
    sequence = 0
    for number in range(300):
        values = [b"%d/%d " % (number, at) * 20 for at in range(1 + number % 7)]
        times = [NOW.wall_ms + number * 10 + at - (number % 3) * 50 for at in range(len(values))]
        idempotent = number % 2
        producer_id, epoch, first = (7, 0, sequence) if idempotent else (-1, -1, -1)
        keys = [b"key"] * len(values)
        batch = build(keys, values, times, codec=number % 5, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)
        sequence += len(values) if idempotent else 0
        assert append(log, batch, leader_epoch=number // 100).error_code == 0
    log.close()
    disk.close()
    return tmp_path / "t-0"


@pytest.mark.java
@pytest.mark.slow
def test_apache_kafka_reads_every_file_without_complaint(directory: Path) -> None:
    files = sorted(file for file in directory.iterdir() if file.suffix in (".log", ".index", ".timeindex", ".snapshot"))
    assert len([file for file in files if file.suffix == ".log"]) > 3
    said = run(DUMP, "--deep-iteration", "--files", ",".join(map(str, files)))
    assert [line for line in said.splitlines() if any(complaint in line for complaint in COMPLAINTS)] == []
    assert said.count("isvalid: true") == 300
    assert "producerId: 7 producerEpoch: 0" in said
    last = [line for line in said.splitlines() if line.startswith("producerId: 7")][-1]
    assert f"lastSequence: {sum(1 + number % 7 for number in range(1, 300, 2)) - 1}" in last


@pytest.mark.java
@pytest.mark.slow
def test_apache_kafka_finds_the_indexes_sane(directory: Path) -> None:
    files = sorted(file for file in directory.iterdir() if file.suffix in (".index", ".timeindex"))
    said = run(DUMP, "--index-sanity-check", "--files", ",".join(map(str, files)))
    assert said.count("passed sanity check") == len(files)
