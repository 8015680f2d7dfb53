"""The examples of `ottla config`."""

from __future__ import annotations

import re

import pytest

import ottla
from tests.helps.scenario import example
from tests.helps.world import DAY_MS, HelpWorld


@example("config list", since="4.1")
def all_resources_are_listed(world: HelpWorld) -> None:
    world.topic()
    world.run("config set client-metrics/slow interval.ms=1000")
    listed = world.run().out.splitlines()
    assert {"topic/flights", "broker/1", "loggers/1", "client-metrics/slow"} <= set(listed)
    world.run("config unset client-metrics/slow --all --yes")


@example("config list group", since="4.1")
def groups_with_settings_are_listed(world: HelpWorld) -> None:
    world.run("config set group/board consumer.session.timeout.ms=50000")
    assert "group/board\n" in world.run().out
    world.run("config unset group/board --all --yes")


@example("config list client-metrics --json", since="3.7", needs_kraft=True)
def subscriptions_are_listed(world: HelpWorld) -> None:
    world.run("config set client-metrics/slow interval.ms=1000")
    assert {"resource": "client-metrics/slow", "kind": "client-metrics", "name": "slow"} in world.run().rows
    world.run("config unset client-metrics/slow --all --yes")


@example("config get topic/flights", since="0.11")
def settings_that_differ_are_printed(world: HelpWorld) -> None:
    world.topic(retention_ms=5000_000)
    rows = [line.split() for line in world.run().out.splitlines()]
    assert ["retention.ms", "5000000"] in [row[:2] for row in rows]
    assert "segment.bytes" not in [row[0] for row in rows]


@example("config get topic/flights cleanup.policy --synonyms", since="0.11")
def a_setting_has_values_to_fall_back_to(world: HelpWorld) -> None:
    world.topic(cleanup_policy="compact")
    _, row = (line.split(maxsplit=2) for line in world.run().out.splitlines())
    assert row[:2] == ["cleanup.policy", "compact"]
    if world.cluster.release >= (1, 1):
        assert row[2] == "dynamic topic  default: log.cleanup.policy=delete"


@example("config get --diff topic/flights topic/planes", since="0.11")
def two_topics_are_compared(world: HelpWorld) -> None:
    world.topic("flights", retention_ms=5000_000)
    world.topic("planes", retention_ms=6000_000)
    header, *rows = (line.split() for line in world.run().out.splitlines())
    assert header == ["SETTING", "topic/flights", "topic/planes"]
    assert rows == [["retention.ms", "5000000", "6000000"]]


@example("config set topic/flights retention.ms=86400000 cleanup.policy+=compact", since="2.3")
def two_settings_are_changed(world: HelpWorld) -> None:
    world.topic()
    assert world.run().out == (
        f"topic/flights: retention.ms is {DAY_MS} (was {7 * DAY_MS}).\n"
        "topic/flights: cleanup.policy is delete,compact (was delete).\n"
    )
    world.wait_until(lambda: value(world, "retention.ms") == str(DAY_MS))
    assert value(world, "cleanup.policy") == "delete,compact"


def value(world: HelpWorld, name: str) -> str | None:
    """Return the value of a setting of the topic flights."""
    return world.admin.describe_topic_configs("flights")[name].value


@example("config set 'broker/*' log.retention.ms=86400000 --dry-run", since="2.3")
def a_default_of_all_brokers_is_checked(world: HelpWorld) -> None:
    assert world.run().out == f"broker/*: log.retention.ms would be {DAY_MS} (is not set).\n"
    assert world.admin.describe_broker_configs(1)["log.retention.ms"].value != str(DAY_MS)


@example("config set loggers/1 root=DEBUG", since="2.4")
def the_level_of_a_logger_is_changed(world: HelpWorld) -> None:
    if world.cluster.has_zookeeper:
        pytest.skip("these brokers are started without a binding of SLF4J, and have no loggers")
    before = world.run("config get loggers/1 root --values").out.strip()
    try:
        assert world.run().out == f"loggers/1: root is DEBUG (was {before}).\n"
        assert world.run("config get loggers/1 root --values").out == "DEBUG\n"
    finally:
        world.run(f"config set loggers/1 root={before}")


@example("config unset topic/flights retention.ms", since="2.3")
def the_default_of_a_setting_is_restored(world: HelpWorld) -> None:
    world.topic(retention_ms=5000_000)
    assert world.run().out == "topic/flights: retention.ms is the default again (was 5000000).\n"
    world.wait_until(lambda: value(world, "retention.ms") == str(7 * DAY_MS))


@example("config unset broker/1 --all --dry-run", since="2.3")
def settings_that_would_be_removed_are_printed(world: HelpWorld) -> None:
    world.run("config set broker/1 log.retention.bytes=99000000")
    world.wait_until(lambda: world.admin.describe_broker_configs(1)["log.retention.bytes"].value == "99000000")
    try:
        assert re.search(r"(?m)^broker/1: log.retention.bytes would be -1 \(is 99000000\).$", world.run().out)
        assert world.admin.describe_broker_configs(1)["log.retention.bytes"].value == "99000000"
    finally:
        world.run("config unset broker/1 log.retention.bytes")


@example("config unset 'broker/*' log.retention.ms", since="2.3")
def the_value_of_each_broker_applies_again(world: HelpWorld) -> None:
    everywhere = ottla.ConfigResource.all_brokers()
    world.run(f"config set broker/* log.retention.ms={DAY_MS}")
    world.wait_until(lambda: "log.retention.ms" in world.admin.describe_configs(everywhere))
    assert world.run().out == f"broker/*: log.retention.ms is not set (was {DAY_MS}).\n"
    world.wait_until(lambda: "log.retention.ms" not in world.admin.describe_configs(everywhere))
    world.wait_until(lambda: world.admin.describe_broker_configs(1)["log.retention.ms"].value != str(DAY_MS))
