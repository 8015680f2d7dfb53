"""What clients may ask of logs beside records: later starts, ends of epochs, sizes, producers. As Apache Kafka 4.3 answers."""

from __future__ import annotations

import pytest

from ottla.broker.replication.replica import Replica
from ottla.records.batches.builder import build
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.api.describe_producers import DescribeProducersRequest
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.machine import Machine
from tests.support.producing import create, fetch, produce, values

DELETE_RECORDS, EPOCHS, LOG_DIRS, PRODUCERS = 21, 23, 35, 61


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    create(machine, "t", 2)
    for number in range(3):
        produce(machine, b"%da" % number, b"%db" % number)
    return machine


def delete_records(machine: Machine, *asked: tuple[str, int, int], version: int = 2) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, partition) -> (low watermark, error code)."""
    partition = DeleteRecordsRequest.DeleteRecordsPartition
    topics = [
        DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[partition(partition_index=index, offset=offset)])
        for name, index, offset in asked
    ]
    response = machine.ask(DELETE_RECORDS, version, DeleteRecordsRequest(topics=topics, timeout_ms=1000))
    return {
        (topic.name, part.partition_index): (part.low_watermark, part.error_code)
        for topic in response.topics
        for part in topic.partitions
    }


def test_a_log_begins_where_it_is_asked_to_and_still_does_after_a_kill(machine: Machine) -> None:
    assert delete_records(machine, ("t", 0, 3)) == {("t", 0): (3, NONE)}
    assert fetch(machine, offset=2)[0] == OFFSET_OUT_OF_RANGE
    machine.kill()
    assert fetch(machine, offset=2)[0] == OFFSET_OUT_OF_RANGE
    assert values(machine, offset=3) == [b"1b", b"2a", b"2b"]
    assert delete_records(machine, ("t", 0, 1)) == {("t", 0): (3, NONE)}
    assert delete_records(machine, ("t", 0, -1)) == {("t", 0): (6, NONE)}
    machine.restart()
    assert produce(machine, b"next").base_offset == 6


@pytest.mark.parametrize(
    ("topic", "index", "offset", "error_code"),
    [
        ("t", 0, 7, OFFSET_OUT_OF_RANGE),
        ("t", 0, -2, OFFSET_OUT_OF_RANGE),
        ("t", 9, 0, UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, 0, UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0, 0, POLICY_VIOLATION),
    ],
)
def test_a_start_that_cannot_be_is_refused(machine: Machine, topic: str, index: int, offset: int, error_code: int) -> None:
    create(machine, "compacted", cleanup_policy="compact")
    assert delete_records(machine, (topic, index, offset)) == {(topic, index): (-1, error_code)}


def test_internal_topics_keep_their_records(machine: Machine) -> None:
    machine.create_internal("__consumer_offsets")
    assert delete_records(machine, ("__consumer_offsets", 0, 0)) == {("__consumer_offsets", 0): (-1, INVALID_TOPIC_EXCEPTION)}


def test_of_a_partition_that_is_named_twice_the_last_start_counts(machine: Machine) -> None:
    assert delete_records(machine, ("t", 0, 2), ("t", 1, 0), ("t", 0, 4)) == {("t", 0): (4, NONE), ("t", 1): (0, NONE)}


def test_requests_side_by_side_all_hold(machine: Machine) -> None:
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    checkpoints, told = machine.broker.partitions.checkpoints, list[None]()
    for offset in (1, 3, 2):
        machine.broker.scheduler.begin(offset, checkpoints.begin_at({partition: offset}), told.append, urgent=True)
    for _ in range(10):
        machine.pass_time(10)
    assert (partition.log.log_start_offset, len(told)) == (3, 3)
    machine.kill()
    assert fetch(machine, offset=2)[0] == OFFSET_OUT_OF_RANGE


def test_a_topic_that_is_deleted_meanwhile_is_unknown(machine: Machine) -> None:
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[part])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        pending = machine.begin(DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[topic], timeout_ms=1000))
        machine.broker.image.drop_topic("t")
        replica = machine.broker.partitions.get("t", 0)
        assert isinstance(replica, Replica)
        replica.stop()
        machine.broker.partitions.drop("t", 0)
    for _ in range(5):
        machine.pass_time(10)
    answer = machine.finish(DELETE_RECORDS, 2, pending)
    assert answer.topics[0].partitions[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.expects_errors("No space left on device")
def test_a_start_that_cannot_be_noted_is_not_promised(machine: Machine) -> None:
    machine.disk.capacity_bytes = 0
    assert delete_records(machine, ("t", 0, 2)) == {("t", 0): (-1, KAFKA_STORAGE_ERROR)}
    assert fetch(machine, offset=0)[0] == NONE
    machine.disk.capacity_bytes = None
    machine.kill()
    assert fetch(machine, offset=0)[0] == NONE
    assert delete_records(machine, ("t", 0, 2)) == {("t", 0): (2, NONE)}
    machine.kill()
    assert fetch(machine, offset=1)[0] == OFFSET_OUT_OF_RANGE


def end_of_epoch(machine: Machine, index: int, current: int, asked: int, topic: str = "t") -> tuple[int, int, int]:
    part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=asked)
    body = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[part])])
    answer = machine.ask(EPOCHS, 4, body).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize(
    ("index", "current", "asked", "answer"),
    [
        (0, -1, 0, (NONE, 0, 6)),
        (0, 0, 0, (NONE, 0, 6)),
        (0, 1, 0, (UNKNOWN_LEADER_EPOCH, -1, -1)),
        (0, -5, 0, (FENCED_LEADER_EPOCH, -1, -1)),
        (0, -1, -1, (NONE, -1, -1)),
        (0, -1, 1, (NONE, -1, -1)),
        (0, -1, -2, (NONE, -2, 4)),
        (1, -1, 0, (NONE, 0, 0)),
        (1, -1, -1, (NONE, -1, -1)),
        (9, -1, 0, (UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
def test_where_an_epoch_ends(machine: Machine, index: int, current: int, asked: int, answer: tuple[int, int, int]) -> None:
    delete_records(machine, ("t", 0, 4))
    assert end_of_epoch(machine, index, current, asked) == answer


def test_the_directory_with_the_size_of_each_partition_and_the_room_that_is_left(machine: Machine) -> None:
    machine.disk.capacity_bytes = 1_000_000
    part = DescribeLogDirsRequest.DescribableLogDirTopic(topic="t", partitions=[0, 9, 0])
    lost = DescribeLogDirsRequest.DescribableLogDirTopic(topic="nowhere", partitions=[0])
    result = machine.ask(LOG_DIRS, 4, DescribeLogDirsRequest(topics=[part, lost])).results[0]
    size = machine.disk.size("t-0/00000000000000000000.log")
    assert [(seen.name, [(one.partition_index, one.partition_size) for one in seen.partitions]) for seen in result.topics] == [
        ("t", [(0, size)])
    ]
    assert (result.total_bytes, result.usable_bytes) == (1_000_000, 1_000_000 - machine.disk.used_bytes)
    everything = machine.ask(LOG_DIRS, 1, DescribeLogDirsRequest(topics=None)).results[0]
    assert [len(seen.partitions) for seen in everything.topics] == [2]
    assert machine.ask(LOG_DIRS, 5, DescribeLogDirsRequest(topics=[])).results[0].topics == []


def test_producers_with_the_last_of_what_they_wrote(machine: Machine) -> None:
    for sequence in (0, 2):
        batch = build(None, [b"x", b"y"], 1_700_000_000_000, producer_id=7, producer_epoch=3, base_sequence=sequence)
        produce(machine, batch=batch, index=1)
    asked = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0, 1, 9])
    lost = DescribeProducersRequest.TopicRequest(name="nowhere", partition_indexes=[0])
    bad = DescribeProducersRequest.TopicRequest(name="a b", partition_indexes=[0])
    found = machine.ask(PRODUCERS, 0, DescribeProducersRequest(topics=[asked, lost, bad])).topics
    assert [[part.error_code for part in topic.partitions] for topic in found] == [
        [NONE, NONE, UNKNOWN_TOPIC_OR_PARTITION],
        [UNKNOWN_TOPIC_OR_PARTITION],
        [INVALID_TOPIC_EXCEPTION],
    ]
    assert found[0].partitions[0].active_producers == []
    state = found[0].partitions[1].active_producers[0]
    assert (state.producer_id, state.producer_epoch, state.last_sequence, state.coordinator_epoch) == (7, 3, 3, -1)
    assert (state.last_timestamp, state.current_txn_start_offset) == (machine.clock.now().wall_ms, -1)
