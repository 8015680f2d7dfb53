"""Topics over the wire: made, grown, deleted, described, kept over a restart."""

from __future__ import annotations

import logging

import pytest

from ottla.broker.handlers import metadata as metadata_handlers
from ottla.broker.serving.purgatory import DelayedReply
from ottla.cluster import layout
from ottla.ports import RegistryDamaged
from ottla.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.errors import (
    INVALID_CONFIG,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NONE,
    TOPIC_ALREADY_EXISTS,
    TOPIC_DELETION_DISABLED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.entries import put_entry, remove_entry
from tests.support.machine import Machine

METADATA, CREATE, DELETE, GROW = 3, 19, 20, 37

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Assignment = CreateTopicsRequest.CreatableReplicaAssignment
State = DeleteTopicsRequest.DeleteTopicState
Created = CreateTopicsResponse.CreatableTopicResult
Described = MetadataResponse.MetadataResponseTopic


def topic(name: str, partitions: int = 1, replication_factor: int = 1, **configs: str) -> Topic:
    settings = [Config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return Topic(name=name, num_partitions=partitions, replication_factor=replication_factor, configs=settings)


def create(machine: Machine, *topics: Topic, version: int = 7, validate_only: bool = False) -> list[Created]:
    response = machine.ask(CREATE, version, CreateTopicsRequest(topics=list(topics), validate_only=validate_only))
    assert isinstance(response, CreateTopicsResponse)
    return response.topics


def metadata(machine: Machine, *names: str, version: int = 13, auto: bool = False) -> list[Described]:
    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in names] if names else None
    response = machine.ask(METADATA, version, MetadataRequest(topics=asked, allow_auto_topic_creation=auto))
    assert isinstance(response, MetadataResponse)
    return response.topics


def delete(machine: Machine, *states: State, version: int = 6) -> list[tuple[str | None, int]]:
    names = DeleteTopicsRequest(topic_names=[state.name or "" for state in states])
    response = machine.ask(DELETE, version, names if version < 6 else DeleteTopicsRequest(topics=list(states)))
    assert isinstance(response, DeleteTopicsResponse)
    return [(result.name, result.error_code) for result in response.responses]


def grow(machine: Machine, name: str, count: int, *, validate_only: bool = False) -> int:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    response = machine.ask(GROW, 3, CreatePartitionsRequest(topics=[wanted], validate_only=validate_only))
    assert isinstance(response, CreatePartitionsResponse)
    return response.results[0].error_code


def directories(machine: Machine) -> list[str]:
    return [name for name in machine.disk.list("") if machine.disk.list(name)]


def test_a_created_topic_is_there_at_once_with_its_logs() -> None:
    machine = Machine()
    (made,) = create(machine, topic("t", 2, retention_ms="5"))
    assert (made.error_code, made.error_message, made.num_partitions, made.replication_factor) == (NONE, None, 2, 1)
    described = {config.name: config for config in made.configs or []}
    assert (described["retention.ms"].value, described["retention.ms"].config_source) == ("5", 1)
    assert (described["segment.ms"].value, described["segment.ms"].config_source) == ("604800000", 5)
    (seen,) = metadata(machine, "t")
    assert (seen.error_code, seen.topic_id, seen.is_internal) == (NONE, made.topic_id, False)
    assert [(part.partition_index, part.leader_id, part.replica_nodes, part.isr_nodes) for part in seen.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert directories(machine) == ["t-0", "t-1"]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic("a b"), INVALID_TOPIC_EXCEPTION),
        (topic("there_is"), INVALID_TOPIC_EXCEPTION),
        (topic("there.is"), TOPIC_ALREADY_EXISTS),
        (topic("t", 1, 2), INVALID_REPLICATION_FACTOR),
        (topic("t", 0, 0), INVALID_REPLICATION_FACTOR),
        (topic("t", retention_ms="x"), INVALID_CONFIG),
        (topic("t", nonsense="x"), INVALID_CONFIG),
    ],
)
def test_a_refused_topic_leaves_nothing_behind(wanted: Topic, code: int) -> None:
    machine = Machine()
    create(machine, topic("there.is"))
    (refused,) = create(machine, wanted)
    assert (refused.error_code, refused.num_partitions) == (code, -1)
    assert refused.error_message
    assert [seen.name for seen in metadata(machine)] == ["there.is"]
    assert directories(machine) == ["there.is-0"]


