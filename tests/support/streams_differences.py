"""Answers of Ottla to requests of streams groups that are not those of Apache Kafka 4.3, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.share_differences import Change

FAILS = "A topology that is impossible is the client's fault; Kafka's handler fails."
TWICE = "A tag that is there twice is the client's fault; Kafka's handler fails."
AGAIN = "A member that owns less than it was told is told again, since the answer may have been lost; Kafka tells it nothing."
DECIDED = "A description has the number of partitions that was decided for an internal topic, also where the topic existed before."


def _invalid(answer: Any) -> Any:
    """Return an answer that refuses the topology."""
    told, *rest = answer
    refused = {"error_code": "STREAMS_INVALID_TOPOLOGY"}
    return [[refused, *told[1:]] if isinstance(told, list) else refused, *rest]


def _with_count(topics: str, place: int) -> Change:
    """Return a change of a description: the one internal topic of a subtopology has two partitions."""

    def changed(answer: Any) -> Any:
        told, described = answer
        subtopologies = [dict(each) for each in described["topology"]["subtopologies"]]
        subtopologies[place][topics] = [{**subtopologies[place][topics][0], "partitions": 2}]
        return [told, described | {"topology": {"subtopologies": subtopologies}}]

    return changed


def _told_again(answer: Any) -> Any:
    """Return an answer in which the member is told its tasks once more."""
    told, described = answer
    tasks = described["members"][0]["target_assignment"]["active_tasks"]
    if isinstance(told, list):
        first, second, topics = told
        return [[first, second | {"active_tasks": tasks}, topics], described]
    return [told | {"active_tasks": tasks}, described]


def _both(one: Change, other: Change) -> Change:
    """Return two changes, one after the other."""
    return lambda answer: other(one(answer))


_OWNS_LESS = (
    "one subtopology",
    "two subtopologies",
    "two of one topic",
    "two topics",
    "an empty name",
    "a long name",
    "a name of 32 000 bytes",
    "unsorted names",
    "a source twice",
    "sink without source",
    "copartitioned",
    "copartitioned patterns",
    "copartitioned with nothing",
    "source that is named as the group's",
)
_OWNS_LESS_LATER = ("heartbeat with one task", "heartbeat with no task", "standby tasks")

STREAMS_DIFFERENCES: Mapping[str, tuple[str, Change]] = {
    **{
        f"topologies: {asked}": (FAILS, _invalid)
        for asked in (
            "a subtopology twice",
            "changelog twice",
            "repartition with a negative count",
            "copartitioned out of range",
            "copartitioned at -1",
        )
    },
    "joining: topology epoch -1": (FAILS, _invalid),
    "joining: a tag twice": (TWICE, lambda answer: [{"error_code": "INVALID_REQUEST"}, *answer[1:]]),
    **{f"topologies: {asked}": (AGAIN, _told_again) for asked in _OWNS_LESS},
    **{f"one member: {asked} as m, epoch now": (AGAIN, _told_again) for asked in _OWNS_LESS_LATER},
    "topologies: changelog that exists": (DECIDED, _both(_with_count("state_changelog_topics", 0), _told_again)),
    "topologies: repartition that exists": (DECIDED, _both(_with_count("repartition_source_topics", 1), _told_again)),
}
"""Case -> the reason, and how Ottla's answer is made from Kafka's."""
