"""Settings of brokers, topics and groups over the wire: described, changed and refused as Apache Kafka 4.3 does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.errors import NONE
from tests.support.bad_groups import Questioner
from tests.support.peers import Peer, start_peer

CREATE, DESCRIBE, ALTER = 19, 32, 44
TOPIC, BROKER, GROUP = 2, 4, 32
DEFAULT = 5
NEWEST = {CREATE: 7, DESCRIBE: 4, ALTER: 1}

OF_THE_AUTHORIZER = {"allow.everyone.if.no.acl.found", "super.users"}
"""Which Kafka's authorizer reads by itself: its brokers describe them where they are given."""
OURS = OF_THE_AUTHORIZER | {
    "ottla.acks.all.sync",
    "ottla.client.metrics.bytes",
    "ottla.journal.bytes",
    "ottla.journal.max.partition.bytes",
    "ottla.kafka07.zookeeper.connect",
    "ottla.listener.releases",
    "ottla.max.group.bytes",
    "ottla.max.open.files",
    "ottla.max.producer.ids",
    "ottla.max.producer.ids.per.broker",
    "ottla.max.share.state.bytes",
    "ottla.max.transactional.id.bytes",
    "ottla.metrics.enable",
    "ottla.opentelemetry.enable",
    "ottla.reserve.bytes",
    "ottla.slow.request.ms",
    "ottla.sasl.oauthbearer.required.scope",
}

DEFAULTS_OF_OUR_OWN = {
    "max.connections": "the open files that the system allows decide",
    "queued.max.request.bytes": "memory is bounded unless one asks for the contrary",
    "log.cleaner.dedupe.buffer.size": "its memory is a Python process's",
    "socket.receive.buffer.bytes": "the system sizes it",
    "replica.socket.receive.buffer.bytes": "the system sizes it",
    "socket.send.buffer.bytes": "the system sizes it",
    "listeners": "nobody else is to reach a log without being asked for",
}
FIXED_HERE = {"listeners", "listener.security.protocol.map"}
"""Kafka opens and closes listeners while it runs; Ottla does not, and says so."""


def described(address: str, kind: int, name: str) -> dict[str, Any]:
    """(type, default value, read only, sensitive) of each setting."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    with closing(Questioner(address)) as questioner:
        answer = questioner.ask(DESCRIBE, NEWEST[DESCRIBE], DescribeConfigsRequest(resources=[resource], include_synonyms=True))
    (result,) = answer.results
    assert result.error_code == NONE, result.error_message
    return {entry.name: entry for entry in result.configs}


def facts(entry: Any) -> tuple[Any, ...]:
    defaults = [(synonym.name, synonym.value) for synonym in entry.synonyms if synonym.source == DEFAULT]
    return entry.config_type, defaults, entry.read_only, entry.is_sensitive


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with start_peer("apache-kafka", tmp_path_factory.mktemp("kafka")) as peer:
        yield peer


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with start_peer("ottla", tmp_path_factory.mktemp("ottla")) as peer:
        yield peer


@pytest.mark.java
@pytest.mark.slow
def test_a_broker_describes_what_kafka_describes(kafka: Peer, ottla: Peer) -> None:
    theirs, ours = described(kafka.address, BROKER, "1"), described(ottla.address, BROKER, "1")
    assert ours.keys() - OURS == theirs.keys()
    wrong = []
    for name, entry in theirs.items():
        (kind, defaults, read_only, sensitive), found = facts(entry), facts(ours[name])
        expected = (kind, found[1] if name in DEFAULTS_OF_OUR_OWN else defaults, read_only or name in FIXED_HERE, sensitive)
        if found != expected:
            wrong.append((name, found, expected))
    assert wrong == []


@pytest.mark.java
@pytest.mark.slow
def test_what_nobody_set_comes_from_where_it_comes_from_in_kafka(kafka: Peer, ottla: Peer) -> None:
    theirs, ours = described(kafka.address, BROKER, "1"), described(ottla.address, BROKER, "1")
    static = {name for name, entry in theirs.items() if entry.config_source == 4}
    sources = {name: entry.config_source for name, entry in theirs.items() if name not in static}
    assert {name: ours[name].config_source for name in sources} == sources
    (default,) = described(ottla.address, BROKER, "").items()
    assert default in described(kafka.address, BROKER, "").items()


CASES = [
    [cell.strip() for cell in line.split("|")]
    for line in Path(__file__).with_name("config_changes.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
KINDS = {"topic": TOPIC, "broker": BROKER, "group": GROUP}
OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


@pytest.fixture(scope="module")
def changed(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., tuple[int, str]]]:
    """Changes a setting of a broker that has a topic, and returns the code and the text that it answered."""
    with start_peer(peer_name, tmp_path_factory.mktemp("changed")) as peer, closing(Questioner(peer.address)) as questioner:
        topic = CreateTopicsRequest.CreatableTopic(name="known", num_partitions=1, replication_factor=1)
        questioner.ask(CREATE, NEWEST[CREATE], CreateTopicsRequest(topics=[topic], timeout_ms=10_000))

        def change(kind: int, name: str, key: str, operation: int, value: str | None) -> tuple[int, str]:
            config = IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
            answer = questioner.ask(ALTER, NEWEST[ALTER], IncrementalAlterConfigsRequest(resources=[resource]))
            (result,) = answer.responses
            return result.error_code, result.error_message or ""

        yield change


@pytest.mark.rows(20, seconds=0.1)
@pytest.mark.parametrize("cells", CASES, ids=lambda cells: "-".join(cells[:5]))
def test_a_change_is_taken_or_refused_with_kafkas_code_and_words(changed: Callable[..., tuple[int, str]], cells: list[str]) -> None:
    kind, name, operation, key, value, code, words = cells
    what = OPERATIONS[operation] if operation in OPERATIONS else int(operation)
    error_code, text = changed(KINDS.get(kind) or int(kind), name, key, what, None if value == "-" else value)
    assert error_code == int(code), text
    assert text.startswith(words), text