def test_the_brokers_numbers_are_taken_where_a_request_leaves_them_out() -> None:
    machine = Machine(num_partitions=3)
    (made,) = create(machine, topic("t", -1, -1))
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    by_hand = Topic(name="h", num_partitions=-1, replication_factor=-1, assignments=[Assignment(partition_index=0, broker_ids=[1])])
    assert create(machine, by_hand)[0].num_partitions == 1


def test_validating_makes_nothing() -> None:
    machine = Machine()
    assert create(machine, topic("t"), validate_only=True)[0].error_code == NONE
    assert metadata(machine) == []
    create(machine, topic("t"))
    assert grow(machine, "t", 5, validate_only=True) == NONE
    assert len(metadata(machine, "t")[0].partitions) == 1


def begin_deletion(machine: Machine, name: str) -> DelayedReply:
    pending = machine.begin(DELETE, 6, DeleteTopicsRequest(topics=[State(name=name)]))
    assert isinstance(pending, DelayedReply)
    return pending


def begin_growth(machine: Machine, name: str, count: int) -> DelayedReply:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    pending = machine.begin(GROW, 3, CreatePartitionsRequest(topics=[wanted]))
    assert isinstance(pending, DelayedReply)
    return pending


def test_a_topic_that_is_deleted_while_it_gets_partitions_keeps_nobody_waiting() -> None:
    machine = Machine()
    create(machine, topic("t"))
    growth, deletion = begin_growth(machine, "t", 5), begin_deletion(machine, "t")
    for _ in range(20):
        machine.pass_time(100)
    assert [one.error_code for one in machine.finish(DELETE, 6, deletion).responses] == [NONE]
    (grown,) = machine.finish(GROW, 3, growth).results
    assert grown.error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert "deleted" in grown.error_message
    assert directories(machine) == []


def test_a_topic_that_is_being_deleted_gets_no_partitions() -> None:
    machine = Machine()
    create(machine, topic("t"))
    deletion = begin_deletion(machine, "t")
    assert grow(machine, "t", 5) == INVALID_TOPIC_EXCEPTION
    for _ in range(20):
        machine.pass_time(100)
    assert deletion.done
    assert grow(machine, "t", 5) == UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_named_twice_has_one_result_and_is_not_made() -> None:
    machine = Machine()
    results = create(machine, topic("twice"), topic("once"), topic("twice", 2))
    assert sorted((result.name, result.error_code) for result in results) == [("once", NONE), ("twice", INVALID_REQUEST)]


def test_topics_partitions_ids_and_settings_survive_a_restart() -> None:
    machine = Machine()
    (made,) = create(machine, topic("t", 2, retention_ms="5"))
    assert grow(machine, "t", 3) == NONE
    before = metadata(machine)
    machine.restart()
    assert metadata(machine) == before
    assert machine.broker.image.name_of(made.topic_id) == "t"
    partition = machine.broker.partitions.get("t", 2)
    assert partition is not None
    assert partition.log.config.retention_ms == 5


