"""Pipelines as programs call them: what is archived, replayed or mirrored is what was there, each record once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

import ottla
from ottla.pipelines.archive import ArchivePipeline
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.mirror import MirrorPipeline
from ottla.pipelines.progress import PipelineStep
from ottla.pipelines.query_runner import Pipeline
from ottla.pipelines.replay import ReplayPipeline
from ottla.pipelines.sql import SqlPipeline
from ottla.pipelines.tables import tables
from tests.spark.conftest import Topics

pytestmark = pytest.mark.timeout(400)  # Spark is slow where cores are loaded
Run = Callable[[Pipeline], list[PipelineStep]]
START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def run(spark: Any) -> Run:
    def run(pipeline: Pipeline) -> list[PipelineStep]:
        told: list[PipelineStep] = []
        zone = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        try:
            pipeline.run(spark, told.append, threading.Event())
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        return told

    return run


def fill(topics: Topics, topic: str, count: int, start: int = 0) -> None:
    """A record each hour; some without key, value or headers."""
    rows: list[dict[str, Any]] = [
        {
            "key": None if number % 7 == 0 else f"k{number % 5}",
            "value": None if number % 11 == 0 else f"v{number}",
            "headers": [] if number % 3 else [("n", str(number).encode())],
            "partition": number % 2,
            "timestamp": START_MS + number * HOUR_MS,
        }
        for number in range(start, start + count)
    ]
    topics.produce(topic, rows)


def committed_records(address: str, topic: str, partitions: int) -> list[Message]:
    """What a topic holds for readers of committed records, partition by partition."""
    settings = {"bootstrap.servers": address, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    found, ended = [], 0
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    while ended < partitions:
        for each in consumer.consume(1000, timeout=1):
            if (error := each.error()) is None:
                found.append(each)
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                ended += 1
    consumer.close()
    return sorted(found, key=lambda each: (each.partition(), each.offset()))


def held(address: str, topic: str) -> list[tuple[Any, ...]]:
    """What a topic of two partitions holds, without offsets."""
    found = committed_records(address, topic, 2)
    return [(each.partition(), each.key(), each.value(), each.timestamp()[1], each.headers() or []) for each in found]


def last_values(address: str, topic: str) -> dict[bytes | None, Any]:
    """The last value of each key of a topic of one partition, from JSON."""
    return {each.key(): json.loads(each.value() or b"") for each in committed_records(address, topic, 1)}


def last_sums(address: str, topic: str) -> dict[bytes | None, bytes | None]:
    """The last value of each key of a topic of one partition."""
    return {each.key(): each.value() for each in committed_records(address, topic, 1)}


def put_transactions(address: str, topic: str) -> None:
    """Of four transactions, each with five records of one partition, every second one is aborted."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic, "linger.ms": 5})
    producer.init_transactions(20)
    for number in range(4):
        producer.begin_transaction()
        for each in range(5):
            producer.produce(topic, f"t{number}-{each}", partition=0, timestamp=START_MS)
        producer.flush(20)  # what is aborted before it was sent leaves no gap
        producer.commit_transaction(20) if number % 2 else producer.abort_transaction(20)


def put_aborted(address: str, topic: str, row: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"{topic}-aborted"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, json.dumps(row))
    producer.flush(20)
    producer.abort_transaction(20)


def next_record(address: str, topic: str, group: str) -> tuple[int | None, bytes | None] | None:
    """The record of partition 0 that a consumer of the group would read next."""
    settings = {"bootstrap.servers": address, "group.id": group, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "error"})
    consumer.assign(consumer.committed([TopicPartition(topic, 0)], timeout=20))
    found = consumer.consume(1, timeout=10)
    consumer.close()
    return (found[0].offset(), found[0].value()) if found else None


