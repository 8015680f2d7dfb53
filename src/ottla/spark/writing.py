"""Writers: what Spark calls to write a batch or a stream. The work itself is in `ottla.spark.sending`.

**At least once.** A task that Spark runs again, or a micro-batch that it repeats after a failure, writes its rows again: readers
may see a row twice, never too few. Within one task rows are idempotent: a request repeated on the wire writes nothing twice. Rows
with the same key keep their order within a task. Where a reader must see each result once, give rows a key and let the last
row of a key count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.spark.options import WriteOptions
from ottla.spark.telling import telling

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("ottla.spark")


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What one task wrote, told to the driver."""

    rows: int


def _write(options: WriteOptions, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
    # Spark makes writers in processes of its own for planning and committing; only a task needs Arrow and numpy.
    from ottla.spark.sending import write_rows

    return TaskWritten(write_rows(options, iterator))


@telling
class BatchWriter(DataSourceArrowWriter):
    """Writes a batch of rows, at least once."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, iterator)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        warn_of_leftovers(messages)


@telling
class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches of rows, at least once."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is left to do: every task waited until the brokers had its rows."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        warn_of_leftovers(messages)


def warn_of_leftovers(messages: Sequence[WriterCommitMessage | None]) -> None:
    rows = sum(message.rows for message in messages if isinstance(message, TaskWritten))
    if rows:
        logger.warning(
            "the write failed after %d rows were in their topics; they stay there and come again with a repetition", rows
        )
