"""Answers of Ottla to requests of streams groups that are not those of Apache Kafka 4.3, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.share_differences import Change

FAILS = "A topology that is impossible is the client's fault; Kafka's handler fails."
TWICE = "A tag that is there twice is the client's fault; Kafka's handler fails."
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
    "topologies: changelog that exists": (DECIDED, _with_count("state_changelog_topics", 0)),
    "topologies: repartition that exists": (DECIDED, _with_count("repartition_source_topics", 1)),
}
"""Case -> the reason, and how Ottla's answer is made from Kafka's."""
