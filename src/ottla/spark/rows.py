"""One task's range as Arrow record batches: whole fetched batches are opened into columns, no record becomes an object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.client.errors import OffsetOutOfRange
from ottla.client.types import TopicPartition
from ottla.net.client.range_reader import RangeReader
from ottla.records.arrow import to_arrow
from ottla.records.batch import batches
from ottla.records.columns import Columns, open_batches
from ottla.spark.brokers import Brokers
from ottla.spark.planning import Range, accept_losses, lost

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.client.settings import ConsumerSettings
    from ottla.spark.options import ReadOptions

MAX_ROWS = 50_000
MAX_BYTES = 8 * 1024 * 1024
"""The largest Arrow batch. The JVM is fastest with those of 1 to 10 MB."""
COMPRESSED_BYTES = 1024 * 1024
"""How much compressed data is opened at once: its full size is unknown beforehand, and all of it is in memory together."""


def rows_of(options: ReadOptions, schema: StructType, work: Range) -> Iterator[pa.RecordBatch]:
    """The records of a range in the columns of `schema`. Raises `DataLoss` where they are gone, and the client's errors."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    start = work.start
    try:
        for columns in _columns_of(options, work):
            start = columns.next_offset
            yield from _arrow_batches(columns, arrow_schema, work)
    except OffsetOutOfRange:
        yield from rows_of(options, schema, _what_is_left(options, work._replace(start=start)))


def _what_is_left(options: ReadOptions, work: Range) -> Range:
    """What is still there of a range that has lost records since it was planned. Raises `DataLoss`."""
    where = TopicPartition(work.topic, work.partition)
    with Brokers(options.client) as brokers:
        earliest, latest = brokers.earliest([where]), brokers.latest([where])
    accept_losses(lost({where: work.start}, earliest, latest), fail=options.fail_on_data_loss)
    return work._replace(start=min(max(work.start, earliest[where]), work.end), end=min(work.end, latest[where]))


def _columns_of(options: ReadOptions, work: Range) -> Iterator[Columns]:
    for records in _fetched(options.client, work):
        for part in _parts(records):
            yield open_batches(part, from_offset=work.start, until_offset=work.end)


def _fetched(settings: ConsumerSettings, work: Range) -> Iterator[memoryview]:
    """Runs of whole batches. The event loop runs on the task's own thread, and only while something is awaited."""
    reader = RangeReader(settings, TopicPartition(work.topic, work.partition), work.start, work.end)
    with asyncio.Runner() as runner:
        try:
            while (found := runner.run(reader.next_batches())) is not None:
                yield from found
        finally:
            runner.run(reader.close())


def _parts(records: memoryview) -> Iterator[memoryview]:
    """Runs of whole batches to open together: any amount of uncompressed data, but little of compressed data."""
    first = compressed = 0
    for position, header in batches(records):
        if header.codec:
            if compressed and compressed + header.size > COMPRESSED_BYTES:
                yield records[first:position]
                first, compressed = position, 0
            compressed += header.size
    if first < len(records):
        yield records[first:]


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
    # A key or value asked for as text is the same bytes under another name: Spark's cast from BINARY checks no more than this.
    arrays = [each if each.type == field.type else each.view(field.type) for each, field in zip(made.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
