"""Streams and jobs in Spark that write exactly once: after failures at every step, again under the same name, several topics."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.spark import write_once
from ottla.spark.errors import OptionError
from tests.spark.conftest import Topics
from tests.support.peers import start_peer
from tests.support.spark_points import FILE


def values(topics: Topics, topic: str) -> list[str]:
    return sorted((message.value() or b"").decode() for message in topics.read(topic))


@pytest.fixture
def options(topics: Topics, unique: Callable[[str], str]) -> dict[str, str]:
    return {"kafka.bootstrap.servers": topics.address, "decisionTopic": unique("decisions")}


def test_a_job_that_is_run_again_under_its_name_writes_once(spark: Any, topics: Topics, options: dict[str, str]) -> None:
    topic = topics.make()
    frame = spark.sql("select concat('v', id) as value from range(6)")
    for job_id in ("one", "one", "two"):
        frame.write.format("ottla").options(**options, topic=topic, jobId=job_id).mode("append").save()
    assert values(topics, topic) == sorted([f"v{index}" for index in range(6)] * 2)
    plain = {"kafka.bootstrap.servers": topics.address, "deliveryGuarantee": "at-least-once"}
    frame.write.format("ottla").options(**plain, topic=topic).mode("append").save()
    assert len(values(topics, topic)) == 18


@pytest.mark.full(seconds=10)
def test_every_thread_of_a_driver_writes(spark: Any, topics: Topics, options: dict[str, str]) -> None:
    """Parallel jobs in one session: Spark knows a source in Python in the thread of the session alone."""
    made = [topics.make() for _ in range(4)]

    def write(topic: str) -> None:
        frame = spark.sql("select concat('v', id) as value from range(3)")
        frame.write.format("ottla").options(**options, topic=topic, jobId=topic).mode("append").save()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, made))
    assert [values(topics, topic) for topic in made] == [["v0", "v1", "v2"]] * 4


@pytest.mark.full(seconds=8)
def test_two_queries_of_a_driver_write_once_side_by_side(
    spark: Any, topics: Topics, options: dict[str, str], tmp_path: Path
) -> None:
    """Spark hands the commits of both to a few processes, so those of each alternate between them."""
    source, targets = topics.make(), [topics.make(), topics.make()]
    topics.produce(source, [{"value": str(index), "partition": index % 2} for index in range(12)])

    def start(target: str) -> Any:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", topics.address)
        rows = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="4").load().select("value")
        writer = rows.writeStream.format("ottla").options(**options, topic=target)
        return writer.option("checkpointLocation", str(tmp_path / target)).trigger(availableNow=True).start()

    for query in [start(target) for target in targets]:
        assert query.awaitTermination(120)
    assert [values(topics, target) for target in targets] == [sorted(map(str, range(12)))] * 2


def test_a_write_of_a_batch_that_failed_is_tried_again_in_the_same_batch(
    spark: Any, topics: Topics, options: dict[str, str], tmp_path: Path
) -> None:
    source, target = topics.make(), topics.make()
    topics.produce(source, [{"value": str(index)} for index in range(3)])
    failures = list[str]()

    def persistent(frame: Any, batch_id: int) -> None:
        try:
            write_once(frame.selectExpr("cast(raise_error('not now') as string) as value"), batch_id, **options, topic=target)
        except Exception as error:
            failures.append(str(error))
        write_once(frame.select("value"), batch_id, **options, topic=target)

    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", topics.address)
    rows = reader.options(subscribe=source, startingOffsets="earliest").load()
    query = rows.writeStream.foreachBatch(persistent).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(60)
    assert len(failures) == 1
    assert "not now" in failures[0]
    assert values(topics, target) == ["0", "1", "2"]


@pytest.mark.full(seconds=25)
def test_a_job_that_fails_shows_none_of_its_rows(spark: Any, topics: Topics, options: dict[str, str]) -> None:
    topic = topics.make()
    frame = spark.sql("select if(id = 7, raise_error('no more'), concat('v', id)) as value from range(0, 8, 1, 2)")
    with pytest.raises(Exception, match="no more"):
        frame.write.format("ottla").options(**options, topic=topic).mode("append").save()
    assert values(topics, topic) == []


@pytest.mark.full(seconds=16)
def test_micro_batches_of_several_topics_are_written_once_by_name(
    spark: Any, topics: Topics, options: dict[str, str], tmp_path: Path
) -> None:
    source, evens, odds, pooled = topics.make(), topics.make(), topics.make(), topics.make()
    topics.produce(source, [{"value": str(index)} for index in range(10)])
    fails = ["after the first"]

    def refused_at_once(frame: Any, batch_id: int) -> int:
        """How many of two threads are refused, which write other rows under one name."""

        def write(rest: int) -> bool:
            try:
                write_once(frame.where(f"cast(value as int) % 2 = {rest}"), batch_id, query_id=pooled, **options, topic=pooled)
            except OptionError as error:
                return "Two writes of batch 0 have the name" in str(error)
            return False

        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(write, range(2)))

    def both(frame: Any, batch_id: int) -> None:
        write_once(frame.where("cast(value as int) % 2 = 0"), batch_id, **options, topic=evens)
        write_once(frame.where("cast(value as int) % 2 = 0"), batch_id, **options, topic=evens)  # tried again as a whole
        if fails:
            raise RuntimeError(fails.pop())
        assert refused_at_once(frame, batch_id) == 1
        with pytest.raises(OptionError, match="Two writes of batch 0 have the name"):
            write_once(frame, batch_id, **options, topic=evens)
        write_once(frame.where("cast(value as int) % 2 = 1"), batch_id, **options, topic=odds)

    def start() -> Any:
        given = {"kafka.bootstrap.servers": topics.address, "subscribe": source, "startingOffsets": "earliest"}
        rows = spark.readStream.format("ottla").options(**given)
        rows = rows.load().selectExpr("cast(value as string) as value")
        return rows.writeStream.foreachBatch(both).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()

    with pytest.raises(Exception, match="after the first"):
        start().awaitTermination(60)
    assert start().awaitTermination(60)
    assert values(topics, evens) == ["0", "2", "4", "6", "8"]
    assert values(topics, odds) == ["1", "3", "5", "7", "9"]
    assert values(topics, pooled) in (values(topics, evens), values(topics, odds))


POINTS = ["after OpenWith", "after WriteOn", "before Decide", "after Decide", "after EndHanded"]
"""Where a process is killed: in the midst of a task, before and after the decision, and when all is done but not told."""


class KilledQuery:
    """Copies one topic into another, in one run after the other; in each, somebody is killed."""

    def __init__(self, spark: Any, topics: Topics, checkpoint: Path, **options: str) -> None:
        self._spark, self._topics, self._checkpoint = spark, topics, checkpoint
        self._options = options
        self.source, self.target = topics.make(), topics.make()
        self.written: list[str] = []

    def run(self) -> str | None:
        """What the query ended with, if it failed."""
        servers = {"kafka.bootstrap.servers": self._topics.address}
        rows = self._spark.readStream.format("ottla").options(**servers, subscribe=self.source, startingOffsets="earliest").load()
        writer = rows.select("value").writeStream.format("ottla").options(**servers, **self._options)
        writer = writer.option("topic", self.target).option("checkpointLocation", str(self._checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(300)
        except Exception as error:
            return str(error)
        return None

    def killed_at(self, point: str) -> None:
        """Four more rows, and a run in which whoever comes to this point first is killed there."""
        armed = Path(os.environ[FILE])
        more = [f"{len(self.written)}-{index}" for index in range(4)]
        self._topics.produce(self.source, [{"value": each, "partition": index % 2} for index, each in enumerate(more)])
        self.written += more
        armed.write_text(point)
        assert self.run() is not None, point
        assert not armed.exists(), f"nobody came to {point}"

    def finish(self) -> list[str]:
        """What is in the target after a last run, in which nobody is killed."""
        assert self.run() is None
        return values(self._topics, self.target)


@pytest.mark.timeout(600)
def test_a_query_whose_processes_are_killed_at_every_point_writes_once(
    spark: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    query = KilledQuery(spark, topics, tmp_path, decisionTopic=unique("decisions"))
    for point in POINTS:
        query.killed_at(point)
    assert query.finish() == sorted(query.written)


@pytest.mark.full(seconds=11)
@pytest.mark.timeout(600)
def test_a_query_whose_processes_are_killed_in_two_phases_writes_once_and_leaves_nothing_open(
    spark: Any, unique: Callable[[str], str], tmp_path: Path
) -> None:
    with start_peer("ottla", tmp_path / "broker", {"transaction.two.phase.commit.enable": "true"}) as broker:
        query = KilledQuery(spark, Topics(broker.address, unique), tmp_path / "checkpoint", twoPhaseCommit="true")
        query.killed_at("after PrepareHanded")
        query.killed_at("after Decide")
        assert query.finish() == sorted(query.written)
        with ottla.Admin(broker.address) as admin:
            assert not admin.list_transactions(states=["Ongoing"])
