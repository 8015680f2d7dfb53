"""Every API can be told of an error that nobody foresaw, in the shape of its own response."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.serving.refusals import refusal
from ottla.wire import Unencodable
from ottla.wire.apis import API
from ottla.wire.errors import UNKNOWN_SERVER_ERROR
from ottla.wire.framing import decode_response, encode_response
from ottla.wire.schema import Struct
from tests.support.messages import request
from tests.unit.broker.test_every_version import SERVED, named, ordinary
from tests.unit.wire.values import sample

NO_PLACE = {(35, 0), (35, 1), (35, 2)}
"""DescribeLogDirs tells errors of directories alone before version 3."""

PLACES = {"topics": [{"topic_id": bytes(range(16)), "partitions": [{"partition": 0}]}]}
RESOURCES = {"resources": [{"resource_type": 2, "resource_name": "topic"}]}
MORE: dict[int, dict[str, Any]] = {
    15: {"groups": ["g"]},
    20: {"topic_names": ["topic"], "topics": [{"name": "topic"}]},
    30: {"creations": [{"resource_type": 2, "resource_name": "topic"}]},
    31: {"filters": [{"resource_type_filter": 2}]},
    33: RESOURCES,
    34: {"dirs": [{"path": "/d", "topics": [{"name": "topic", "partitions": [0]}]}]},
    42: {"groups_names": ["g"]},
    43: {"topic_partitions": [{"topic": "topic", "partitions": [0]}]},
    44: RESOURCES,
    49: {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}]}]},
    51: {"upsertions": [{"name": "u"}]},
    69: {"group_ids": ["g"]},
    75: {"topics": [{"name": "topic"}]},
    77: {"group_ids": ["g"]},
    **dict.fromkeys(range(83, 88), PLACES),
    89: {"group_ids": ["g"]},
    90: {"groups": [{"group_id": "g", "topics": [{"topic_name": "topic", "partitions": [0]}]}]},
}
"""What is asked of APIs whose ordinary request names nothing."""


def error_codes(found: Any, version: int) -> list[int]:
    if isinstance(found, list):
        return [code for one in found for code in error_codes(one, version)]
    if not isinstance(found, Struct):
        return []
    parts = {field.name: getattr(found, field.name) for field in found.WIRE.fields if version in field.present}
    own = [parts[name] for name in ("error_code", "partition_error_code") if name in parts]
    return own + [code for part in parts.values() for code in error_codes(part, version)]


def over_the_wire(key: int, version: int, answer: Any) -> Any:
    frame = b"".join(bytes(part) for part in encode_response(7, key, version, answer))
    return decode_response(key, version, frame[4:])[1]


@pytest.mark.parametrize("case", SERVED, ids=named)
def test_an_ordinary_request_is_refused_in_the_shape_of_its_response(case: tuple[int, int]) -> None:
    key, version = case
    body = request(key, version, **(MORE.get(key) or ordinary(key, "topic", bytes(range(16)))))
    answer = refusal(API[key], version, body, UNKNOWN_SERVER_ERROR, "why")
    if case in NO_PLACE:
        assert answer is None
        return
    told = error_codes(over_the_wire(key, version, answer), version)
    assert set(told) == {UNKNOWN_SERVER_ERROR}


def test_each_partition_of_a_request_is_refused_under_its_own_name() -> None:
    body = request(1, 4, topics=[{"topic": "a", "partitions": [{"partition": 3}, {"partition": 5}]}, {"topic": "b"}])
    answer: Any = refusal(API[1], 4, body, UNKNOWN_SERVER_ERROR, "why")
    told = [(topic.topic, [part.partition_index for part in topic.partitions]) for topic in answer.responses]
    assert told == [("a", [3, 5]), ("b", [])]
    assert {part.high_watermark for topic in answer.responses for part in topic.partitions} == {-1}


def test_a_request_that_names_nothing_has_no_answer_that_could_be_an_error() -> None:
    assert refusal(API[3], 1, request(3, 1, topics=None), UNKNOWN_SERVER_ERROR, "why") is None
    told: Any = refusal(API[3], 13, request(3, 13, topics=None), UNKNOWN_SERVER_ERROR, "why")
    assert told.error_code == UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("case", SERVED, ids=named)
def test_no_request_makes_a_refusal_fail(case: tuple[int, int]) -> None:
    key, version = case
    rng = random.Random(key * 100 + version)
    for _ in range(20):
        answer = refusal(API[key], version, sample(API[key].request, version, rng), UNKNOWN_SERVER_ERROR, "why")
        if answer is None:
            continue
        try:
            told = error_codes(over_the_wire(key, version, answer), version)
        except Unencodable:  # a name that is null, where the response has none that may be
            continue
        assert UNKNOWN_SERVER_ERROR in told
