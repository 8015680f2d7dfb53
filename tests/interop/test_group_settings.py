"""Settings of groups by Apache Kafka's own command-line tool, which knows nothing of this broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.java import java_tools, run
from tests.support.peers import Peer

pytestmark = [pytest.mark.java, pytest.mark.slow]

CONFIGS = "kafka.admin.ConfigCommand"
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_kafka_configs_sets_describes_and_unsets_what_holds_for_one_group(broker: Peer, unique: Callable[[str], str]) -> None:
    java_tools()
    group = ("--bootstrap-server", broker.address, "--entity-type", "groups", "--entity-name", unique("group"))
    run(CONFIGS, *group, "--alter", "--add-config", f"{SESSION}=50000,{HEARTBEAT}=6000")
    described = run(CONFIGS, *group, "--describe")
    assert f"{SESSION}=50000" in described
    assert f"{HEARTBEAT}=6000" in described
    assert "GROUP_CONFIG" in described
    run(CONFIGS, *group, "--alter", "--delete-config", SESSION)
    assert SESSION not in run(CONFIGS, *group, "--describe")
    every = run(CONFIGS, *group, "--describe", "--all")
    assert f"{SESSION}=45000" in every
    assert "group.consumer.session.timeout.ms=45000" in every


def test_kafka_configs_is_told_what_the_broker_does_not_allow(broker: Peer, unique: Callable[[str], str]) -> None:
    group = ("--bootstrap-server", broker.address, "--entity-type", "groups", "--entity-name", unique("group"))
    with pytest.raises(AssertionError, match=r"InvalidConfigurationException.*group\.consumer\.max\.session\.timeout\.ms"):
        run(CONFIGS, *group, "--alter", "--add-config", f"{SESSION}=600000")
