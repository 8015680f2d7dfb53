"""Replicas that go offline in the middle of everything: the controller hears of it, and others lead in their place."""

from __future__ import annotations

from json import loads

import pytest

from ottla.cluster.controller_rules.entries import LOG_DIR_EVENTS
from ottla.ports import StorageFailed
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE
from tests.support.cluster_machine import ClusterMachine, role

pytestmark = pytest.mark.expects_errors("a sync failed")


def events(machine: ClusterMachine) -> list[object]:
    entries = machine.shared.entries
    found = (entries.get(f"{LOG_DIR_EVENTS}/{name}") for name in entries.children(LOG_DIR_EVENTS))
    return [loads(entry.value) for entry in found if entry is not None]


def test_the_controller_is_notified_once_of_replicas_that_fail_together_and_hears_which() -> None:
    machine = ClusterMachine()
    machine.tell_roles(role(1, 1), role(2, 1, index=1), role(1, 1, index=2))
    for index in (0, 1):
        machine.replica(index=index).fail(StorageFailed("t", "no such device"))
    machine.pass_time(10)
    assert events(machine) == [{"version": 1, "broker": 1, "event": 1}]
    machine.pass_time(5000)
    assert len(events(machine)) == 1
    again = [role(1, 1), role(2, 1, index=1)]
    assert machine.tell_roles(*again) == [KAFKA_STORAGE_ERROR, KAFKA_STORAGE_ERROR]


def test_the_controller_is_notified_when_the_registry_is_back() -> None:
    machine = ClusterMachine()
    machine.tell_roles(role(1, 1))
    machine.shared.is_away = True
    machine.replica().fail(StorageFailed("t", "no such device"))
    machine.pass_time(10)
    machine.shared.is_away = False
    assert events(machine) == []
    machine.pass_time(1000)
    machine.pass_time(10)
    assert len(events(machine)) == 1


def test_a_replica_that_is_deleted_is_no_failure() -> None:
    machine = ClusterMachine()
    machine.tell_roles(role(1, 1))
    assert machine.stop(leader_epoch=2, delete=True) == 0
    machine.pass_time(2000)
    assert events(machine) == []


@pytest.mark.expects_errors("is offline until it can be opened", "could not be synced")
def test_a_replica_that_could_not_be_opened_for_lack_of_handles_gets_its_role_when_it_can() -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(1, 1, isr=(1,))) == [NONE]
    machine.restart()
    machine.tell_brokers(1, 2, 3)
    machine.disk.lacks_handles = True
    assert machine.tell_roles(role(1, 1, isr=(1,))) == [KAFKA_STORAGE_ERROR]
    machine.pass_time(4000)
    assert events(machine) == []
    machine.disk.lacks_handles = False
    machine.pass_time(2000)
    machine.pass_time(10)
    assert events(machine) == [{"version": 1, "broker": 1, "event": 1}]
    assert machine.tell_roles(role(1, 1, isr=(1,))) == [NONE]
    assert machine.replica().leader_error() == NONE


@pytest.mark.expects_errors("cannot be led by this broker", "could not be synced")
def test_a_replica_that_could_not_be_led_for_lack_of_handles_is_asked_for_again() -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    machine.disk.lacks_handles = True
    assert machine.tell_roles(role(1, 1, isr=(1,))) == [KAFKA_STORAGE_ERROR]
    machine.disk.lacks_handles = False
    machine.pass_time(5000)
    machine.pass_time(10)
    assert events(machine) == [{"version": 1, "broker": 1, "event": 1}]
    assert machine.tell_roles(role(1, 1, isr=(1,))) == [NONE]
    assert machine.replica().leader_error() == NONE
