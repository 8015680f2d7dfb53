"""Spark's pushed filters as narrower ranges of a batch: by topic, partition, offset, and from a time on.

A time ends no range, because timestamps may decrease. The offsets of a time are found by a callback.
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
"""The first offset of each partition at or after a time in ms, or None: `planning.Lookup.at_times`."""
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
"""The first offset and the end offset (exclusive) that a comparison leaves."""


def are_pushed() -> bool:
    """Return whether this process plans with filters: Spark accepts a reader with filters only in one kind of process."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHING_WORKER in sys.modules or getattr(main, "name", "") == PUSHING_WORKER


class Narrowing:
    """The conjunction of filters, as far as they narrow ranges."""

    def __init__(self) -> None:
        self._chosen: list[tuple[str, Callable[[Any, Any], bool], Any]] = []
        self._from_offset, self._until_offset = 0, sys.maxsize
        self._from_ms: int | None = None

    def take(self, each: Filter) -> bool:
        """Narrow by one filter. Return whether it holds for every remaining row: otherwise Spark must apply it too."""
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
            from_ms = int(time.timestamp() * 1_000_000) // 1000 - 1  # a float of microseconds may be off by one
            if from_ms >= 0:  # to brokers a negative time is a constant such as "latest", though records may be older than 1970
                self._from_ms = max(self._from_ms or 0, from_ms)

    def apply(self, wholes: Sequence[Range], at_times: FirstAt) -> list[Range]:
        """Return the remaining parts of the ranges."""
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
    """Return the narrowing by filters, and the filters that Spark must apply too."""
    narrowing = Narrowing()
    return narrowing, [each for each in filters if not narrowing.take(each)]
