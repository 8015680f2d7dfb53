"""Settings: declared once, parsed, refused with a sentence, inherited by topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.settings import (
    BrokerSettings,
    Listener,
    SecurityProtocol,
    SettingError,
    TopicSettings,
    topic_config_error,
)
from ottla.broker.settings.ineffective_settings import OtherSettings
from ottla.broker.settings.kinds import show_double
from ottla.log.config import LogConfig
from ottla.properties import parse_properties
from tools.settings_page import page

ROOT = Path(__file__).parents[3]
HOUR_MS = 3_600_000
INT = "Not a number of type INT: write a whole number of 32 bits"
DECLARED = [*BrokerSettings.DECLARED.values(), *TopicSettings.DECLARED.values()]


def test_every_value_is_an_attribute_of_its_type() -> None:
    settings = BrokerSettings.parse(
        {"num.partitions": " 3 ", "auto.create.topics.enable": "FALSE", "log.cleanup.policy": "compact, delete"}
    )
    assert settings.num_partitions == 3
    assert settings.auto_create_topics_enable is False
    assert settings.log_cleanup_policy == ("compact", "delete")
    assert settings.group_initial_rebalance_delay_ms == 3000
    assert settings.log_retention_ms is None


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("num.partition", "3", "There is no broker setting 'num.partition'; did you mean 'num.partitions'?"),
        ("num_partitions", "3", "There is no broker setting 'num_partitions'; did you mean 'num.partitions'?"),
        ("zzz", "3", "There is no broker setting 'zzz'."),
        ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1."),
        ("num.partitions", "x", f"Invalid value x for configuration num.partitions: {INT}."),
        ("num.partitions", "3000000000", f"Invalid value 3000000000 for configuration num.partitions: {INT}."),
        ("num.partitions", "\u0661", f"Invalid value \u0661 for configuration num.partitions: {INT}."),
        (
            "auto.create.topics.enable",
            "yes",
            "Invalid value yes for configuration auto.create.topics.enable: Expected value to be either true or false.",
        ),
        (
            "compression.type",
            "zip",
            "Invalid value zip for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer.",
        ),
        (
            "log.cleanup.policy",
            "shred",
            "Invalid value shred for configuration log.cleanup.policy: String must be one of: compact, delete.",
        ),
        (
            "log.cleaner.min.cleanable.ratio",
            "2",
            "Invalid value 2.0 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1.",
        ),
        (
            "listeners",
            "OLD://a:1",
            "No security protocol is defined for listener OLD: add OLD:PLAINTEXT, or another protocol, to "
            "listener.security.protocol.map.",
        ),
        (
            "listener.security.protocol.map",
            "A:SSL,A:PLAINTEXT",
            "Invalid value A:SSL,A:PLAINTEXT for configuration listener.security.protocol.map: Name every listener once.",
        ),
        (
            "listener.security.protocol.map",
            "A:TLS",
            "Invalid value A:TLS for configuration listener.security.protocol.map: Write listeners with their security "
            "protocols, as INTERNAL:SSL, separated by commas; 'TLS' is not a security protocol: choose one of PLAINTEXT, SSL, "
            "SASL_PLAINTEXT, SASL_SSL.",
        ),
        ("listener.name.a.zzz", "3", "There is no broker setting 'listener.name.a.zzz'."),
        ("listener.name.a.num.partitions", "x", f"Invalid value x for configuration num.partitions: {INT}."),
        (
            "ssl.engine.factory.class",
            "/x",
            "ssl.engine.factory.class is Kafka's, and has no effect in Ottla: leave it out, and do not rely on it.",
        ),
        (
            "offsets.topic.segment.bytes",
            "1048575",
            "Invalid value 1048575 for configuration offsets.topic.segment.bytes: Value must be at least 1048576.",
        ),
        (
            "offsets.topic.num.partitions",
            "10001",
            "Invalid value 10001 for configuration offsets.topic.num.partitions: Value must be no more than 10000.",
        ),
        ("num.io.threads", "x", f"Invalid value x for configuration num.io.threads: {INT}."),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence_that_says_what_to_do(name: str, text: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refused:
        BrokerSettings.parse({name: text})
    assert str(refused.value) == sentence


def test_kafkas_settings_without_a_meaning_here_are_taken_and_known_as_such() -> None:
    settings = BrokerSettings.parse({"num.io.threads": "8", "num.partitions": "2", "socket.listen.backlog.size": "9"})
    assert settings.num_partitions == 2
    assert settings.idle == ["num.io.threads", "socket.listen.backlog.size"]


def test_what_has_an_effect_is_not_listed_among_what_has_none() -> None:
    plain = [setting.name for setting in BrokerSettings.DECLARED.values() if not setting.idle]
    assert [name for name in plain if name in OtherSettings.TABLE] == []


def test_listeners_are_read_and_written() -> None:
    settings = BrokerSettings.parse(
        {"listeners": "PLAINTEXT://[::1]:9092", "advertised.listeners": "plaintext://kafka.example:19092"}
    )
    assert settings.listeners == (Listener("PLAINTEXT", "::1", 9092),)
    assert settings.advertised_listeners == (Listener("PLAINTEXT", "kafka.example", 19092),)
    assert settings.text_of("listeners") == "PLAINTEXT://[::1]:9092"


def test_what_is_given_for_a_listener_goes_before_the_rest_there_and_what_is_given_for_a_mechanism_before_that() -> None:
    settings = BrokerSettings.parse(
        {
            "ssl.client.auth": "none",
            "listener.name.inside.ssl.client.auth": "required",
            "listener.name.INSIDE.scram-sha-256.ssl.client.auth": "requested",
            "listener.name.a.b.ssl.keystore.location": "/x",
        }
    ).with_dynamic(
        {"ssl.client.auth": "requested"}, {"listener.name.inside.ssl.keystore.type": "PEM", "listener.name.inside.zzz": "?"}
    )
    assert settings.ssl_client_auth == "requested"
    assert (settings.of_listener("INSIDE").ssl_client_auth, settings.of_listener("INSIDE").ssl_keystore_type) == ("required", "PEM")
    assert settings.of_listener("INSIDE", "SCRAM-SHA-256").ssl_client_auth == "requested"
    assert settings.of_listener("INSIDE", "PLAIN").ssl_client_auth == "required"
    assert settings.of_listener("OUTSIDE") is settings
    assert settings.of_listener("A.B").ssl_keystore_location == "/x"


def test_a_listener_speaks_what_the_map_says_or_what_it_is_called_after() -> None:
    settings = BrokerSettings.parse({"listener.security.protocol.map": "inside:ssl,PLAINTEXT:SASL_SSL"})
    spoken = [settings.security_of(name) for name in ("INSIDE", "PLAINTEXT", "SASL_PLAINTEXT", "OTHER")]
    assert spoken == [SecurityProtocol.SSL, SecurityProtocol.SASL_SSL, SecurityProtocol.SASL_PLAINTEXT, None]
    assert settings.text_of("listener.security.protocol.map") == "INSIDE:SSL,PLAINTEXT:SASL_SSL"


def test_listeners_of_controllers_need_no_protocol() -> None:
    given = {"listeners": "PLAINTEXT://:1,CONTROLLER://:2", "controller.listener.names": "CONTROLLER"}
    assert BrokerSettings.parse(given).controller_listener_names == ("CONTROLLER",)


@pytest.mark.parametrize(
    "text", ["localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://a:99999", "PLAINTEXT://a:1,PLAINTEXT://b:2"]
)
def test_listeners_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(SettingError):
        BrokerSettings.parse({"listeners": text})


def test_every_default_is_allowed_and_reads_back_as_itself() -> None:
    for setting in DECLARED:
        text = setting.shown_default
        assert text is None or setting.parse(text) == setting.default, setting.name


def test_every_setting_has_one_sentence() -> None:
    assert [setting.name for setting in DECLARED if not setting.sentence.endswith(".") or "\n" in setting.sentence] == []


def test_without_settings_a_topics_logs_have_kafkas_defaults() -> None:
    assert BrokerSettings().log_config({}) == LogConfig()


def test_the_default_of_a_topic_setting_is_the_brokers_setting() -> None:
    settings = BrokerSettings({"log.segment.bytes": "2000000", "message.max.bytes": "7", "log.cleanup.policy": "compact"})
    config = settings.log_config({"max.message.bytes": "9"})
    assert (config.segment_bytes, config.max_message_bytes, config.cleanup_policy) == (2_000_000, 9, "compact")


def test_every_topic_setting_has_the_type_and_default_of_its_broker_setting() -> None:
    plain = BrokerSettings()
    for setting in TopicSettings.DECLARED.values():
        if setting.broker is not None:
            assert setting.kind is BrokerSettings.DECLARED[setting.broker].kind
            assert plain.topic_default(setting) == setting.default, setting.name


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "1"}, HOUR_MS),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_is_taken_from_the_finest_unit_that_is_set(given: dict[str, str], retention_ms: int) -> None:
    assert BrokerSettings(given).log_config({}).retention_ms == retention_ms


def test_segments_smaller_than_allowed_can_be_asked_for_by_their_internal_name() -> None:
    assert BrokerSettings().log_config({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_what_was_set_while_running_goes_before_what_was_given_and_this_broker_before_all() -> None:
    settings = BrokerSettings({"log.retention.ms": "1"})
    assert settings.with_dynamic({"log.retention.ms": "2"}, {}).log_retention_ms == 2
    assert settings.with_dynamic({"log.retention.ms": "2"}, {"log.retention.ms": "3"}).log_retention_ms == 3
    assert settings.with_dynamic({}, {}).log_retention_ms == 1


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("retention.ms", "-1", True),
        ("retention.ms", "-2", False),
        ("retention.bytes", "-5", True),
        ("cleanup.policy", "", True),
        ("cleanup.policy", "none", False),
        ("segment.bytes", "1048575", False),
        ("segment.bytes", "1048576", True),
        ("compression.gzip.level", "0", False),
        ("compression.gzip.level", "-1", True),
        ("min.cleanable.dirty.ratio", "1.5", False),
        ("min.cleanable.dirty.ratio", "1e-1", True),
        ("leader.replication.throttled.replicas", "*", True),
        ("leader.replication.throttled.replicas", "0:1,1:1", True),
        ("leader.replication.throttled.replicas", "foo", False),
        ("remote.storage.enable", "true", False),
        ("remote.storage.enable", "false", True),
        ("message.format.version", "3.0", False),
        ("retention.ms", None, False),
    ],
)
def test_a_topic_takes_what_kafka_takes(name: str, text: str | None, allowed: bool) -> None:
    sentence = topic_config_error({name: text})
    assert (sentence is None) == allowed
    assert sentence is None or sentence.endswith((".", "?"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (1e-4, "1.0E-4"),
        (1.5e-4, "1.5E-4"),
        (9_999_999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-2e22, "-2.0E22"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert show_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_double_reads_back_as_itself(value: float) -> None:
    assert float(show_double(value)) == value


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = r"""
        # a comment
        ! another
        a=1
        b : 2
        c   3
        empty=
        alone
        path=C:\\x\ty
        long=one,\
             two
        a=last
        key\ with\ blanks = v
        snow=\u2603
        colon=PLAINTEXT://:9092
    """
    assert parse_properties(text) == {
        "a": "last",
        "b": "2",
        "c": "3",
        "empty": "",
        "alone": "",
        "path": "C:\\x\ty",
        "long": "one,two",
        "key with blanks": "v",
        "snow": "☃",
        "colon": "PLAINTEXT://:9092",
    }


NAMES = st.text("abc.", min_size=1)


@given(st.dictionaries(NAMES, st.text("abc0129.,:/=", max_size=8)))
def test_plain_properties_read_back_as_written(values: dict[str, str]) -> None:
    assert parse_properties("".join(f"{name}={value}\n" for name, value in values.items())) == values


def test_lines_of_properties_end_where_they_do_in_java() -> None:
    text = "a=1\u2028b=2\r\nc=\u00a03\u0085d\rd=\v4\x1ce\ne = \f5 \t\n"
    assert parse_properties(text) == {"a": "1\u2028b=2", "c": "\u00a03\u0085d", "d": "\v4\x1ce", "e": "5"}


def test_characters_beyond_16_bits_are_two_escapes() -> None:
    assert parse_properties(r"a=\ud83d\ude00\u00e9") == {"a": "\U0001f600é"}
    assert parse_properties(r"a=\ud83d!") == {"a": "\ufffd!"}


@pytest.mark.parametrize("text", [r"C:\users", r"\u12", r"\u+123", r"\u 123", "\\u"])
def test_an_escape_that_is_none_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(SettingError, match=r"^line 3: \\u.*write each backslash twice"):
        parse_properties(f"a=1\n# two\npath={text}\nb=2")


def test_the_page_in_the_documentation_is_the_one_that_the_declarations_make() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page(), "call make docs"


def test_the_page_of_settings_names_each_one_that_can_be_set() -> None:
    text = page()
    assert all(f"| `{setting.name}` " in text for setting in DECLARED if not setting.hidden)
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("| `")}
    assert widths == {3, 5}
