"""What is left of a deleted topic, its committed offsets and its directories, goes whatever happens; namesakes inherit nothing."""

from __future__ import annotations

import collections
import itertools
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.broker import BrokerMachine
from ottla.broker.serving.purgatory import DelayedReply
from ottla.log.log import Log
from ottla.ports import Change, CommitSteps, Condition, StorageFailed, TryAgain
from ottla.registry.journal import JournalRegistry
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE, TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION
from tests.support.coordinator_records import everything
from tests.support.machine import Machine
from tests.support.producing import PRODUCE, begin, create, delete, produce, values
from tests.unit.broker.test_computed import Hasty

COMMIT, FETCH, FIND, CREATE, DELETE = 8, 9, 10, 19, 20
DAY_MS = 86_400_000
NOTES = "/admin/delete_topics"


@pytest.fixture
def machine() -> Machine:
    """A broker with a topic that a group has committed offset 5 for."""
    machine = Machine(offsets_topic_num_partitions=1)
    create(machine, "t")
    create(machine, "other")
    machine.ask(FIND, 3, FindCoordinatorRequest(key="g"))
    commit(machine, 5)
    return machine


def commit(machine: Machine, offset: int, topic: str = "t") -> None:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[part])]
    response = machine.ask(COMMIT, 7, OffsetCommitRequest(group_id="g", topics=topics))
    assert response.topics[0].partitions[0].error_code == NONE


def fetched(machine: Machine) -> int:
    """What the group is told that it has committed, whether it asks for the topic or for everything."""
    wanted = [OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    answers = set()
    for topics in (wanted, None):
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=topics)
        found = machine.ask(FETCH, 8, OffsetFetchRequest(groups=[group])).groups[0].topics
        answers.add(next((topic.partitions[0].committed_offset for topic in found if topic.name == "t"), -1))
    (answer,) = answers
    return answer


def kept(machine: Machine) -> set[str]:
    """The topics that coordinators still keep offsets for."""
    return {record.topic for one in machine.broker.groups.machines for record in everything(one.offsets)}


def directories(machine: Machine) -> list[str]:
    return [name for name in machine.disk.list("") if name.startswith("t-")]


def pass_seconds(machine: Machine, seconds: int) -> None:
    for _ in range(seconds):
        machine.pass_time(1_000)


def refuse_tombstones(machine: Machine) -> pytest.MonkeyPatch:
    """Let the disk refuse appends to the log of groups until the patch is undone."""
    partition = machine.broker.partitions.get("__consumer_offsets", 0)
    assert partition is not None
    patch, refused, append = pytest.MonkeyPatch(), partition.log, Log.append

    def refuse(log: Log, *arguments: Any, **named: Any) -> Any:
        if log is refused:
            raise StorageFailed("__consumer_offsets-0", "No space left on device")
        return append(log, *arguments, **named)

    patch.setattr(Log, "append", refuse)
    return patch


