"""Commits that arrive together are stored together, and nobody can tell it but by how quick it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.purgatory import DelayedReply
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.runtime.shard import MOST_GATHERED
from ottla.records.batches.header import batches
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import NONE, NOT_COORDINATOR
from ottla.wire.framing import FrameHeader, encode_request
from tests.support.machine import Machine

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, DELETE, OFFSET_DELETE = 8, 9, 10, 11, 12, 13, 42, 47
GROUPS = ("g", "h")


def started() -> Machine:
    machine = Machine(offsets_topic_num_partitions=1, num_partitions=3)
    machine.ask(3, 4, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=True))
    machine.ask(FIND, 0, FindCoordinatorRequest(key="g"))
    return machine


@pytest.fixture
def machine() -> Machine:
    return started()


def commit_request(group: str, offset: int, partition: int = 0, generation: int = -1, member_id: str = "") -> OffsetCommitRequest:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics)


def receive(machine: Machine, key: int, version: int, body: Any) -> Any:
    """Give the broker a request and nothing more: its bundle is not over."""
    parts = encode_request(FrameHeader(key, version, 1, "test"), body)
    return machine.broker.receive(memoryview(bytearray(b"".join(parts)))[4:], machine.peer, machine.clock.now())


def result(machine: Machine, key: int, version: int, answer: Any) -> Any:
    return machine.finish(key, version, answer) if isinstance(answer, DelayedReply) else machine._decoded(key, version, answer)


def error_code(machine: Machine, answer: Any) -> int:
    code: int = result(machine, COMMIT, 8, answer).topics[0].partitions[0].error_code
    return code


def stored(machine: Machine) -> Partition:
    partition = machine.broker.partitions.get(OFFSETS_TOPIC, partition_of("g", 1))
    assert partition is not None
    return partition


def sizes_of_batches(machine: Machine) -> list[int]:
    """How many records each batch in the log holds."""
    log = stored(machine).log
    found = log.read(0, 1 << 20, until_offset=log.log_end_offset)
    return [] if found is None else [header.record_count for _, header in batches(memoryview(found.read()))]


def committed(machine: Machine, group: str) -> dict[int, int]:
    response = machine.ask(FETCH, 7, OffsetFetchRequest(group_id=group, topics=None))
    return {part.partition_index: part.committed_offset for topic in response.topics for part in topic.partitions}


def test_commits_of_one_bundle_are_one_batch(machine: Machine) -> None:
    receive(machine, COMMIT, 8, commit_request("g", 1))
    answers = [receive(machine, COMMIT, 8, commit_request("g", offset, offset % 3)) for offset in range(2, 7)]
    machine.settle()
    assert sizes_of_batches(machine) == [1, 5]
    assert [error_code(machine, answer) for answer in answers] == [NONE] * 5
    assert committed(machine, "g") == {0: 6, 1: 4, 2: 5}
    machine.restart()
    assert committed(machine, "g") == {0: 6, 1: 4, 2: 5}


def test_a_bundle_of_very_many_is_more_than_one_batch(machine: Machine) -> None:
    receive(machine, COMMIT, 8, commit_request("g", 1))
    answers = [receive(machine, COMMIT, 8, commit_request("g", offset)) for offset in range(MOST_GATHERED + 1)]
    machine.settle()
    assert sizes_of_batches(machine) == [1, MOST_GATHERED, 1]
    assert {error_code(machine, answer) for answer in answers} == {NONE}
    assert committed(machine, "g") == {0: MOST_GATHERED}


@pytest.mark.expects_errors("No space left on device")
def test_where_all_do_not_fit_on_the_disk_those_are_stored_that_do(machine: Machine) -> None:
    machine.ask(COMMIT, 8, commit_request("g", 1))
    before = machine.disk.used_bytes
    machine.ask(COMMIT, 8, commit_request("g", 2))
    of_one = machine.disk.used_bytes - before
    machine.disk.capacity_bytes = machine.disk.used_bytes + of_one
    answers = [receive(machine, COMMIT, 8, commit_request("g", offset)) for offset in (3, 4, 5)]
    machine.settle()
    assert [error_code(machine, answer) for answer in answers] == [NONE, NOT_COORDINATOR, NOT_COORDINATOR]
    assert committed(machine, "g") == {0: 3}


@pytest.mark.expects_errors("Input/output error", "a sync failed")
def test_after_a_failed_sync_each_of_a_bundle_is_told(machine: Machine) -> None:
    machine.ask(COMMIT, 8, commit_request("g", 1))
    answers = [receive(machine, COMMIT, 8, commit_request("g", offset)) for offset in (2, 3)]
    machine.disk.fail(0, count=1_000)
    machine.settle()
    machine.disk.heal()
    assert [error_code(machine, answer) for answer in answers] == [NOT_COORDINATOR] * 2


def test_who_went_away_spoils_no_commit_of_the_bundle(machine: Machine) -> None:
    machine.ask(COMMIT, 8, commit_request("g", 1))
    gone, stays = (receive(machine, COMMIT, 8, commit_request("g", offset, partition=offset % 3)) for offset in (2, 4))
    machine.broker.forget(gone)
    machine.settle()
    assert error_code(machine, stays) == NONE
    assert committed(machine, "g") == {0: 1, 1: 4, 2: 2}


commits = st.tuples(st.just("commit"), st.sampled_from(GROUPS), st.integers(0, 99), st.integers(0, 3), st.integers(-1, 2))
others = st.tuples(
    st.sampled_from(("join", "beat", "leave", "fetch", "delete", "forget")),
    st.sampled_from(GROUPS),
    st.just(0),
    st.just(0),
    st.just(1),
)
lives = st.lists(st.tuples(st.one_of(commits, commits, others), st.booleans()), max_size=30)


def request_of(step: tuple[str, str, int, int, int], members: dict[str, str]) -> tuple[int, int, Any]:
    kind, group, offset, partition, generation = step
    member_id = members.get(group, "")
    match kind:
        case "commit":
            return COMMIT, 8, commit_request(group, offset, partition, generation, member_id if generation >= 0 else "")
        case "join":
            protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
            return (
                JOIN,
                3,
                JoinGroupRequest(
                    group_id=group,
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=10_000,
                    member_id=member_id,
                    protocol_type="consumer",
                    protocols=[protocol],
                ),
            )
        case "beat":
            return HEARTBEAT, 3, HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation)
        case "leave":
            return LEAVE, 2, LeaveGroupRequest(group_id=group, member_id=member_id)
        case "fetch":
            return FETCH, 7, OffsetFetchRequest(group_id=group, topics=None)
        case "delete":
            return DELETE, 1, DeleteGroupsRequest(groups_names=[group])
    part = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=partition)
    return (
        OFFSET_DELETE,
        0,
        OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequest.OffsetDeleteRequestTopic(name="t", partitions=[part])]),
    )


def lived(life: list[tuple[tuple[str, str, int, int, int], bool]], *, together: bool) -> tuple[list[Any], list[dict[int, int]]]:
    """(every answer in order, what is committed in the end); bundles end where the life says, or with every request."""
    machine, answers, members = started(), list[tuple[int, int, Any]](), dict[str, str]()
    for step, ends in life:
        key, version, body = request_of(step, members)
        answer = receive(machine, key, version, body)
        answers.append((key, version, answer))
        if ends or not together or key == JOIN:
            machine.settle()
        if key == JOIN and (not isinstance(answer, DelayedReply) or answer.done):
            members[step[1]] = result(machine, key, version, answer).member_id or members.get(step[1], "")
    machine.pass_time(60_000)
    done = [result(machine, *each) for each in answers]
    return done, [committed(machine, group) for group in GROUPS]


@pytest.mark.slow
@given(lives)
def test_bundled_or_one_by_one_the_answers_and_the_offsets_are_the_same(life: Any) -> None:
    assert lived(life, together=True) == lived(life, together=False)
