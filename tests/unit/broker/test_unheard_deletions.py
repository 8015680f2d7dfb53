"""A broker forgets a topic that was deleted while no controller told it: the one that knew has ended, or the session had."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster import layout
from ottla.ports import Change
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.errors import NONE, UNKNOWN_TOPIC_OR_PARTITION
from tests.support.cluster_machine import ClusterMachine, told

LONG_MS = 30_000
NEWER_CONTROLLER: dict[str, Any] = {"controller_epoch": 2}
NEWER_REGISTRATION: dict[str, Any] = {"broker_epoch": 101}


@pytest.fixture
def machine() -> ClusterMachine:
    """A broker that knows the topics t and u; the registry has both."""
    machine = ClusterMachine()
    for topic in ("t", "u"):
        machine.shared.entries.commit([Change(layout.topic_path(topic), b"{}")])
        machine.tell_topic(told(0, 2), topic=topic, brokers=(1, 2, 3))
    return machine


def known(machine: ClusterMachine) -> dict[str, int]:
    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("t", "u")]
    answer = machine.ask(3, 9, MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return {topic.name: topic.error_code for topic in answer.topics}


def delete(machine: ClusterMachine, topic: str) -> None:
    machine.shared.entries.commit([Change(layout.topic_path(topic), None)])


@pytest.mark.parametrize("fields", [NEWER_CONTROLLER, NEWER_REGISTRATION], ids=["another controller", "another session"])
def test_what_is_not_told_anew_and_not_in_the_registry_is_forgotten(
    machine: ClusterMachine, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[list[str]] = []
    monkeypatch.setattr(machine.broker.publisher, "_deleted", lambda names, ids, now: forgotten.append(list(names)))
    delete(machine, "t")
    machine.pass_time(LONG_MS)
    assert known(machine) == {"t": NONE, "u": NONE}
    machine.tell_brokers(1, 2, 3, **fields)
    machine.pass_time(LONG_MS)
    assert known(machine) == {"t": UNKNOWN_TOPIC_OR_PARTITION, "u": NONE}
    assert forgotten == [["t"]]


def test_what_a_controller_tells_is_there_whatever_the_registry_shows(machine: ClusterMachine) -> None:
    delete(machine, "t")  # or it is read from a server of the registry that lags behind
    machine.tell_brokers(1, 2, 3, **NEWER_CONTROLLER)
    machine.tell_topic(told(0, 3), **NEWER_CONTROLLER)
    machine.pass_time(LONG_MS)
    assert known(machine) == {"t": NONE, "u": NONE}


def test_it_is_looked_for_again_where_the_registry_was_away(machine: ClusterMachine) -> None:
    delete(machine, "t")
    machine.tell_brokers(1, 2, 3, **NEWER_CONTROLLER)
    machine.shared.is_away = True
    machine.pass_time(LONG_MS)
    assert known(machine) == {"t": NONE, "u": NONE}
    machine.shared.is_away = False
    machine.pass_time(LONG_MS)
    assert known(machine) == {"t": UNKNOWN_TOPIC_OR_PARTITION, "u": NONE}
