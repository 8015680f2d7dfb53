"""`ottla config` against a broker: sources, synonyms, changes that are reported, and mistakes that change nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from tests.support.commands import Run


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(num_partitions=1, log_retention_ms=-1) as broker, ottla.Admin(broker.address) as admin:
        admin.create_topic("t", configs={"retention.ms": "5000"})
        admin.create_topic("u")
        yield broker


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_settings_are_printed_with_their_sources(ottla_: Run) -> None:
    code, out, _ = ottla_("config get topic/t")
    assert code == 0
    assert "retention.ms         5000   dynamic topic\n" in out
    assert "segment.ms" not in out
    assert "segment.ms " in ottla_("config get topic/t --all")[1]
    (entry,) = rows(ottla_("config get topic/t retention.ms --synonyms --json")[1])
    assert entry == {
        "resource": "topic/t",
        "setting": "retention.ms",
        "value": "5000",
        "source": "dynamic topic",
        "read_only": False,
        "sensitive": False,
        "synonyms": [
            {"setting": "retention.ms", "value": "5000", "source": "dynamic topic"},
            {"setting": "log.retention.ms", "value": "-1", "source": "static broker"},
            {"setting": "log.retention.hours", "value": "168", "source": "default"},
        ],
    }
    assert "static broker: log.retention.ms=-1; default: log.retention.hours=168" in ottla_("config get topic/t --synonyms")[1]
    assert ottla_("config get topic/t segment.ms retention.ms --values")[1] == "604800000\n5000\n"
    assert ottla_("config get topic/t --explain retention.ms")[1].startswith("retention.ms = 5000 (dynamic topic)\n  Age ")
    broker = ottla_("config get broker/1")[1]
    assert "node.id" in broker
    assert "static broker           read-only\n" in broker
    (secret,) = rows(ottla_("config get broker/1 ssl.keystore.password --json")[1])
    assert (secret["value"], secret["sensitive"]) == (None, True)
    assert re.search("ssl.keystore.password +\\[hidden\\] +default +sensitive", ottla_("config get broker/1 --all")[1])


def test_resources_with_settings_are_listed(ottla_: Run) -> None:
    assert ottla_("config list topic")[1].splitlines() == ["topic/t", "topic/u"]
    assert rows(ottla_("config list broker --json")[1]) == [{"resource": "broker/1", "kind": "broker", "name": "1"}]
    assert {"topic/t", "broker/1"} <= set(ottla_("config list")[1].splitlines())
    assert ottla_("config list client-metrics") == (0, "There are no resources of client-metrics.\n", "")


def test_two_resources_are_compared(ottla_: Run) -> None:
    assert ottla_("config get --diff topic/t topic/t") == (0, "topic/t and topic/t do not differ.\n", "")
    assert ottla_("config get --diff topic/t topic/u") == (
        0,
        "SETTING       topic/t  topic/u\nretention.ms  5000     -1\n",
        "",
    )
    assert rows(ottla_("config get --diff topic/t topic/u retention.ms segment.ms --json")[1]) == [
        {"setting": "retention.ms", "values": ["5000", "-1"], "sources": ["dynamic topic", "static broker"]}
    ]


def test_resources_of_two_clusters_are_compared(ottla_: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with ottla.Broker(log_retention_ms=7000) as other:
        with ottla.Admin(other.address) as admin:
            admin.create_topic("u")
        assert ottla_(f"profile create staging -b {other.address}")[0] == 0
        assert ottla_("config get --diff topic/u topic/u --with staging retention.ms segment.ms") == (
            0,
            "SETTING       topic/u  topic/u of staging\nretention.ms  -1       7000\n",
            "",
        )
        code, _, err = ottla_("config get --diff topic/t topic/t --with staging")
        assert (code, "UNKNOWN_TOPIC_OR_PARTITION" in err) == (1, True)
    code, _, err = ottla_("config get --diff topic/t topic/t --with nowhere")
    assert (code, "nowhere" in err) == (2, True)


def test_settings_are_changed_one_by_one_and_restored(ottla_: Run) -> None:
    assert ottla_("config set topic/u retention.ms=7000 cleanup.policy+=compact --dry-run")[1] == (
        "topic/u: retention.ms would be 7000 (is -1).\ntopic/u: cleanup.policy would be delete,compact (is delete).\n"
    )
    assert ottla_("config get topic/u --values cleanup.policy")[1] == "delete\n"
    assert ottla_("config set topic/u retention.ms=7000 cleanup.policy+=compact")[1] == (
        "topic/u: retention.ms is 7000 (was -1).\ntopic/u: cleanup.policy is delete,compact (was delete).\n"
    )
    assert rows(ottla_("config set topic/u --json cleanup.policy-=delete")[1]) == [
        {"resource": "topic/u", "setting": "cleanup.policy", "before": "delete,compact", "after": "compact", "dry_run": False}
    ]
    assert ottla_("config get topic/u --values cleanup.policy")[1] == "compact\n"
    assert ottla_("config unset topic/u retention.ms segment.ms")[1] == (
        "topic/u: retention.ms is -1 (was 7000).\ntopic/u: segment.ms was not set for it; its value is 604800000.\n"
    )
    assert ottla_("config unset topic/u --all")[0] == 2
    assert ottla_("config unset topic/u --all --dry-run")[1] == "topic/u: cleanup.policy would be delete (is compact).\n"
    assert ottla_("config unset topic/u --all --yes")[1] == "topic/u: cleanup.policy is delete (was compact).\n"
    assert ottla_("config unset topic/u --all --yes")[1] == "topic/u has no settings of its own.\n"


def test_settings_of_one_broker_all_brokers_and_groups(ottla_: Run, tmp_path: Path) -> None:
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    assert ottla_(f"config set broker/1 {rate}=7000") == (0, f"broker/1: {rate} is 7000 (was not set).\n", "")
    assert ottla_(f"config unset broker/1 {rate}")[0] == 0
    assert ottla_("config set broker/* log.cleaner.backoff.ms=14000")[1] == (
        "broker/*: log.cleaner.backoff.ms is 14000 (was not set).\n"
    )
    assert "14000  dynamic default broker" in ottla_("config get broker/1 log.cleaner.backoff.ms")[1]
    (tmp_path / "f").write_text("log.cleaner.backoff.ms=13000\nlistener.name.plaintext.ssl.keystore.password=hush\n")
    code, out, err = ottla_(f"config set broker/1 --file {tmp_path / 'f'} --dry-run")
    assert (code, err) == (0, "")
    assert out == (
        "broker/1: log.cleaner.backoff.ms would be 13000 (is 14000).\n"
        "broker/1: listener.name.plaintext.ssl.keystore.password would be changed; its value is hidden.\n"
    )
    assert ottla_("config unset broker/1 log.cleaner.backoff.ms")[1].endswith("was not set for it; its value is 14000.\n")
    assert ottla_("config unset broker/* log.cleaner.backoff.ms")[1].endswith("is not set (was 14000).\n")
    assert ottla_("config unset broker/* log.cleaner.backoff.ms")[1].endswith("was not set for it.\n")
    code, out, err = ottla_("config set broker/1 log.retention.mss=1")
    assert (code, "did you mean log.retention.ms?" in err) == (0, True)
    assert ottla_("config unset broker/1 --all -y")[1] == "broker/1: log.retention.mss is removed; its value is hidden.\n"
    assert ottla_("config set group/g consumer.session.timeout.ms=50000")[0] == 0
    assert ottla_("config get group/g")[1].count("dynamic group") == 1
    assert ottla_("config unset group/g --all --yes")[0] == 0
    assert "no settings other than defaults" in ottla_("config get group/g")[1]


@pytest.mark.rows(25, seconds=0.1)
@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("config get", 2, "name a resource: topic/NAME"),
        ("config get t", 2, "such as topic/t"),
        ("config get topics/t", 2, "write topic/t."),
        ("config get topic/", 2, "lacks a name"),
        ("config get broker/x", 2, "'x' is no broker id"),
        ("config get client/user/alice", 2, "see `ottla quota list --user alice`"),
        ("config get broker/9", 1, "There is no live broker 9: the live ones are 1"),
        ("config get topic/none", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("config get topic/t retention", 1, "topic/t has no setting retention (did you mean retention.ms?)"),
        ("config get topic/t --valus", 2, "did you mean --values?"),
        ("config get topic/t --values --explain", 2, "not allowed with argument"),
        ("config get --diff topic/t", 2, "expected 2 arguments"),
        ("config get --diff topic/t u", 2, "such as topic/u"),
        ("config get --diff topic/t topic/u nope", 1, "Neither topic/t nor topic/u has a setting nope"),
        ("config get --diff topic/t topic/none", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("config list topics", 2, "did you mean 'topic'?"),
        ("config list topic t", 2, "unknown arguments: t"),
        ("config get topic/t --with staging", 2, "--with is for --diff"),
        ("config set", 2, "required: RESOURCE"),
        ("config set topic/t", 2, "nothing to change"),
        ("config set topic/t retention.ms", 2, "'retention.ms' is not like retention.ms=86400000"),
        ("config set topic/t =1", 2, "'=1' is not like"),
        ("config set topic/t retention.ms=1 retention.ms=2", 2, "retention.ms is given twice"),
        ("config set topic/t retention.ms=x", 1, "retention.ms"),
        ("config set topic/t retention.mz=1", 1, "did you mean 'retention.ms'?"),
        ("config set topic/t retention.ms+=1", 1, "retention.ms"),
        ("config set topic/none retention.ms=1", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("config set topic/t --file /none", 2, "Cannot read /none: No such file"),
        ("config set broker/1 node.id=3", 1, "node.id"),
        ("config set broker/1 log.cleaner.backoff.ms=x --dry-run", 1, "log.cleaner.backoff.ms"),
        ("config set broker/9 log.cleaner.backoff.ms=1", 1, "There is no live broker 9"),
        ("config set group/g retention.ms=1", 1, "retention.ms"),
        ("config unset topic/t", 2, "name settings, or give --all"),
        ("config unset topic/t --all segment.ms", 2, "name settings, or give --all"),
        ("config unset topic/t segment.ms=1", 2, "is no name of a setting"),
        ("config unset topic/t segmentms", 1, "has no setting segmentms (did you mean segment.ms?)"),
        ("config unset topic/t --all", 2, "Add --yes, since there is no terminal"),
        ("config unset loggers/1 --all", 2, "name loggers"),
        ("config get topic/t -b 127.0.0.1:1 -X default.api.timeout.ms=200", 1, "127.0.0.1:1"),
        ("config get topic/t ''", 2, "'' is empty"),
        ("config get ''", 2, "''"),
        ("config get /t", 2, "'/t' is no resource: write topic/NAME"),
        ("config get Topic/t", 2, "write topic/t."),
        ("config get topic/a/b", 1, "Settings of topic a/b: INVALID_TOPIC_EXCEPTION"),
        ("config get topic/é", 1, "Settings of topic é: INVALID_TOPIC_EXCEPTION"),
        (f"config get topic/{'x' * 300}", 1, "INVALID_TOPIC_EXCEPTION"),
        (f"config get group/{'g' * 40_000}", 2, "40000 bytes"),
        ("config get broker/-1", 2, "'-1' is no broker id"),
        ("config get broker/99999999999", 1, "There is no live broker 99999999999"),
        ("config get loggers/1 nope", 1, "loggers/1 has no setting nope"),
        ("config get topic/t retention.ms=1", 1, "did you mean retention.ms?"),
        ("config get --diff topic/t topic/u --values", 2, "not allowed with argument"),
        ("config get topic/t --profile none", 2, "There is no profile none"),
        ("config set loggers/1 nope=DEBUG", 1, "Loggers of broker 1: INVALID_CONFIG: Logger nope does not exist!"),
        ("config set loggers/1 root=DEBG", 1, "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        ("config set loggers/1 root=", 1, "is not a supported log level"),
        ("config set loggers/1 root+=DEBUG", 1, "APPEND operation is not allowed"),
        ("config set 'loggers/*' root=DEBUG", 2, "'*' is no broker id: write loggers/1"),
        ("config unset loggers/1 root", 1, "Removing the log level of the root logger is not allowed"),
        ("config unset loggers/1 nope", 1, "Logger nope does not exist!"),
        ("config set client-metrics/m nope=1", 1, "Unknown client metrics configuration: nope; use interval.ms"),
        ("config set client-metrics/m interval.ms=5", 1, "between 100 and 3600000"),
        ("config set client-metrics/m match=client_id=[", 1, "Illegal client matching pattern: client_id=["),
        ("config set topic/t retention.ms=-2", 1, "Value must be at least -1"),
        ("config set topic/t retention.ms=99999999999999999999", 1, "whole number of 64 bits"),
        ("config set topic/t cleanup.policy=del", 1, "String must be one of: compact, delete"),
        ("config set topic/t compression.type=brotli", 1, "Invalid value brotli for configuration compression.type"),
        ("config set topic/t min.cleanable.dirty.ratio=2", 1, "Value must be no more than 1"),
        ("config set topic/t unclean.leader.election.enable=yes", 1, "either true or false"),
        ("config set topic/t leader.replication.throttled.replicas=x", 1, "[partitionId]:[brokerId]"),
        ("config set topic/t retention.ms=7 nope=1", 1, "Unknown topic config name: nope"),
        ("config set topic/t --file /", 2, "Cannot read /: Is a directory"),
        ("config set topic/t --file /dev/null", 2, "/dev/null has no settings: add NAME=VALUE or name another file."),
        ("config set topic/. retention.ms=1", 1, "'.' is not allowed"),
        ("config set broker/1 log.dirs=/x", 1, "Cannot update these configs dynamically: [log.dirs]"),
        ("config set broker/1 num.io.threads=0", 1, "Value must be at least 1"),
        ("config set broker/1 ssl.keystore.location=/none", 1, "per-listener using the listener prefix"),
        ("config set 'broker/**' x=1", 2, "'**' is no broker id"),
        ("config set broker/1.5 x=1", 2, "'1.5' is no broker id"),
        ("config set group/g consumer.session.timeout.ms=1", 1, "Settings of group g: INVALID_CONFIG"),
        ("config set client/user/alice producer_byte_rate=1", 2, "see `ottla quota list --user alice`"),
        ("config set topic/t retention.ms=5 --yes", 2, "unknown arguments: --yes"),
        ("config unset topic/t ''", 2, "'' is empty"),
        ("config unset topic/t '*'", 1, "topic/t has no setting *"),
        ("config unset broker/1 nope", 1, "broker/1 has no setting nope"),
        ("config list nope", 2, "choose from topic, broker, group, loggers, client-metrics"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(ottla_: Run, line: str, code: int, sentence: str) -> None:
    found, out, err = ottla_(line)
    assert (found, out) == (code, "")
    assert sentence in err
    assert err.startswith("ottla: ")
    assert err.count("\n") == 1
    assert [row["setting"] for row in rows(ottla_("config get topic/t --json")[1])] == ["min.insync.replicas", "retention.ms"]


@pytest.mark.parametrize(
    ("release", "line", "code", "sentence"),
    [
        ("0.10.2", "config get topic/t", 1, "settings are described by Kafka 0.11 or newer"),
        ("0.11.0", "config get topic/t --explain retention.ms", 0, "The broker does not say what this setting means."),
        ("0.11.0", "config get topic/t --synonyms retention.ms", 0, "5000   unknown  -"),
        ("0.11.0", "config set topic/t retention.ms=1", 1, "single settings are changed by Kafka 2.3 or newer"),
        ("2.2", "config get --diff topic/t topic/u retention.ms", 0, "retention.ms  5000     -1"),
        ("0.11.0", "logdirs", 1, "log directories need Kafka 1.0 or newer"),
        ("1.0", "logdirs", 0, "online"),
        ("3.6", "config list", 1, "resources with settings are listed by Kafka 4.1 or newer"),
        ("3.9", "config list", 1, "Only Kafka 4.1 or newer lists resources other than client metrics"),
        ("3.9", "config list client-metrics", 0, "There are no resources"),
        ("1.0", "token list", 1, "delegation tokens need Kafka 1.1 or newer"),
        ("2.2", "cluster quorum", 1, "only clusters of KRaft"),
        ("2.2", "cluster unregister 7 --yes", 1, "only clusters of KRaft"),
    ],
)
def test_an_older_broker_is_no_failure_without_a_sentence(ottla_: Run, release: str, line: str, code: int, sentence: str) -> None:
    with ottla.Broker(release=release, log_retention_ms=-1) as old:
        with ottla.Admin(old.address) as admin:
            admin.create_topics([ottla.NewTopic("t", 1, 1, {"retention.ms": 5000}), ottla.NewTopic("u", 1, 1)])
        found, out, err = ottla_(f"{line} -b {old.address}")
    assert (found, err.count("\n")) == (code, code)
    assert sentence in out + err
