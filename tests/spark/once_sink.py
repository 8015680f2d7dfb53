"""The exactly-once sink of a query without Spark: its tasks and commits, as Spark calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ottla.once.names import Work, prefix_of
from ottla.once.writer import TaskResult
from ottla.spark.exactly_once.commits import OnceCommitter
from ottla.spark.exactly_once.step_runner import OnceCluster
from ottla.spark.exactly_once.tasks import OnceWriter
from ottla.spark.options import WriteOptions, write_options
from tests.spark.conftest import Topics


def rows(*values: str) -> list[Any]:
    return [pa.record_batch({"value": [value.encode() for value in values]})] if values else []


class Died(Exception):
    """A process is no more."""


class OnceSink:
    """A sink of one query, its workers and the process that commits."""

    def __init__(self, topics: Topics, unique: Callable[[str], str]) -> None:
        self.name = unique("query")
        self.topics = topics
        self.topic = topics.make(2)
        self.given = {"kafka.bootstrap.servers": topics.address, "topic": self.topic, "decisionTopic": unique("decisions")}
        self.options = write_options(self.given)
        self.open: list[Any] = []

    def work(self, batch_id: int, run_id: str = "run1") -> Work:
        return Work(self.name, run_id, batch_id)

    def worker(self, run_id: str = "run1", options: WriteOptions | None = None) -> OnceWriter:
        made = OnceWriter(options or self.options, self.work(0, run_id))
        self.open.append(made)
        return made

    def committer(self, options: WriteOptions | None = None) -> OnceCommitter:
        made = OnceCommitter(options or self.options, self.name)
        self.open.append(made)
        return made

    def dying_committer(self, point: str) -> OnceCommitter:
        """One that is dead as soon as it gets to a step."""
        made = self.committer()
        carry_out = made._carry_out

        def die(step: Any) -> Any:
            if type(step).__name__ == point:
                raise Died(point)
            return carry_out(step)

        made._carry_out = die  # type: ignore[method-assign]  # a process that is killed there would take the test along
        return made

    def cluster(self) -> OnceCluster:
        made = OnceCluster(self.options.client, self.options.decision_topic)
        self.open.append(made)
        return made

    def open_ids(self) -> list[str]:
        cluster = self.cluster()
        return list(cluster.loop.run(cluster.coordinators.open_ids(prefix_of(self.name))))

    def timeouts_ms(self, *transactional_ids: str) -> list[int]:
        cluster = self.cluster()
        return [each.timeout_ms for each in cluster.loop.run(cluster.coordinators.describe(transactional_ids)) if each is not None]

    def seen(self) -> list[str]:
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": self.topics.address, "group.id": "r", "isolation.level": "read_committed"}
        consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(self.topic, index, 0) for index in range(2)])
        found, ends = [], 0
        while ends < 2:
            message = consumer.poll(10)
            assert message is not None
            if message.error():
                ends += 1
            else:
                found.append((message.value() or b"").decode())
        consumer.close()
        return sorted(found)


def handed(*results: TaskResult) -> list[Any]:
    return [each.transaction for each in results if each.transaction is not None]


def write(sink: OnceSink, worker: OnceWriter, committer: OnceCommitter, work: Work, value: str) -> None:
    """Write a batch of one row, and have it committed."""
    result = worker.write(work, rows(value), recorded=True)
    committer.commit(work, handed(result), found_decided=result.found_decided, recorded=True)