@pytest.mark.full(seconds=15)
@pytest.mark.slow
def test_an_archive_holds_each_record_once_and_goes_back_as_it_was(
    topics: Topics, run: Run, spark: Any, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, again = topics.make(), unique("again")
    fill(topics, topic, 40)
    archive = ArchivePipeline([topic], topics.address, tmp_path / "archive", once=True)
    assert [(step.rows, step.lag) for step in run(archive)] == [(40, 0)]
    fill(topics, topic, 10, start=40)
    assert [step.rows for step in run(archive)] == [10]
    assert run(archive) == []
    days = sorted(path.name for path in (tmp_path / "archive" / f"topic={topic}").iterdir())
    assert days == ["date=2023-11-14", "date=2023-11-15", "date=2023-11-16"]

    replay = ReplayPipeline(tmp_path / "archive", topics.address, into=again, rows_per_part=20, state_directory=tmp_path / "state")
    assert [(step.rows, step.lag) for step in run(replay)] == [(16, 34), (16, 18), (18, 0)]
    assert held(topics.address, again) == held(topics.address, topic)
    assert run(replay) == []

    late = ReplayPipeline(
        tmp_path / "archive", topics.address, since="2023-11-15 00:00", until="2023-11-15 03:00", into=unique("late"), by_key=True,
        state_directory=tmp_path / "late",
    )  # fmt: skip
    assert sum(step.rows for step in run(late)) == 3
    assert len(held(topics.address, late.into or "")) == 3


@pytest.mark.slow
def test_a_mirror_holds_the_same_and_groups_go_on_there_where_they_were(
    topics: Topics, run: Run, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group, late = topics.make(), unique("group"), unique("late")
    put_transactions(topics.address, topic)
    fill(topics, topic, 20)
    with ottla.Broker() as there, ottla.Admin(topics.address) as source, ottla.Admin(there.address) as target:
        mirror = MirrorPipeline([topic], topics.address, there.address, "from.", [group, late], once=True, state_directory=tmp_path)
        source.alter_group_offsets(group, {(topic, 0): 8})
        assert [step.rows for step in run(mirror)] == [30]
        copied = f"from.{topic}"
        assert held(there.address, copied) == held(topics.address, topic)
        assert next_record(topics.address, topic, group) == (8, b"t1-2")
        assert next_record(there.address, copied, group) == (2, b"t1-2")

        fill(topics, topic, 10, start=20)
        source.alter_group_offsets(group, {(topic, 0): 24})
        source.alter_group_offsets(late, {(topic, 0): 36})
        assert [step.rows for step in run(mirror)] == [10]
        for name in (group, late):
            here, moved = (next_record(*where, name) for where in ((topics.address, topic), (there.address, copied)))
            assert here is not None
            assert moved is not None
            assert here[1] == moved[1]
        assert target.describe_topic_configs(copied)["retention.ms"].value == "-1"
        assert run(mirror) == []


SCRIPT = """
CREATE TABLE flights (origin STRING, delay INT) USING ottla OPTIONS (subscribe '{flights}');
CREATE OR REPLACE TEMPORARY VIEW late AS SELECT * FROM flights WHERE delay > 15; -- comment; here
INSERT INTO `{late}` SELECT _key AS key, origin, delay FROM late;
INSERT INTO `{sums}` SELECT origin AS key, cast(sum(delay) AS STRING) AS value FROM flights GROUP BY origin;
SELECT count(*) AS records FROM `{flights}` ORDER BY records;
"""


@pytest.mark.slow
def test_a_script_reads_topics_as_tables_and_writes_to_topics(
    topics: Topics, run: Run, spark: Any, unique: Callable[[str], str], tmp_path: Path
) -> None:
    flights, late, sums = topics.make(), topics.make(1), topics.make(1)
    rows = [{"origin": ("JFK", "EWR")[number % 2], "delay": number} for number in range(20)]
    topics.produce(flights, [{"value": json.dumps(row), "key": str(row["delay"])} for row in rows])
    shown: list[Any] = []
    script = SCRIPT.format(flights=flights, late=late, sums=sums)
    pipeline = SqlPipeline(script, topics.address, lambda names, rows: shown.extend(rows), once=True, state_directory=tmp_path)
    put_aborted(topics.address, flights, {"origin": "JFK", "delay": 1000})
    assert {(step.pipeline, step.rows) for step in run(pipeline)} == {(late, 20), ("select", 20), (sums, 20)}
    assert shown == [{"records": 20}]
    shown.clear()
    assert last_values(topics.address, late) == {
        str(n).encode(): {"origin": ("JFK", "EWR")[n % 2], "delay": n} for n in range(16, 20)
    }
    assert last_values(topics.address, sums) == {b"JFK": 90, b"EWR": 100}
    assert [(each.name, each.columns) for each in tables(topics.address, [flights, sums])] == [
        (flights, "origin STRING, delay BIGINT"),
        (sums, None),
    ]
    topics.produce(flights, [{"value": json.dumps({"origin": "JFK", "delay": 10}), "key": "again"}, {"value": "no JSON"}])
    between = script.replace(
        "INSERT INTO", f"INSERT INTO `{late}` SELECT 'x' AS value FROM flights WHERE delay > 999; INSERT INTO", 1
    )
    found = {(step.pipeline, step.rows, step.misfits) for step in run(replace(pipeline, script=between))}
    assert {each for each in found if each[0] in (late, "select", sums)} == {(late, 2, 1), ("select", 2, 0), (sums, 2, 1)}
    assert [rows for name, rows, _ in found if name not in (late, "select", sums)] == [22], "the query that was put between"
    assert last_sums(topics.address, sums) == {b"JFK": b"100", b"EWR": b"100", None: None}
    assert len(committed_records(topics.address, sums, 1)) == 4, "a group that has not changed is not written again"
    (tmp_path / "queries.json").unlink()  # as an older version left it
    (tmp_path / "checkpoint" / "select").rename(tmp_path / "checkpoint" / "select-2")
    topics.produce(flights, [{"value": json.dumps({"origin": "JFK", "delay": 1})}])
    assert {(step.pipeline, step.rows) for step in run(pipeline)} == {(late, 1), ("select-2", 1), (sums, 1)}
    for view in ("flights", "late", f"`{flights}`"):
        spark.catalog.dropTempView(view.strip("`"))


def test_what_cannot_be_archived_or_replayed_is_told(run: Run, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="holds no archive: name a directory that"):
        run(ReplayPipeline(tmp_path, "localhost:1", state_directory=tmp_path / "state"))
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(PipelineError, match=r"whose state .* is gone"):
        run(ArchivePipeline(["flights"], "localhost:1", tmp_path))
    with pytest.raises(PipelineError, match=r"This Spark has no Delta Lake: give it with --conf spark\.jars\.packages=io\.delta:"):
        run(ArchivePipeline(["flights"], "localhost:1", tmp_path / "delta", "delta"))
    with pytest.raises(PipelineError, match=r"This Spark has no Iceberg: .* or archive with --format parquet"):
        run(ArchivePipeline(["flights"], "localhost:1", tmp_path / "ice", "iceberg", table="lake.db.flights"))
    with pytest.raises(PipelineError, match=r"give --table CATALOG"):
        run(ArchivePipeline(["flights"], "localhost:1", tmp_path / "ice", "iceberg"))
    with pytest.raises(PipelineError, match=r"takes no option minPartitions: it would break the order"):
        run(MirrorPipeline(["flights"], "localhost:1", "localhost:2", options={"minPartitions": "4"}))


def test_a_cluster_is_not_mirrored_into_itself(topics: Topics, run: Run, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="are the same cluster: give --prefix"):
        run(MirrorPipeline([topics.make()], topics.address, topics.address, state_directory=tmp_path))
