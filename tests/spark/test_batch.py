"""Batches: what other clients wrote is read as it is, in the ranges asked for; what is written, other clients read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.spark.conftest import Topics

Load = Callable[..., Any]


def number(count: int, start: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [{"value": str(start + index), "partition": (start + index) % 2, **more} for index in range(count)]


def test_every_column_is_read_as_it_was_written(topics: Topics, load: Load) -> None:
    topic = topics.make()
    row = {"value": b"\x00\xffvalue", "key": "JFK", "partition": 1, "timestamp": 1_357_034_400_123}
    topics.produce(topic, [row | {"headers": [("trace", b"1"), ("trace", None), ("kind", b"")]}])
    topics.produce(topic, [{"value": None, "key": None, "partition": 1, "timestamp": 1_357_034_400_124}])
    first, second = load(topic, includeHeaders="true").orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition, first.offset) == (
        b"JFK",
        b"\x00\xffvalue",
        topic,
        1,
        0,
    )
    assert first.timestamp.astimezone(UTC).isoformat() == "2013-01-01T10:00:00.123000+00:00"
    assert first.timestampType == 0
    assert [(name, value and bytes(value)) for name, value in first.headers] == [("trace", b"1"), ("trace", None), ("kind", b"")]
    assert (second.key, second.value, second.offset) == (None, None, 1)
    assert not second.headers


@pytest.mark.rows(2, seconds=1)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(topics: Topics, load: Load, codec: str) -> None:
    topic = topics.make(1)
    producer = Producer({"bootstrap.servers": topics.address, "compression.type": codec, "linger.ms": 50})
    for index in range(500):
        producer.produce(topic, f"value {index} " * 10)
    producer.flush(20)
    rows = load(topic, "value STRING, offset BIGINT").orderBy("offset").collect()
    assert [row.value for row in rows] == [f"value {index} " * 10 for index in range(500)]


def test_rows_are_narrowed_by_an_option_or_a_schema(topics: Topics, load: Load) -> None:
    topic = topics.make()
    topics.produce(topic, number(10))
    narrow = load(topic, columns="offset,partition")
    assert narrow.columns == ["offset", "partition"]
    assert sorted(map(tuple, narrow.collect())) == [(offset, index) for offset in range(5) for index in (0, 1)]
    assert sorted(row.value for row in load(topic, "value STRING").collect()) == sorted(map(str, range(10)))


def test_ranges_are_read_as_asked_and_cut_into_as_many_tasks_as_wished(topics: Topics, load: Load) -> None:
    topic = topics.make()
    topics.produce(topic, number(40))
    start, end = json.dumps({topic: {"0": 5, "1": -2}}), json.dumps({topic: {"0": -1, "1": 7}})
    rows = load(topic, startingOffsets=start, endingOffsets=end, minPartitions="5")
    assert rows.rdd.getNumPartitions() >= 5
    found = sorted((row.partition, row.offset, int(row.value)) for row in rows.collect())
    assert found == [(0, offset, offset * 2) for offset in range(5, 20)] + [(1, offset, offset * 2 + 1) for offset in range(7)]


def test_times_start_and_end_a_range(topics: Topics, load: Load) -> None:
    topic = topics.make()
    for index in range(10):
        topics.produce(topic, number(1, start=index, timestamp=1000 * (index + 1)))
    rows = load(topic, startingTimestamp="3500", endingTimestamp="8000").collect()
    assert sorted(int(row.value) for row in rows) == [3, 4, 5, 6]
    late = load(topic, startingTimestamp="99000", startingOffsetsByTimestampStrategy="latest")
    assert late.count() == 0


def test_patterns_and_assigned_partitions_choose_what_is_read(topics: Topics, load: Load, unique: Callable[[str], str]) -> None:
    stem = unique("pattern")
    for name in (f"{stem}-a", f"{stem}-b", f"{stem}-other"):
        topics.produce(topics.make(name=name), number(2))
    found = load(subscribePattern=f"{stem}-[ab]")
    assert sorted({row.topic for row in found.collect()}) == [f"{stem}-a", f"{stem}-b"]
    assigned = load(assign=json.dumps({f"{stem}-a": [1]}))
    assert [(row.topic, row.partition) for row in assigned.collect()] == [(f"{stem}-a", 1)]


def test_an_empty_topic_has_no_rows(topics: Topics, load: Load) -> None:
    assert load(topics.make()).count() == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startOffsets": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.auto.offset.reset": "earliest"}, "use option startingOffsets"),
        ({"startingOffsets": "latest"}, "cannot start at the latest"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_the_right_one(load: Load, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(Exception, match=re.escape(sentence)):
        load("flights", **options).collect()


def test_a_missing_topic_and_a_wrong_schema_are_told(load: Load, topics: Topics, unique: Callable[[str], str]) -> None:
    name = unique("missing")
    with pytest.raises(Exception, match=f"There is no topic {name}"):
        load(name).collect()
    with pytest.raises(Exception, match="Column value cannot be INT"):
        load(topics.make(), "value INT").collect()


def test_offsets_that_are_gone_are_an_error_or_left_out(topics: Topics, load: Load) -> None:
    topic = topics.make(1)
    topics.produce(topic, [{"value": str(index)} for index in range(4)])
    ahead = {"startingOffsets": json.dumps({topic: {"0": 2}}), "endingOffsets": json.dumps({topic: {"0": 9}})}
    with pytest.raises(Exception, match=f"{topic}-0 was to be read to offset 9 and ends at 4 now"):
        load(topic, **ahead).collect()
    assert [int(row.value) for row in load(topic, failOnDataLoss="false", **ahead).collect()] == [2, 3]


def save(frame: Any, topics: Topics, **options: str) -> None:
    frame.write.format("ottla").option("kafka.bootstrap.servers", topics.address).options(**options).mode("append").save()


def test_rows_written_are_read_by_other_clients(spark: Any, topics: Topics) -> None:
    topic = topics.make()
    rows = spark.sql(
        """
        select 'k' as key, cast('one' as binary) as value, 1 as partition,
               array(
                   struct('trace' as key, cast('1' as binary) as value),
                   struct('none' as key, cast(null as binary) as value)
               ) as headers
        union all select null, null, 0, null
        """
    )
    save(rows, topics, topic=topic)
    null, one = topics.read(topic)
    assert (null.key(), null.value(), null.headers(), null.partition()) == (None, None, None, 0)
    assert (one.key(), one.value(), one.partition()) == (b"k", b"one", 1)
    assert one.headers() == [("trace", b"1"), ("none", None)]


def test_keys_go_where_javas_producer_puts_them_and_every_row_arrives_once(spark: Any, topics: Topics) -> None:
    topic, twin = topics.make(3), topics.make(3)
    frame = spark.range(20_000).selectExpr("concat('key-', id % 500) as key", "cast(id as string) as value")
    save(frame, topics, topic=topic, **{"kafka.compression.type": "lz4"})
    there = topics.read(topic, 3)
    assert sorted(int(message.value() or b"") for message in there) == list(range(20_000))
    producer = Producer({"bootstrap.servers": topics.address, "partitioner": "murmur2_random"})
    for index in range(500):
        producer.produce(twin, b"", f"key-{index}".encode())
    producer.flush(20)
    assert {message.key(): message.partition() for message in there} == {
        message.key(): message.partition() for message in topics.read(twin, 3)
    }


def test_rows_without_a_key_are_spread(spark: Any, topics: Topics) -> None:
    topic = topics.make(2)
    save(spark.range(50_000).selectExpr("cast(id as string) as value"), topics, topic=topic)
    messages = topics.read(topic)
    assert len(messages) == 50_000
    assert {message.partition() for message in messages} == {0, 1}


def test_a_column_names_the_topic_of_each_row(spark: Any, topics: Topics, load: Load) -> None:
    one, two = topics.make(), topics.make()
    save(spark.sql(f"select 'a' as value, '{one}' as topic union all select 'b', '{two}' union all select 'c', '{one}'"), topics)
    assert sorted(row.value for row in load(one, "value STRING").collect()) == ["a", "c"]
    assert [row.value for row in load(two, "value STRING").collect()] == ["b"]


@pytest.mark.parametrize(
    ("query", "options", "sentence"),
    [
        ("select 'a' as value", {}, "The topic to write to is missing"),
        ("select 'a' as body", {"topic": "t"}, "no column value"),
        ("select 1 as value", {"topic": "t"}, "Column value is INT and must be BINARY or STRING"),
        ("select 'a' as value, 'b' as Key", {"topic": "t"}, "The sink takes no column Key, but key"),
        ("select repeat('a', 2000) as value", {"topic": "HERE", "kafka.max.request.size": "1024"}, "kafka.max.request.size=1024"),
        ("select 'a' as value, cast(null as string) as topic", {}, "column topic is null"),
        ("select 'a' as value, 7 as partition", {"topic": "HERE"}, "has no partition 7"),
        ("select 'a' as value", {"subscribe": "t"}, "belongs to the source"),
    ],
)
def test_rows_that_do_not_fit_are_told(spark: Any, topics: Topics, query: str, options: dict[str, str], sentence: str) -> None:
    if options.get("topic") == "HERE":
        options |= {"topic": topics.make()}
    with pytest.raises(Exception, match=re.escape(sentence)):
        save(spark.sql(query), topics, **options)


@pytest.mark.full(seconds=12)
def test_filters_narrow_what_is_planned_and_change_no_row(spark: Any, topics: Topics, load: Load) -> None:
    topic = topics.make()
    topics.produce(topic, number(40, timestamp=1_357_034_400_000))
    topics.produce(topic, number(40, start=40, timestamp=1_357_034_500_000))
    conditions = {
        "partition = 1 and offset >= 30": 1,
        "partition in (0, 7) and offset < 5": 1,
        "timestamp >= timestamp '2013-01-01 10:01:00Z' and offset <> 25": 2,
        "offset between 3 and 9 or partition = 1": 2,
        "topic = 'other'": 1,
    }
    plain = {each: sorted(map(tuple, load(topic).where(each).collect())) for each in conditions}
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        for condition, tasks in conditions.items():
            rows = load(topic).where(condition)
            assert sorted(map(tuple, rows.collect())) == plain[condition]
            assert rows.rdd.getNumPartitions() == tasks
        assert load(topic, minPartitions="8").where("partition = 0 and offset >= 20").count() == 20
        assert load(topic).count() == 80
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    assert len(plain["offset between 3 and 9 or partition = 1"]) == 47
