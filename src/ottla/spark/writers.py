"""The writers that Spark calls to write a batch or a stream. `ottla.spark.row_sender` and `.exactly_once` do the work.

**Exactly once** is the default of `deliveryGuarantee`. A reader with read_committed sees each row of a micro-batch or of a batch
job once, whatever Spark repeats. A job with a `jobId` writes its rows once, even if the job is started again. Nothing of a batch is
visible until it is committed.

**At least once**: if Spark runs a task again, or repeats a micro-batch after a failure, its rows are written again. Readers can see
a row twice, but miss none. Within one task, producers are idempotent, so that a request that is sent twice writes its rows once.

Rows with the same key keep their order within a task.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.errors import KafkaError
from ottla.once.decisions import Handed
from ottla.once.names import Work
from ottla.spark.error_display import hide_tracebacks
from ottla.spark.errors import OptionError
from ottla.spark.exactly_once import batches
from ottla.spark.options import WriteOptions
from ottla.spark.workers import set_modules_aside

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("ottla.spark")


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """A task's message to the driver about the rows that it wrote. `work` is None with at least once."""

    rows: int
    work: Work | None = None
    handed: Handed | None = None
    found_decided: bool = False


def _write(options: WriteOptions, iterator: Iterator[pa.RecordBatch], own: Work | None, *, recorded: bool) -> TaskWritten:
    # imported when needed: Spark plans and commits in other processes, which need no Arrow and mostly no network
    if own is None:
        from ottla.spark.row_sender import write_rows

        set_modules_aside()
        return TaskWritten(write_rows(options, iterator))
    from ottla.spark.exactly_once.tasks import writer_for

    set_modules_aside()
    result = writer_for(options, own).write(own, iterator, recorded=recorded)
    rows = 0 if result.transaction is None else result.transaction.rows
    return TaskWritten(rows, own, result.transaction, result.found_decided)


def _commit(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], *, recorded: bool) -> None:
    written = [each for each in messages if isinstance(each, TaskWritten) and each.work is not None]
    own = next((each.work for each in written), None)
    handed = [each.handed for each in written if each.handed is not None]
    found_decided = any(each.found_decided for each in written)
    if own is None or not (handed or found_decided):
        return
    from ottla.spark.exactly_once.commits import committer_for, drop_committer

    try:
        committer_for(options, own.name).commit(own, handed, found_decided=found_decided, recorded=recorded)
    except BaseException:
        drop_committer(options, own.name)
        raise


def _abort(
    options: WriteOptions, messages: Sequence[WriterCommitMessage | None], *, recorded: bool, known: Work | None = None
) -> None:
    """Abort the transactions that tasks have handed over.

    Unless the job has an id (`known`), also abort the ones that killed tasks left open.
    """
    warn_of_leftovers(messages)
    written = [each for each in messages if isinstance(each, TaskWritten) and each.work is not None]
    own = next((each.work for each in written), known)
    handed = [each.handed for each in written if each.handed is not None]
    if own is None or not (handed or known):
        return
    from ottla.spark.exactly_once.commits import committer_for, drop_committer

    try:
        committer_for(options, own.name).abort(own, handed, recorded=recorded)
    except KafkaError as error:
        # raise the first failure
        logger.warning("transactions of a failed write were left to the next run, or to their timeouts: %s", error)
    finally:
        drop_committer(options, own.name)


@hide_tracebacks
class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._recorded = options.job_id is not None
        if options.two_phase_commit and not self._recorded:
            raise OptionError("twoPhaseCommit is for jobs that can be started again: give jobId as well.")
        job_id, run_id = options.job_id or uuid.uuid4().hex, options.run_id or uuid.uuid4().hex
        self._work = batches.of_job(job_id, run_id, options.batch_id) if options.exactly_once else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, iterator, self._work, recorded=self._recorded)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, messages, recorded=self._recorded)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages, recorded=self._recorded, known=None if self._recorded else self._work)


@hide_tracebacks
class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream's micro-batches."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        own = batches.of_this_task() if self._options.exactly_once else None
        return _write(self._options, iterator, own, recorded=True)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _commit(self._options, messages, recorded=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _abort(self._options, messages, recorded=True)


def warn_of_leftovers(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Warn that rows of a failed write stay visible, if tasks wrote them at least once."""
    rows = sum(message.rows for message in messages if isinstance(message, TaskWritten) and message.work is None)
    if rows:
        logger.warning(
            "the write failed after %d rows were in their topics; they stay there and come again with a repetition", rows
        )
