"""A query's filters narrow what a batch reads, and Spark still looks at rows where a filter does not hold for all that is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone

import pytest

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

from pyspark.sql.datasource import (  # only where there is PySpark
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from ottla.client.types import TopicPartition as Where
from ottla.spark.filters import are_pushed, narrowing_of
from ottla.spark.read_plan import Range

WHOLES = [Range("a", 0, 0, 100), Range("a", 1, 50, 80), Range("b", 0, 10, 20)]
TIME_MS = 1_357_034_400_123
TIME = datetime.fromtimestamp(TIME_MS // 1000, UTC) + timedelta(milliseconds=TIME_MS % 1000)


def left(*filters: Filter) -> list[tuple[object, ...]]:
    return [tuple(each) for each in narrowing_of(filters)[0].apply(WHOLES, dict)]


@pytest.mark.parametrize(
    ("each", "ranges"),
    [
        (EqualTo(("partition",), 1), [("a", 1, 50, 80)]),
        (LessThan(("partition",), 1), [("a", 0, 0, 100), ("b", 0, 10, 20)]),
        (In(("partition",), (1, 7)), [("a", 1, 50, 80)]),
        (EqualTo(("topic",), "b"), [("b", 0, 10, 20)]),
        (EqualTo(("offset",), 60), [("a", 0, 60, 61), ("a", 1, 60, 61)]),
        (GreaterThan(("offset",), 78), [("a", 0, 79, 100), ("a", 1, 79, 80)]),
        (GreaterThanOrEqual(("offset",), 79), [("a", 0, 79, 100), ("a", 1, 79, 80)]),
        (LessThan(("offset",), 11), [("a", 0, 0, 11), ("b", 0, 10, 11)]),
        (LessThanOrEqual(("offset",), 10), [("a", 0, 0, 11), ("b", 0, 10, 11)]),
        (IsNotNull(("offset",)), [tuple(each) for each in WHOLES]),
    ],
)
def test_a_filter_on_topic_partition_or_offset_is_done_with(each: Filter, ranges: list[tuple[object, ...]]) -> None:
    assert left(each) == ranges
    assert narrowing_of([each])[1] == []


def test_all_filters_hold_together() -> None:
    found = left(EqualTo(("topic",), "a"), GreaterThan(("offset",), 55), LessThan(("offset",), 70), Not(EqualTo(("partition",), 0)))
    assert found == [("a", 0, 56, 70), ("a", 1, 56, 70)], "what is not understood narrows nothing"
    assert left(GreaterThan(("offset",), 55), LessThan(("offset",), 50)) == []


def test_what_holds_for_some_rows_only_is_left_to_spark_too() -> None:
    rest: list[Filter] = [
        In(("offset",), (60, 62)),
        GreaterThan(("timestamp",), TIME),
        LessThan(("timestamp",), TIME),
        Not(EqualTo(("partition",), 0)),
        IsNull(("key",)),
        IsNotNull(("key",)),
        EqualTo(("value", "n"), 1),
        EqualTo(("offset",), "60"),
    ]
    assert narrowing_of(rest)[1] == rest
    assert left(In(("offset",), (60, 62))) == [("a", 0, 60, 63), ("a", 1, 60, 63)]


@pytest.mark.parametrize("time", [TIME, TIME.astimezone(timezone(timedelta(hours=5)))])
def test_a_time_begins_a_range_and_ends_none(time: datetime) -> None:
    asked: dict[Where, int] = {}

    def at_times(timestamps_ms: Mapping[Where, int]) -> dict[Where, int | None]:
        asked.update(timestamps_ms)
        return {Where("a", 0): 40, Where("a", 1): 20, Where("b", 0): None}

    narrowing, _ = narrowing_of([GreaterThanOrEqual(("timestamp",), time), LessThan(("timestamp",), time)])
    assert [tuple(each) for each in narrowing.apply(WHOLES, at_times)] == [("a", 0, 40, 100), ("a", 1, 50, 80)]
    assert len(asked) == 3
    assert all(TIME_MS - 2 <= timestamp_ms <= TIME_MS for timestamp_ms in asked.values())


@pytest.mark.parametrize("each", [EqualTo, GreaterThan, GreaterThanOrEqual])
@pytest.mark.parametrize(
    "time", [datetime(1960, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]
)
def test_a_time_before_1970_narrows_nothing(each: Callable[..., Filter], time: datetime) -> None:
    narrowing, rest = narrowing_of([each(("timestamp",), time)])
    assert narrowing.apply(WHOLES, lambda asked: dict.fromkeys(asked)) == WHOLES
    assert len(rest) == 1


def test_a_time_of_no_zone_narrows_nothing() -> None:
    assert left(GreaterThan(("timestamp",), TIME.replace(tzinfo=None))) == [tuple(each) for each in WHOLES]


def test_this_process_plans_without_filters() -> None:
    assert not are_pushed()
