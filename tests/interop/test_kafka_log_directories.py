"""Partitions' directories that Apache Kafka wrote open as our logs: same batches, times, epochs, producers and transactions."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.log.check import check, findings
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.net.disk.disk import RealDisk
from ottla.ports import Now
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import read_header
from ottla.sim import invariants
from tests.support.java import run
from tests.support.kinds import one_of_each
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COUNT = 30_000
FIRST_MS = time.time_ns() // 10**6 - 3_600_000
LOG_FILE_BYTES = "log.segment.bytes"
KEYS = 50

Shown = list[tuple[int, int, bytes | None, bytes | None]]
"""(offset, timestamp, key, value)"""


def topic(address: str, name: str, **configs: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": address})
    wanted = {setting.replace("_", "."): value for setting, value in configs.items()}
    client.create_topics([admin.NewTopic(name, 1, 1, config={"retention.ms": "-1", **wanted})])[name].result(60)


def opened(home: Path, name: str, *, clean: bool, config: LogConfig | None = None) -> Log:
    disk = RealDisk(str(home), lambda call: call())
    return Log.open(disk, name, config or LogConfig(retention_ms=-1), Now(time.time_ns() // 10**6, 0), clean=clean)


class Kept(NamedTuple):
    """Apache Kafka's data directory as an orderly stop (`clean`) or a SIGKILL left it, and what its consumers had read."""

    home: Path
    clean: bool
    every: dict[str, Shown]
    committed: dict[str, Shown]

    def open(self, name: str, config: LogConfig | None = None) -> Log:
        return opened(self.home, f"{name}-0", clean=self.clean, config=config)

    def faults(self, name: str) -> list[findings.Finding]:
        disk = RealDisk(str(self.home), lambda call: call())
        return [found for found in check.check_partition(disk, f"{name}-0") if found.kind in findings.FAULTS]


