"""Settings over the wire: what is in force and where it comes from, as Kafka 4.3 answers it, and how it is changed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.broker import BrokerMachine
from ottla.broker.handlers.alter_configs import MOST_CHANGES
from ottla.broker.releases import find
from ottla.ports import Change, StorageFailed
from ottla.sim.registry import MemoryRegistry
from ottla.wire.api.alter_configs import AlterConfigsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.errors import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.machine import Machine
from tests.support.messages import request as filled_request

DESCRIBE, ALTER, ALTER_SOME, CREATE = 32, 33, 44, 19
TOPIC, BROKER, GROUP = 2, 4, 32
TOPIC_CONFIG, DYNAMIC, DYNAMIC_DEFAULT, STATIC, DEFAULT = range(1, 6)
SET, DELETE, APPEND, SUBTRACT = range(4)

Entry = DescribeConfigsResponse.DescribeConfigsResourceResult


def machine_with_topic(**settings: object) -> Machine:
    machine = Machine(**settings)
    wanted = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    machine.ask(CREATE, 7, CreateTopicsRequest(topics=[wanted]))
    return machine


def result(
    machine: Machine, kind: int, name: str, keys: list[str] | None = None, version: int = 4
) -> DescribeConfigsResponse.DescribeConfigsResult:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=version >= 3)
    response = machine.ask(DESCRIBE, version, request)
    assert isinstance(response, DescribeConfigsResponse)
    return response.results[0]


def entry(machine: Machine, kind: int, name: str, key: str) -> Entry:
    (found,) = result(machine, kind, name, [key]).configs
    return found


def sources(found: Entry) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in found.synonyms]


def alter(machine: Machine, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> int:
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=what, value=value) for key, what, value in changes
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    response = machine.ask(ALTER_SOME, 1, IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only))
    (answer,) = response.responses
    assert bool(answer.error_message) == bool(answer.error_code)
    code = answer.error_code
    assert isinstance(code, int)
    return code


def replace(machine: Machine, name: str, **configs: str | None) -> int:
    wanted = [AlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=wanted)
    code = machine.ask(ALTER, 2, AlterConfigsRequest(resources=[resource])).responses[0].error_code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("key", "value", "kind", "synonyms"),
    [
        ("cleanup.policy", "delete", 7, [("log.cleanup.policy", "delete", DEFAULT)]),
        ("min.cleanable.dirty.ratio", "0.5", 6, [("log.cleaner.min.cleanable.ratio", "0.5", DEFAULT)]),
        ("max.message.bytes", "1048588", 3, [("message.max.bytes", "1048588", DEFAULT)]),
        ("preallocate", "false", 1, [("log.preallocate", "false", DEFAULT)]),
        ("compression.type", "producer", 2, [("compression.type", "producer", DEFAULT)]),
        ("flush.messages", "9223372036854775807", 5, [("log.flush.interval.messages", "9223372036854775807", DEFAULT)]),
        ("retention.ms", "604800000", 5, []),
        ("segment.ms", "604800000", 5, []),
        ("flush.ms", "9223372036854775807", 5, []),
        ("remote.storage.enable", "false", 1, []),
        ("leader.replication.throttled.replicas", "", 7, []),
    ],
)
def test_an_untouched_topic_setting_is_the_default_with_its_type(
    key: str, value: str, kind: int, synonyms: list[tuple[str, str, int]]
) -> None:
    found = entry(machine_with_topic(), TOPIC, "t", key)
    assert (found.value, found.config_type, found.config_source) == (value, kind, DEFAULT)
    assert (found.read_only, found.is_sensitive) == (False, False)
    assert found.documentation
    assert sources(found) == synonyms


def test_a_topic_has_the_settings_that_kafka_lists_and_one_of_ours() -> None:
    names = [one.name for one in result(machine_with_topic(), TOPIC, "t").configs]
    assert len(names) == 33 + 1
    assert [name for name in names if name.startswith("ottla.")] == ["ottla.acks.all.sync"]


def test_each_source_of_a_topic_setting_is_told_from_the_strongest_to_the_default() -> None:
    machine = machine_with_topic(log_retention_hours=2)
    assert alter(machine, TOPIC, "t", ("retention.ms", SET, "1000")) == NONE
    assert alter(machine, BROKER, "1", ("log.retention.ms", SET, "5000")) == NONE
    assert alter(machine, BROKER, "", ("log.retention.ms", SET, "6000")) == NONE
    assert sources(entry(machine, TOPIC, "t", "retention.ms")) == [
        ("retention.ms", "1000", TOPIC_CONFIG),
        ("log.retention.ms", "5000", DYNAMIC),
        ("log.retention.ms", "6000", DYNAMIC_DEFAULT),
        ("log.retention.hours", "2", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert alter(machine, TOPIC, "t", ("retention.ms", DELETE, None)) == NONE
    found = entry(machine, TOPIC, "t", "retention.ms")
    assert (found.value, found.config_source) == ("5000", DYNAMIC)


def test_what_was_given_at_the_start_is_static_and_read_only() -> None:
    machine = machine_with_topic(num_partitions=3)
    found = entry(machine, BROKER, "1", "num.partitions")
    assert (found.value, found.config_source, found.read_only) == ("3", STATIC, True)
    assert sources(found) == [("num.partitions", "3", STATIC), ("num.partitions", "1", DEFAULT)]
    for key, value in (
        ("listeners", "PLAINTEXT://127.0.0.1:9092"),
        ("node.id", "1"),
        ("broker.id", "1"),
    ):
        found = entry(machine, BROKER, "1", key)
        assert (found.value, found.config_source, found.read_only) == (value, STATIC, True)


def test_a_setting_without_a_value_has_none_and_no_synonyms() -> None:
    found = entry(machine_with_topic(), BROKER, "1", "log.retention.ms")
    assert (found.value, found.config_source, found.read_only, sources(found)) == (None, DEFAULT, False, [])


def test_only_the_settings_asked_for_are_described_and_unknown_names_are_passed_over() -> None:
    machine = machine_with_topic()
    assert [one.name for one in result(machine, TOPIC, "t", ["segment.ms", "nope"]).configs] == ["segment.ms"]
    assert len(result(machine, TOPIC, "t", []).configs) == 33 + 1


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nobody", UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", INVALID_REQUEST),
        (BROKER, "x", INVALID_REQUEST),
        (GROUP, "", INVALID_REQUEST),
        (99, "x", INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_is_said_with_kafkas_code(kind: int, name: str, code: int) -> None:
    answer = result(machine_with_topic(), kind, name)
    assert (answer.error_code, answer.resource_type, answer.resource_name, answer.configs) == (code, kind, name, [])
    assert answer.error_message


def test_version_1_has_neither_types_nor_documentation() -> None:
    (found,) = result(machine_with_topic(), TOPIC, "t", ["retention.ms"], version=1).configs
    assert (found.value, found.config_source, found.config_type) == ("604800000", DEFAULT, 0)


def test_lists_are_appended_to_and_subtracted_from_and_begin_with_what_is_in_force() -> None:
    machine = machine_with_topic()
    assert alter(machine, TOPIC, "t", ("cleanup.policy", APPEND, "compact,delete")) == NONE
    assert entry(machine, TOPIC, "t", "cleanup.policy").value == "delete,compact"
    assert alter(machine, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == NONE
    assert entry(machine, TOPIC, "t", "cleanup.policy").value == "compact"


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "t", ("retention.ms", SET, "x"), INVALID_CONFIG),
        (TOPIC, "t", ("nope", SET, "1"), INVALID_CONFIG),
        (TOPIC, "t", ("nope", DELETE, None), NONE),
        (TOPIC, "t", ("nope", APPEND, "1"), INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", APPEND, "1"), INVALID_CONFIG),
        (TOPIC, "t", ("cleanup.policy", APPEND, "shred"), INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, None), INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", 9, "1"), INVALID_REQUEST),
        (TOPIC, "nobody", ("retention.ms", SET, "1"), UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", ("num.partitions", SET, "1"), INVALID_REQUEST),
        (BROKER, "1", ("num.partitions", APPEND, "1"), INVALID_CONFIG),
        (BROKER, "1", ("log.retention.ms", SET, "x"), INVALID_REQUEST),
        (BROKER, "1", ("num.io.threads", SET, "0"), INVALID_REQUEST),
        (BROKER, "1", ("nope", APPEND, "x"), INVALID_CONFIG),
        (BROKER, "1", ("ssl.keystore.location", SET, "/x"), INVALID_REQUEST),
        (BROKER, "", ("sasl.enabled.mechanisms", SET, "PLAIN"), INVALID_REQUEST),
        (BROKER, "", ("listener.name.plaintext.sasl.jaas.config", SET, "x"), INVALID_REQUEST),
        (BROKER, "", ("min.insync.replicas", DELETE, None), INVALID_CONFIG),
        (BROKER, "1", ("min.insync.replicas", SET, "2"), INVALID_CONFIG),
        (BROKER, "2", ("log.retention.ms", SET, "1"), INVALID_REQUEST),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "1"), INVALID_CONFIG),
    ],
)
def test_a_change_that_cannot_be_changes_nothing(kind: int, name: str, change: tuple[str, int, str | None], code: int) -> None:
    machine = machine_with_topic()
    before = result(machine, TOPIC, "t"), result(machine, BROKER, "1")
    assert alter(machine, kind, name, change) == code
    assert (result(machine, TOPIC, "t"), result(machine, BROKER, "1")) == before


def test_a_setting_given_twice_or_only_validated_changes_nothing() -> None:
    machine = machine_with_topic()
    assert alter(machine, TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")) == INVALID_REQUEST
    assert alter(machine, TOPIC, "t", ("retention.ms", SET, "1"), validate_only=True) == NONE
    assert alter(machine, BROKER, "1", ("log.retention.ms", SET, "1"), validate_only=True) == NONE
    assert entry(machine, TOPIC, "t", "retention.ms").value == "604800000"


def test_more_settings_of_a_resource_than_can_be_meant_are_refused_unseen() -> None:
    machine = machine_with_topic()
    many = [(f"unknown.{number}", 0, "1") for number in range(MOST_CHANGES + 1)]
    assert alter(machine, BROKER, "1", *many) == INVALID_REQUEST
    assert machine.broker.settings.of_this_broker == {}
    assert alter(machine, BROKER, "1", *many[:3]) == NONE


def test_the_older_request_replaces_all_settings() -> None:
    machine = machine_with_topic()
    assert replace(machine, "t", retention_ms="5", segment_ms="6") == NONE
    assert replace(machine, "t", segment_ms="7") == NONE
    assert entry(machine, TOPIC, "t", "retention.ms").config_source == DEFAULT
    assert entry(machine, TOPIC, "t", "segment.ms").value == "7"
    assert replace(machine, "t", segment_ms=None) == INVALID_REQUEST
    assert replace(machine, "nobody", segment_ms="7") == UNKNOWN_TOPIC_OR_PARTITION


def test_changed_settings_reach_the_logs_at_once_and_survive_a_restart() -> None:
    machine = machine_with_topic()
    assert alter(machine, TOPIC, "t", ("segment.bytes", SET, "2000000")) == NONE
    assert alter(machine, BROKER, "", ("message.max.bytes", SET, "7")) == NONE
    for _ in range(2):
        partition = machine.broker.partitions.get("t", 0)
        assert partition is not None
        assert (partition.config.segment_bytes, partition.config.max_message_bytes) == (2_000_000, 7)
        assert (partition.log.config.segment_bytes, partition.log.config.max_message_bytes) == (2_000_000, 7)
        assert machine.broker.settings.message_max_bytes == 7
        machine.restart()


class CountingRegistry(MemoryRegistry):
    """Counts commits, and may refuse them as a full disk does."""

    commits = 0
    is_full = False

    def commit(self, changes: Sequence[Change]) -> None:
        if self.is_full:
            raise StorageFailed("registry", "no space left on device")
        super().commit(changes)
        self.commits += 1


class CountedMachine(Machine):
    """Its registry is one that counts."""

    def _start(self, *, clean: bool) -> BrokerMachine:
        self.registry = self.counting = CountingRegistry()
        return super()._start(clean=clean)


def settings_of(*names: str) -> IncrementalAlterConfigsRequest:
    """A request for one setting of each topic, group and broker that is named."""
    asked = {"g": ("consumer.session.timeout.ms", "46000"), "1": ("log.cleaner.threads", "2")}
    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = []
    for name in names:
        key, value = asked.get(name, ("retention.ms", f"1000{len(resources)}"))
        config = IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=SET, value=value)
        kind = {"g": GROUP, "1": BROKER}.get(name, TOPIC)
        resources.append(
            IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        )
    return IncrementalAlterConfigsRequest(resources=resources)


def test_the_settings_of_several_topics_and_groups_are_one_change_of_the_registry() -> None:
    machine = CountedMachine()
    topics = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "abc"]
    machine.ask(CREATE, 7, CreateTopicsRequest(topics=topics))
    before = machine.counting.commits
    answer = machine.ask(ALTER_SOME, 1, settings_of("a", "gone", "b", "g", "c"))
    assert [each.error_code for each in answer.responses] == [NONE, UNKNOWN_TOPIC_OR_PARTITION, NONE, NONE, NONE]
    assert machine.counting.commits == before + 1
    assert [machine.broker.image.topics[name].configs["retention.ms"] for name in "abc"] == ["10000", "10002", "10004"]
    partition = machine.broker.partitions.get("c", 0)
    assert partition is not None
    assert partition.config.retention_ms == 10004
    assert machine.broker.image.group_configs["g"] == {"consumer.session.timeout.ms": "46000"}


@pytest.mark.expects_errors("refused")
def test_a_disk_that_refuses_one_change_refuses_all_that_are_made_with_it_and_changes_nothing() -> None:
    machine = CountedMachine()
    topics = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "ab"]
    machine.ask(CREATE, 7, CreateTopicsRequest(topics=topics))
    machine.counting.is_full = True
    answer = machine.ask(ALTER_SOME, 1, settings_of("a", "gone", "b"))
    assert [each.error_code for each in answer.responses] == [KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR]
    assert [machine.broker.image.topics[name].configs for name in "ab"] == [{}, {}]


def test_the_settings_of_a_broker_are_made_once_and_before_those_of_topics() -> None:
    machine = CountedMachine()
    topics = [CreateTopicsRequest.CreatableTopic(name="a", num_partitions=1, replication_factor=1)]
    machine.ask(CREATE, 7, CreateTopicsRequest(topics=topics))
    before = machine.counting.commits
    answer = machine.ask(ALTER_SOME, 1, settings_of("1", "a"))
    assert [each.error_code for each in answer.responses] == [NONE, NONE]
    assert machine.counting.commits == before + 2, "each is made once"


def test_what_was_set_for_all_brokers_is_described_by_itself() -> None:
    machine = machine_with_topic()
    assert [one.name for one in result(machine, BROKER, "").configs] == ["min.insync.replicas"]
    assert alter(machine, BROKER, "", ("message.max.bytes", SET, "7")) == NONE
    found, _ = result(machine, BROKER, "").configs
    assert (found.name, found.value, found.config_source, found.read_only) == ("message.max.bytes", "7", DYNAMIC_DEFAULT, False)


def test_min_insync_replicas_is_set_for_all_brokers_where_there_are_eligible_leader_replicas() -> None:
    machine = machine_with_topic(min_insync_replicas=2)
    expected = [
        ("min.insync.replicas", "2", DYNAMIC_DEFAULT),
        ("min.insync.replicas", "2", STATIC),
        ("min.insync.replicas", "1", DEFAULT),
    ]
    for kind, name in ((BROKER, "1"), (TOPIC, "t")):
        assert sources(entry(machine, kind, name, "min.insync.replicas")) == expected
    assert alter(machine, BROKER, "", ("min.insync.replicas", SET, "3")) == NONE
    assert entry(machine, TOPIC, "t", "min.insync.replicas").value == "3"


def test_before_4_1_min_insync_replicas_is_a_setting_as_any_other() -> None:
    fresh = machine_with_topic()
    fresh.peer.release = find("4.0")
    assert entry(fresh, TOPIC, "t", "min.insync.replicas").config_source == DEFAULT
    assert result(fresh, BROKER, "").configs == []
    assert alter(fresh, BROKER, "1", ("min.insync.replicas", SET, "2")) == NONE


@pytest.mark.parametrize("release", ["1.1", "3.9", "4.3"])
def test_an_advertised_address_that_nobody_set_has_no_value(release: str) -> None:
    machine = machine_with_topic()
    machine.peer.release = find(release)
    found = entry(machine, BROKER, "1", "advertised.listeners") if release != "1.1" else None
    version_1 = result(machine, BROKER, "1", ["advertised.listeners"], version=1).configs[0]
    for one in (found or version_1, version_1):
        assert (one.value, one.config_source, sources(one)) == (None, DEFAULT, [])


def test_a_setting_without_effect_is_taken_kept_and_described() -> None:
    machine = machine_with_topic(process_roles="broker")
    assert alter(machine, BROKER, "1", ("num.io.threads", SET, "9"), ("sasl.enabled.mechanisms", APPEND, "PLAIN")) == NONE
    assert alter(machine, BROKER, "", ("log.cleaner.threads", SET, "2")) == NONE
    for _ in range(2):
        threads = entry(machine, BROKER, "1", "num.io.threads")
        assert (threads.value, threads.config_source, threads.config_type, threads.read_only) == ("9", DYNAMIC, 3, False)
        assert entry(machine, BROKER, "1", "sasl.enabled.mechanisms").value == "GSSAPI,PLAIN"
        assert entry(machine, BROKER, "1", "log.cleaner.threads").config_source == DYNAMIC_DEFAULT
        roles = entry(machine, BROKER, "1", "process.roles")
        assert (roles.value, roles.config_source, roles.read_only) == ("broker", STATIC, True)
        machine.restart()


def test_a_secret_is_never_described() -> None:
    machine = machine_with_topic()
    assert alter(machine, BROKER, "1", ("sasl.jaas.config", SET, "hush")) == NONE
    found = entry(machine, BROKER, "1", "sasl.jaas.config")
    assert (found.value, found.is_sensitive, sources(found)) == (None, True, [("sasl.jaas.config", None, DYNAMIC)])


def test_a_throttle_is_described_once_it_is_set_so_that_kafkas_tools_can_take_it_back() -> None:
    machine, rate = machine_with_topic(), "follower.replication.throttled.rate"
    assert result(machine, BROKER, "1", [rate]).configs == []
    assert alter(machine, BROKER, "1", (rate, SET, "1000")) == NONE
    found = entry(machine, BROKER, "1", rate)
    assert (found.value, found.config_source, found.read_only, sources(found)) == (
        "1000",
        DYNAMIC,
        False,
        [(rate, "1000", DYNAMIC)],
    )
    assert alter(machine, BROKER, "1", (rate, DELETE, None)) == NONE
    assert result(machine, BROKER, "1", [rate]).configs == []


def test_an_unknown_setting_of_a_broker_is_kept_over_a_restart() -> None:
    machine = machine_with_topic()
    names = [one.name for one in result(machine, BROKER, "1").configs]
    assert alter(machine, BROKER, "1", ("no.such.setting", SET, "x")) == NONE
    assert alter(machine, BROKER, "", ("no.such.setting", SET, "x")) == NONE
    machine.restart()
    assert [one.name for one in result(machine, BROKER, "1").configs] == [*names, "no.such.setting"]
    assert alter(machine, BROKER, "1", ("no.such.setting", DELETE, None)) == NONE
    assert alter(machine, BROKER, "", ("no.such.setting", DELETE, None)) == NONE
    assert [one.name for one in result(machine, BROKER, "1").configs] == names


def test_what_is_deleted_need_not_be_changeable_and_a_prefix_names_one_listener() -> None:
    machine = machine_with_topic()
    assert alter(machine, BROKER, "1", ("num.partitions", DELETE, None)) == NONE
    assert alter(machine, BROKER, "1", ("listener.name.plaintext.ssl.keystore.location", SET, "/x")) == NONE


def set_for_broker(machine: Machine, name: str, value: str, node: str = "1") -> int:
    """Set one setting while the broker runs; the error code."""
    config = {"name": name, "config_operation": SET, "value": value}
    resource = {"resource_type": BROKER, "resource_name": node, "configs": [config]}
    code: int = machine.ask(ALTER_SOME, 1, filled_request(ALTER_SOME, 1, resources=[resource])).responses[0].error_code
    return code


@pytest.mark.parametrize("value", ["a..b:5", "..:1", "x" * 300 + ":1", "a b:3", "é:1", "a:b:c"])
def test_names_that_are_no_hosts_are_refused_for_connections_of_one_address(value: str) -> None:
    assert set_for_broker(Machine(), "max.connections.per.ip.overrides", value) == INVALID_REQUEST


@pytest.mark.parametrize("value", ["10.0.0.1:5", "[::1]:5", "::1:5", "host:1,other.example.org.:2", "a_b-c.d:0"])
def test_hosts_and_addresses_are_taken_for_connections_of_one_address(value: str) -> None:
    assert set_for_broker(Machine(), "max.connections.per.ip.overrides", value) == NONE


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "inf", "1_000.5", "0x1p3", ""])
def test_doubles_that_are_no_finite_numbers_are_refused(value: str) -> None:
    assert set_for_broker(Machine(), "log.cleaner.min.cleanable.ratio", value) == INVALID_REQUEST


@pytest.mark.expects_errors("was set while the broker ran and cannot be applied")
def test_a_stored_setting_that_cannot_be_in_force_is_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    assert set_for_broker(machine, "log.cleaner.backoff.ms", "1234") == NONE
    (path,) = (f"/config/brokers/{node}" for node in ("1",))
    stored = '{"version":1,"config":{"max.connections.per.ip.overrides":"a..b:5","log.cleaner.backoff.ms":"1234"}}'
    machine.registry.commit([Change(path, stored.encode())])
    machine.restart()
    assert machine.broker.settings_in_force.value.log_cleaner_backoff_ms == 1234
    assert machine.broker.settings_in_force.value.max_connections_per_ip_overrides == ()
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "max.connections.per.ip.overrides was set while the broker ran and cannot be applied" in record.getMessage()


@pytest.mark.parametrize("node", ["1", ""])
def test_an_unknown_setting_of_a_broker_is_shown_so_that_it_can_be_deleted(node: str) -> None:
    machine = Machine()
    assert set_for_broker(machine, "my.plugin.password", "secret", node) == NONE
    found = entry(machine, BROKER, node, "my.plugin.password")
    assert (found.value, found.is_sensitive, found.read_only) == (None, True, True), "as Apache Kafka 4.3 shows it"
    assert found.config_source == (DYNAMIC if node else DYNAMIC_DEFAULT)
    assert (found.config_type, found.documentation, sources(found)) == (
        0,
        None,
        [("my.plugin.password", None, found.config_source)],
    )
