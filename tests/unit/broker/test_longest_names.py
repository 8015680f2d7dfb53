"""Names of the greatest length that a string can have: each request is answered, shortly, and nothing else comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.serving.refusals import LONGEST_MESSAGE
from ottla.wire.apis import API
from ottla.wire.errors import INVALID_CONFIG, NONE, UNKNOWN_SERVER_ERROR
from ottla.wire.schema import Struct
from tests.support.machine import Machine
from tests.support.messages import request

LONG = "x" * 32_767
WIDE = "é" * 16_383
TOPIC, BROKER, GROUP, LOGGER = 2, 4, 32, 8

REQUESTS: dict[str, tuple[int, dict[str, Any]]] = {
    "describe groups": (15, {"groups": [LONG]}),
    "describe consumer groups": (69, {"group_ids": [LONG]}),
    "create topics": (19, {"topics": [{"name": LONG, "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 1000}),
    "delete topics": (20, {"topic_names": [LONG], "topics": [{"name": LONG}], "timeout_ms": 1000}),
    "create partitions": (37, {"topics": [{"name": LONG, "count": 2}], "timeout_ms": 1000}),
    "describe configs of a topic": (32, {"resources": [{"resource_type": TOPIC, "resource_name": LONG}]}),
    "describe configs of a broker": (32, {"resources": [{"resource_type": BROKER, "resource_name": LONG}]}),
    "describe configs of a group": (32, {"resources": [{"resource_type": GROUP, "resource_name": LONG}]}),
    "alter configs": (
        33,
        {"resources": [{"resource_type": TOPIC, "resource_name": LONG, "configs": [{"name": LONG, "value": LONG}]}]},
    ),
    "alter configs of a broker": (
        44,
        {"resources": [{"resource_type": BROKER, "resource_name": "1", "configs": [{"name": LONG, "value": LONG}]}]},
    ),
    "alter some configs": (
        44,
        {
            "resources": [
                {"resource_type": kind, "resource_name": name, "configs": [{"name": LONG, "config_operation": 2, "value": LONG}]}
                for kind in (TOPIC, GROUP, LOGGER)
                for name in (LONG, WIDE)
            ]
        },
    ),
    "describe producers": (61, {"topics": [{"name": LONG, "partition_indexes": [0]}]}),
    "elect leaders": (43, {"topic_partitions": [{"topic": LONG, "partitions": [0]}], "timeout_ms": 1000}),
    "delete groups": (42, {"groups_names": [LONG]}),
    "alter quotas": (
        49,
        {"entries": [{"entity": [{"entity_type": LONG, "entity_name": LONG}], "ops": [{"key": LONG, "value": 1.0}]}]},
    ),
    "describe quotas": (48, {"components": [{"entity_type": LONG, "match_type": 0, "match": LONG}]}),
    "describe SCRAM users": (50, {"users": [{"name": LONG}]}),
    "remove SCRAM users": (51, {"deletions": [{"name": LONG, "mechanism": 1}]}),
    "update features": (
        57,
        {"feature_updates": [{"feature": LONG, "max_version_level": 1, "upgrade_type": 1}], "timeout_ms": 1000},
    ),
    "live in a consumer group": (
        68,
        {
            "group_id": LONG,
            "member_id": LONG,
            "member_epoch": 0,
            "rebalance_timeout_ms": 1000,
            "instance_id": WIDE,
            "server_assignor": LONG,
            "subscribed_topic_regex": WIDE,
            "subscribed_topic_names": [],
            "topic_partitions": [],
        },
    ),
    "find a coordinator": (10, {"key": LONG, "key_type": 1, "coordinator_keys": [LONG, WIDE]}),
    "fetch offsets": (9, {"group_id": LONG, "groups": [{"group_id": LONG, "topics": None}]}),
    "describe transactions": (65, {"transactional_ids": [LONG]}),
    "list transactions": (66, {"transactional_id_pattern": "(" * 32_767}),
    "describe topic partitions": (75, {"topics": [{"name": LONG}]}),
    "create ACLs": (
        30,
        {"creations": [{"resource_type": 2, "resource_name": LONG, "principal": WIDE, "host": LONG, "operation": 3}]},
    ),
}


def messages_of(answer: Struct) -> Iterator[str]:
    """Yield every error message of a response."""
    for field in answer.WIRE.fields:
        value = getattr(answer, field.name)
        if field.kind == "struct":
            for below in value if isinstance(value, list) else () if value is None else (value,):
                yield from messages_of(below)
        elif field.name.endswith("error_message") and value:
            yield value


@pytest.mark.parametrize("name", REQUESTS)
def test_the_longest_names_cost_nobody_anything(name: str) -> None:
    key, values = REQUESTS[name]
    machine = Machine()
    machine.ask(10, 0, request(10, 0, key="g"))  # from now on there are coordinators, which answer otherwise
    versions = API[key].versions
    for version in sorted({versions.start, versions.stop // 2, versions.stop - 1}):
        known = {field.name for field in API[key].request.WIRE.fields if version in field.present}
        body = request(key, version, **{field: value for field, value in values.items() if field in known})
        answer = machine.ask(key, version, body)
        assert isinstance(answer, Struct), f"{name} version {version} closed the connection: {answer}"
        assert all(len(message) <= LONGEST_MESSAGE + 1 or len(message.encode()) <= 32_767 for message in messages_of(answer))
        assert str(UNKNOWN_SERVER_ERROR) not in {str(getattr(answer, "error_code", NONE))}
        assert machine.broker.changes.mistakes == 0


def test_a_list_grows_no_longer_than_clients_can_read() -> None:
    machine = Machine()
    machine.ask(19, 7, request(19, 7, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}]))
    codes = []
    for begin in range(0, 10_000, 1000):
        value = ",".join(f"{index}:1" for index in range(begin, begin + 1000))
        config = {"name": "leader.replication.throttled.replicas", "config_operation": 2, "value": value}
        resource = {"resource_type": TOPIC, "resource_name": "t", "configs": [config]}
        answer = machine.ask(44, 1, request(44, 1, resources=[resource], validate_only=False))
        codes.append(answer.responses[0].error_code)
        described = machine.ask(32, 4, request(32, 4, resources=[{"resource_type": TOPIC, "resource_name": "t"}]))
        assert described.results[0].error_code == NONE
    assert set(codes) == {NONE, INVALID_CONFIG}
    assert codes == sorted(codes)