@pytest.fixture(scope="module", params=one_of_each([True, False], seconds=15), ids=["stopped", "killed"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    home = tmp_path_factory.mktemp("kept")
    settings: dict[str, object] = {LOG_FILE_BYTES: 1 << 20, "log.cleaner.backoff.ms": 100}
    with start_peer("apache-kafka", home, settings) as peer:
        fill(peer.address, "t")
        fill(peer.address, "p", preallocate="true")
        transact(peer.address)
        compacted(peer, home)
        every = {name: consumed(peer.address, name, "read_uncommitted") for name in ("x", "c")}
        committed = {name: consumed(peer.address, name, "read_committed") for name in ("x", "c")}
        apache: Any = peer
        if request.param:
            apache.stop(120)
            assert (home / "kafka" / "data" / ".kafka_cleanshutdown").exists(), "Apache Kafka did not stop in order"
        else:
            apache.kill()
        shutil.copytree(home / "kafka" / "data", home / "data")
    return Kept(home / "data", request.param, every, committed)


def fill(address: str, name: str, **configs: str) -> None:
    topic(address, name, **configs)
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    for number in range(COUNT):
        producer.produce(name, b"%d" % number * 20, timestamp=FIRST_MS + number)
        if number % 5000 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0


def hold_what_was_filled(log: Log) -> None:
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


@pytest.mark.parametrize("name", ["t", "p"])
def test_what_apache_kafka_wrote_is_read_and_written_on(kept: Kept, name: str) -> None:
    if kept.clean:
        assert kept.faults(name) == []
    log = kept.open(name)
    hold_what_was_filled(log)
    log.close()
    hold_what_was_filled(opened(kept.home, f"{name}-0", clean=True))
    assert kept.faults(name) == []


def transact(address: str) -> None:
    """Twenty transactions of each of two producers that overlap, every third aborted, over several segments; one is left open.

    Apache Kafka aborts none of them by itself before it is stopped: the longest timeout that it takes is a quarter of an hour.
    """
    topic(address, "x", segment_ms="100")
    settings = {"bootstrap.servers": address, "transaction.timeout.ms": 900_000, "linger.ms": 0}
    producers = [confluent_kafka.Producer({**settings, "transactional.id": f"id-{number}"}) for number in range(2)]
    for producer in producers:
        producer.init_transactions(60)
    for number in range(20):
        for producer in producers:
            producer.begin_transaction()
            for at in range(3):
                producer.produce("x", b"%d/%d" % (number, at), key=b"%d" % at)
            producer.flush(60)
        for at, producer in enumerate(producers):
            (producer.abort_transaction if (number + at) % 3 == 0 else producer.commit_transaction)(60)
        time.sleep(0.02)
    producers[0].begin_transaction()
    producers[0].produce("x", b"open")
    assert producers[0].flush(60) == 0


def consumed(address: str, name: str, isolation: str) -> Shown:
    """What a consumer is given of partition 0, up to where it stops."""
    settings = {"bootstrap.servers": address, "group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
    found: Shown = []
    try:
        while (message := consumer.poll(60)) is not None:
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                return found
            found.append((message.offset(), message.timestamp()[1], message.key(), message.value()))
        raise AssertionError(f"the end of {name} was not reached after {len(found)} records")
    finally:
        consumer.close()


def committed(log: Log) -> Shown:
    """What a consumer of committed records makes of our log: up to the last stable offset, without aborted transactions."""
    end = log.last_stable_offset
    aborted = log.aborted_transactions(0, end)
    found: Shown = []
    for batch in invariants.stored_batches(log):
        header = read_header(batch)
        gone = any(
            entry.producer_id == header.producer_id and entry.first_offset <= header.base_offset <= entry.last_offset
            for entry in aborted
        )
        if header.base_offset < end and not (header.is_transactional and gone):
            found += [(r.offset, r.timestamp, r.key, r.value) for r in open_batches(batch).records()]
    return found


def every(log: Log) -> Shown:
    return [(record.offset, record.timestamp, record.key, record.value) for record in invariants.stored_records(log)]


def test_transactions_that_apache_kafka_kept_are_known(kept: Kept) -> None:
    indexes = sorted((kept.home / "x-0").glob("*.txnindex"))
    said = run(DUMP, "--files", ",".join(map(str, indexes)))
    names = r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    listed = [tuple(map(int, found)) for found in re.findall(names, said)]
    log = kept.open("x")
    assert len(log.segments) > 3
    assert [tuple(entry) for entry in log.aborted_transactions(0, log.log_end_offset)] == listed
    assert len(listed) == 13
    assert committed(log) == kept.committed["x"]
    assert every(log) == kept.every["x"]
    assert len(kept.committed["x"]) == 3 * (40 - 13)
    assert log.last_stable_offset == log.log_end_offset - 1
    [owner] = [id for id, producer in log.producers.by_id.items() if producer.txn_first_offset >= 0]
    log.close()
    for entry in (kept.home / "x-0").glob("*.txnindex"):
        entry.unlink()
    for entry in (kept.home / "x-0").glob("*.snapshot"):
        entry.unlink()
    replayed = opened(kept.home, "x-0", clean=False)
    assert replayed.producers.by_id[owner].txn_first_offset == log.last_stable_offset
    assert [tuple(entry) for entry in replayed.aborted_transactions(0, log.log_end_offset)] == listed


def compacted(peer: Peer, tmp_path: Path) -> None:
    """Three thousand records of a few keys, tombstones among them; returns once Apache Kafka has compacted most of them away."""
    configs = {"cleanup_policy": "compact", "segment_ms": "500", "min_cleanable_dirty_ratio": "0.01", "compression_type": "lz4"}
    topic(peer.address, "c", **configs)
    settings = {"bootstrap.servers": peer.address, "enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 20}
    producer = confluent_kafka.Producer(settings)
    for number in range(3000):
        key = b"key %d" % (number * 7 % KEYS)
        producer.produce("c", None if number % 13 == 0 else b"%d" % number, key=key, timestamp=FIRST_MS + number)
        if number % 200 == 0:
            producer.flush(60)
            time.sleep(0.05)
    assert producer.flush(60) == 0
    time.sleep(0.6)
    producer.produce("c", b"last", key=b"last", timestamp=FIRST_MS + 4000)
    assert producer.flush(60) == 0
    cleaned = tmp_path / "kafka" / "data" / "cleaner-offset-checkpoint"
    eventually(lambda: "c 0 3000" in cleaned.read_text(), timeout_s=120, what="Apache Kafka compacts")


def test_a_topic_that_apache_kafka_compacted_is_read_and_compacted_on(kept: Kept) -> None:
    theirs = kept.every["c"]
    assert KEYS < len(theirs) < 500
    log = kept.open("c", LogConfig(cleanup_policy="compact"))
    assert (log.log_start_offset, log.log_end_offset) == (0, 3001)
    assert every(log) == theirs
    disk = RealDisk(str(kept.home), lambda call: call())
    assert invariants.offsets_grow(log) + invariants.indexes_point_at_batches(log, disk) + invariants.sizes_add_up(log) == []
    [producer] = log.producers.by_id.values()
    assert (producer.batches[-1].last_sequence, producer.batches[-1].last_offset) == (3000, 3000)
    for offset, timestamp, *_ in theirs[:: len(theirs) // 10]:
        assert log.offset_for_timestamp(timestamp) == (timestamp, offset)
    horizons = [read_header(batch).delete_horizon_ms for batch in invariants.stored_batches(log)]
    assert any(horizon is not None and horizon > FIRST_MS for horizon in horizons)
    log.close()
    assert kept.faults("c") == []
    again = opened(kept.home, "c-0", clean=True, config=LogConfig(cleanup_policy="compact", delete_retention_ms=0))
    now = Now(time.time_ns() // 10**6 + 86_400_000 * 2, 0)
    again.roll()
    for files in Compaction(again, disk, dirtiness(again, 0, now), now, bytes(16)).run():
        for file in files or ():
            file.sync()
    newest = {key: (offset, timestamp, key, value) for offset, timestamp, key, value in theirs}
    assert every(again) == sorted(one for one in newest.values() if one[3] is not None)
