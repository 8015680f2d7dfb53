"""What stands against serving a leader's request, whichever API asks for it, and how far readers may see."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.partitions.partition import Partition, Role
from ottla.records.batches.header import batches
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.describe_producers import DescribeProducersRequest
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_LEADER_EPOCH,
)
from tests.support.machine import Machine
from tests.support.producing import create, fetch, produce, values


def list_offset(machine: Machine, epoch: int = -1, isolation_level: int = 0) -> tuple[int, int]:
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])
    body = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])
    answer = machine.ask(2, 5, body).topics[0].partitions[0]
    return answer.error_code, answer.offset


def end_of_epoch(machine: Machine, epoch: int = -1) -> int:
    part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=[part])
    return int(machine.ask(23, 3, OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])).topics[0].partitions[0].error_code)


def delete_records(machine: Machine) -> int:
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[part])
    return int(machine.ask(21, 1, DeleteRecordsRequest(topics=[topic], timeout_ms=1000)).topics[0].partitions[0].error_code)


def describe_producers(machine: Machine) -> int:
    topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
    return int(machine.ask(61, 0, DescribeProducersRequest(topics=[topic])).topics[0].partitions[0].error_code)


OF_LEADERS: dict[str, Callable[[Machine], int]] = {
    "Produce": lambda machine: int(produce(machine, b"value", acks=1).error_code),
    "Fetch": lambda machine: fetch(machine)[0],
    "ListOffsets": lambda machine: list_offset(machine)[0],
    "OffsetForLeaderEpoch": end_of_epoch,
    "DeleteRecords": delete_records,
    "DescribeProducers": describe_producers,
}


def machine_with_records() -> tuple[Machine, Partition]:
    machine = Machine()
    create(machine, "t")
    produce(machine, b"1", b"2", b"3")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    return machine, partition


@pytest.mark.parametrize("api", OF_LEADERS)
def test_only_a_leader_that_is_online_serves_what_leaders_serve(api: str) -> None:
    machine, partition = machine_with_records()
    assert OF_LEADERS[api](machine) == NONE
    partition.role = Role.FOLLOWER
    assert OF_LEADERS[api](machine) == NOT_LEADER_OR_FOLLOWER
    partition.fail_offline("its disk is gone")
    assert OF_LEADERS[api](machine) == KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(("epoch", "error_code"), [(-1, NONE), (5, NONE), (4, FENCED_LEADER_EPOCH), (6, UNKNOWN_LEADER_EPOCH)])
def test_a_client_that_knows_another_leader_epoch_learns_whose_is_older(epoch: int, error_code: int) -> None:
    machine, partition = machine_with_records()
    partition.leader_epoch = 5
    assert partition.leader_error(epoch) == error_code
    assert list_offset(machine, epoch)[0] == error_code
    assert end_of_epoch(machine, epoch) == error_code


def test_the_high_watermark_is_the_logs_end_while_this_broker_is_the_only_replica() -> None:
    machine, partition = machine_with_records()
    assert partition.high_watermark == partition.last_stable_offset == 3
    machine.restart()
    restarted = machine.broker.partitions.get("t", 0)
    assert restarted is not None
    assert restarted.high_watermark == 3


def test_readers_see_nothing_beyond_the_high_watermark() -> None:
    machine, partition = machine_with_records()
    produce(machine, b"4")
    partition.high_watermark = 3
    assert partition.last_stable_offset == 3
    assert list_offset(machine) == list_offset(machine, isolation_level=1) == (NONE, 3)
    assert values(machine) == [b"1", b"2", b"3"]


def machine_with_a_log_of_newer_epochs() -> Machine:
    """What was written under the leaders 2 and 5, each one record, as in the log of a cluster that had other leaders."""
    machine = Machine()
    create(machine, "t")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    for partition.leader_epoch in (2, 5):
        assert produce(machine, b"of %d" % partition.leader_epoch).error_code == NONE
    machine.restart()
    return machine


def told_epochs(machine: Machine) -> list[int]:
    """The leader epoch in each answer that has one."""
    metadata = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
    described = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name="t")])
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    listed = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])])
    return [
        machine.ask(3, 9, metadata).topics[0].partitions[0].leader_epoch,
        machine.ask(75, 0, described).topics[0].partitions[0].leader_epoch,
        machine.ask(2, 5, listed).topics[0].partitions[0].leader_epoch,
    ]


def ends_of_epochs(machine: Machine, *epochs: int) -> list[tuple[int, int]]:
    found = []
    for epoch in epochs:
        part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=[part])
        answer = machine.ask(23, 3, OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])).topics[0].partitions[0]
        found.append((answer.leader_epoch, answer.end_offset))
    return found


def test_a_log_that_had_newer_leader_epochs_is_written_on_in_its_newest_and_every_answer_tells_that() -> None:
    machine = machine_with_a_log_of_newer_epochs()
    assert told_epochs(machine) == [5, 5, 5]
    assert [list_offset(machine, epoch)[0] for epoch in (0, 5, 6)] == [FENCED_LEADER_EPOCH, NONE, UNKNOWN_LEADER_EPOCH]
    assert produce(machine, b"of 5 too").error_code == NONE
    assert [header.leader_epoch for _, header in batches(fetch(machine)[1])] == [2, 5, 5]
    assert ends_of_epochs(machine, 0, 2, 4, 5, 6) == [(0, 0), (2, 1), (2, 1), (5, 3), (-1, -1)]


def test_what_is_written_to_such_a_log_outlives_a_kill() -> None:
    machine = machine_with_a_log_of_newer_epochs()
    produce(machine, b"of 5 too")
    machine.kill()
    assert told_epochs(machine) == [5, 5, 5]
    assert values(machine) == [b"of 2", b"of 5", b"of 5 too"]