def begin_to_delete(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete the topic, and end the broker when the registry knows it and nothing else has happened."""

    class Ended(BaseException):
        pass

    def end(*arguments: object) -> None:
        raise Ended

    with monkeypatch.context() as patch:
        patch.setattr(machine.broker.publisher, "_deleted", end)
        with pytest.raises(Ended):
            machine.ask(DELETE, 5, DeleteTopicsRequest(topic_names=["t"]))
    machine.kill()
    machine.pass_time(100)


def test_an_append_that_waits_for_a_sync_ends_when_its_topic_is_deleted_because_the_topic_is_gone(machine: Machine) -> None:
    """KAFKA_STORAGE_ERROR would let operators look for a broken disk."""
    pending = begin(machine, b"v")
    assert isinstance(pending, DelayedReply)
    assert machine.broker.partitions.drop("t", 0)
    part = machine.finish(PRODUCE, 9, pending).responses[0].partition_responses[0]
    assert part.error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_crash_behind_the_registry_leaves_no_offsets_of_a_deleted_topic(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_to_delete(machine, monkeypatch)
    assert kept(machine) == set()
    assert machine.registry.children(NOTES) == []
    create(machine, "t")
    assert fetched(machine) == -1
    machine.kill()
    assert (fetched(machine), directories(machine)) == (-1, ["t-0"])


@pytest.mark.expects_errors("No space left on device", "Input/output error")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_refused_append_leaves_no_offsets_of_a_deleted_topic(machine: Machine, restarts: bool) -> None:
    patch = refuse_tombstones(machine)
    delete(machine, "t")
    assert machine.registry.children(NOTES) == ["t"]
    patch.undo()
    if restarts:
        machine.kill()
    pass_seconds(machine, 15)
    assert machine.registry.children(NOTES) == []
    create(machine, "t")
    assert fetched(machine) == -1
    commit(machine, 3)
    assert fetched(machine) == 3
    assert kept(machine) == {"t"}


@pytest.mark.expects_errors("No space left on device", "Input/output error")
def test_what_a_refused_append_left_is_forgotten_a_second_later(machine: Machine) -> None:
    commit(machine, 4, "other")
    patch = refuse_tombstones(machine)
    delete(machine, "t")
    assert kept(machine) == {"t", "other"}
    patch.undo()
    machine.pass_time(1_000)
    assert kept(machine) == {"other"}
    pass_seconds(machine, 15)
    assert machine.registry.children(NOTES) == []


def test_a_deletion_is_noted_until_the_tombstones_are_on_stable_storage(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        machine.begin(DELETE, 5, DeleteTopicsRequest(topic_names=["t"]))
        machine.pass_time(100)
        assert machine.registry.children(NOTES) == ["t"]
    pass_seconds(machine, 15)
    assert machine.registry.children(NOTES) == []


def test_a_clock_that_goes_back_does_not_keep_the_offsets_of_a_deleted_topic(machine: Machine) -> None:
    machine.clock.jump(-DAY_MS)
    delete(machine, "t")
    create(machine, "t")
    assert fetched(machine) == -1
    commit(machine, 3)
    machine.kill()
    assert fetched(machine) == 3


@pytest.mark.expects_errors("No space left on device", "Input/output error")
def test_slices_of_forgetting_are_gone_on_with_after_a_refusal(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coord.expiry.MOST_LOOKED_AT", 1)
    for group in "abc":
        part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])
        machine.ask(COMMIT, 7, OffsetCommitRequest(group_id=group, topics=[topic]))
    patch = refuse_tombstones(machine)
    machine.begin(DELETE, 5, DeleteTopicsRequest(topic_names=["t"]))
    machine.pass_time(2)
    assert kept(machine) == {"t"}
    patch.undo()
    for _ in range(15):
        machine.pass_time(1_000)
    assert kept(machine) == set()
    assert machine.registry.children(NOTES) == []


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_brings_no_directory_of_a_deleted_topic_back(
    machine: Machine, seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    produce(machine, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        machine.begin(DELETE, 5, DeleteTopicsRequest(topic_names=["t"]))
        if seed % 3 == 1:
            machine.broker.scheduler.begin("t", machine.broker.by_name.create_internal("t"), urgent=True)
        elif seed % 3 == 2:
            topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            created = machine.begin(CREATE, 7, CreateTopicsRequest(topics=[topic]))
            assert isinstance(created, DelayedReply) or created.topics[0].error_code == TOPIC_ALREADY_EXISTS
    with caplog.at_level(logging.ERROR, "ottla"):
        machine.cut_power(seed)
    assert not caplog.records
    assert not [name for name in directories(machine) if "stray" in name]
    machine.pass_time(100)
    if "t" not in machine.broker.image.topics:
        assert directories(machine) == []
        create(machine, "t")
    assert produce(machine, b"new").error_code == NONE
    assert values(machine) == [b"new"]


@pytest.mark.expects_errors("its files could not be", "could not be deleted")
@pytest.mark.parametrize("restarts", [False, True])
def test_files_that_the_disk_did_not_give_up_go_before_the_name_is_given_again(machine: Machine, restarts: bool) -> None:
    produce(machine, b"old")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(partition.log), "delete", lambda log: machine.disk.remove("no such file"))
        patch.setattr(machine.broker.directories, "delete", lambda name: machine.disk.remove("no such file"))
        delete(machine, "t")
    assert (directories(machine), machine.registry.children(NOTES)) == (["t-0"], ["t"])
    if restarts:
        machine.kill()
    pass_seconds(machine, 15)
    assert directories(machine) == []
    create(machine, "t")
    assert produce(machine, b"new").error_code == NONE
    assert values(machine) == [b"new"]
    assert directories(machine) == ["t-0"]
    assert machine.registry.children(NOTES) == []


def test_thousands_of_logs_of_a_deleted_topic_go_a_few_at_a_time_before_its_name_is_given_again(machine: Machine) -> None:
    create(machine, "wide", 600)
    machine.broker.scheduler._clock = Hasty(machine.clock)
    deleted = machine.begin(DELETE, 5, DeleteTopicsRequest(topic_names=["wide"]))
    topic = CreateTopicsRequest.CreatableTopic(name="wide", num_partitions=2, replication_factor=1)
    before = len(machine.disk.list(""))
    assert isinstance(deleted, DelayedReply)
    machine.pass_time(1)
    assert before - len(machine.disk.list("")) < 10
    while not deleted.done:
        machine.pass_time(1)
    created = machine.begin(CREATE, 7, CreateTopicsRequest(topics=[topic]))
    while not created.done:
        machine.pass_time(1)
    assert machine.finish(CREATE, 7, created).topics[0].error_code == NONE
    assert sorted(name for name in machine.disk.list("") if name.startswith("wide-")) == ["wide-0", "wide-1"]
    machine.kill()
    assert produce(machine, b"new", topic="wide").error_code == NONE


@pytest.mark.expects_errors("no handle is left")
def test_a_deletion_is_answered_though_no_sync_of_the_names_can_begin(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(files: object, done: object) -> None:
        raise TryAgain("", "no handle is left")

    with monkeypatch.context() as patch:
        patch.setattr(machine.disk, "sync_soon", refuse)
        (result,) = machine.ask(DELETE, 5, DeleteTopicsRequest(topic_names=["t"])).responses
    assert result.error_code == NONE
    pass_seconds(machine, 15)
    create(machine, "t")
    assert values(machine) == []


@pytest.mark.expects_errors("No space left on device", "Input/output error")
def test_the_name_of_a_deleted_topic_is_not_given_again_while_the_disk_cannot_keep_that(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        machine.begin(DELETE, 5, DeleteTopicsRequest(topic_names=["t"]))
        machine.pass_time(1)
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        (created,) = machine.ask(CREATE, 7, CreateTopicsRequest(topics=[topic])).topics
    assert created.error_code == TOPIC_ALREADY_EXISTS
    pass_seconds(machine, 15)
    create(machine, "t")


class WithJournal(Machine):
    """A machine whose registry is on its disk."""

    def _start(self, *, clean: bool) -> BrokerMachine:
        self.registry = JournalRegistry.open(self.disk)  # type: ignore[assignment]  # tests of machines name the registry in memory
        return super()._start(clean=clean)


@pytest.fixture
def journaled() -> Machine:
    machine = WithJournal(offsets_topic_num_partitions=1)
    create(machine, "t")
    create(machine, "other")
    return machine


def fill(machine: Machine) -> None:
    """Leave no room on the disk, nor in the registry but for what a full disk must not refuse."""
    machine.disk.capacity_bytes = machine.disk.used_bytes
    for size in (8_000, 100):
        fillers = itertools.repeat([Change("/filler", b"x" * size)], 1_000)
        with pytest.raises(StorageFailed):
            collections.deque(map(machine.registry.commit, fillers), maxlen=0)


def created(machine: Machine, name: str, partitions: int = 1) -> int:
    response = machine.ask(CREATE, 5, wanted(name, partitions))
    return int(response.topics[0].error_code)


def wanted(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=1_000)


@pytest.mark.expects_errors("No space left on device")
def test_a_full_disk_takes_deletions_which_make_room_and_its_broker_stays_the_controller(journaled: Machine) -> None:
    machine = journaled
    fill(machine)
    assert created(machine, "more") == KAFKA_STORAGE_ERROR
    for name in ("other", "t"):
        delete(machine, name)
    assert not machine.broker.image.topics
    assert machine.broker.controller.is_active
    machine.disk.capacity_bytes = None
    assert created(machine, "t") == NONE


@pytest.mark.expects_errors("No space left on device")
def test_a_topic_whose_leaders_a_full_disk_could_refuse_to_note_can_be_deleted(journaled: Machine) -> None:
    """Its own entry is the last that has room; its leaders take some of the room that is spared for deletions."""
    machine = journaled
    commit = machine.broker.shared.commit

    def commit_and_fill(changes: Sequence[Change | Condition]) -> CommitSteps:
        yield from commit(changes)
        if any(one.path == "/brokers/topics/new" for one in changes):
            fill(machine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.broker.shared, "commit", commit_and_fill)
        machine.begin(CREATE, 5, wanted("new", 20))
        for _ in range(50):
            machine.pass_time(100)
        machine.pass_time(1_000)
    delete(machine, "new")
    assert machine.broker.controller.is_active
    machine.disk.capacity_bytes = None
    assert created(machine, "new", 20) == NONE


@pytest.mark.expects_errors("No space left on device")
def test_leaders_that_a_full_disk_refused_to_note_are_noted_when_there_is_room_and_hinder_no_deletion(journaled: Machine) -> None:
    machine = journaled
    commit = machine.broker.shared.commit

    def commit_and_fill(changes: Sequence[Change | Condition]) -> CommitSteps:
        yield from commit(changes)
        if any(one.path == "/brokers/topics/new" for one in changes):
            fill(machine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.broker.shared, "commit", commit_and_fill)
        pending = machine.begin(CREATE, 5, wanted("new", 600))
        for _ in range(50):
            machine.pass_time(100)
        machine.pass_time(1_000)
        delete(machine, "other")
        assert machine.broker.controller.is_active
        machine.disk.capacity_bytes = None
        for _ in range(50):
            machine.pass_time(100)
    assert machine.finish(CREATE, 5, pending).topics[0].error_code == NONE
    assert all(one.leader >= 0 for one in machine.broker.image.topics["new"].partitions)
