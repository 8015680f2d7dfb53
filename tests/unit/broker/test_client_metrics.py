"""Client metrics (KIP-714): subscriptions, and what clients ask and push, answered as Apache Kafka 4.3 with a receiver answers."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest

from ottla.broker.telemetry.client_metrics import MOST_INSTANCES, uuid_text
from ottla.cluster import layout
from ottla.ports import Change
from ottla.wire.api.alter_configs import AlterConfigsRequest
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest
from ottla.wire.api.push_telemetry import PushTelemetryRequest
from ottla.wire.errors import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    NONE,
    TELEMETRY_TOO_LARGE,
    THROTTLING_QUOTA_EXCEEDED,
    UNKNOWN_SUBSCRIPTION_ID,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from tests.support.machine import Machine
from tests.unit.broker.test_config_requests import APPEND, DELETE, SET, SUBTRACT, alter, result

METRICS = 16
OF_A_SUBSCRIPTION, DEFAULT = 7, 5
NEW, ONE = bytes(16), bytes(15) + b"\1"
SOME = b"\7" * 16

Subscriptions = GetTelemetrySubscriptionsResponse


def named(machine: Machine) -> Machine:
    """The machine with a client that has said its name and version."""
    machine.ask(18, 3, ApiVersionsRequest(client_software_name="lib", client_software_version="1.2"))
    return machine


def get(machine: Machine, instance_id: bytes = SOME) -> Subscriptions:
    response = machine.ask(71, 0, GetTelemetrySubscriptionsRequest(client_instance_id=instance_id))
    assert isinstance(response, Subscriptions)
    return response


def push(
    machine: Machine,
    subscription_id: int,
    metrics: bytes = b"otlp",
    instance_id: bytes = SOME,
    *,
    last: bool = False,
    codec: int = 0,
) -> int:
    body = PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        terminating=last,
        compression_type=codec,
        metrics=metrics,
    )
    code = machine.ask(72, 0, body).error_code
    assert isinstance(code, int)
    return code


def subscribe(machine: Machine, name: str, metrics: str, interval_ms: int | None = None, match: str | None = None) -> None:
    given = {"metrics": metrics, "interval.ms": interval_ms, "match": match}
    changes = [(key, SET, str(value)) for key, value in given.items() if value is not None]
    assert alter(machine, METRICS, name, *changes) == NONE


def values(machine: Machine, name: str) -> dict[str, tuple[str | None, int]]:
    return {one.name: (one.value, one.config_source) for one in result(machine, METRICS, name).configs}


def listed(machine: Machine) -> list[str]:
    return [one.resource_name for one in machine.ask(74, 0, ListConfigResourcesRequest()).config_resources]


def pushes(machine: Machine, name: str = "") -> dict[str, str]:
    return {one.name: one.value or "" for one in result(machine, METRICS, name, ["ottla.pushed"]).configs}


def test_a_subscription_is_set_described_listed_and_removed_with_its_last_setting() -> None:
    machine = Machine()
    defaults = {"interval.ms": ("300000", DEFAULT), "match": ("", DEFAULT), "metrics": ("", DEFAULT)}
    assert (values(machine, "s"), listed(machine)) == (defaults, [])
    subscribe(machine, "s", "org.a, org.b", 1000, "client_id=a.*, client_source_port=9")
    (entry,) = result(machine, METRICS, "s", ["match"]).configs
    assert (entry.config_type, entry.read_only, entry.is_sensitive) == (7, False, False)
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [("match", entry.value, OF_A_SUBSCRIPTION)]
    assert values(machine, "s") == {
        "interval.ms": ("1000", OF_A_SUBSCRIPTION),
        "match": ("client_id=a.*,client_source_port=9", OF_A_SUBSCRIPTION),
        "metrics": ("org.a,org.b", OF_A_SUBSCRIPTION),
    }
    machine.restart()
    assert listed(machine) == ["s"]
    assert alter(machine, METRICS, "s", ("metrics", DELETE, None), ("interval.ms", DELETE, None)) == NONE
    assert listed(machine) == ["s"]
    assert alter(machine, METRICS, "s", ("match", DELETE, None), ("nothing", DELETE, None)) == NONE
    assert alter(machine, METRICS, "never", ("match", DELETE, None)) == NONE
    assert (values(machine, "s"), listed(machine)) == (defaults, [])


def test_clients_find_the_apis_of_telemetry_announced_while_there_are_subscriptions() -> None:
    def announced() -> set[int]:
        versions = machine.ask(18, 3, ApiVersionsRequest(client_software_name="lib", client_software_version="1.2"))
        return {api.api_key for api in versions.api_keys} & {71, 72}

    machine = Machine()
    assert announced() == set()
    subscribe(machine, "s", "", 1000, "")
    assert announced() == {71, 72}
    machine.restart()
    assert announced() == {71, 72}
    assert alter(machine, METRICS, "s", *((name, DELETE, None) for name in ("match", "metrics", "interval.ms"))) == NONE
    assert announced() == set()


def test_all_settings_of_a_subscription_are_replaced_by_the_older_request() -> None:
    machine = Machine()
    subscribe(machine, "a b/c", "org.a", 1000)
    wanted = [AlterConfigsRequest.AlterableConfig(name="metrics", value="org.b")]
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=METRICS, resource_name="a b/c", configs=wanted)
    (altered,) = machine.ask(33, 2, AlterConfigsRequest(resources=[resource])).responses
    assert altered.error_code == NONE
    assert values(machine, "a b/c")["metrics"] == ("org.b", OF_A_SUBSCRIPTION)
    assert values(machine, "a b/c")["interval.ms"] == ("300000", DEFAULT)
    assert listed(machine) == ["a b/c"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("interval.ms", SET, "99"), INVALID_REQUEST),
        (("interval.ms", SET, "3600001"), INVALID_REQUEST),
        (("interval.ms", SET, "x"), INVALID_CONFIG),
        (("interval.ms", SET, ""), INVALID_CONFIG),
        (("match", SET, "x=y"), INVALID_CONFIG),
        (("match", SET, "client_id"), INVALID_CONFIG),
        (("match", SET, "client_id=["), INVALID_CONFIG),
        (("match", SET, "client_id=a=b"), INVALID_CONFIG),
        (("nope", SET, "1"), INVALID_REQUEST),
        (("metrics", SET, None), INVALID_REQUEST),
        (("metrics", APPEND, "z."), INVALID_CONFIG),
        (("metrics", SUBTRACT, "z."), INVALID_CONFIG),
    ],
)
def test_a_refused_change_leaves_the_subscription(change: tuple[str, int, str | None], code: int) -> None:
    machine = Machine()
    subscribe(machine, "s", "org.a", 1000)
    before = values(machine, "s")
    assert alter(machine, METRICS, "s", ("metrics" if change[0] != "metrics" else "match", SET, ""), change) == code
    assert values(machine, "s") == before


def test_the_bounds_of_the_interval_empty_lists_and_repeated_properties_are_accepted() -> None:
    machine = Machine()
    for key, value in (("interval.ms", "100"), ("interval.ms", "3600000"), ("match", "client_id=a,client_id=b"), ("metrics", "")):
        assert alter(machine, METRICS, "s", (key, SET, value)) == NONE
    assert alter(machine, METRICS, "", ("metrics", SET, "a")) == INVALID_REQUEST
    assert result(machine, METRICS, "").error_code == INVALID_REQUEST
    assert alter(machine, METRICS, "s" * 4097, ("metrics", SET, "a")) == INVALID_REQUEST
    assert alter(machine, METRICS, "valid", ("metrics", SET, "a"), validate_only=True) == NONE
    assert listed(machine) == ["s"]


def test_a_client_without_a_subscription_is_asked_for_nothing() -> None:
    machine = named(Machine())
    answer = get(machine, NEW)
    assert answer.client_instance_id not in (NEW, ONE)
    assert (answer.requested_metrics, answer.push_interval_ms, answer.telemetry_max_bytes) == ([], 300_000, 1 << 20)
    assert (answer.accepted_compression_types, answer.delta_temporality) == ([4, 3, 1, 2], True)
    assert get(machine, ONE).client_instance_id == ONE


def test_matching_subscriptions_are_one_with_the_shortest_interval_and_an_id_for_each_instance() -> None:
    machine = named(Machine())
    subscribe(machine, "A", "org.b,org.a", 1000, "client_id=te.t")
    subscribe(machine, "B", "org.b,org.c", 500, "client_software_name=lib, client_software_version=1\\..")
    subscribe(machine, "C", "no", 100, "client_id=es")
    subscribe(machine, "D", "no", 100, "client_id=test,client_source_port=1")
    subscribe(machine, "E", "org.e", None, f"client_instance_id={uuid_text(SOME)},client_source_address=127.*")
    answer = get(machine)
    assert (answer.requested_metrics, answer.push_interval_ms) == (["org.a", "org.b", "org.c", "org.e"], 500)
    other = get(machine, NEW)
    assert other.requested_metrics == ["org.a", "org.b", "org.c"]
    assert len({answer.subscription_id, other.subscription_id, get(machine, ONE).subscription_id}) == 3
    subscribe(machine, "D", "x,*", None, "")
    assert get(machine, NEW).requested_metrics == ["*"]


def test_a_client_asks_and_pushes_at_most_once_an_interval() -> None:
    machine = named(Machine())
    subscribe(machine, "s", "*", 1000)
    wanted = get(machine).subscription_id
    assert get(machine).error_code == THROTTLING_QUOTA_EXCEEDED
    assert push(machine, wanted) == NONE, "the first push after the subscription may come at once"
    assert push(machine, wanted) == THROTTLING_QUOTA_EXCEEDED
    machine.pass_time(999)
    assert push(machine, wanted) == THROTTLING_QUOTA_EXCEEDED
    machine.pass_time(1)
    assert push(machine, wanted) == NONE
    assert get(machine).error_code == THROTTLING_QUOTA_EXCEEDED
    machine.pass_time(1000)
    assert get(machine).subscription_id == wanted


def test_the_last_push_may_come_early_and_is_the_last() -> None:
    machine = named(Machine())
    wanted = get(machine).subscription_id
    assert push(machine, wanted) == NONE
    assert push(machine, wanted, last=True) == NONE
    assert push(machine, wanted) == INVALID_REQUEST
    assert push(machine, wanted, last=True) == NONE, "as in Kafka, where the refused push was said not to be the last"
    assert get(machine).error_code == THROTTLING_QUOTA_EXCEEDED


def test_a_push_is_refused_for_another_subscription_codec_or_size() -> None:
    machine = named(Machine(telemetry_max_bytes=10))
    subscribe(machine, "s", "*", 100)
    assert push(machine, 1, instance_id=NEW) == push(machine, 1, instance_id=ONE) == INVALID_REQUEST
    assert push(machine, 1, instance_id=b"\3" * 16) == UNKNOWN_SUBSCRIPTION_ID
    wanted = get(machine).subscription_id
    assert push(machine, wanted + 1) == UNKNOWN_SUBSCRIPTION_ID
    assert get(machine).subscription_id == wanted, "it may ask again at once"
    for codec in (0, 1, 2, 3, 4):
        machine.pass_time(100)
        assert push(machine, wanted, codec=codec) == NONE
    machine.pass_time(100)
    assert push(machine, wanted, codec=5) == UNSUPPORTED_COMPRESSION_TYPE
    assert get(machine).error_code == NONE
    machine.pass_time(100)
    assert push(machine, wanted, codec=-1) == UNSUPPORTED_COMPRESSION_TYPE
    machine.pass_time(100)
    assert push(machine, wanted, bytes(11)) == TELEMETRY_TOO_LARGE
    assert get(machine).error_code == THROTTLING_QUOTA_EXCEEDED
    machine.pass_time(100)
    assert push(machine, wanted, bytes(10)) == NONE


def test_a_changed_subscription_has_another_id_that_the_next_push_is_told_of() -> None:
    machine = named(Machine())
    subscribe(machine, "s", "org.a", 1000)
    before = get(machine).subscription_id
    subscribe(machine, "s", "org.b", 1000)
    assert push(machine, before) == UNKNOWN_SUBSCRIPTION_ID
    after = get(machine)
    assert (after.requested_metrics, after.subscription_id == before) == (["org.b"], False)
    subscribe(machine, "s", "org.a", 1000)
    machine.pass_time(1000)
    assert get(machine).subscription_id == before, "it depends on what is wanted alone"


def test_the_last_metrics_of_each_client_are_read_from_the_broker() -> None:
    machine = named(Machine())
    subscribe(machine, "s", "*", 1000)
    wanted = get(machine).subscription_id
    metrics = bytes(range(256)) * 200
    assert push(machine, wanted, b"older") == NONE
    machine.pass_time(1000)
    assert push(machine, wanted, metrics, codec=4) == NONE
    machine.pass_time(1000)
    assert push(machine, wanted, b"") == NONE, "nothing new"
    machine.pass_time(500)
    ((name, shown),) = pushes(machine).items()
    assert name == uuid_text(SOME)
    assert json.loads(shown) == {
        "client_id": "test",
        "software_name": "lib",
        "software_version": "1.2",
        "address": "127.0.0.1",
        "port": 50000,
        "subscriptions": ["s"],
        "push_interval_ms": 1000,
        "seen_ms_ago": 500,
        "terminating": False,
        "pushes": 3,
        "pushed_at_ms": machine.clock.now().wall_ms - 1500,
        "compression_type": 4,
        "bytes": len(metrics),
    }
    assert b"".join(map(b64decode, pushes(machine, name).values())) == metrics
    machine.pass_time(2501)
    assert pushes(machine) == {}, "three intervals have passed in silence"


def test_metrics_that_are_not_kept_are_refused_to_readers() -> None:
    machine = named(Machine())
    get(machine)
    for name in (uuid_text(SOME), uuid_text(ONE), "?", "é"):
        assert result(machine, METRICS, name, ["ottla.pushed"]).error_code == INVALID_REQUEST


def test_kept_metrics_are_bounded_in_bytes_and_the_oldest_go_first() -> None:
    machine = named(Machine(ottla_client_metrics_bytes=100))
    instances = [bytes([number]) * 16 for number in (1, 2, 3)]
    for instance_id in instances:
        assert push(machine, get(machine, instance_id).subscription_id, bytes(40), instance_id) == NONE
    kept = {name: json.loads(shown)["bytes"] for name, shown in pushes(machine).items()}
    assert kept == {uuid_text(one): size for one, size in zip(instances, (0, 40, 40), strict=True)}
    machine.pass_time(300_000)
    assert push(machine, get(machine, instances[1]).subscription_id, bytes(101), instances[1]) == NONE
    assert [json.loads(shown)["bytes"] for shown in pushes(machine).values()] == [0, 0, 0], "larger than all that is kept"


def test_the_number_of_remembered_instances_is_bounded_and_a_dropped_one_goes_on() -> None:
    machine = named(Machine())
    first = get(machine).subscription_id
    assert push(machine, first) == NONE
    for number in range(MOST_INSTANCES):
        get(machine, number.to_bytes(16, "big") if number > 1 else NEW)
    assert len(pushes(machine)) == MOST_INSTANCES
    assert uuid_text(SOME) not in pushes(machine)
    assert push(machine, first) == NONE


@pytest.mark.expects_errors("is ignored")
def test_a_subscription_that_cannot_be_parsed_matches_nobody() -> None:
    machine = named(Machine())
    subscribe(machine, "good", "org.a", 1000)
    machine.registry.commit([Change(layout.client_metrics_config_path("bad"), layout.config_json({"match": "x"}))])
    machine.restart()
    assert get(named(machine)).requested_metrics == ["org.a"]