def test_a_deleted_topic_is_gone_and_its_name_begins_anew_with_another_id() -> None:
    machine = Machine()
    (first,) = create(machine, topic("t", 2))
    assert delete(machine, State(name="t")) == [("t", NONE)]
    assert metadata(machine, "t")[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert machine.broker.partitions.get("t", 0) is None
    assert machine.broker.image.name_of(first.topic_id) is None
    (second,) = create(machine, topic("t"))
    assert second.error_code == NONE
    assert second.topic_id != first.topic_id
    machine.restart()
    assert [(seen.name, seen.topic_id) for seen in metadata(machine)] == [("t", second.topic_id)]


def test_topics_are_deleted_by_id_and_nothing_is_deleted_by_a_request_in_doubt() -> None:
    machine = Machine()
    made = {one.name: one.topic_id for one in create(machine, topic("a"), topic("b"), topic("c"))}
    assert delete(machine, State(topic_id=made["a"])) == [("a", NONE)]
    assert delete(machine, State(topic_id=made["a"])) == [(None, UNKNOWN_TOPIC_ID)]
    assert delete(machine, State(name="a")) == [("a", UNKNOWN_TOPIC_OR_PARTITION)]
    assert delete(machine, State(name="b", topic_id=made["b"])) == [("b", INVALID_REQUEST)]
    assert delete(machine, State()) == [(None, INVALID_REQUEST)]
    assert delete(machine, State(name="b"), State(name="c"), State(topic_id=made["b"]))[1:] == [("c", NONE)]
    assert [seen.name for seen in metadata(machine)] == ["b"]
    assert delete(machine, State(name="b"), version=5) == [("b", NONE)]


@pytest.mark.parametrize(("version", "code"), [(1, INVALID_REQUEST), (3, TOPIC_DELETION_DISABLED), (6, TOPIC_DELETION_DISABLED)])
def test_a_broker_that_deletes_no_topics_says_so(version: int, code: int) -> None:
    machine = Machine(delete_topic_enable=False)
    create(machine, topic("t"))
    assert delete(machine, State(name="t"), version=version) == [("t", code)]
    assert metadata(machine, "t")[0].error_code == NONE


@pytest.mark.parametrize("version", [0, 1, 4, 9, 13])
def test_a_topic_that_metadata_makes_is_complete_at_once(version: int) -> None:
    machine = Machine(num_partitions=2)
    (seen,) = metadata(machine, "made", version=version, auto=True)
    assert (seen.error_code, len(seen.partitions)) == (NONE, 2)
    assert all(part.leader_id == 1 and part.error_code == NONE for part in seen.partitions)


def test_a_topic_that_another_request_makes_meanwhile_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    create(machine, topic("made", 2))
    monkeypatch.setattr(metadata_handlers, "_find_missing", lambda cluster, asked: ["made"])  # as it was a moment ago
    (seen,) = metadata(machine, "made", auto=True)
    assert (seen.error_code, len(seen.partitions)) == (NONE, 2)


def test_metadata_makes_no_topic_that_nobody_wants() -> None:
    machine = Machine()
    assert metadata(machine, "t", auto=False)[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert metadata(machine, "a b", auto=True)[0].error_code == INVALID_TOPIC_EXCEPTION
    assert metadata(machine, auto=True) == []
    unwilling = Machine(auto_create_topics_enable=False)
    assert metadata(unwilling, "t", auto=True)[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_internal_topics_are_made_with_their_own_settings() -> None:
    machine = Machine(offsets_topic_num_partitions=4)
    (seen,) = metadata(machine, "__consumer_offsets", auto=True)
    assert (seen.is_internal, len(seen.partitions)) == (True, 4)
    made = machine.broker.image.topics.get("__consumer_offsets")
    assert made is not None
    assert made.configs["cleanup.policy"] == "compact"


def test_topics_are_asked_for_by_id_from_version_12_on() -> None:
    machine = Machine()
    (made,) = create(machine, topic("t"))
    for topic_id, version, code in (
        (made.topic_id, 12, NONE),
        (b"\1" * 16, 12, UNKNOWN_TOPIC_ID),
        (made.topic_id, 11, INVALID_REQUEST),
    ):
        name = "t" if version < 12 else None
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name, topic_id=topic_id)])
        response = machine.ask(METADATA, version, asked)
        assert [seen.error_code for seen in response.topics] == [code]


def test_a_topic_asked_for_twice_is_described_once() -> None:
    machine = Machine()
    create(machine, topic("t"))
    assert len(metadata(machine, "t", "t")) == 1


def test_version_0_asks_for_all_topics_with_an_empty_list_and_later_ones_for_none() -> None:
    machine = Machine()
    create(machine, topic("t"))
    assert [len(machine.ask(METADATA, version, MetadataRequest(topics=[])).topics) for version in (0, 1, 13)] == [1, 0, 0]


