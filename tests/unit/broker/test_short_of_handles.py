"""A process that lacks file handles for a while: partitions that could not be opened are, once there is one."""

from __future__ import annotations

import logging

import pytest

from ottla.broker.partitions.checkpoints import Checkpoints
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NOT_COORDINATOR
from tests.support.machine import Machine
from tests.support.producing import CREATE, create, delete, fetch, produce, values

pytestmark = pytest.mark.expects_errors("Too many open files")
SECOND_MS = 1000
LOAD = Checkpoints.load


@pytest.fixture
def machine() -> Machine:
    machine = Machine(offsets_topic_num_partitions=1, ottla_journal_bytes=0)
    create(machine, "t", 3)
    for index in range(3):
        assert produce(machine, b"before", index=index).error_code == 0
    return machine


def start_without_handles(machine: Machine, *, clean: bool) -> None:
    """Start again, and lack handles from when the partitions are opened."""

    def load(checkpoints: Checkpoints) -> None:
        LOAD(checkpoints)
        machine.disk.lacks_handles = True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "load", load)
        machine.restart() if clean else machine.kill()


def commit(machine: Machine, offset: int) -> int:
    """Commit an offset of t-0 for a group; the error code."""
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    body = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])])
    code: int = machine.ask(8, 7, body).topics[0].partitions[0].error_code
    return code


def online(machine: Machine) -> list[bool]:
    return [partition.offline is None for partition in machine.broker.partitions]


@pytest.mark.parametrize("clean", [True, False])
def test_partitions_that_could_not_be_opened_at_the_start_are_once_there_is_a_handle(machine: Machine, clean: bool) -> None:
    start_without_handles(machine, clean=clean)
    assert online(machine) == [False, False, False]
    assert produce(machine, b"no").error_code == KAFKA_STORAGE_ERROR
    assert fetch(machine)[0] == KAFKA_STORAGE_ERROR
    machine.pass_time(10 * SECOND_MS)
    assert online(machine) == [False, False, False]
    machine.disk.lacks_handles = False
    machine.pass_time(SECOND_MS)
    assert online(machine) == [True, True, True]
    for index in range(3):
        assert produce(machine, b"after", index=index).base_offset == 1
        assert values(machine, index=index) == [b"before", b"after"]
    machine.restart()
    assert values(machine) == [b"before", b"after"]


def test_each_is_said_to_be_offline_once_however_often_it_is_tried(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ottla"):
        start_without_handles(machine, clean=True)
        for _ in range(60):
            machine.pass_time(SECOND_MS)
        machine.disk.lacks_handles = False
        machine.pass_time(SECOND_MS)
    entries = [record for record in caplog.records if "until it can be opened" in record.getMessage()]
    assert len(entries) <= 3, "fewer where the log is limited to one line of a cause and second"
    assert {record.__dict__["cause"] for record in entries} <= {"open"}
    opened = [record.getMessage() for record in caplog.records if "could be opened" in record.getMessage()]
    assert opened == [f"t-{index} could be opened" for index in range(3)]


def test_a_topic_that_is_made_meanwhile_is_there_later(machine: Machine) -> None:
    machine.disk.lacks_handles = True
    topic = CreateTopicsRequest.CreatableTopic(name="new", num_partitions=2, replication_factor=1)
    machine.begin(CREATE, 7, CreateTopicsRequest(topics=[topic]))
    machine.pass_time(SECOND_MS)
    assert produce(machine, b"no", topic="new", index=1).error_code == KAFKA_STORAGE_ERROR
    machine.disk.lacks_handles = False
    machine.pass_time(SECOND_MS)
    assert produce(machine, b"yes", topic="new", index=1).error_code == 0


def test_a_topic_that_is_deleted_before_its_partitions_could_be_opened_stays_away(machine: Machine) -> None:
    start_without_handles(machine, clean=True)
    delete(machine, "t")
    machine.disk.lacks_handles = False
    machine.pass_time(20 * SECOND_MS)
    machine.pass_time(SECOND_MS)
    assert not list(machine.broker.partitions)
    create(machine, "t", 1)
    assert values(machine) == []


def test_groups_have_their_coordinator_when_its_partition_could_be_opened(machine: Machine) -> None:
    machine.ask(10, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
    assert commit(machine, 4) == 0
    start_without_handles(machine, clean=True)
    assert commit(machine, 5) == NOT_COORDINATOR
    machine.disk.lacks_handles = False
    machine.pass_time(SECOND_MS)
    assert commit(machine, 5) == 0
