"""Requests about loggers, client metrics, the quorum and registrations: the error codes of Apache Kafka 4.3, on either peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from ottla.wire.errors import (
    BROKER_ID_NOT_REGISTERED,
    INVALID_CONFIG,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.bad_groups import Questioner
from tests.support.messages import request
from tests.support.peers import Peer
from tests.support.waiting import eventually

DESCRIBE, REPLACE, ALTER, QUORUM, UNREGISTER, LIST = 32, 33, 44, 55, 64, 74
LOGGERS, METRICS = 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
PARTITION_0 = [{"partition_index": 0}]


@pytest.fixture
def ask(broker: Peer) -> Iterator[Callable[..., Any]]:
    with closing(Questioner(broker.address)) as questioner:
        yield lambda key, version, **values: questioner.ask(key, version, request(key, version, **values))


def alter(ask: Callable[..., Any], kind: int, name: str, *changes: tuple[str, int, str | None]) -> int:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    code = ask(ALTER, 1, resources=[resource]).responses[0].error_code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("1", ("root", SET, "LOUD"), INVALID_CONFIG),
        ("1", ("root", SET, "warn"), INVALID_CONFIG),
        ("1", ("root", SET, "OFF"), INVALID_CONFIG),
        ("1", ("root", SET, "ALL"), INVALID_CONFIG),
        ("1", ("root", SET, " WARN"), INVALID_CONFIG),
        ("1", ("root", SET, ""), INVALID_CONFIG),
        ("1", ("root", SET, None), INVALID_REQUEST),
        ("1", ("root", DELETE, None), INVALID_REQUEST),
        ("1", ("root", APPEND, "INFO"), INVALID_REQUEST),
        ("1", ("root", SUBTRACT, "INFO"), INVALID_REQUEST),
        ("1", ("nobody", SET, "INFO"), INVALID_CONFIG),
        ("1", ("nobody", DELETE, None), INVALID_CONFIG),
        ("", ("root", SET, "INFO"), INVALID_REQUEST),
        ("2", ("root", SET, "INFO"), INVALID_REQUEST),
        ("x", ("root", SET, "INFO"), INVALID_REQUEST),
    ],
)
def test_levels_of_loggers_that_are_refused(
    ask: Callable[..., Any], name: str, change: tuple[str, int, str | None], code: int
) -> None:
    assert alter(ask, LOGGERS, name, change) == code


def test_loggers_are_described_without_types_and_synonyms_and_are_not_replaced(ask: Callable[..., Any]) -> None:
    wanted = {"resource_type": LOGGERS, "resource_name": "1", "configuration_keys": ["root", "nobody"]}
    (result,) = ask(DESCRIBE, 4, resources=[wanted], include_synonyms=True, include_documentation=True).results
    (root,) = result.configs
    assert (root.config_source, root.config_type, root.read_only, root.is_sensitive, root.synonyms) == (6, 0, False, False, [])
    assert root.documentation == ""
    assert alter(ask, LOGGERS, "1", ("root", SET, root.value)) == NONE
    assert alter(ask, LOGGERS, "1") == NONE
    replaced = {"resource_type": LOGGERS, "resource_name": "1", "configs": [{"name": "root", "value": "INFO"}]}
    assert ask(REPLACE, 2, resources=[replaced]).responses[0].error_code == INVALID_REQUEST
    for name in ("", "2", "x"):
        other = {"resource_type": LOGGERS, "resource_name": name, "configuration_keys": None}
        assert ask(DESCRIBE, 4, resources=[other]).results[0].error_code == INVALID_REQUEST


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("interval.ms", SET, "99"), INVALID_REQUEST),
        (("interval.ms", SET, "100"), NONE),
        (("interval.ms", SET, "3600000"), NONE),
        (("interval.ms", SET, "3600001"), INVALID_REQUEST),
        (("interval.ms", SET, "x"), INVALID_CONFIG),
        (("interval.ms", SET, ""), INVALID_CONFIG),
        (("interval.ms", APPEND, "100"), INVALID_CONFIG),
        (("match", SET, "x=y"), INVALID_CONFIG),
        (("match", SET, "client_id"), INVALID_CONFIG),
        (("match", SET, "client_id=["), INVALID_CONFIG),
        (("match", SET, "client_id=a=b"), INVALID_CONFIG),
        (("match", SET, "client_id=a,client_id=b"), NONE),
        (("match", SET, "client_id=a, client_source_port=9"), NONE),
        (("match", SET, ""), NONE),
        (("match", APPEND, "client_id=a"), INVALID_CONFIG),
        (("metrics", SET, "*"), NONE),
        (("metrics", SET, "a, b"), NONE),
        (("metrics", SET, ""), NONE),
        (("metrics", SET, None), INVALID_REQUEST),
        (("metrics", APPEND, "z."), INVALID_CONFIG),
        (("metrics", SUBTRACT, "z."), INVALID_CONFIG),
        (("metrics", DELETE, None), NONE),
        (("nothing", SET, "1"), INVALID_REQUEST),
        (("nothing", DELETE, None), NONE),
    ],
)
def test_settings_of_subscriptions(
    ask: Callable[..., Any], unique: Callable[[str], str], change: tuple[str, int, str | None], code: int
) -> None:
    name = unique("subscription")
    assert alter(ask, METRICS, name, change) == code
    is_made = code == NONE and change[1] == SET

    def is_listed() -> bool:
        return name in [one.resource_name for one in ask(LIST, 0).config_resources]

    eventually(lambda: is_listed() is is_made)
    assert alter(ask, METRICS, name, *((key, DELETE, None) for key in ("interval.ms", "match", "metrics"))) == NONE
    eventually(lambda: not is_listed())


def test_a_subscription_has_a_name(ask: Callable[..., Any]) -> None:
    assert alter(ask, METRICS, "", ("metrics", SET, "a")) == INVALID_REQUEST
    unnamed = {"resource_type": METRICS, "resource_name": "", "configuration_keys": None}
    assert ask(DESCRIBE, 4, resources=[unnamed]).results[0].error_code == INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("topics", "codes"),
    [
        ([{"topic_name": "__cluster_metadata", "partitions": PARTITION_0}], [NONE]),
        ([{"topic_name": "other", "partitions": PARTITION_0}], [UNKNOWN_TOPIC_OR_PARTITION]),
        ([{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 1}]}], [UNKNOWN_TOPIC_OR_PARTITION]),
        (
            [{"topic_name": "__cluster_metadata", "partitions": [*PARTITION_0, {"partition_index": 1}]}],
            [UNKNOWN_TOPIC_OR_PARTITION] * 2,
        ),
        ([{"topic_name": "__cluster_metadata", "partitions": []}], []),
        ([], []),
    ],
)
def test_the_quorum_is_that_of_one_partition(
    ask: Callable[..., Any], version: int, topics: list[dict[str, Any]], codes: list[int]
) -> None:
    answer = ask(QUORUM, version, topics=topics)
    found = [one for topic in answer.topics for one in topic.partitions]
    assert (answer.error_code, [one.error_code for one in found]) == (NONE, codes)
    if codes == [NONE]:
        assert (found[0].leader_id, [one.replica_id for one in found[0].current_voters], found[0].observers) == (1, [1], [])
        assert found[0].high_watermark == found[0].current_voters[0].log_end_offset > 0


@pytest.mark.parametrize("node_id", [2, -1, 99])
def test_a_broker_that_is_not_there_cannot_be_unregistered(ask: Callable[..., Any], node_id: int) -> None:
    assert ask(UNREGISTER, 0, broker_id=node_id).error_code == BROKER_ID_NOT_REGISTERED
