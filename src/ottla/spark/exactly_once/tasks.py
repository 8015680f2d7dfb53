"""The writing of a task's rows in a transaction that stays open for the committer. It runs in Spark's workers.

A worker keeps its producers from task to task, and `ottla.once.writer` chooses the free ones. The module uses no Spark.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ottla.client.errors import KafkaError, TransactionAbortable
from ottla.client.producer.partition_queue import Identity
from ottla.client.settings.clients import ProducerSettings
from ottla.net.client.producer.shared_transaction_producer import TransferableProducer
from ottla.once.decisions import Handed
from ottla.once.names import Work
from ottla.once.steps import AbortOwn, BeginId, ContinueId, OpenWith, WriteOn
from ottla.once.writer import OwnIds, TaskResult, write_batch
from ottla.spark.errors import OptionError
from ottla.spark.exactly_once.coordinator_requests import MAX_TIMEOUT_SETTING
from ottla.spark.exactly_once.step_runner import OnceCluster, run
from ottla.spark.options import WriteOptions
from ottla.spark.row_sender import TaskProducer, gather, make_encoder, send_rows
from ottla.wire.errors import INVALID_TRANSACTION_TIMEOUT


class OnceWriter:
    """The writer of all tasks of one run in this process. It writes the tasks one after another."""

    def __init__(self, options: WriteOptions, work: Work) -> None:
        self._options = options
        self._cluster = OnceCluster(options.client, options.decision_topic)
        self._ids = OwnIds(f"{os.getpid()}-{uuid.uuid4().hex[:8]}")
        self._producers: dict[str, TransferableProducer] = {}
        self._run_id = work.run_id
        self._has_written = False

    def serves(self, work: Work) -> bool:
        """Return whether this writer belongs to the run of `work`."""
        return self._run_id == work.run_id

    def write(self, work: Work, arrived: Iterable[pa.RecordBatch], *, recorded: bool) -> TaskResult:
        """Write a task's rows. Raises `KafkaError` and `OptionError`. After an exception, nothing of the task may be committed."""
        task = _TaskSteps(self._options, work, self._cluster, self._producers, gather(arrived))
        looks_first, self._has_written = not self._has_written, True
        try:
            return run(write_batch(work, self._ids, recorded=recorded, looks_first=looks_first), task.carry_out)
        except BaseException as error:
            task.discard()
            if isinstance(error, TransactionAbortable) and isinstance(error.__cause__, KafkaError):
                raise error.__cause__ from None  # no user aborts by hand here: the cause is what a user can act on
            raise

    def close(self) -> None:
        """Close all connections. Open transactions stay open, because the committer ends them."""
        for producer in self._producers.values():
            self._cluster.loop.run(producer.close())
        self._cluster.close()


class _TaskSteps:
    """The execution of the steps of one task, with the task's rows and its producer."""

    def __init__(
        self,
        options: WriteOptions,
        work: Work,
        cluster: OnceCluster,
        producers: dict[str, TransferableProducer],
        rows: Iterator[pa.RecordBatch],
    ) -> None:
        self._options, self._work, self._cluster, self._producers = options, work, cluster, producers
        self._arriving = rows
        self._encode = make_encoder(options)
        self._own: str | None = None
        self._rows = 0

    def carry_out(self, step: Any) -> Any:
        """Run a step of the task, and return its result. Raises `KafkaError`."""
        match step:
            case BeginId(name):
                self._own = name
                self._begin_id(name)
            case ContinueId(name, identity):
                self._own = name
                self._producers[name].reattach(Identity(*identity))
            case OpenWith(name):
                self._own = name
                return self._open(name)
            case WriteOn(name):
                return self._write_on(name)
            case AbortOwn(name):
                self._abort(name)
            case _:
                return self._cluster.carry_out(self._work.name, step)
        return None

    def _begin_id(self, name: str) -> None:
        loop = self._cluster.loop
        coordinators = self._cluster.coordinators
        if name not in self._producers:
            loop.run(coordinators.check_describable(name))
            timeout_ms = self._options.transaction_timeout_ms or loop.run(coordinators.max_timeout_ms())
            self._producers[name] = TransferableProducer(transactional(self._options.client, name, timeout_ms))
            loop.run(self._producers[name].start())
        try:
            loop.run(self._producers[name].initialize())
        except KafkaError as error:
            if error.code != INVALID_TRANSACTION_TIMEOUT:
                raise
            given, most_ms = self._options.transaction_timeout_ms, loop.run(coordinators.max_timeout_ms())
            raise OptionError(_too_long(given, most_ms)) from error

    def _open(self, name: str) -> bool:
        first = next(self._arriving, None)
        if first is None:
            return False
        producer = self._producers[name]
        self._cluster.loop.run(producer.begin())
        self._send(producer, first)
        self._cluster.loop.run(producer.flush())
        return True

    def _write_on(self, name: str) -> Handed:
        producer = self._producers[name]
        for batch in self._arriving:
            self._send(producer, batch)
        identity, partitions = self._cluster.loop.run(producer.detach())
        return Handed(name, *identity, self._rows, partitions)

    def _send(self, producer: TransferableProducer, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        sender = TaskProducer(producer, self._cluster.loop)
        send_rows(sender, self._encode(batch), self._options)
        sender.hand_over()

    def _abort(self, name: str) -> None:
        producer = self._producers.pop(name)
        try:
            self._cluster.loop.run(producer.abort())
        finally:
            self._cluster.loop.run(producer.close())

    def discard(self) -> None:
        """Close the producer after an error, and abort its transaction first if that is possible."""
        producer = self._producers.pop(self._own, None) if self._own is not None else None
        if producer is None:
            return
        try:
            self._cluster.loop.run(producer.abort())
        except KafkaError:
            pass  # no transaction is open, or the committer or the timeout will abort it
        finally:
            self._cluster.loop.run(producer.close())


def transactional(settings: ProducerSettings, transactional_id: str, timeout_ms: int) -> ProducerSettings:
    """Convert a sink's settings to those of a transactional producer."""
    return replace(
        settings, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, acks="all", enable_idempotence=True
    )


def _too_long(timeout_ms: int | None, most_ms: int) -> str:
    if timeout_ms is None:
        return (
            "The brokers do not tell how long a transaction may be: give option transactionTimeout, at most their "
            f"{MAX_TIMEOUT_SETTING}."
        )
    return (
        f"Option transactionTimeout is {timeout_ms} ms, and the brokers allow {most_ms} ms: make it shorter, or raise their "
        f"{MAX_TIMEOUT_SETTING}."
    )


_WRITERS: dict[tuple[WriteOptions, str], OnceWriter] = {}


def writer_for(options: WriteOptions, work: Work) -> OnceWriter:
    """Return this process's writer for a run. Close the writer of an earlier run of the query."""
    key = (replace(options, batch_id=0), work.name)
    kept = _WRITERS.get(key)
    if kept is not None and not kept.serves(work):
        del _WRITERS[key]
        kept.close()
        kept = None
    if kept is None:
        kept = _WRITERS[key] = OnceWriter(options, work)
    return kept
