"""Every version that ApiVersions announces is answered: an ordinary request and one about what does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from ottla.broker.serving.request import Close
from ottla.records.batches.builder import build
from ottla.wire.apis import API
from tests.support.machine import Machine
from tests.support.messages import request
from tests.support.routes import all_routes

API_VERSIONS = 18
ROUTES = all_routes()
SERVED = [(key, version) for key, route in sorted(ROUTES.items()) for version in route.versions]


def named(case: tuple[int, int]) -> str:
    return f"{API[case[0]].name}-v{case[1]}"


@pytest.fixture(scope="module")
def machine() -> Machine:
    machine = Machine(num_partitions=2, offsets_topic_num_partitions=2)
    machine.ask(3, 1, request(3, 1, topics=[{"name": "there"}]))
    return machine


def ordinary(key: int, topic: str, topic_id: bytes) -> dict[str, Any]:
    """An ordinary request of each API about this topic, in the fields of all versions."""
    batch = build(None, [b"value"], 1_700_000_000_000)
    offsets = [{"partition_index": 0, "committed_offset": 1}, {"partition_index": 9, "committed_offset": 1}]
    asked = [{"name": topic, "topic_id": topic_id, "partition_indexes": [0, 9]}]
    produced = [{"index": 0, "records": batch}, {"index": 1, "records": b"torn"}, {"index": 9, "records": batch}]
    fetched = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in (0, 9)]
    times = [{"partition_index": index, "timestamp": timestamp} for index, timestamp in ((0, -1), (1, -2), (9, -1))]
    names = {"name": topic, "topic_id": topic_id}
    requests: dict[int, dict[str, Any]] = {
        0: {"acks": -1, "timeout_ms": 10, "topic_data": [{**names, "partition_data": produced}]},
        1: {"max_wait_ms": 10, "min_bytes": 1, "topics": [{"topic": topic, "topic_id": topic_id, "partitions": fetched}]},
        2: {
            "topics": [
                {"name": topic, "partitions": times},
                {"name": topic, "partitions": [{"partition_index": 0, "timestamp": 0}]},
            ]
        },
        3: {"topics": [{"name": topic}, {"name": "bad/name"}]},
        8: {"group_id": "g", "topics": [{**names, "partitions": offsets}]},
        9: {
            "group_id": "g",
            "topics": [{"name": topic, "partition_indexes": [0, 9]}],
            "groups": [{"group_id": "g", "topics": asked}],
        },
        10: {"key": "g", "coordinator_keys": ["g"]},
        11: {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        19: {"topics": [{"name": f"{topic}-2", "num_partitions": 1, "replication_factor": 1}, {"name": "bad/name"}]},
        21: {"topics": [{"name": topic, "partitions": [{"partition_index": index, "offset": 0} for index in (0, 9)]}]},
        22: {"transaction_timeout_ms": 1000},
        23: {"topics": [{"topic": topic, "partitions": [{"partition": index, "leader_epoch": 0} for index in (0, 9)]}]},
        24: {
            "v3_and_below_transactional_id": "t",
            "v3_and_below_topics": [{"name": topic, "partitions": [0, 9]}],
            "transactions": [{"transactional_id": "t", "topics": [{"name": topic, "partitions": [0]}]}],
        },
        25: {"transactional_id": "t", "group_id": "g"},
        26: {"transactional_id": "t"},
        27: {"markers": [{"producer_id": 1, "topics": [{"name": topic, "partition_indexes": [0, 9]}]}]},
        28: {"transactional_id": "t", "group_id": "g", "topics": [{**names, "partitions": offsets}]},
        32: {
            "resources": [{"resource_type": 2, "resource_name": topic}, {"resource_type": 4, "resource_name": "1"}],
            "include_synonyms": True,
            "include_documentation": True,
        },
        35: {"topics": [{"topic": topic, "partitions": [0, 9]}]},
        37: {"topics": [{"name": topic, "count": 3}], "timeout_ms": 10, "validate_only": True},
        61: {"topics": [{"name": topic, "partition_indexes": [0, 9]}]},
        65: {"transactional_ids": ["t"]},
    }
    return requests.get(key, {})


def error_codes(message: Any) -> Iterator[int]:
    """Every error code anywhere in a message."""
    if isinstance(message, list):
        for each in message:
            yield from error_codes(each)
    elif is_dataclass(message):
        for field in fields(message):
            value = getattr(message, field.name)
            if field.name == "error_code":
                yield value
            else:
                yield from error_codes(value)


@pytest.mark.parametrize("case", SERVED, ids=named)
def test_an_ordinary_request_is_answered_in_every_version(machine: Machine, case: tuple[int, int]) -> None:
    key, version = case
    topic = machine.broker.image.topics["there"]
    answer = machine.ask(key, version, request(key, version, **ordinary(key, "there", topic.topic_id)))
    assert isinstance(answer, API[key].response)
    assert -1 not in set(error_codes(answer))


@pytest.mark.parametrize("case", SERVED, ids=named)
def test_a_request_about_what_is_not_there_is_answered_in_every_version(machine: Machine, case: tuple[int, int]) -> None:
    key, version = case
    if key == 3:
        values: dict[str, Any] = {"topics": [{"name": "nowhere"}], "allow_auto_topic_creation": False}
    else:
        values = ordinary(key, "nowhere", b"n" * 16)
    answer = machine.ask(key, version, request(key, version, **values))
    assert isinstance(answer, API[key].response)
    assert -1 not in set(error_codes(answer))


@pytest.mark.parametrize("key", sorted(API))
def test_a_version_beyond_those_served_closes_the_connection_and_says_which_are(machine: Machine, key: int) -> None:
    api = API[key]
    served = ROUTES[key].versions if key in ROUTES else range(0)
    for version in api.versions:
        if version in served or key == API_VERSIONS:
            continue
        answer = machine.ask(key, version, api.request())
        assert isinstance(answer, Close)
        assert ("is served in versions" if served else "is not served") in answer.reason
