"""The writer of a task's rows. Arrow batches become record batches, and no row becomes a Python object."""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Self

import numpy
import pyarrow as pa
import pyarrow.compute as compute

from ottla.client.settings.clients import COMPRESSIONS, ProducerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.background import BackgroundLoop
from ottla.net.client.producer.batch_producer import BatchProducer
from ottla.records import kernel
from ottla.records.batches.arrow import arrow_rows
from ottla.records.batches.builder import MOST_OVERHEAD_BYTES
from ottla.records.batches.header import HEADER_BYTES
from ottla.records.batches.rows import Rows, batches_of, by_partition
from ottla.spark.errors import OptionError
from ottla.spark.options import WriteOptions

GATHERED_BYTES = 4 * 1024 * 1024
"""The bytes that a task collects before it writes them, so that rows for many partitions do not become many small batches."""
MIN_KEYLESS_ROWS = 1000
HANDED_OVER = 4


class TaskProducer:
    """A `BatchProducer` for the thread of a task.

    Its event loop runs on its own thread, so that it sends while the task builds batches.

    Batches are passed to the loop in groups, because each change of threads costs as much as copying a batch.
    """

    def __init__(self, producer: BatchProducer, loop: BackgroundLoop) -> None:
        self._producer, self._loop = producer, loop
        self._made: list[tuple[TopicPartition, bytearray]] = []

    @classmethod
    def start(cls, settings: ProducerSettings) -> Self:
        """Return a producer with its own event loop and connections. The caller must `close` it."""
        producer = BatchProducer(settings)
        return cls(producer, BackgroundLoop.begin("ottla-spark-writer", producer.start))

    def close(self) -> None:
        """Close all connections. Call `flush` before, because unacknowledged batches are dropped."""
        try:
            self._loop.run(self._producer.close())
        finally:
            self._loop.stop()

    def flush(self) -> None:
        """Wait until every batch is acknowledged. Raises the `KafkaError` of a batch that failed."""
        self.hand_over()
        self._loop.run(self._producer.flush())

    def partition_count(self, topic: str) -> int:
        """Return the number of a topic's partitions; brokers may create the topic."""
        return self._loop.run(self._producer.partition_count(topic))

    def send(self, where: TopicPartition, batch: bytearray) -> None:
        """Queue one batch; wait while many batches are unacknowledged. Raises the `KafkaError` of an earlier batch."""
        self._made.append((where, batch))
        if len(self._made) >= HANDED_OVER:
            self.hand_over()

    def hand_over(self) -> None:
        """Pass the queued batches to the event loop, which sends them. Raises the exceptions of `send`."""
        made, self._made = self._made, []
        self._loop.run(self._producer.send(made))


_KEPT: dict[ProducerSettings, TaskProducer] = {}
"""The producers of this process, which are kept for later tasks. A producer that had an error is removed."""


def write_rows(options: WriteOptions, arrived: Iterable[pa.RecordBatch]) -> int:
    """Write all rows of a task, wait until the brokers have them, and return their number.

    Raises the client's errors, and `OptionError` for rows that name no topic or a partition that does not exist.
    """
    rows = 0
    encode = make_encoder(options)
    producer = _KEPT.pop(options.client, None) or TaskProducer.start(options.client)
    try:
        for batch in gather(arrived):
            rows += batch.num_rows
            send_rows(producer, encode(batch), options)
        producer.flush()
    except BaseException:
        producer.close()
        raise
    _KEPT[options.client] = producer
    return rows


def send_rows(producer: TaskProducer, batch: pa.RecordBatch, options: WriteOptions) -> None:
    """Send rows to the topics in their column, or in the options. Raises what `write_rows` raises."""
    for topic, own in by_topic(batch, options.topic):
        _send(producer, topic, own, options)


def make_encoder(options: WriteOptions) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that encodes typed keys and values. It returns rows unchanged if both are bytes."""
    if not options.formats.formats_by_column():
        return lambda batch: batch
    from ottla.spark.formats.codecs import EncodedColumns  # imported when needed: writing bytes uses no formats

    return EncodedColumns(options.formats, options.topic).rows


def gather(arrived: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches. Small ones are joined until they have the size of a request; large ones are not copied."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in arrived:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= GATHERED_BYTES:
            yield _join(waiting)
            waiting, size = [], 0
    if waiting:
        yield _join(waiting)


def _join(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each topic, in their order. Raises `OptionError` for a row that names no topic."""
    if topic is not None:
        yield topic, batch
        return
    named = batch.column("topic")
    if named.null_count:
        raise OptionError("A row's column topic is null: fill it, or give option topic.")
    topics = compute.unique(named)
    for each in topics:
        yield each.as_py(), batch if len(topics) == 1 else batch.filter(compute.equal(named, each))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None


