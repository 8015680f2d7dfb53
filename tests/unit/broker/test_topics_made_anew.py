"""Settings of topics that a broker hears of at a bad moment: after a deletion that it missed, or while the registry is away."""

from __future__ import annotations

import pytest

from ottla.broker.serving.request import Close
from ottla.cluster import layout
from ottla.cluster.registry_entries import apply_entry
from ottla.ports import Change
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.errors import NONE
from tests.support.cluster_machine import TOPIC_ID, ClusterMachine, told

ROLE = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
    partition_index=0, controller_epoch=1, leader=1, leader_epoch=0, isr=[1], partition_epoch=0, replicas=[1], is_new=True
)
FORMER, LATTER = b"1".ljust(16), b"2".ljust(16)
PATH = layout.topic_config_path("t")
COMPACT = layout.config_json({"cleanup.policy": "compact"})


@pytest.fixture
def machine() -> ClusterMachine:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    return machine


@pytest.mark.parametrize("is_metadata_first", [True, False])
def test_a_topic_made_anew_has_its_settings_where_its_deletion_was_missed(machine: ClusterMachine, is_metadata_first: bool) -> None:
    machine.shared.entries.commit([Change(PATH, layout.config_json({"retention.ms": "4711"}))])
    machine.tell_topic(told(0, 2), topic_id=FORMER)
    assert machine.broker.image.topics["t"].configs == {"retention.ms": "4711"}
    machine.shared.entries.commit([Change(PATH, COMPACT)])
    if is_metadata_first:
        machine.tell_topic(told(0, 1), topic_id=LATTER)
    assert machine.tell_roles(ROLE, topic_id=LATTER) == [NONE]
    assert machine.replica().log.config.compacts
    machine.tell_topic(told(0, 1), topic_id=LATTER)
    assert machine.broker.image.topics["t"].configs == {"cleanup.policy": "compact"}


def test_settings_that_change_before_the_new_topic_is_told_are_those_that_hold(machine: ClusterMachine) -> None:
    machine.tell_topic(told(0, 2), topic_id=FORMER)
    assert machine.tell_roles(ROLE, topic_id=LATTER) == [NONE]
    machine.shared.entries.commit([Change(PATH, COMPACT)])
    apply_entry(machine.broker.image, PATH, COMPACT)
    assert machine.broker.image.configs_ahead == {"t": {"cleanup.policy": "compact"}}
    machine.tell_topic(told(0, 1), topic_id=LATTER)
    assert machine.broker.image.topics["t"].configs == {"cleanup.policy": "compact"}


def test_settings_that_could_not_be_read_are_read_before_a_log_is_opened(machine: ClusterMachine) -> None:
    machine.shared.entries.commit([Change(PATH, COMPACT)])
    machine.shared.is_away = True
    machine.tell_topic(told(0, 1))
    roles = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[ROLE])
    refused = machine.ask(4, 7, LeaderAndIsrRequest(controller_epoch=1, broker_epoch=100, topic_states=[roles]))
    assert isinstance(refused, Close)
    machine.shared.is_away = False
    assert machine.tell_roles(ROLE) == [NONE]
    assert machine.replica().log.config.compacts


def test_settings_that_could_not_be_read_hold_as_soon_as_the_registry_is_back(machine: ClusterMachine) -> None:
    assert machine.tell_roles(ROLE) == [NONE]
    machine.shared.entries.commit([Change(PATH, COMPACT)])
    machine.broker.image.drop_topic("t")
    machine.shared.is_away = True
    machine.tell_topic(told(0, 1))
    assert machine.broker.image.topics["t"].configs == {}
    machine.shared.is_away = False
    machine.pass_time(1_000)
    assert machine.broker.image.topics["t"].configs == {"cleanup.policy": "compact"}
    assert machine.replica().log.config.compacts
