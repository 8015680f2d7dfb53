"""Logs with transactions, by what is left of them: after compaction, deletions, restarts and kills."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.log.check import check, findings
from ottla.log.check.dump import dump
from ottla.net.disk.disk import RealDisk
from ottla.records.batches.builder import build
from ottla.testing import BrokerProcess
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.errors import NONE
from tests.interop.test_transactions import committed_values
from tests.support.peers import Peer, start_peer
from tests.support.transaction_cases import Transactions
from tests.support.waiting import eventually

LATEST, READ_COMMITTED, READ_UNCOMMITTED = -1, 1, 0
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
QUICK: dict[str, object] = {"log.cleaner.backoff.ms": 100}
SEGMENT_S = 0.2
"""After this time the next record begins a segment."""
Rows = list[tuple[Any, ...]]


class Writer(Transactions):
    """Producers that write one record at a time."""

    def __init__(self, broker: Peer, topic: str) -> None:
        self.topic = topic
        self.known: dict[str, tuple[int, int]] = {}
        self.sequences: dict[str, int] = {}
        super().__init__(broker.address, f"{time.time_ns():x}")

    def begin(self, name: str) -> None:
        self.find(name)
        self.known[name] = self._init(name)
        self.sequences[name] = 0

    def write(self, name: str, key: bytes, value: bytes | None) -> None:
        producer_id, epoch = self.known[name]
        batch = build(
            [key],
            [value],
            time.time_ns() // 10**6,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.sequences[name],
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
        topics = [ProduceRequest.TopicProduceData(name=self.topic, partition_data=[data])]
        body = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=topics)
        assert self.ask(body, 12).responses[0].partition_responses[0].error_code == NONE
        self.sequences[name] += 1

    def end(self, name: str, *, committed: bool) -> None:
        producer_id, epoch = self.known[name]
        body = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=committed)
        response = self.ask(body, 5)
        assert response.error_code == NONE
        self._wait_for_the_end(name)
        self.known[name], self.sequences[name] = (response.producer_id, response.producer_epoch), 0

    def latest(self, isolation_level: int) -> int:
        part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=self.topic, partitions=[part])
        body = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])
        return int(self.ask(body, 5).topics[0].partitions[0].offset)

    def delete_records(self, offset: int) -> None:
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=self.topic, partitions=[part])
        response = self.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)
        assert response.topics[0].partitions[0].error_code == NONE


def create(broker: Peer, name: str, **configs: str) -> AdminClient:
    client = AdminClient({"bootstrap.servers": broker.address})
    wanted = {setting.replace("_", "."): value for setting, value in configs.items()}
    client.create_topics([NewTopic(name, 1, 1, config=wanted)])[name].result(30)
    return client


def batches(home: Path, topic: str, until_offset: int) -> Rows:
    """What is stored of each batch below an offset, whoever its producer is."""
    directory = next(home.rglob(f"{topic}-0"))
    disk = RealDisk(str(directory), lambda call: call())
    producers: dict[int, int] = {}
    rows: Rows = []
    for name in sorted(path.name for path in directory.glob("*.log")):
        for row in dump(disk, name, deep=True):
            if "error" in row or row["base_offset"] >= until_offset:
                continue
            who = producers.setdefault(row["producer_id"], len(producers))
            records = tuple((each["offset"], each.get("key"), each.get("value"), each.get("control")) for each in row["records"])
            rows.append(
                (row["base_offset"], row["last_offset"], who, row["producer_epoch"], row["base_sequence"], row["control"], records)
            )
    return rows


def transacted(broker: Peer, topic: str) -> Writer:
    """Transactions of four producers that were committed and aborted, wholly out of date or not; one is open."""
    writer = Writer(broker, topic)
    a, b, gone, still_open = (f"{name}-{topic}" for name in ("a", "b", "gone", "open"))
    for name in (a, b, gone, still_open):
        writer.begin(name)
    for number in range(3):
        writer.write(a, b"k1", b"a%d" % number)
        writer.write(b, b"k2", b"b%d" % number)
        writer.end(a, committed=number != 1)
        writer.end(b, committed=number == 1)
        time.sleep(SEGMENT_S)
    writer.write(gone, b"k1", b"aborted")
    writer.write(gone, b"k4", b"aborted")
    writer.end(gone, committed=False)
    writer.write(a, b"k3", b"to be deleted")
    writer.write(a, b"k3", None)
    writer.write(a, b"k1", b"last")
    writer.end(a, committed=True)
    writer.end(b, committed=False)
    time.sleep(SEGMENT_S)
    writer.write(still_open, b"k5", b"open")
    return writer


def compacted(peer_name: str, home: Path) -> dict[str, Rows]:
    """What is left of the same transactions while one is open, and when it has ended, where markers go soon and where they stay."""
    with start_peer(peer_name, home, QUICK) as broker:
        writers = {}
        for topic, retention_ms in (("soon", "100"), ("late", "86400000")):
            create(broker, topic, **COMPACTED, delete_retention_ms=retention_ms)
            writers[topic] = transacted(broker, topic)
        ends = {topic: writer.latest(READ_UNCOMMITTED) for topic, writer in writers.items()}
        fill(broker, 6)
        left = {"late, one open": batches(home, "late", ends["late"])}
        for topic, writer in writers.items():
            writer.end(f"open-{topic}", committed=False)
            writer.close()
        fill(broker, 10)
        return left | {topic: batches(home, topic, end) for topic, end in ends.items()}


def fill(broker: Peer, rounds: int) -> None:
    """Have segments end and be compacted."""
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    for _ in range(rounds):
        for topic in ("soon", "late"):
            producer.produce(topic, b"filler", key=b"filler")
        assert producer.flush(30) == 0
        time.sleep(2 * SEGMENT_S)


@pytest.mark.full(seconds=30)
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_compaction_leaves_of_transactions_what_it_leaves_on_apache_kafka(tmp_path: Path) -> None:
    theirs, ours = compacted("apache-kafka", tmp_path / "theirs"), compacted("ottla", tmp_path / "ours")
    assert ours == theirs
    markers = {name: sum(bool(row[5]) for row in rows) for name, rows in ours.items()}
    assert markers["late, one open"] == markers["late"] > markers["soon"]
    assert "aborted" not in str(ours["late"])


def test_deleting_a_topic_ends_what_is_open_there_and_nothing_else(broker: Peer, unique: Any) -> None:
    gone, stays = unique("gone"), unique("stays")
    client = create(broker, gone)
    create(broker, stays)
    name = unique("t")
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    for topic in (gone, stays):
        producer.produce(topic, b"v")
    assert producer.flush(60) == 0
    client.delete_topics([gone])[gone].result(60)
    producer.commit_transaction(60)
    assert committed_values(broker.address, stays) == [b"v"]
    eventually(lambda: gone not in client.list_topics(timeout=30).topics, what="the topic is gone")
    create(broker, gone)
    producer.begin_transaction()
    producer.produce(gone, b"anew")
    producer.commit_transaction(60)
    assert committed_values(broker.address, gone) == [b"anew"]


def test_records_of_an_open_transaction_can_be_deleted_and_it_holds_nobody_up_when_it_has_ended(broker: Peer, unique: Any) -> None:
    topic = unique("deleted")
    create(broker, topic)
    writer = Writer(broker, topic)
    for name in ("first", "second"):
        writer.begin(f"{name}-{topic}")
        writer.write(f"{name}-{topic}", b"k", b"v")
    assert (writer.latest(READ_COMMITTED), writer.latest(READ_UNCOMMITTED)) == (0, 2)
    writer.delete_records(1)
    assert writer.latest(READ_UNCOMMITTED) == 2
    assert writer.latest(READ_COMMITTED) <= 1
    writer.end(f"first-{topic}", committed=True)
    assert (writer.latest(READ_COMMITTED), writer.latest(READ_UNCOMMITTED)) == (1, 3)
    writer.end(f"second-{topic}", committed=False)
    assert (writer.latest(READ_COMMITTED), writer.latest(READ_UNCOMMITTED)) == (4, 4)
    writer.close()


@pytest.mark.rows(1, seconds=7)
@pytest.mark.parametrize("kill", [False, True])
def test_the_last_stable_offset_is_the_same_after_a_restart_and_after_records_were_deleted(tmp_path: Path, *, kill: bool) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        create(broker, "t")
        writer = Writer(broker, "t")
        for name in ("ended", "open", "later"):
            writer.begin(name)
        for committed in (True, False):
            writer.write("ended", b"k", b"v")
            writer.end("ended", committed=committed)
        writer.write("open", b"k", b"v")
        writer.write("later", b"k", b"v")
        writer.end("later", committed=True)
        ends = writer.latest(READ_COMMITTED), writer.latest(READ_UNCOMMITTED)
        assert ends == (4, 7)
        for deleted, wanted in ((0, ends), (3, ends), (6, (6, 7))):
            if deleted:
                writer.delete_records(deleted)
            known, sequences = writer.known, writer.sequences
            writer.close()
            broker.restart(kill=kill)
            writer = Writer(broker, "t")
            writer.known, writer.sequences = known, sequences
            assert (writer.latest(READ_COMMITTED), writer.latest(READ_UNCOMMITTED)) == wanted
        writer.end("open", committed=False)
        assert (writer.latest(READ_COMMITTED), writer.latest(READ_UNCOMMITTED)) == (8, 8)
        writer.close()
        broker.stop()
        disk = RealDisk(str(tmp_path / "data"), lambda call: call())
        assert [found for found in check.check_partition(disk, "t-0") if found.kind in findings.FAULTS] == []
