"""Settings by keyword: names, values, and the sentences about wrong ones."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from ottla.client.errors import SettingError
from ottla.client.settings.addresses import parse_servers
from ottla.client.settings.clients import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings, parse, refuse_dict
from ottla.schemas.registry_values import RegistryDeserializer, RegistrySerializer


@pytest.mark.parametrize(
    ("kind", "given", "nearest"),
    [
        (ProducerSettings, "linger", "linger_ms"),
        (ProducerSettings, "linger.ms", "linger_ms"),
        (ConsumerSettings, "auto_offset_rest", "auto_offset_reset"),
        (AdminSettings, "bootstrap_server", "bootstrap_servers"),
        (ConsumerSettings, "auto_commit", "enable_auto_commit"),
        (ConsumerSettings, "groupid", "group_id"),
        (ProducerSettings, "batch_size_bytes", "batch_size"),
    ],
)
def test_an_unknown_setting_names_the_nearest(kind: type[ClientSettings], given: str, nearest: str) -> None:
    with pytest.raises(SettingError, match=f"has no setting {given}; did you mean {nearest}"):
        parse(kind, {given: 1})


@pytest.mark.parametrize("kind", [ProducerSettings, ConsumerSettings, AdminSettings])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("retries", "delivery_timeout_ms"),
        ("on_assign", "ottla.client.keywords lists them"),
        ("x", "ottla.client.keywords lists them"),
    ],
)
def test_a_name_that_is_close_to_none_gets_no_proposal(kind: type[ClientSettings], given: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence) as raised:
        parse(kind, {given: 1})
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (ProducerSettings, "queue.buffering.max.ms", "; it is called linger_ms here."),
        (ProducerSettings, "queue_buffering_max_ms", "; it is called linger_ms here."),
        (ProducerSettings, "max_batch_size", "; it is called batch_size here."),
        (ProducerSettings, "queue.buffering.max.messages", "; it is called buffer_memory here. In bytes: records are not counted."),
        (ConsumerSettings, "fetch.message.max.bytes", "; it is called max_partition_fetch_bytes here."),
        (ConsumerSettings, "consumer_timeout_ms", "; records(timeout_ms=…) ends after that time without a record."),
        (ConsumerSettings, "topic", "; topics come first: Consumer('flights', bootstrap_servers='host:9092')."),
        (AdminSettings, "ssl_cafile", "; it is called ssl_truststore_location here. PEM or PKCS#12."),
        (AdminSettings, "fetch.message.max.bytes", "; the names are Kafka's"),
    ],
)
def test_a_setting_of_another_client_is_named_as_it_is_called_here(kind: type[ClientSettings], given: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=re.escape(f"has no setting {given}{sentence}")):
        parse(kind, {given: 1})


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ProducerSettings, {"linger_ms": -1}),
        (ProducerSettings, {"linger_ms": True}),
        (ProducerSettings, {"batch_size": "big"}),
        (ProducerSettings, {"acks": 2}),
        (ProducerSettings, {"compression_type": "zip"}),
        (ProducerSettings, {"enable_idempotence": "yes"}),
        (ProducerSettings, {"enable_idempotence": True, "acks": 1}),
        (ProducerSettings, {"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}),
        (ConsumerSettings, {"auto_offset_reset": "first"}),
        (ConsumerSettings, {"partition_assignment_strategy": "random"}),
        (ConsumerSettings, {"partition_assignment_strategy": ()}),
        (ConsumerSettings, {"group_id": 7}),
        (ConsumerSettings, {"group_id": "x" * 32_768}),
        (ConsumerSettings, {"group_instance_id": "\u00fc" * 16_384}),
        (ConsumerSettings, {"client_id": "x" * 32_768}),
        (ProducerSettings, {"client_id": "\ud800"}),
        (ProducerSettings, {"transactional_id": "x" * 32_768}),
        (ConsumerSettings, {"security_protocol": "TLS"}),
    ],
)
def test_a_value_that_cannot_be_is_refused_and_named(kind: type[ClientSettings], given: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(given))):
        parse(kind, given)


def test_less_than_all_acknowledgements_turn_idempotence_off_unless_it_was_asked_for() -> None:
    assert parse(ProducerSettings, {}).enable_idempotence
    assert not parse(ProducerSettings, {"acks": 1}).enable_idempotence
    assert parse(ProducerSettings, {"acks": "all"}).acks_code == -1


def test_servers_and_strategies_may_be_lists() -> None:
    made = parse(ConsumerSettings, {"bootstrap_servers": ["a:1", "b:2"], "partition_assignment_strategy": ["roundrobin"]})
    assert (made.bootstrap_servers, made.partition_assignment_strategy) == ("a:1,b:2", ("roundrobin",))


@pytest.mark.parametrize("kind", [ProducerSettings, ConsumerSettings, AdminSettings])
def test_every_setting_has_a_sentence_and_a_default_that_passes_its_own_check(kind: type[ClientSettings]) -> None:
    for declared in fields(kind):
        assert declared.metadata["sentence"].endswith(".")
        assert declared.metadata["check"](declared.name, declared.default) == declared.default


@pytest.mark.parametrize("given", [7, [7], object()])
def test_values_of_another_type_are_refused_as_settings_are(given: object) -> None:
    with pytest.raises(SettingError, match="partition_assignment_strategy"):
        parse(ConsumerSettings, {"partition_assignment_strategy": given})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("broker", [("broker", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
        ("bücher.example.:1", [("bücher.example.", 1)]),
        ("10.0.0.1", [("10.0.0.1", 9092)]),
    ],
)
def test_bootstrap_servers_are_read_as_people_write_them(text: str, found: list[tuple[str, int]]) -> None:
    assert parse_servers(text) == found


WRONG_SERVERS = (
    "", " , ", "a:b", "a:0", "a:70000", ":9092", "a:٩", "http://a:9092", "[::1", "a b", "a..b", "a" * 64, "\udcff:1",
)  # fmt: skip


@pytest.mark.parametrize("text", WRONG_SERVERS)
def test_bootstrap_servers_that_lead_nowhere_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="bootstrap_servers"):
        parse_servers(text)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"transactional_id": ""}, "is empty"),
        ({"transactional_id": "t", "acks": 1}, "transactional_id needs acks='all'"),
        ({"transactional_id": "t", "enable_idempotence": False}, "transactional_id needs enable_idempotence"),
        ({"transactional_id": "t", "max_in_flight_requests_per_connection": 6}, "transactional_id needs acks='all'"),
        ({"transactional_id": "t", "api_version": "0.10.2"}, "transactional_id needs Kafka 0.11.0"),
        ({"transactional_id": "t", "transaction_timeout_ms": 0}, "transaction_timeout_ms must be a whole number"),
    ],
)
def test_a_transactional_id_goes_with_what_transactions_need(given: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        parse(ProducerSettings, given)
    assert parse(ProducerSettings, {"transactional_id": "t"}).enable_idempotence


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (ProducerSettings, {"delivery_timeout_ms": 5, "linger_ms": 100}, "delivery_timeout_ms is shorter than linger_ms"),
        (ProducerSettings, {"transactional_id": "t", "enable_idempotence": False}, "transactional_id needs enable_idempotence"),
        (ProducerSettings, {"acks": 0, "enable_idempotence": True}, "enable_idempotence needs acks='all'"),
        (ProducerSettings, {"acks": 1, "transactional_id": "t"}, "transactional_id needs acks='all'"),
        (ConsumerSettings, {"group_id": ""}, "group_id is empty"),
        (ConsumerSettings, {"group_instance_id": "i"}, "add group_id"),
        (ConsumerSettings, {"group_id": "g", "group_remote_assignor": "range"}, "add that, or leave it out"),
        (ConsumerSettings, {"heartbeat_interval_ms": 45_000}, "heartbeat_interval_ms=45000 is not below session_timeout_ms=45000"),
        (ConsumerSettings, {"fetch_max_wait_ms": 30_000}, "fetch_max_wait_ms=30000 is not below request_timeout_ms=30000"),
        (ProducerSettings, {"value_serializer": str}, "the type str, which makes no bytes: give the name of a format"),
        (ConsumerSettings, {"value_deserializer": str}, "of bytes: give 'str'"),
        (ConsumerSettings, {"value_deserializer": dict}, "cannot read bytes: give 'json'"),
        (ProducerSettings, {"value_serializer": RegistryDeserializer("http://localhost:1")}, "a serializer writes"),
        (ConsumerSettings, {"key_deserializer": RegistrySerializer("http://localhost:1")}, "a deserializer reads"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(kind: type[ClientSettings], given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=re.escape(sentence)):
        parse(kind, given)


def test_defaults_give_way_to_what_is_given() -> None:
    assert parse(ConsumerSettings, {"session_timeout_ms": 900}).heartbeat_interval_ms == 300
    assert parse(ConsumerSettings, {"request_timeout_ms": 400}).fetch_max_wait_ms == 200
    assert parse(ConsumerSettings, {"value_deserializer": int}).value_deserializer is int


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (ProducerSettings, {"bootstrap.servers": "h:1", "linger.ms": 5}, "Producer(bootstrap_servers='h:1', linger_ms=5)."),
        (ConsumerSettings, {"group.id": "g", "enable.auto.commit": False}, "Consumer(group_id='g', enable_auto_commit=False)."),
        (ProducerSettings, {"message.timeout.ms": 5}, "Producer(delivery_timeout_ms=5)."),
        (AdminSettings, {"sasl.password": "secret"}, "Admin(sasl_password=…)."),
        (AdminSettings, {"bootstrap.servers": "h:1", "error_cb": print}, "Admin(bootstrap_servers='h:1'), without error_cb."),
    ],
)
def test_a_dict_of_settings_is_shown_as_keyword_arguments(kind: type[ClientSettings], given: object, sentence: str) -> None:
    for refuse in (lambda: refuse_dict(kind, given), lambda: parse(kind, {"bootstrap_servers": given})):
        with pytest.raises(SettingError, match=re.escape(f"Settings are keyword arguments, not a dict: {sentence}")):
            refuse()
