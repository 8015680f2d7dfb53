"""The rows of a task's range as Arrow record batches. Batches are decoded into columns, and no record becomes an object."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.client.errors import OffsetOutOfRange, UnknownTopic
from ottla.client.types import TopicPartition
from ottla.net.client.consumer.range_reader import RangeReader
from ottla.ports import StorageFailed
from ottla.records.batches.arrow import to_arrow
from ottla.records.batches.bounded_runs import openable
from ottla.records.batches.columns import Columns, open_batches
from ottla.records.batches.header import BadBatch, BatchHeader, batches
from ottla.records.compression.codecs import CodecFailed
from ottla.spark.brokers import Brokers
from ottla.spark.direct import StoredBatches
from ottla.spark.errors import UnreadableBatch
from ottla.spark.read_plan import Range, accept_losses, find_lost, names

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.client.settings.clients import ConsumerSettings
    from ottla.spark.formats.misfits import Put
    from ottla.spark.formats.typed_rows import TypedRows
    from ottla.spark.options import ReadOptions

logger = logging.getLogger("ottla.spark")

MAX_ROWS = 50_000
MAX_BYTES = 8 * 1024 * 1024
"""The maximum size of an Arrow batch, in bytes. The JVM is fastest with batches of 1 to 10 MB."""
TOGETHER_BYTES = 16 * 1024 * 1024
"""The maximum size of compressed batches that are decoded together, in bytes. A larger batch is decoded alone."""


def _unreadable(
    topic: str, partition: int, header: BatchHeader, error: BadBatch | CodecFailed, limit_bytes: int
) -> UnreadableBatch:
    """Return a sentence that names the batch, what is wrong with it, and what to do."""
    which = f"The batch of topic {topic}, partition {partition}, offsets {header.base_offset} to {header.last_offset}"
    past = f'start behind it with startingOffsets = {{"{topic}": {{"{partition}": {header.next_offset}}}}}'
    if isinstance(error, CodecFailed) and error.over_limit:
        return UnreadableBatch(f"{which}, opens to more than maxOpenedBytes = {limit_bytes}: raise that option, or {past}.")
    return UnreadableBatch(f"{which}, is damaged ({str(error).rstrip('.')}): have its broker check it, or {past}.")


def rows_of(options: ReadOptions, schema: StructType, work: Range) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in the columns of `schema`.

    Raises `DataLoss` for deleted records, `MalformedRecord` for a record that does not fit its format, and the client's errors.
    """
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    if not options.formats.formats_by_column():
        for columns in _all_columns(options, work):
            yield from _arrow_batches(columns, arrow_schema, work)
        return
    typed = _typed_rows(options, arrow_schema, work)
    for columns in _all_columns(options, work):
        for opened in _arrow_batches(columns, typed.opened, work):
            yield typed.rows(opened)
    typed.finish()


def _typed_rows(options: ReadOptions, schema: pa.Schema, work: Range) -> TypedRows:
    from ottla.spark.formats.typed_rows import TypedRows  # imported when needed: reading bytes uses no formats

    return TypedRows(options.formats, schema, f"{work.topic}-{work.partition}", _dead_letters(options))


def _dead_letters(options: ReadOptions) -> Put | None:
    """Return the function that writes dead letters and waits until they are written. Return None without a dead letter topic."""
    if options.dead_letters is None:
        return None
    from ottla.spark.options import WriteOptions
    from ottla.spark.row_sender import write_rows

    writing = WriteOptions(options.dead_letters, options.formats.dead_letter_topic)
    return lambda letters: write_rows(writing, [letters])


def _all_columns(options: ReadOptions, work: Range) -> Iterator[Columns]:
    """Yield all records of a range. If its first records are deleted during the read, continue after them. Raises `DataLoss`."""
    start = work.start
    try:
        for columns in _columns_of(options, work):
            start = columns.next_offset
            yield columns
    except (OffsetOutOfRange, UnknownTopic):
        yield from _all_columns(options, _what_is_left(options, work._replace(start=start)))


