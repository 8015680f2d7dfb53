"""Topics of many partitions come and go a few partitions at a time: others are served, and no end of the broker leaves a half."""

from __future__ import annotations

import logging

import pytest

from ottla.broker.scheduler import MOST_STEPS
from ottla.broker.serving.purgatory import DelayedReply
from ottla.ports import RegistryDamaged
from ottla.sim.disk import SimDirectory
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.errors import NONE, REQUEST_TIMED_OUT
from tests.support.machine import Machine
from tests.support.producing import create, delete, fetch, produce

METADATA, CREATE, DELETE, GROW = 3, 19, 20, 37
MANY = 3 * MOST_STEPS
"""More than are made or deleted in one slice, whatever the clock says."""


def begin_create(machine: Machine, name: str = "many", count: int = MANY) -> DelayedReply:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
    return waiting(machine.begin(CREATE, 7, CreateTopicsRequest(topics=[topic])))


def begin_delete(machine: Machine, name: str = "many") -> DelayedReply:
    return waiting(machine.begin(DELETE, 5, DeleteTopicsRequest(topic_names=[name])))


def waiting(reply: object) -> DelayedReply:
    assert isinstance(reply, DelayedReply)
    assert reply.blocking, "later requests of this client are answered later"
    return reply


def finish(machine: Machine, key: int, version: int, pending: DelayedReply) -> list[int]:
    """Let time pass until it is answered; the error codes."""
    while not pending.done:
        machine.pass_time(1)
    answer = machine.finish(key, version, pending)
    return [one.error_code for one in (answer.results if key == GROW else answer.responses if key == DELETE else answer.topics)]


def leaders(machine: Machine, name: str = "many") -> list[int]:
    asked = [MetadataRequest.MetadataRequestTopic(name=name)]
    (described,) = machine.ask(METADATA, 12, MetadataRequest(topics=asked, allow_auto_topic_creation=False)).topics
    return [partition.error_code for partition in described.partitions]


def directories(machine: Machine, name: str = "many") -> list[str]:
    return [found for found in machine.disk.list("") if found.startswith(f"{name}-")]


def test_many_partitions_are_made_while_others_are_served() -> None:
    machine = Machine()
    create(machine, "t")
    pending = begin_create(machine)
    served = 0
    while not pending.done:
        assert produce(machine, b"v").error_code == NONE
        served += 1
        machine.pass_time(1)
    assert served >= 2
    assert finish(machine, CREATE, 7, pending) == [NONE]
    assert leaders(machine) == [NONE] * MANY
    assert produce(machine, b"v", topic="many", index=MANY - 1).error_code == NONE


def test_partitions_that_are_told_of_have_their_logs() -> None:
    machine = Machine()
    pending = begin_create(machine)
    while not pending.done:
        led = [index for index, error_code in enumerate(leaders(machine)) if error_code == NONE]
        for index in led[:1] + led[-1:]:
            assert produce(machine, b"v", topic="many", index=index).error_code == NONE
        machine.pass_time(1)
    assert leaders(machine) == [NONE] * MANY


def test_many_partitions_are_deleted_while_others_are_served() -> None:
    machine = Machine()
    create(machine, "t")
    create(machine, "many", MANY)
    pending = begin_delete(machine)
    served = 0
    while not pending.done:
        assert produce(machine, b"v").error_code == NONE
        served += 1
        machine.pass_time(1)
    assert served >= 2
    assert finish(machine, DELETE, 5, pending) == [NONE]
    assert directories(machine) == []


def test_many_partitions_are_added_while_others_are_served() -> None:
    machine = Machine()
    create(machine, "many")
    assert produce(machine, b"kept", topic="many").error_code == NONE
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name="many", count=MANY, assignments=None)
    pending = waiting(machine.begin(GROW, 3, CreatePartitionsRequest(topics=[wanted])))
    assert produce(machine, b"kept", topic="many").error_code == NONE
    assert finish(machine, GROW, 3, pending) == [NONE]
    assert leaders(machine) == [NONE] * MANY


def test_a_client_that_goes_away_leaves_no_half_of_a_topic() -> None:
    machine = Machine()
    machine.broker.forget(begin_create(machine))
    for _ in range(MANY):
        machine.pass_time(1)
    assert leaders(machine) == [NONE] * MANY


def test_a_topic_may_be_deleted_while_it_is_made() -> None:
    machine = Machine()
    made = begin_create(machine)
    while "many" not in machine.broker.image.topics:
        machine.pass_time(1)
    delete(machine, "many")
    assert finish(machine, CREATE, 7, made) in ([NONE], [REQUEST_TIMED_OUT])
    assert directories(machine) == []
    assert list(machine.broker.partitions) == []


def test_a_topic_may_be_made_anew_while_the_one_before_it_goes() -> None:
    machine = Machine()
    create(machine, "many", MANY)
    assert produce(machine, b"old", topic="many").error_code == NONE
    assert finish(machine, DELETE, 5, begin_delete(machine)) == [NONE]
    create(machine, "many", 2)
    assert leaders(machine) == [NONE] * 2
    assert directories(machine) == ["many-0", "many-1"]
    assert fetch(machine, "many") == (NONE, b"")


@pytest.mark.parametrize("ending", ["kill", "restart"])
def test_a_broker_that_ends_while_it_makes_a_topic_has_all_of_it_afterwards(ending: str) -> None:
    machine = Machine()
    begin_create(machine)
    getattr(machine, ending)()
    assert leaders(machine) == [NONE] * MANY


@pytest.mark.parametrize("ending", ["kill", "restart"])
def test_a_broker_that_ends_while_it_deletes_a_topic_has_nothing_of_it_afterwards(
    ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    create(machine, "many", MANY)
    begin_delete(machine)
    with caplog.at_level(logging.WARNING, "ottla"):
        getattr(machine, ending)()
        for _ in range(50):
            machine.pass_time(10)
    assert directories(machine) == []
    assert caplog.text == ""
    assert machine.registry.children("/admin/delete_topics") == []


def test_directories_that_are_put_back_after_a_deletion_refuse_the_start() -> None:
    machine = Machine()
    create(machine, "t")
    delete(machine, "t")
    machine.disk.make_dir("t-0")
    machine.disk.write_file("t-0/partition.metadata", b"version: 0\n")
    with pytest.raises(RegistryDamaged, match="without an entry in the registry, t-0: move them"):
        machine.restart()
    assert directories(machine, "t") == ["t-0"]


def test_making_topics_waits_for_none_of_their_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    synced = list[str]()
    monkeypatch.setattr(SimDirectory, "sync", lambda self: synced.append(self.path))
    pending = begin_create(machine)
    finish(machine, CREATE, 7, pending)
    assert set(synced) == {""}, "by the disk's own thread"
