"""Settings of a topic that the registry holds and nobody understands: the defaults hold for it, and a broker does its work."""

from __future__ import annotations

import pytest

from ottla.cluster import layout
from ottla.cluster.registry_entries import apply_entry
from ottla.ports import Change
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.errors import NONE
from tests.support.cluster_machine import ClusterMachine, told

ROLE = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
    partition_index=0, controller_epoch=1, leader=1, leader_epoch=0, isr=[1], partition_epoch=0, replicas=[1], is_new=True
)
DAMAGED = {
    "no JSON": b"\xff",
    "no object": b"[]",
    "no settings": b'{"version":1}',
    "settings that are none": b'{"version":1,"config":7}',
    "no number": b'{"version":1,"config":{"retention.ms":"many"}}',
}


@pytest.mark.expects_errors("/config/topics/bad")
@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("is_metadata_first", [True, False])
def test_a_topic_with_damaged_settings_has_the_defaults_and_keeps_no_other_from_its_roles(
    damage: str, is_metadata_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machine = ClusterMachine()
    good = b'{"version":1,"config":{"retention.ms":"4711"}}'
    for name, value in (("bad", DAMAGED[damage]), ("good", good)):
        machine.shared.entries.commit([Change(layout.topic_config_path(name), value)])
        if is_metadata_first:
            machine.tell_topic(told(0, 1), topic=name, topic_id=name.ljust(16).encode(), brokers=(1, 2, 3))
        assert machine.tell_roles(ROLE, topic=name, topic_id=name.ljust(16).encode()) == [NONE]
    assert machine.replica("good").log.config.retention_ms == 4711
    assert machine.replica("bad").log.config == machine.broker.settings.log_config({})
    assert "/config/topics/bad" in caplog.text


@pytest.mark.expects_errors("Topic good has the default")
def test_a_value_that_a_tool_writes_later_and_nobody_understands_stands_for_the_default() -> None:
    machine = ClusterMachine()
    path = layout.topic_config_path("good")
    machine.shared.entries.commit([Change(path, b'{"version":1,"config":{"retention.ms":"4711"}}')])
    assert machine.tell_roles(ROLE, topic="good") == [NONE]
    machine.tell_topic(told(0, 1), topic="good", brokers=(1, 2, 3))
    apply_entry(machine.broker.image, path, b'{"version":1,"config":{"retention.ms":"many","segment.bytes":"2000000"}}')
    for _ in machine.broker.configs.changed_elsewhere(["good", "gone"], machine.clock.now(), of_brokers=False):
        """Each log is a step."""
    config = machine.replica("good").log.config
    assert (config.retention_ms, config.segment_bytes) == (machine.broker.settings.log_config({}).retention_ms, 2_000_000)