@pytest.mark.expects_errors("registry: ")
def test_a_registry_that_refuses_leaves_no_half_of_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.ports import Change, StorageFailed

    def full(changes: list[Change]) -> None:
        raise StorageFailed("registry", "database or disk is full")

    machine = Machine()
    create(machine, topic("there"))
    with monkeypatch.context() as patch:
        patch.setattr(machine.registry, "commit", full)
        assert create(machine, topic("t"))[0].error_code == KAFKA_STORAGE_ERROR
        assert delete(machine, State(name="there")) == [("there", KAFKA_STORAGE_ERROR)]
        assert grow(machine, "there", 2) == KAFKA_STORAGE_ERROR
    assert [(seen.name, len(seen.partitions)) for seen in metadata(machine)] == [("there", 1)]
    assert create(machine, topic("t"))[0].error_code == NONE


def test_a_topic_that_the_registry_has_lost_refuses_the_start_and_is_named() -> None:
    machine = Machine()
    create(machine, topic("t", 2))
    create(machine, topic("kept"))
    remove_entry(machine.registry, layout.topic_path("t"))
    before = directories(machine)
    with pytest.raises(RegistryDamaged, match=r"without an entry in the registry, t-0, t-1: .*`ottla registry restore`"):
        machine.restart()
    assert directories(machine) == before


def test_directories_that_only_look_like_partitions_are_left_alone() -> None:
    machine = Machine()
    machine.disk.make_dir("backup-2024")
    machine.disk.write_file("backup-2024/notes.txt", b"mine")
    machine.disk.write_file("file-1", b"mine")
    machine.restart()
    assert machine.disk.read_file("backup-2024/notes.txt") == b"mine"
    assert machine.disk.read_file("file-1") == b"mine"


def test_partitions_whose_directory_is_missing_begin_empty_and_are_told(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    create(machine, topic("t", 3))
    assert machine.broker.close()
    machine.disk.remove_tree("t-1")
    with caplog.at_level(logging.WARNING, "ottla"):
        machine.broker = machine._start(clean=True)
    assert "1 partitions have no directory: those that held no records begin empty: t-1" in caplog.text
    assert metadata(machine, "t")[0].partitions[1].leader_id == 1


def test_what_a_deletion_left_behind_is_removed_at_the_next_start() -> None:
    machine = Machine()
    create(machine, topic("t"))
    machine.disk.rename("t-0", f"t-0.{'0' * 32}-delete")
    remove_entry(machine.registry, layout.topic_path("t"))
    machine.kill()
    assert directories(machine) == []


@pytest.mark.expects_errors("its files could not be", "could not be deleted")
def test_files_that_cannot_be_deleted_do_not_keep_a_topic_alive(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    create(machine, topic("t"))
    machine.disk.fail(0, count=50)
    assert delete(machine, State(name="t")) == [("t", NONE)]
    machine.disk.heal()
    assert "t-0 is deleted, but its files could not be" in caplog.text
    machine.pass_time(10_000)
    assert create(machine, topic("t"))[0].error_code == NONE
    assert metadata(machine, "t")[0].partitions[0].leader_id == 1


def test_an_offline_partition_has_no_leader_and_the_others_do() -> None:
    machine = Machine()
    create(machine, topic("t", 2))
    partition = machine.broker.partitions.get("t", 1)
    assert partition is not None
    partition.fail_offline("its disk is gone")
    good, bad = metadata(machine, "t")[0].partitions
    assert (good.error_code, good.leader_id, good.offline_replicas) == (NONE, 1, [])
    assert (bad.error_code, bad.leader_id, bad.offline_replicas) == (LEADER_NOT_AVAILABLE, -1, [1])


def test_an_entry_of_the_registry_that_cannot_be_read_is_named() -> None:
    machine = Machine()
    create(machine, topic("t"))
    put_entry(machine.registry, layout.topic_path("t"), b"{")
    with pytest.raises(RegistryDamaged, match="/brokers/topics/t"):
        machine.restart()


def test_a_name_as_long_as_allowed_can_be_used_deleted_and_used_again() -> None:
    machine = Machine()
    for _ in range(2):
        assert create(machine, topic("x" * 249, 2))[0].error_code == NONE
        assert all(len(name) <= 255 for name in machine.disk.list(""))
        assert delete(machine, State(name="x" * 249)) == [("x" * 249, NONE)]
        assert all(len(name) <= 255 for name in machine.disk.list(""))
