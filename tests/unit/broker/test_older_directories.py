"""A data directory that a lone broker without a controller left: everything is there, and what was on its way is finished."""

from __future__ import annotations

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.cluster import layout
from ottla.cluster.controller_rules.entries import DELETIONS
from ottla.ports import Change
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import NONE
from tests.support.broker_entry import broker_json
from tests.support.coordinator_records import everything
from tests.support.machine import Machine
from tests.support.producing import create, produce, values

COMMIT, FETCH, FIND = 8, 9, 10
IN_THE_REGISTRY, IN_A_TOPIC = 0, 7


def commit(machine: Machine, version: int, topic: str) -> None:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[part])]
    response = machine.ask(COMMIT, version, OffsetCommitRequest(group_id="g", topics=topics))
    assert response.topics[0].partitions[0].error_code == NONE


def fetched(machine: Machine, version: int, topic: str) -> int:
    wanted = [OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    response = machine.ask(FETCH, version, OffsetFetchRequest(group_id="g", topics=wanted))
    return int(response.topics[0].partitions[0].committed_offset)


@pytest.fixture
def machine() -> Machine:
    """A broker with two topics, each with a record and committed offsets."""
    machine = Machine(offsets_topic_num_partitions=1)
    create(machine, "kept", 2, retention_ms="7000")
    create(machine, "gone")
    machine.ask(FIND, 3, FindCoordinatorRequest(key="g"))
    for name in ("kept", "gone"):
        assert produce(machine, b"v", topic=name).error_code == NONE
        commit(machine, IN_A_TOPIC, name)
    commit(machine, IN_THE_REGISTRY, "kept")
    return machine


def leave(machine: Machine, *changes: Change) -> None:
    """End the broker with a registry as it was before lone brokers had controllers: no features, no broker with an epoch."""
    entry = broker_json("", -1, [], None, 0)
    machine.registry.commit([Change(layout.FEATURES, None), Change(layout.broker_path(1), entry), *changes])
    machine.kill()
    for _ in range(20):
        machine.pass_time(100)


def test_topics_records_settings_and_offsets_are_there(machine: Machine) -> None:
    ids = {name: topic.topic_id for name, topic in machine.broker.image.topics.items()}
    leave(machine)
    image = machine.broker.image
    assert {name: topic.topic_id for name, topic in image.topics.items()} == ids
    assert image.topics["kept"].configs == {"retention.ms": "7000"}
    assert values(machine, "kept") == [b"v"]
    assert [fetched(machine, version, "kept") for version in (IN_THE_REGISTRY, 1)] == [1, 1]
    assert {one.leader_epoch for topic in image.topics.values() for one in topic.partitions} == {0}
    assert produce(machine, b"w", topic="kept").error_code == NONE


def test_a_deletion_whose_topic_has_left_the_registry_is_finished(machine: Machine) -> None:
    """It was noted with the change that removed the entries: directories and offsets were still to go."""
    removed = [Change(path, None) for path in (layout.topic_path("gone"), layout.topic_config_path("gone"))]
    leave(machine, *removed, Change(f"{DELETIONS}/gone", b""))
    assert machine.registry.children(DELETIONS) == []
    assert [name for name in machine.disk.list("") if name.startswith("gone")] == []
    assert {record.topic for one in machine.broker.groups.machines for record in everything(one.offsets)} == {"kept"}
    create(machine, "gone")
    assert values(machine, "gone") == []


def test_a_topic_whose_partitions_were_not_led_yet_is_made(machine: Machine) -> None:
    """Its entry came first: the leaders of its partitions were noted when their logs were there."""
    entry = layout.topic_json(bytes(range(16)), {0: (1,), 1: (1,)})
    leave(machine, Change(layout.topic_path("new"), entry))
    for index in range(2):
        assert produce(machine, b"v", topic="new", index=index).error_code == NONE


def test_what_a_lone_broker_refused_as_a_cluster_api_of_its_controller_is_answered_and_hidden(machine: Machine) -> None:
    """Brokers alone ask LeaderAndIsr: a client of a broker that is alone learns nothing of it, and closes its connection."""
    answer = machine.broker.receive(memoryview(bytearray(b"\0\4\0\7\0\0\0\1\xff\xff")), machine.peer, machine.clock.now())
    assert not isinstance(answer, DelayedReply | list)
    assert "is not served" in str(answer)
