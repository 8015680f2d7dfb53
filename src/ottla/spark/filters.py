"""The filters that Spark pushes, as narrower ranges of a batch: by topic, partition, offset, and from a time on.

No filter by time ends a range, because timestamps can decrease from record to record. A callback finds the first offset at a time.
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
"""Returns the first offset of each partition at or after a time in ms, or None: `read_plan.Lookup.at_times`."""
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
"""The offsets that satisfy a comparison: the first, and the end (exclusive)."""


def are_pushed() -> bool:
    """Return whether Spark pushes filters in this process. It accepts a reader with filters in one kind of process only."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHING_WORKER in sys.modules or getattr(main, "name", "") == PUSHING_WORKER


class Narrowing:
    """The part of a query's filters that can narrow the ranges of offsets to read."""

    def __init__(self) -> None:
        self._chosen: list[tuple[str, Callable[[Any, Any], bool], Any]] = []
        self._from_offset, self._until_offset = 0, sys.maxsize
        self._from_ms: int | None = None

    def apply_filter(self, each: Filter) -> bool:
        """Narrow the ranges by the filter `each`.

        Return whether the filter then holds for every row. If not, Spark must apply the filter too.
        """
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
            from_ms = int(time.timestamp() * 1_000_000) // 1000 - 1  # a float with microseconds can be inexact by one
            if from_ms >= 0:  # Brokers take a negative time for a constant such as "latest". Records can be older than 1970.
                self._from_ms = max(self._from_ms or 0, from_ms)

    def apply(self, wholes: Sequence[Range], at_times: FirstAt) -> list[Range]:
        """Return the parts of the ranges whose offsets and times the filters allow."""
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
    """Return (the narrowing by all filters that allow it, the filters that Spark must apply itself)."""
    narrowing = Narrowing()
    return narrowing, [each for each in filters if not narrowing.apply_filter(each)]
