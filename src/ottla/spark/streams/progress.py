"""The lag of a query behind its topics, from Spark's progress reports. Pure.

Spark accepts no metrics from a Python source, and describes it by the address of a Java object. Therefore this module derives the
metrics and the description that the JVM connector has from `query.lastProgress`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.spark.errors import OptionError
from ottla.spark.streams.stream_position import Position, from_json


class SourceProgress(NamedTuple):
    """One source of a query. `topics` are its topics, sorted.

    The figures are offsets: one for a partition, and one for all together.
    """

    topics: tuple[str, ...]
    min_offsets_behind_latest: int
    max_offsets_behind_latest: int
    avg_offsets_behind_latest: float
    sum_offsets_behind_latest: int


def _position(told: str | Mapping[str, Any] | None) -> Position:
    if not told or told == "null":
        return Position({})
    try:
        return from_json(json.loads(told) if isinstance(told, str) else told)
    except OptionError:
        return Position({})


def _source(told: Mapping[str, Any]) -> SourceProgress:
    end, latest = _position(told.get("endOffset")), _position(told.get("latestOffset"))
    anew = end.anew(latest.topic_ids)
    behind = [
        max(0, offset - (0 if where.topic in anew else end.offsets.get(where, 0))) for where, offset in latest.offsets.items()
    ]
    topics = tuple(sorted({where.topic for where in (*end.offsets, *latest.offsets)}))
    mean = sum(behind) / len(behind) if behind else 0.0
    return SourceProgress(topics, min(behind, default=0), max(behind, default=0), mean, sum(behind))


def offsets_behind_latest(progress: Any) -> list[SourceProgress]:
    """Return the lag of each source of a query. `progress` is `query.lastProgress`, as an object or a dictionary.

    A source of another kind has no topics and no lag. Raises `ValueError` for other objects.
    """
    try:
        told = json.loads(progress.json) if hasattr(progress, "json") else progress
        return [_source(source) for source in told.get("sources", ())]
    except AttributeError as error:
        raise ValueError(
            "The argument is not a query's progress: give query.lastProgress once the first micro-batch has ended."
        ) from error
