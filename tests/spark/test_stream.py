"""Streams: every record once, in micro-batches no larger than asked, on from the checkpoint after a stop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.streams.progress import SourceProgress, offsets_behind_latest
from tests.spark.conftest import Topics

TRIGGERS: dict[str, dict[str, Any]] = {
    "now and then": {"processingTime": "0 seconds"},
    "available now": {"availableNow": True},
    "continuous": {"continuous": "1 second"},
}


class Job:
    """Copies a topic into another as a stream; each run starts from the same checkpoint."""

    def __init__(self, spark: Any, topics: Topics, source: str, target: str, checkpoint: Path) -> None:
        self._spark, self._topics, self.source, self._target, self._checkpoint = spark, topics, source, target, checkpoint

    def start(self, **options: str) -> Any:
        trigger = TRIGGERS[options.pop("trigger", "now and then")]
        asynchronous = options.pop("asynchronous", "false")
        reader = self._spark.readStream.format("ottla").option("kafka.bootstrap.servers", self._topics.address)
        rows = reader.option("subscribe", self.source).options(**({"startingOffsets": "earliest"} | options)).load()
        writer = rows.select("key", "value").writeStream.format("ottla").option("kafka.bootstrap.servers", self._topics.address)
        writer = writer.option("asyncProgressTrackingEnabled", asynchronous)
        return writer.option("topic", self._target).option("checkpointLocation", str(self._checkpoint)).trigger(**trigger).start()

    def elsewhere(self, checkpoint: Path) -> Job:
        """The same from a checkpoint of its own."""
        return Job(self._spark, self._topics, self.source, self._target, checkpoint)

    def run(self, **options: str) -> list[Any]:
        """All that is there now; the progress of each micro-batch that read something."""
        query = self.start(trigger="available now", **options)
        assert query.awaitTermination(300)
        return [progress for progress in query.recentProgress if progress.numInputRows]

    def copied(self) -> list[int]:
        return sorted(int(message.value() or b"") for message in self._topics.read(self._target))


@pytest.fixture
def job(spark: Any, topics: Topics, tmp_path: Path) -> Job:
    return Job(spark, topics, topics.make(), topics.make(), tmp_path / "checkpoint")


def fill(topics: Topics, job: Job, start: int, end: int) -> None:
    topics.produce(job.source, [{"value": str(index), "partition": index % 2} for index in range(start, end)])


def test_available_now_reads_all_in_limited_micro_batches_and_goes_on_from_the_checkpoint(topics: Topics, job: Job) -> None:
    fill(topics, job, 0, 100)
    progress = job.run(maxOffsetsPerTrigger="40")
    assert [each.numInputRows for each in progress] == [40, 40, 20]
    assert job.copied() == list(range(100))
    assert json.loads(progress[-1].sources[0].endOffset)[job.source] == {"0": 50, "1": 50}
    assert [each.max_offsets_behind_latest for each in offsets_behind_latest(progress[0])] == [30]
    assert offsets_behind_latest(progress[-1]) == [SourceProgress((job.source,), 0, 0, 0.0, 0)]
    assert job.run() == []
    fill(topics, job, 100, 130)
    assert sum(each.numInputRows for each in job.run()) == 30
    assert job.copied() == list(range(130))


def wait_until(true: Callable[[], bool], query: Any, timeout_s: float = 300) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_running_stream_sees_what_arrives_and_new_partitions_from_their_start(topics: Topics, job: Job) -> None:
    query = job.start(maxTriggerDelay="1s")
    fill(topics, job, 0, 10)
    wait_until(lambda: len(job.copied()) == 10, query)
    fill(topics, job, 10, 20)
    wait_until(lambda: len(job.copied()) == 20, query)
    topics.grow(job.source, 3)
    topics.produce(job.source, [{"value": "20", "partition": 2}])
    wait_until(lambda: len(job.copied()) == 21, query)
    query.stop()
    assert job.copied() == list(range(21))


@pytest.mark.full(seconds=18)
def test_a_micro_batch_waits_for_as_many_records_as_asked(topics: Topics, job: Job) -> None:
    fill(topics, job, 0, 5)
    query = job.start(minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    wait_until(lambda: query.status["message"] == "Waiting for data to arrive", query)
    assert job.copied() == []
    fill(topics, job, 5, 10)
    wait_until(lambda: len(job.copied()) == 10, query)
    query.stop()


def test_a_topic_made_anew_is_an_error_or_read_from_its_start(topics: Topics, job: Job) -> None:
    fill(topics, job, 0, 20)
    job.run()
    topics.remove(job.source)
    topics.make(name=job.source)
    fill(topics, job, 20, 24)
    with pytest.raises(Exception, match=f"topic {job.source} was deleted and recreated after {job.source}-0 was read to offset 10"):
        job.start(trigger="available now").awaitTermination(300)
    job.start(trigger="available now", failOnDataLoss="false").awaitTermination(300)
    assert job.copied() == list(range(24))


def test_a_stream_without_a_start_reads_what_comes_after_it(topics: Topics, job: Job) -> None:
    fill(topics, job, 0, 10)
    query = job.start(startingOffsets="latest")
    wait_until(lambda: bool(query.recentProgress), query)
    fill(topics, job, 10, 12)
    wait_until(lambda: len(job.copied()) == 2, query)
    query.stop()
    assert job.copied() == [10, 11]


@pytest.mark.full(seconds=20)
def test_a_group_shows_where_the_query_stands_and_another_query_begins_there(topics: Topics, job: Job, tmp_path: Path) -> None:
    fill(topics, job, 0, 30)
    job.run(groupId=job.source, maxOffsetsPerTrigger="20")
    assert topics.committed(job.source, job.source, 2) == [15, 15], "the last micro-batch of an AvailableNow run too"
    fill(topics, job, 30, 40)
    query = job.elsewhere(tmp_path / "another").start(groupId=job.source, startingOffsets="group")
    wait_until(lambda: len(job.copied()) == 40, query)
    wait_until(lambda: topics.committed(job.source, job.source, 2) == [20, 20], query)
    query.stop()
    assert job.copied() == list(range(40))


def test_what_a_stream_cannot_do_is_refused_in_one_sentence(job: Job) -> None:
    with pytest.raises(Exception, match="ottla does not support continuous processing"):
        job.start(trigger="continuous").awaitTermination(300)
    with pytest.raises(Exception, match="ottla does not support async progress tracking"):
        job.start(asynchronous="true").awaitTermination(300)
    with pytest.raises(Exception, match="Option asyncProgressTrackingEnabled must be false"):
        job.start(asyncProgressTrackingEnabled="true").awaitTermination(300)
