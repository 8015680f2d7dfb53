"""Filters that Spark hands to a batch, as narrower ranges: on topic, partition, offset, and from a time on.

A time ends no range: a record of an earlier time may stand behind one of a later time. Knows PySpark's filters and ranges; where a
time was reached comes in by a call.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ottla.client.types import TopicPartition
from ottla.spark.read_plan import Range

FirstAt = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]]
"""The first offset of each partition at or after a time in ms, None where there is none, as `planning.Lookup.at_times` tells."""
PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
NEVER_NULL = ("topic", "partition", "offset", "timestamp")
_COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
_OFFSETS: dict[type[Filter], Callable[[int], tuple[int, int]]] = {
    EqualTo: lambda offset: (offset, offset + 1),
    GreaterThan: lambda offset: (offset + 1, sys.maxsize),
    GreaterThanOrEqual: lambda offset: (offset, sys.maxsize),
    LessThan: lambda offset: (0, offset),
    LessThanOrEqual: lambda offset: (0, offset + 1),
}
"""The offsets from and to (not included) that a comparison leaves."""


def are_pushed() -> bool:
    """Whether this process plans with filters: Spark has one for it, and refuses a reader that takes filters in any other."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHING_WORKER in sys.modules or getattr(main, "name", "") == PUSHING_WORKER


class Narrowing:
    """Filters that all hold, as far as they narrow what is read."""

    def __init__(self) -> None:
        self._chosen: list[tuple[str, Callable[[Any, Any], bool], Any]] = []
        self._from_offset, self._until_offset = 0, sys.maxsize
        self._from_ms: int | None = None

    def take(self, each: Filter) -> bool:
        """Narrow by one filter. Whether it holds for all that is left: else Spark looks at each row too."""
        column = ".".join(getattr(each, "attribute", ()))
        if isinstance(each, IsNotNull):
            return column in NEVER_NULL
        if column in ("topic", "partition"):
            return self._choose(column, each)
        if column == "offset":
            return self._bound(each)
        if column == "timestamp" and isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
            self._begin(each.value)
        return False

    def _choose(self, column: str, each: Filter) -> bool:
        compare = _COMPARED.get(type(each))
        if isinstance(each, In):
            self._chosen.append((column, lambda found, wanted: found in wanted, set(each.value)))
        elif compare is not None:
            self._chosen.append((column, compare, each.value))  # type: ignore[attr-defined]  # all of them have one
        else:
            return False
        return True

    def _bound(self, each: Filter) -> bool:
        if isinstance(each, In) and all(type(offset) is int for offset in each.value) and each.value:
            self._keep(min(each.value), max(each.value) + 1)
            return False
        bound = _OFFSETS.get(type(each))
        value = getattr(each, "value", None)
        if bound is None or type(value) is not int:
            return False
        self._keep(*bound(value))
        return True

    def _keep(self, from_offset: int, until_offset: int) -> None:
        self._from_offset = max(self._from_offset, from_offset)
        self._until_offset = min(self._until_offset, until_offset)

    def _begin(self, time: object) -> None:
        if isinstance(time, datetime) and time.tzinfo is not None:
            from_ms = int(time.timestamp() * 1_000_000) // 1000 - 1  # a float of microseconds may be one off
            if from_ms >= 0:  # brokers take a negative time for a word, such as "latest", and records may be older than 1970
                self._from_ms = max(self._from_ms or 0, from_ms)

    def apply(self, wholes: Sequence[Range], at_times: FirstAt) -> list[Range]:
        """What is left of the ranges."""
        left = [
            whole._replace(start=max(whole.start, self._from_offset), end=min(whole.end, self._until_offset))
            for whole in wholes
            if all(compare(getattr(whole, column), wanted) for column, compare, wanted in self._chosen)
        ]
        left = [each for each in left if each.size > 0]
        return self._after_time(left, at_times) if self._from_ms is not None and left else left

    def _after_time(self, wholes: Sequence[Range], at_times: FirstAt) -> list[Range]:
        asked = dict.fromkeys((TopicPartition(each.topic, each.partition) for each in wholes), self._from_ms or 0)
        found = at_times(asked)
        firsts = ((each, found[TopicPartition(each.topic, each.partition)]) for each in wholes)
        left = [each._replace(start=max(each.start, first)) for each, first in firsts if first is not None]
        return [each for each in left if each.size > 0]


def narrowing_of(filters: Iterable[Filter]) -> tuple[Narrowing, list[Filter]]:
    """What filters narrow, and those that Spark has to look at all the same."""
    narrowing = Narrowing()
    return narrowing, [each for each in filters if not narrowing.take(each)]
