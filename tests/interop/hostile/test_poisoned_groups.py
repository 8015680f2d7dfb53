"""Poison in `__consumer_offsets` of a real process: it starts, names what it passes over, and serves every group as before."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.coord.coordinator_partitions import partition_of
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches, stamp
from ottla.testing.process import BrokerProcess
from tests.support.clients.confluent import Confluent

GROUPS = ("one", "two", "three")
OFFSET_KEY = b"\0\1" + pack(">h4sh1si", 4, b"evil", 1, b"t", 0)
POISON: dict[str, tuple[bytes | None, bytes | None]] = {
    "version": (OFFSET_KEY, b"\0\x63" + bytes(30)),
    "truncated": (OFFSET_KEY, b"\0\3\0\0\0"),
    "key": (b"\0\1\x7f\xffgarbage", b"\0\3" + bytes(22)),
    "null": (None, None),
}


def commit(address: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    try:
        (done,) = consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        assert done.error is None
    finally:
        consumer.close()


def committed(address: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    try:
        (found,) = consumer.committed([TopicPartition("t", 0)], timeout=20)
        return int(found.offset)
    finally:
        consumer.close()


def poison(path: Path, key: bytes | None, value: bytes | None) -> int:
    """Append one record behind the others, as a broker gone wrong would have; its offset."""
    stored = path.read_bytes()
    offset = max((header.next_offset for _, header in batches(stored)), default=0)
    batch = build([key], [value], 0)
    stamp(batch, 0, offset, 0)
    with path.open("ab") as log:
        log.write(batch)
    return offset


@pytest.mark.rows(1, seconds=7)
@pytest.mark.expects_errors("is passed over")
@pytest.mark.parametrize("kind", POISON)
def test_a_poisoned_record_is_named_and_every_group_served(tmp_path: Path, kind: str) -> None:
    with BrokerProcess(tmp_path / "data", {"offsets.topic.num.partitions": 2}) as broker:
        Confluent(broker.address).create_topic("t")
        for number, group in enumerate(GROUPS):
            commit(broker.address, group, number)
        broker.kill()
        index = partition_of("one", 2)
        log = tmp_path / "data" / f"__consumer_offsets-{index}" / f"{0:020d}.log"
        offset = poison(log, *POISON[kind])
        broker.start()
        named = [line for line in broker.log.splitlines() if "is passed over" in line]
        assert len(named) == 1
        assert f"__consumer_offsets-{index}: the record at offset {offset} is passed over: " in named[0]
        assert [committed(broker.address, group) for group in GROUPS] == [0, 1, 2]
        commit(broker.address, "one", 9)
        assert committed(broker.address, "one") == 9


def test_a_record_of_a_kind_to_come_is_no_error(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"offsets.topic.num.partitions": 1}) as broker:
        Confluent(broker.address).create_topic("t")
        commit(broker.address, "one", 5)
        broker.kill()
        poison(tmp_path / "data" / "__consumer_offsets-0" / f"{0:020d}.log", b"\0\x63to come", b"\0\0")
        broker.start()
        assert "is passed over" not in broker.log
        assert "1 records of types of a newer release were skipped" in broker.log
        assert committed(broker.address, "one") == 5
