"""Settings of groups over the wire, as Kafka 4.3 answers: described, changed, bounded by the broker's, kept, and listed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.settings import BrokerSettings, SettingError
from ottla.broker.settings.group import GroupConfigs, group_value
from ottla.cluster import layout
from ottla.wire.api.alter_configs import AlterConfigsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest
from ottla.wire.errors import INVALID_CONFIG, INVALID_REQUEST, NONE, UNSUPPORTED_VERSION
from tests.support.machine import Machine
from tests.unit.broker.test_config_requests import APPEND, CREATE, DEFAULT, DELETE, GROUP, SET, alter, entry, result, sources

ALTER, LIST = 33, 74
GROUP_CONFIG = 8
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_group_has_kafkas_settings_whether_there_is_such_a_group_or_not() -> None:
    found = {each.name: each for each in result(Machine(), GROUP, "g").configs}
    assert found.keys() == {name for name, setting in GroupConfigs.DECLARED.items() if not setting.hidden}
    assert len(found) == 17
    session = found[SESSION]
    assert (session.value, session.config_source, session.read_only, session.config_type) == ("45000", DEFAULT, False, 3)
    assert sources(session) == [("group.consumer.session.timeout.ms", "45000", DEFAULT)]
    assert sources(found["share.auto.offset.reset"]) == [("share.auto.offset.reset", "latest", DEFAULT)]
    assert session.documentation


def test_what_is_set_comes_from_the_group_and_what_is_unset_from_the_broker_again() -> None:
    machine = Machine(group_consumer_session_timeout_ms=46_000)
    assert alter(machine, GROUP, "g", (SESSION, SET, "50000")) == NONE
    session = entry(machine, GROUP, "g", SESSION)
    assert (session.value, session.config_source) == ("50000", GROUP_CONFIG)
    assert sources(session)[0] == (SESSION, "50000", GROUP_CONFIG)
    assert sources(session)[1][:2] == ("group.consumer.session.timeout.ms", "46000")
    assert entry(machine, GROUP, "other", SESSION).value == "46000"
    assert alter(machine, GROUP, "g", (SESSION, DELETE, None)) == NONE
    assert entry(machine, GROUP, "g", SESSION).value == "46000"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SESSION, "44999"),
        (SESSION, "60001"),
        (SESSION, "abc"),
        (SESSION, "0"),
        (HEARTBEAT, "4999"),
        (HEARTBEAT, "15001"),
        ("consumer.assignment.interval.ms", "15001"),
        ("share.record.lock.duration.ms", "1000"),
        ("share.delivery.count.limit", "11"),
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.auto.offset.reset", "by_duration:1h"),
        ("share.renew.acknowledge.enable", "maybe"),
        ("streams.num.standby.replicas", "3"),
        ("streams.initial.rebalance.delay.ms", "-1"),
        ("streams.rack.aware.assignment.tags", "zone,zone"),
        ("streams.rack.aware.assignment.tags", "zone,,rack"),
        ("session.timeout.ms", "50000"),
    ],
)
def test_what_the_broker_does_not_allow_is_refused_and_changes_nothing(name: str, value: str) -> None:
    machine = Machine()
    assert alter(machine, GROUP, "g", (HEARTBEAT, SET, "6000")) == NONE
    assert alter(machine, GROUP, "g", (name, SET, value)) == INVALID_CONFIG
    changed = [each.name for each in result(machine, GROUP, "g").configs if each.config_source == GROUP_CONFIG]
    assert changed == [HEARTBEAT]


@pytest.mark.parametrize("value", ["earliest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "by_duration:P7D"])
def test_a_share_group_can_begin_where_kafkas_can(value: str) -> None:
    machine = Machine()
    assert alter(machine, GROUP, "g", ("share.auto.offset.reset", SET, value)) == NONE
    assert entry(machine, GROUP, "g", "share.auto.offset.reset").value == value


def test_requests_that_make_no_sense_are_refused_as_kafka_refuses_them() -> None:
    machine = Machine()
    assert alter(machine, GROUP, "", (SESSION, SET, "50000")) == INVALID_REQUEST
    assert alter(machine, GROUP, "g", (SESSION, SET, None)) == INVALID_REQUEST
    assert alter(machine, GROUP, "g", (SESSION, SET, "46000"), (SESSION, SET, "47000")) == INVALID_REQUEST
    assert alter(machine, GROUP, "g", (SESSION, APPEND, "1")) == INVALID_CONFIG
    assert result(machine, GROUP, "").error_code == INVALID_REQUEST
    assert not machine.broker.image.group_configs


def test_validating_changes_nothing() -> None:
    machine = Machine()
    assert alter(machine, GROUP, "g", (HEARTBEAT, SET, "6000"), validate_only=True) == NONE
    assert alter(machine, GROUP, "g", (HEARTBEAT, SET, "1"), validate_only=True) == INVALID_CONFIG
    assert entry(machine, GROUP, "g", HEARTBEAT).value == "5000"


def test_alter_configs_replaces_all_of_a_groups_settings() -> None:
    machine = Machine()
    assert alter(machine, GROUP, "g", (HEARTBEAT, SET, "6000")) == NONE
    wanted = [AlterConfigsRequest.AlterableConfig(name=SESSION, value="46000")]
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=wanted)
    assert machine.ask(ALTER, 2, AlterConfigsRequest(resources=[resource])).responses[0].error_code == NONE
    assert (entry(machine, GROUP, "g", SESSION).value, entry(machine, GROUP, "g", HEARTBEAT).value) == ("46000", "5000")


def test_a_groups_session_outlasts_its_heartbeats() -> None:
    machine = Machine(group_consumer_max_heartbeat_interval_ms=90_000)
    assert alter(machine, GROUP, "g", (HEARTBEAT, SET, "45000")) == INVALID_CONFIG
    assert alter(machine, GROUP, "g", (HEARTBEAT, SET, "45000"), (SESSION, SET, "46000")) == NONE
    assert alter(machine, GROUP, "g", (SESSION, DELETE, None)) == INVALID_CONFIG


def test_when_bounds_change_the_nearest_allowed_value_is_in_force() -> None:
    texts = {SESSION: "50000", HEARTBEAT: "15000"}
    tight = BrokerSettings({"group.consumer.max.session.timeout.ms": "48000", "group.consumer.max.heartbeat.interval.ms": "9000"})
    assert (group_value(tight, SESSION, texts), group_value(tight, HEARTBEAT, texts)) == (48_000, 9_000)
    wide = BrokerSettings({"group.consumer.min.heartbeat.interval.ms": "1000"})
    assert group_value(wide, HEARTBEAT, {HEARTBEAT: "2000"}) == 2000


@pytest.mark.parametrize(
    "texts",
    [
        {"group.consumer.session.timeout.ms": "44999"},
        {"group.consumer.heartbeat.interval.ms": "15001"},
        {"group.consumer.max.session.timeout.ms": "44999"},
        {"group.streams.num.standby.replicas": "3"},
    ],
    ids=lambda texts: "".join(texts),
)
def test_a_broker_whose_defaults_are_out_of_its_bounds_does_not_start(texts: dict[str, str]) -> None:
    with pytest.raises(SettingError, match=r"must be (greater|less) than or equal to group\..* is refused"):
        BrokerSettings(texts)


@pytest.mark.parametrize("group_id", ["g", "with/slash", ".", "..", "%41", "ünïcode ☃", " ", "a.b_c-d"])
def test_settings_of_any_group_survive_a_restart(group_id: str) -> None:
    machine = Machine()
    assert alter(machine, GROUP, group_id, (HEARTBEAT, SET, "7000")) == NONE
    machine.restart()
    assert entry(machine, GROUP, group_id, HEARTBEAT).value == "7000"
    assert layout.name_in(layout.group_config_path(group_id).removeprefix(layout.GROUP_CONFIGS + "/")) == group_id


def listed(machine: Machine, *kinds: int, version: int = 1) -> Sequence[tuple[int, str]]:
    response = machine.ask(LIST, version, ListConfigResourcesRequest(resource_types=list(kinds)))
    assert not response.error_code
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_groups_are_listed_while_something_is_set_for_them() -> None:
    machine = Machine()
    assert listed(machine, GROUP) == []
    alter(machine, GROUP, "g", (HEARTBEAT, SET, "7000"))
    wanted = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    machine.ask(CREATE, 7, CreateTopicsRequest(topics=[wanted]))
    assert listed(machine, GROUP) == [(GROUP, "g")]
    assert sorted(listed(machine)) == [(2, "t"), (4, "1"), (8, "1"), (GROUP, "g")]
    assert listed(machine, 8, 16) == [(8, "1")]
    assert listed(machine, version=0) == []
    alter(machine, GROUP, "g", (HEARTBEAT, DELETE, None))
    assert listed(machine, GROUP) == []
    assert machine.ask(LIST, 1, ListConfigResourcesRequest(resource_types=[99])).error_code == UNSUPPORTED_VERSION
