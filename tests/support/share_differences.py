"""Answers of Ottla to requests of share groups that are not those of Apache Kafka 4.3, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Change = Callable[[Any], Any]


def _refuse_states(answer: Any) -> Any:
    """Return an answer of the share coordinator in which each state is refused with INVALID_REQUEST."""
    told, after = answer
    results = [each | {"partitions": [{"error_code": "INVALID_REQUEST"} for _ in each["partitions"]]} for each in told["results"]]
    return [told | {"results": results}, after]


_REVERSED = "Kafka stores a batch that ends before it begins, and its coordinator never ends combining it with one that it overlaps"

UNKNOWN_IDS = "an unknown topic id is the error of its partition; Apache Kafka 4.3 fails the whole request by an exception"
TWICE = "a partition that is named twice is fetched once; Apache Kafka 4.3 fails the whole request by an exception"
AT_ONCE = "the share partitions of a new session are loaded together, so that the first response has those of both topics"
LOADED = "a share partition is loaded within the fetch, so that its first response has it, although it has no records"
NO_EMPTY_RANGE = "batches of less than one record are batches of the log; Apache Kafka 4.3 adds a range that ends before it begins"


def _with(**fields: Any) -> Change:
    """Return a change to an answer with the lock's duration and these fields."""
    return lambda seen: {"acquisition_lock_timeout_ms": 60_000, **fields}


def _of_first(change: Change) -> Change:
    """Return a change of the first of several answers."""
    return lambda seen: [change(seen[0]), *seen[1:]]


def _without_empty_range(seen: Any) -> Any:
    ranges = seen["responses"][0]["partitions"][0]["acquired_records"]
    return _with(responses=[{"topic_id": "batched", "partitions": [{"records": True, "acquired_records": ranges[1:]}]}])(seen)


_ALL_KNOWN = {"records": True, "acquired_records": [{"last_offset": 9, "delivery_count": 1}]}
_UNKNOWN = {"topic_id": "?", "partitions": [{"error_code": "UNKNOWN_TOPIC_ID"}]}
_NO_PARTITION = {"partition_index": 9, "error_code": "UNKNOWN_TOPIC_OR_PARTITION"}
_NEXT = {
    "topic_id": "known",
    "partitions": [{"records": True, "acquired_records": [{"first_offset": 5, "last_offset": 5, "delivery_count": 1}]}],
}
_UNKNOWN_ACKNOWLEDGED = {"error_code": "UNKNOWN_TOPIC_ID", "acknowledge_error_code": "UNKNOWN_TOPIC_ID"}

_FETCHES: Mapping[str, tuple[str, Change]] = {
    "session none: adding the other partition": (LOADED, _of_first(_with(responses=[{"topic_id": "known"}]))),
    "places: unknown topic": (UNKNOWN_IDS, _with(responses=[_UNKNOWN])),
    "places: topic zero": (UNKNOWN_IDS, _with(responses=[{"partitions": [{"error_code": "UNKNOWN_TOPIC_ID"}]}])),
    "places: internal topic": (UNKNOWN_IDS, _with(responses=[_UNKNOWN])),
    "places: known and unknown": (
        UNKNOWN_IDS,
        _with(responses=[{"topic_id": "known", "partitions": [_ALL_KNOWN, _NO_PARTITION]}, _UNKNOWN]),
    ),
    "places: a partition twice": (TWICE, _with(responses=[{"topic_id": "known", "partitions": [_ALL_KNOWN]}])),
    "places: two topics": (
        AT_ONCE,
        _with(responses=[{"topic_id": topic, "partitions": [_ALL_KNOWN]} for topic in ("known", "batched")]),
    ),
    "limits: batches of 0": (NO_EMPTY_RANGE, _without_empty_range),
    "limits: batches of -1": (NO_EMPTY_RANGE, _without_empty_range),
    "acquired: ShareFetch, unknown topic": (
        UNKNOWN_IDS,
        _of_first(_with(responses=[_NEXT, {"topic_id": "?", "partitions": [_UNKNOWN_ACKNOWLEDGED]}])),
    ),
    "acquired: ShareFetch, topic zero": (
        UNKNOWN_IDS,
        _of_first(_with(responses=[_NEXT, {"partitions": [_UNKNOWN_ACKNOWLEDGED]}])),
    ),
}

DIFFERENCES: Mapping[str, tuple[str, Change]] = {
    **_FETCHES,
    **{f"{state}: Write 1, a reversed batch": (_REVERSED, _refuse_states) for state in ("initialized", "written")},
}
"""Case -> the reason, and how Ottla's answer is made from Kafka's."""


def expected(seen: Mapping[str, Any], name: str) -> Any:
    """Return the answer that Ottla is to give, from the answers that Apache Kafka was seen to give."""
    return DIFFERENCES[name][1](seen[name]) if name in DIFFERENCES else seen[name]