def _what_is_left(options: ReadOptions, work: Range) -> Range:
    """Return the part of a range that was not deleted since planning. Raises `DataLoss`."""
    where = TopicPartition(work.topic, work.partition)
    try:
        with Brokers(options.client) as brokers:
            earliest, latest = brokers.earliest([where]), brokers.latest([where])
    except UnknownTopic:
        accept_losses(
            [f"topic {work.topic} was deleted before {names([where])} was read to offset {work.end}"],
            fail=options.fail_on_data_loss,
        )
        return work._replace(end=work.start)
    accept_losses(find_lost({where: work.start}, earliest, latest), fail=options.fail_on_data_loss)
    return work._replace(start=min(max(work.start, earliest[where]), work.end), end=min(work.end, latest[where]))


def _columns_of(options: ReadOptions, work: Range) -> Iterator[Columns]:
    most_bytes = min(TOGETHER_BYTES, options.max_opened_bytes)
    for run in _fetch(options, work):
        for part in openable(run.records, most_bytes):
            yield from _open(part, work, options.max_opened_bytes, check_crcs=run.check_crcs)


def _open(part: memoryview, work: Range, limit_bytes: int, *, check_crcs: bool) -> Iterator[Columns]:
    """Decode the batches in `part` into columns, together if possible. Raises `UnreadableBatch`."""
    open_part = partial(open_batches, from_offset=work.start, until_offset=work.end, limit_bytes=limit_bytes, check_crcs=check_crcs)
    try:
        yield open_part(part)
    except (BadBatch, CodecFailed):
        # Yield the undamaged batches first; then the error names the damaged one.
        for position, header in batches(part):
            batch = part[position : position + header.size]
            try:
                yield open_part(batch)
            except (BadBatch, CodecFailed) as error:
                raise _unreadable(work.topic, work.partition, header, error, limit_bytes) from error


class FoundBatches(NamedTuple):
    """A run of whole batches of a partition, from a file or from a broker. CRCs of batches from files are not checked yet."""

    records: memoryview
    check_crcs: bool


def _fetch(options: ReadOptions, work: Range) -> Iterator[FoundBatches]:
    """Yield batches from files of the partition's leader if possible, and fetch the rest from brokers."""
    if options.directories:
        stored = StoredBatches(options.directories, options.client, work)
        try:
            for records in stored.runs():
                yield FoundBatches(records, check_crcs=True)
            return
        except StorageFailed as failure:
            name = f"{work.topic}-{work.partition}"
            logger.warning("%s is read from its brokers from offset %d on: %s", name, stored.next_offset, failure)
            work = work._replace(start=stored.next_offset)
    for records in _from_brokers(options.client, work):
        yield FoundBatches(records, check_crcs=False)


def _from_brokers(settings: ConsumerSettings, work: Range) -> Iterator[memoryview]:
    """Yield runs of whole batches. The event loop runs on the task's thread, only while a call waits."""
    reader = RangeReader(settings, TopicPartition(work.topic, work.partition), work.start, work.end)
    with asyncio.Runner() as runner:
        try:
            while (found := runner.run(reader.next_batches())) is not None:
                yield from found
        finally:
            runner.run(reader.close())


def _arrow_batches(columns: Columns, schema: pa.Schema, work: Range) -> Iterator[pa.RecordBatch]:
    data_bytes = sum({id(run.data.obj): len(run.data) for run in columns.runs}.values())
    rows = max(1, min(MAX_ROWS, len(columns) * MAX_BYTES // max(1, data_bytes)))
    pieces = -(-len(columns) // rows)
    for piece in range(pieces):
        yield _arrow(columns.slice(len(columns) * piece // pieces, len(columns) * (piece + 1) // pieces), schema, work)


def _arrow(columns: Columns, schema: pa.Schema, work: Range) -> pa.RecordBatch:
    made = to_arrow(
        columns,
        schema.names,
        topic=work.topic,
        partition=work.partition,
        timestamp_type=pa.timestamp("us", tz="UTC"),
        **({"headers_type": schema.field("headers").type} if "headers" in schema.names else {}),
    )
    # A STRING column has the same bytes as a BINARY one. Spark's cast from BINARY does not check them either.
    arrays = [each if each.type == field.type else each.view(field.type) for each, field in zip(made.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
