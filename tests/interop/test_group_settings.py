"""Settings of groups by Apache Kafka's own command-line tool, which knows nothing of this broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.peers import Peer
from tests.support.toolbox import Toolbox

pytestmark = [pytest.mark.java, pytest.mark.slow]

Configs = Callable[..., str]
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.fixture
def configs(broker: Peer, toolbox: Toolbox, unique: Callable[[str], str]) -> Configs:
    """Runs kafka-configs for one group, and returns what it said."""
    return partial(toolbox.at(broker.address), "configs", "--entity-type", "groups", "--entity-name", unique("group"))


def test_kafka_configs_sets_describes_and_unsets_what_holds_for_one_group(configs: Configs) -> None:
    configs("--alter", "--add-config", f"{SESSION}=50000,{HEARTBEAT}=6000")
    described = configs("--describe")
    assert f"{SESSION}=50000" in described
    assert f"{HEARTBEAT}=6000" in described
    assert "GROUP_CONFIG" in described
    configs("--alter", "--delete-config", SESSION)
    assert SESSION not in configs("--describe")
    every = configs("--describe", "--all")
    assert f"{SESSION}=45000" in every
    assert "group.consumer.session.timeout.ms=45000" in every


def test_kafka_configs_is_told_what_the_broker_does_not_allow(configs: Configs) -> None:
    said = configs("--alter", "--add-config", f"{SESSION}=600000", fails=True)
    assert re.search(r"InvalidConfigurationException.*group\.consumer\.max\.session\.timeout\.ms", said)
