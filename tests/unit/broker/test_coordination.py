"""Groups in a broker: replies wait for the disk, what was acknowledged survives it, and what it refuses changes nothing."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.group_machine import GroupMachine
from ottla.ports import Steps
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.errors import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    INVALID_REQUEST,
    NON_EMPTY_GROUP,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from ottla.wire.framing import FrameHeader, encode_request
from tests.support.machine import Machine

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, SYNC, DESCRIBE, LIST, DELETE, DELETE_TOPICS, OFFSET_DELETE = (
    8,
    9,
    10,
    11,
    12,
    14,
    15,
    16,
    42,
    20,
    47,
)
PARTITIONS = 4
LOG = "ottla.broker"


@pytest.fixture
def machine() -> Machine:
    machine = Machine(offsets_topic_num_partitions=PARTITIONS, num_partitions=3)
    machine.ask(3, 4, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=True))
    machine.ask(FIND, 0, FindCoordinatorRequest(key="g"))
    return machine


def commit_request(group: str, offset: int, *, topic: str = "t", partition: int = 0) -> OffsetCommitRequest:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[part])])


def commit(machine: Machine, group: str, offset: int, *, topic: str = "t", partition: int = 0) -> int:
    response = machine.ask(COMMIT, 8, commit_request(group, offset, topic=topic, partition=partition))
    error_code: int = response.topics[0].partitions[0].error_code
    return error_code


def committed(machine: Machine, group: str) -> dict[tuple[str, int], int]:
    response = machine.ask(FETCH, 7, OffsetFetchRequest(group_id=group, topics=None))
    assert response.error_code == NONE
    return {(topic.name, part.partition_index): part.committed_offset for topic in response.topics for part in topic.partitions}


def join_request(group: str, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )


def stable_member(machine: Machine, group: str) -> Any:
    joined = machine.ask(JOIN, 3, join_request(group))
    assert joined.error_code == NONE
    assigned = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    body = SyncGroupRequest(group_id=group, member_id=joined.member_id, generation_id=1, assignments=[assigned])
    assert machine.ask(SYNC, 3, body).assignment == b"all"
    return joined


@pytest.mark.parametrize("timeout_ms", [0, -(1 << 31)])
def test_static_members_who_stay_away_keep_nobody_waiting_whatever_time_they_named(machine: Machine, timeout_ms: int) -> None:
    """Each time that nobody had joined by then, it was over again at once."""
    bodies = [join_request("g") for _ in range(2)]
    bodies[0].group_instance_id, bodies[0].rebalance_timeout_ms = "a", timeout_ms
    joining = [machine.begin(JOIN, version, body) for version, body in zip((5, 3), bodies, strict=True)]
    machine.pass_time(3000)
    static, other = (machine.finish(JOIN, version, delayed) for version, delayed in zip((5, 3), joining, strict=True))
    for each in (static, other):
        assert machine.ask(SYNC, 3, SyncGroupRequest(group_id="g", member_id=each.member_id, generation_id=1)).error_code == NONE
    leaving = LeaveGroupRequest.MemberIdentity(member_id=other.member_id)
    assert machine.ask(13, 5, LeaveGroupRequest(group_id="g", members=[leaving])).error_code == NONE
    turns, decide = 0, GroupMachine.decide

    def counted(self: GroupMachine, *asked: Any) -> Any:
        nonlocal turns
        turns += 1
        assert turns < 100, "it never comes to an end"
        return decide(self, *asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupMachine, "decide", counted)
        machine.pass_time(1)
        machine.pass_time(1)
    assert turns < 5


def neighbour(group: str) -> str:
    """Another group that the same coordinator keeps."""
    return next(name for name in map(str, range(1_000)) if partition_of(name, PARTITIONS) == partition_of(group, PARTITIONS))


def beat(machine: Machine, group: str, member_id: str) -> int:
    response = machine.ask(HEARTBEAT, 3, HeartbeatRequest(group_id=group, member_id=member_id, generation_id=1))
    error_code: int = response.error_code
    return error_code


def receive(machine: Machine, key: int, version: int, body: Any) -> Any:
    """Give the broker a request and nothing more: no disk has turned yet."""
    parts = encode_request(FrameHeader(key, version, 1, "test"), body)
    return machine.broker.receive(memoryview(b"".join(parts))[4:], machine.peer, machine.clock.now())


def test_a_commit_is_answered_once_it_is_on_the_disk(machine: Machine) -> None:
    pending = receive(machine, COMMIT, 8, commit_request("g", 5))
    assert isinstance(pending, DelayedReply)
    machine.broker.finish_bundle(machine.clock.now())
    assert not pending.done
    machine.settle()
    assert pending.done


def test_nobody_reads_an_offset_that_could_still_be_lost(machine: Machine) -> None:
    receive(machine, COMMIT, 8, commit_request("g", 5))
    pending = receive(machine, FETCH, 7, OffsetFetchRequest(group_id="g", topics=None))
    assert isinstance(pending, DelayedReply)
    machine.broker.finish_bundle(machine.clock.now())
    assert not pending.done
    machine.settle()
    assert machine.finish(FETCH, 7, pending).topics[0].partitions[0].committed_offset == 5


def test_a_heartbeat_waits_for_no_disk(machine: Machine) -> None:
    member = stable_member(machine, "g")
    receive(machine, COMMIT, 8, commit_request("other", 5))
    body = HeartbeatRequest(group_id="g", member_id=member.member_id, generation_id=1)
    assert not isinstance(receive(machine, HEARTBEAT, 3, body), DelayedReply)


def test_groups_and_offsets_survive_a_restart(machine: Machine) -> None:
    member = stable_member(machine, "g")
    assert commit(machine, "simple", 7) == NONE
    machine.restart()
    assert beat(machine, "g", member.member_id) == NONE
    described = machine.ask(DESCRIBE, 5, DescribeGroupsRequest(groups=["g", "simple"])).groups
    assert [group.group_state for group in described] == ["Stable", "Empty"]
    assert described[0].members[0].member_assignment == b"all"
    assert committed(machine, "simple") == {("t", 0): 7}


@pytest.mark.parametrize("seed", range(10))
def test_an_acknowledged_commit_survives_a_power_cut(machine: Machine, seed: int) -> None:
    for offset in range(5):
        assert commit(machine, "g", offset) == NONE
    receive(machine, COMMIT, 8, commit_request("g", 99))
    machine.disk.crash(random.Random(seed))
    machine.broker = machine._start(clean=False)
    assert committed(machine, "g")["t", 0] in (4, 99)


@pytest.mark.expects_errors("No space left on device")
def test_a_full_disk_refuses_commits_and_changes_nothing(machine: Machine) -> None:
    member = stable_member(machine, "g")
    assert commit(machine, "simple", 5) == NONE
    machine.disk.capacity_bytes = machine.disk.used_bytes
    assert commit(machine, "simple", 6) == NOT_COORDINATOR
    assert committed(machine, "simple") == {("t", 0): 5}
    assert beat(machine, "g", member.member_id) == NONE
    machine.disk.capacity_bytes = None
    assert commit(machine, "simple", 7) == NONE
    assert committed(machine, "simple") == {("t", 0): 7}


@pytest.mark.expects_errors("its coordinator cannot store")
def test_records_that_the_topic_does_not_take_are_refused_and_the_reason_is_logged(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    assert commit(machine, "g", 5) == NONE
    for partition in machine.broker.partitions:
        partition.log.config = replace(partition.log.config, segment_bytes=50)
    with caplog.at_level(logging.ERROR, "ottla.broker"):
        assert commit(machine, "g", 6) == UNKNOWN_SERVER_ERROR
    assert "RECORD_LIST_TOO_LARGE" in caplog.text
    assert [getattr(record, "cause", None) for record in caplog.records] == ["coordinator"]
    assert committed(machine, "g") == {("t", 0): 5}


@pytest.mark.expects_errors("No space left on device")
def test_a_deadline_that_could_not_be_stored_comes_again(machine: Machine) -> None:
    stable_member(machine, "g")
    machine.disk.capacity_bytes = machine.disk.used_bytes
    machine.pass_time(11_000)
    machine.disk.capacity_bytes = None
    machine.pass_time(1_000)
    assert machine.ask(DESCRIBE, 5, DescribeGroupsRequest(groups=["g"])).groups[0].group_state == "Empty"
    machine.restart()
    assert machine.ask(DESCRIBE, 5, DescribeGroupsRequest(groups=["g"])).groups[0].group_state == "Empty"


@pytest.mark.expects_errors("a sync failed")
def test_after_a_failed_sync_all_that_is_owed_says_so(machine: Machine) -> None:
    member = stable_member(machine, "g")
    joining = machine.begin(JOIN, 3, join_request("g"))
    assert isinstance(joining, DelayedReply)
    committing = receive(machine, COMMIT, 8, commit_request(neighbour("g"), 5))
    assert isinstance(committing, DelayedReply)
    machine.disk.fail(0, count=1_000)
    machine.settle()
    machine.disk.heal()
    assert machine.finish(JOIN, 3, joining).error_code == NOT_COORDINATOR
    assert machine.finish(COMMIT, 8, committing).topics[0].partitions[0].error_code == NOT_COORDINATOR
    assert beat(machine, "g", member.member_id) == NOT_COORDINATOR


@pytest.mark.expects_errors("is passed over")
def test_a_poisoned_record_is_named_and_passed_over(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(20):
        assert commit(machine, f"group-{number}", number) == NONE
    for index in range(PARTITIONS):
        partition = machine.broker.partitions.get("__consumer_offsets", index)
        assert partition is not None
        poison = bytearray(build([b"\0\x02\0\x05short", b"", None], [b"\0\x03", b"x", b"y"], 0))
        assert partition.append(poison, (read_header(poison),), machine.clock.now()).error_code == NONE
    with caplog.at_level(logging.ERROR, LOG):
        machine.restart()
    assert "__consumer_offsets-0: the record at offset" in caplog.text
    assert [committed(machine, f"group-{number}") for number in range(20)] == [{("t", 0): number} for number in range(20)]


def test_offsets_of_a_deleted_topic_are_forgotten(machine: Machine) -> None:
    assert commit(machine, "g", 5) == NONE
    machine.ask(DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000))
    assert committed(machine, "g") == {}
    machine.restart()
    assert committed(machine, "g") == {}


def test_who_commits_for_what_is_not_there_is_told(machine: Machine) -> None:
    assert commit(machine, "g", 5, topic="nowhere") == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(machine, "g", 5, partition=3) == UNKNOWN_TOPIC_OR_PARTITION
    body = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequest.OffsetCommitRequestTopic(topic_id=bytes(15) + b"\x07", partitions=parts(1, 2))]
    )
    answered = machine.ask(COMMIT, 10, body).topics[0]
    assert [part.error_code for part in answered.partitions] == [UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_ID]
    mixed = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=parts(0, 8))]
    )
    answered = machine.ask(COMMIT, 5, mixed).topics[0]
    assert {part.partition_index: part.error_code for part in answered.partitions} == {0: NONE, 8: UNKNOWN_TOPIC_OR_PARTITION}


def parts(*indexes: int) -> list[OffsetCommitRequest.OffsetCommitRequestPartition]:
    part = OffsetCommitRequest.OffsetCommitRequestPartition
    return [part(partition_index=index, committed_offset=index, committed_metadata="") for index in indexes]


def test_several_groups_are_fetched_at_once_by_topic_id(machine: Machine) -> None:
    for number in range(5):
        assert commit(machine, f"group-{number}", number) == NONE
    topic = machine.broker.image.topics.get("t")
    assert topic is not None
    asked, stranger = OffsetFetchRequest.OffsetFetchRequestTopics, bytes(15) + b"\x07"
    groups = [
        OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=f"group-{number}",
            topics=[asked(topic_id=topic.topic_id, partition_indexes=[0, 1]), asked(topic_id=stranger, partition_indexes=[0])],
        )
        for number in range(5)
    ]
    groups.append(OffsetFetchRequest.OffsetFetchRequestGroup(group_id="group-3", topics=None))
    answered = machine.ask(FETCH, 10, OffsetFetchRequest(groups=groups)).groups
    for number, group in enumerate(answered[:5]):
        found = {(t.topic_id, p.partition_index): (p.committed_offset, p.error_code) for t in group.topics for p in t.partitions}
        assert found == {
            (topic.topic_id, 0): (number, NONE),
            (topic.topic_id, 1): (-1, NONE),
            (stranger, 0): (-1, UNKNOWN_TOPIC_ID),
        }
    assert [(t.topic_id, t.partitions[0].committed_offset) for t in answered[5].topics] == [(topic.topic_id, 3)]


def test_the_longest_names_fit(machine: Machine) -> None:
    longest = "ü" * 16_383
    assert commit(machine, longest, 5) == NONE
    body = join_request("g")
    body.group_instance_id = longest
    joined = machine.ask(JOIN, 5, body)
    assert joined.error_code == NONE
    assert machine.ask(DESCRIBE, 4, DescribeGroupsRequest(groups=["g"])).groups[0].members[0].group_instance_id == longest


def test_groups_of_all_partitions_are_listed_described_and_deleted(machine: Machine) -> None:
    names = [f"group-{number}" for number in range(10)]
    for name in names:
        assert commit(machine, name, 1) == NONE
    stable_member(machine, "busy")
    listed = machine.ask(LIST, 5, ListGroupsRequest()).groups
    assert sorted(group.group_id for group in listed) == ["busy", *names]
    described = machine.ask(
        DESCRIBE, 6, DescribeGroupsRequest(groups=["nobody", *names], include_authorized_operations=True)
    ).groups
    assert [group.group_id for group in described] == ["nobody", *names]
    assert described[0].error_code == GROUP_ID_NOT_FOUND
    assert described[1].authorized_operations == 0b110101001000
    results = machine.ask(DELETE, 3, DeleteGroupsRequest(groups_names=["busy", *names, "nobody", "nobody"])).results
    assert [result.error_code for result in results] == [NON_EMPTY_GROUP, *[NONE] * 10, GROUP_ID_NOT_FOUND]
    assert results[0].error_message
    machine.restart()
    assert [group.group_id for group in machine.ask(LIST, 0, ListGroupsRequest()).groups] == ["busy"]
    assert committed(machine, "group-1") == {}


def test_offsets_are_deleted_by_partition(machine: Machine) -> None:
    for partition in range(3):
        assert commit(machine, "g", 5, partition=partition) == NONE
    part = OffsetDeleteRequest.OffsetDeleteRequestPartition
    topics = [
        OffsetDeleteRequest.OffsetDeleteRequestTopic(name="t", partitions=[part(partition_index=1), part(partition_index=7)]),
        OffsetDeleteRequest.OffsetDeleteRequestTopic(name="nowhere", partitions=[part(partition_index=0)]),
    ]
    response = machine.ask(OFFSET_DELETE, 0, OffsetDeleteRequest(group_id="g", topics=topics))
    answered = {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
    assert answered == {("t", 1): NONE, ("t", 7): UNKNOWN_TOPIC_OR_PARTITION, ("nowhere", 0): UNKNOWN_TOPIC_OR_PARTITION}
    assert committed(machine, "g") == {("t", 0): 5, ("t", 2): 5}


def test_this_broker_coordinates_groups_and_transactions(machine: Machine) -> None:
    for version in range(4):
        found = machine.ask(FIND, version, FindCoordinatorRequest(key="g"))
        assert (found.error_code, found.node_id, found.host, found.port) == (NONE, 1, "127.0.0.1", 9092)
    for key_type, error_code in ((0, NONE), (1, NONE), (2, INVALID_REQUEST), (9, INVALID_REQUEST)):
        found = machine.ask(FIND, 6, FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"]))
        assert [(each.key, each.error_code) for each in found.coordinators] == [("a", error_code), ("b", error_code)]


@pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_a_refused_join_names_no_protocol(machine: Machine, version: int, name: str | None) -> None:
    assert machine.ask(JOIN, version, join_request("g", "nobody")).protocol_name == name


@pytest.mark.expects_errors("No space left on device", "cannot be created")
def test_before_anybody_looked_for_a_coordinator_there_is_none() -> None:
    machine = Machine(offsets_topic_num_partitions=PARTITIONS)
    assert machine.ask(JOIN, 9, join_request("g")).error_code == NOT_COORDINATOR
    assert machine.ask(LIST, 5, ListGroupsRequest()).groups == []
    machine.disk.capacity_bytes = 0
    machine.disk.fail(0, count=1_000)
    machine.registry.commit = refuse  # type: ignore[method-assign]  # the one port whose faults can't be ordered
    assert machine.ask(FIND, 0, FindCoordinatorRequest(key="g")).error_code == COORDINATOR_NOT_AVAILABLE


@pytest.mark.expects_errors("No space left on device", "cannot be created")
def test_what_refuses_to_make_the_topic_of_groups_is_logged_under_one_cause(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(offsets_topic_num_partitions=PARTITIONS)
    commit = machine.registry.commit
    machine.registry.commit = refuse  # type: ignore[method-assign]  # the one port whose faults can't be ordered
    with caplog.at_level(logging.ERROR, LOG):
        for _ in range(3):
            assert machine.ask(FIND, 0, FindCoordinatorRequest(key="g")).error_code == COORDINATOR_NOT_AVAILABLE
    told = [record for record in caplog.records if "__consumer_offsets cannot be created" in record.message]
    assert {getattr(record, "cause", None) for record in told} == {"__consumer_offsets"}, "however many a limiter lets through"
    machine.registry.commit = commit  # type: ignore[method-assign]  # and mends it
    assert machine.ask(FIND, 0, FindCoordinatorRequest(key="g")).error_code == NONE


def test_the_first_request_for_a_coordinator_runs_no_work_of_others_to_its_end() -> None:
    machine = Machine(offsets_topic_num_partitions=PARTITIONS)
    steps = 0

    def work() -> Steps[None]:
        nonlocal steps
        for _ in range(500):
            machine.clock.advance(1)
            steps += 1
            yield None

    for number in range(10):
        machine.broker.scheduler.begin(number, work(), urgent=True)
    machine.pass_time(1)
    before = steps
    pending = machine.broker.receive(machine.frame_of(FIND, 0, FindCoordinatorRequest(key="g")), machine.peer, machine.clock.now())
    assert steps - before <= 4, "a slice is two milliseconds"
    assert isinstance(pending, DelayedReply)
    while not pending.done:
        machine.pass_time(1)
    assert machine.finish(FIND, 0, pending).error_code == NONE
    assert machine.ask(JOIN, 3, join_request("g")).error_code == NONE


def test_all_that_ask_for_a_coordinator_at_first_wait_for_one_creation_of_its_topic() -> None:
    machine = Machine(offsets_topic_num_partitions=PARTITIONS)
    frames = [machine.frame_of(FIND, 0, FindCoordinatorRequest(key=f"g{number}")) for number in range(5)]
    pending = [machine.broker.receive(frame, machine.peer, machine.clock.now()) for frame in frames]
    assert isinstance(pending[0], DelayedReply)
    machine.broker.forget(pending[0])
    while not all(isinstance(each, DelayedReply) and each.done for each in pending[1:]):
        machine.settle()
        machine.pass_time(1)
    found = [machine.finish(FIND, 0, each) for each in pending[1:] if isinstance(each, DelayedReply)]
    assert [each.error_code for each in found] == [NONE] * 4


def refuse(changes: object) -> None:
    from ottla.ports import StorageFailed

    raise StorageFailed("registry", "No space left on device")
