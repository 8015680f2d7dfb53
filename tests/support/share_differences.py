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
UNKNOWN_MODES = (
    "an unknown acquire mode is an invalid request; Apache Kafka 4.3 fails by an exception after it has begun the session"
)
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
_NEXT: dict[str, Any] = {
    "topic_id": "known",
    "partitions": [{"records": True, "acquired_records": [{"first_offset": 5, "last_offset": 5, "delivery_count": 1}]}],
}
_UNKNOWN_ACKNOWLEDGED = {"error_code": "UNKNOWN_TOPIC_ID", "acknowledge_error_code": "UNKNOWN_TOPIC_ID"}

_FETCHES: Mapping[str, tuple[str, Change]] = {
    "places: unknown topic": (UNKNOWN_IDS, _with(responses=[_UNKNOWN])),
    "places: topic zero": (UNKNOWN_IDS, _with(responses=[{"partitions": [{"error_code": "UNKNOWN_TOPIC_ID"}]}])),
    "places: internal topic": (UNKNOWN_IDS, _with(responses=[_UNKNOWN])),
    "places: known and unknown": (
        UNKNOWN_IDS,
        _with(responses=[{"topic_id": "known", "partitions": [_ALL_KNOWN, _NO_PARTITION]}, _UNKNOWN]),
    ),
    "places: a partition twice": (TWICE, _with(responses=[{"topic_id": "known", "partitions": [_ALL_KNOWN]}])),
    "limits: acquire mode 2": (UNKNOWN_MODES, lambda seen: {"error_code": "INVALID_REQUEST"}),
    "limits: acquire mode -1": (UNKNOWN_MODES, lambda seen: {"error_code": "INVALID_REQUEST"}),
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

FAILS = "Kafka's handler fails."
UNCHANGED = "A request that is refused changes nothing: Kafka makes a group of it."
_OUT_OF_RANGE = ("giant", "beyond what is acquired")
_GROUP_STATES = ("unknown", "one member", "two members", "empty", "expired", "classic", "consumer")
_NO_OFFSET = {"start_offset": -1, "lag": -1}


def _acknowledged(error: str) -> Change:
    """Return a change of an acknowledgement that is refused for its one partition."""
    return _of_first(_with(responses=[{"topic_id": "known", "partitions": [{"error_code": error}]}]))


def _fetched(error: str) -> Change:
    """Return a change of a fetch whose acknowledgement is refused, and which acquires one record more."""
    [part] = _NEXT["partitions"]
    told = _with(responses=[{"topic_id": "known", "partitions": [{"acknowledge_error_code": error, **part}]}])
    return lambda seen: [told(seen), [[6, 9, 1]], [[5, 5, 2]]]


def _described(first: dict[str, int]) -> Change:
    """Return a change of a description of offsets, in which unknown partitions have none."""
    parts = [{"partition_index": -1, **_NO_OFFSET}, first, {"partition_index": 7, **_NO_OFFSET}]
    topic = {"topic_name": "known", "topic_id": "known", "partitions": parts}
    return lambda seen: [{"groups": [{"group_id": "group", "topics": [topic]}]}, *seen[1:]]


_GROUPS: Mapping[str, tuple[str, Change]] = {
    "unknown: AlterShareGroupOffsets of an unknown partition": (
        UNCHANGED,
        lambda seen: [seen[0], {"error_code": "GROUP_ID_NOT_FOUND", "group_id": "group"}],
    ),
    **{
        f"{state}: DescribeShareGroupOffsets of unknown partitions": (
            FAILS,
            _described(dict(_NO_OFFSET) if state in ("unknown", "classic", "consumer") else {"lag": 10}),
        )
        for state in _GROUP_STATES
    },
}
_ACKNOWLEDGEMENTS: Mapping[str, tuple[str, Change]] = {
    f"{state}: {way}, {asked}": (FAILS, change("INVALID_RECORD_STATE"))
    for state in ("accepted", "rejected")
    for asked in _OUT_OF_RANGE
    for way, change in (("ShareAcknowledge", _acknowledged), ("ShareFetch", _fetched))
}

DIFFERENCES: Mapping[str, tuple[str, Change]] = {
    **_GROUPS,
    **_FETCHES,
    **_ACKNOWLEDGEMENTS,
    **{f"{state}: Write 1, a reversed batch": (_REVERSED, _refuse_states) for state in ("initialized", "written")},
}
"""Case -> the reason, and how Ottla's answer is made from Kafka's."""