def _send(producer: TaskProducer, topic: str, batch: pa.RecordBatch, options: WriteOptions) -> None:
    count = producer.partition_count(topic)
    headers = _column(batch, "headers") if options.include_headers else None
    if headers is not None:
        check_headers(headers)
    rows = arrow_rows(batch.column("value"), _column(batch, "key"), timestamps_of(batch, options, int(time.time() * 1000)), headers)
    if options.max_request_size is not None:
        check_sizes(rows, options.max_request_size, topic)
    chosen = choose_partitions(rows.partitions(count), _column(batch, "partition"), count, topic)
    starts, order = by_partition(chosen, count)
    codec, batch_bytes = COMPRESSIONS[options.client.compression_type], options.client.batch_size
    for partition in range(count):
        for records in batches_of(rows, order, starts[partition], starts[partition + 1], codec=codec, batch_bytes=batch_bytes):
            producer.send(TopicPartition(topic, partition), records)


def check_headers(headers: pa.Array) -> None:
    """Raise `OptionError` if a header or a header's key is null, because Kafka has no such headers."""
    held = compute.list_flatten(headers)
    if held.null_count or held.field(0).null_count:
        raise OptionError("A header of a row, or its key, is null, and Kafka has no such header: leave it out, or name it.")


def check_sizes(rows: Rows, max_request_size: int, topic: str) -> None:
    """Raise `OptionError` if a record alone exceeds `max_request_size` bytes. As in Kafka, this is its size before compression."""
    columns = (kernel.KEY_SIZE, kernel.VALUE_SIZE, kernel.HEADERS_SIZE)
    sizes = sum(numpy.maximum(numpy.frombuffer(rows.column(each), dtype=numpy.int32), 0).astype(numpy.int64) for each in columns)
    largest = int(numpy.max(sizes, initial=0)) + HEADER_BYTES + MOST_OVERHEAD_BYTES
    if largest > max_request_size:
        raise OptionError(
            f"A record for topic {topic} takes {largest} bytes, more than kafka.max.request.size={max_request_size}: "
            "raise that, or make the rows smaller."
        )


def timestamps_of(batch: pa.RecordBatch, options: WriteOptions, now_ms: int) -> pa.Array | int:
    """Return the timestamps of a batch's records in ms: with option includeTimestamp from their column, otherwise `now_ms`."""
    if not options.include_timestamp:
        return now_ms
    named = batch.column("timestamp")
    plain = named.cast(pa.timestamp("ms", tz=named.type.tz), safe=False).cast(pa.int64())
    return compute.fill_null(plain, now_ms)


def choose_partitions(by_key: array[int], named: pa.Array | None, count: int, topic: str) -> array[int]:
    """Return the partition of each row: the one in its column, else the one of its key (`by_key`, -1 without a key).

    Rows with neither are spread over all partitions, in runs, so that each partition gets few large batches. Raises `OptionError`
    for a partition that the topic does not have.
    """
    chosen = numpy.frombuffer(by_key, dtype=numpy.int32)
    if named is not None:
        wanted = compute.fill_null(named, -1).to_numpy(zero_copy_only=False)
        wrong = wanted[(wanted >= count) | ((wanted < 0) & named.is_valid().to_numpy(zero_copy_only=False))]
        if len(wrong):
            raise OptionError(f"Topic {topic} has no partition {wrong[0]}: name one of 0 to {count - 1}, or leave it null.")
        numpy.copyto(chosen, wanted, where=wanted >= 0, casting="same_kind")
    (keyless,) = numpy.nonzero(chosen < 0)
    if len(keyless):
        run = max(MIN_KEYLESS_ROWS, -(-len(keyless) // count))
        chosen[keyless] = (numpy.arange(len(keyless)) // run + random.randrange(count)) % count
    return by_key
