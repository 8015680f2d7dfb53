"""A task's rows on their way to the brokers: Arrow batches become record batches, and no row becomes an object."""

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
from ottla.records.batches.arrow import Rows, batches_of, by_partition
from ottla.records.batches.builder import MOST_OVERHEAD_BYTES
from ottla.records.batches.header import HEADER_BYTES
from ottla.spark.errors import OptionError
from ottla.spark.options import WriteOptions

GATHERED_BYTES = 4 * 1024 * 1024
"""How much a task gathers before it writes, so that many partitions do not mean many small batches."""
MIN_KEYLESS_ROWS = 1000
HANDED_OVER = 4


class TaskProducer:
    """A `BatchProducer` for the thread of a task. Its loop has a thread of its own: batches leave while the task makes the next.

    Batches are handed over a few at a time: a change of threads costs as much as the copying of a batch.
    """

    def __init__(self, producer: BatchProducer, loop: BackgroundLoop) -> None:
        self._producer, self._loop = producer, loop
        self._made: list[tuple[TopicPartition, bytearray]] = []

    @classmethod
    def start(cls, settings: ProducerSettings) -> Self:
        """One with a loop and connections of its own; `close` it."""
        producer = BatchProducer(settings)
        return cls(producer, BackgroundLoop.begin("ottla-spark-writer", producer.start))

    def close(self) -> None:
        """Close all connections; what is not acknowledged is given up. `flush` first."""
        try:
            self._loop.run(self._producer.close())
        finally:
            self._loop.stop()

    def flush(self) -> None:
        """Wait until every batch is acknowledged. Raises the `KafkaError` of one that is not."""
        self.hand_over()
        self._loop.run(self._producer.flush())

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; it is created where brokers do that."""
        return self._loop.run(self._producer.partition_count(topic))

    def send(self, where: TopicPartition, batch: bytearray) -> None:
        """Queue one batch; waits while many are unanswered. Raises the `KafkaError` of an earlier batch."""
        self._made.append((where, batch))
        if len(self._made) >= HANDED_OVER:
            self.hand_over()

    def hand_over(self) -> None:
        """Let what was made so far leave. Raises as `send`."""
        made, self._made = self._made, []
        self._loop.run(self._producer.send(made))


_KEPT: dict[ProducerSettings, TaskProducer] = {}
"""The producers of this process: they stay from task to task. One that met an error does not."""


def write_rows(options: WriteOptions, arrived: Iterable[pa.RecordBatch]) -> int:
    """Write all rows of a task, wait until the brokers have them, and return their number.

    Raises the client's errors, and `OptionError` for rows that name no topic or a partition that does not exist.
    """
    rows = 0
    encode = encoding(options)
    producer = _KEPT.pop(options.client, None) or TaskProducer.start(options.client)
    try:
        for batch in gathered(arrived):
            rows += batch.num_rows
            send_rows(producer, encode(batch), options)
        producer.flush()
    except BaseException:
        producer.close()
        raise
    _KEPT[options.client] = producer
    return rows


def send_rows(producer: TaskProducer, batch: pa.RecordBatch, options: WriteOptions) -> None:
    """Send some rows, each to the topic it names. Raises as `write_rows`."""
    for topic, own in by_topic(batch, options.topic):
        _send(producer, topic, own, options)


def encoding(options: WriteOptions) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What turns rows with typed keys or values into those with bytes."""
    if not options.formats.given():
        return lambda batch: batch
    from ottla.spark.formats.codecs import EncodedColumns  # what writes bytes needs none of the formats

    return EncodedColumns(options.formats, options.topic).rows


def gathered(arrived: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Arrow batches joined until they are worth a request; large ones pass uncopied."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in arrived:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= GATHERED_BYTES:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, in their order. Raises `OptionError` for a row that names none."""
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
    rows = Rows(batch.column("value"), _column(batch, "key"), timestamps_of(batch, options, int(time.time() * 1000)), headers)
    if options.max_request_size is not None:
        check_sizes(rows, options.max_request_size, topic)
    chosen = choose_partitions(rows.partitions(count), _column(batch, "partition"), count, topic)
    starts, order = by_partition(rows, chosen, count)
    codec, batch_bytes = COMPRESSIONS[options.client.compression_type], options.client.batch_size
    for partition in range(count):
        for records in batches_of(rows, order, starts[partition], starts[partition + 1], codec=codec, batch_bytes=batch_bytes):
            producer.send(TopicPartition(topic, partition), records)


def check_headers(headers: pa.Array) -> None:
    """Raises `OptionError` where a header or its key is null: Kafka has no such header."""
    held = compute.list_flatten(headers)
    if held.null_count or held.field(0).null_count:
        raise OptionError("A header of a row, or its key, is null, and Kafka has no such header: leave it out, or name it.")


def check_sizes(rows: Rows, max_request_size: int, topic: str) -> None:
    """Raises `OptionError` where a record alone takes more than `max_request_size` bytes, before compression, as Kafka counts."""
    columns = (kernel.KEY_SIZE, kernel.VALUE_SIZE, kernel.HEADERS_SIZE)
    sizes = sum(numpy.maximum(numpy.frombuffer(rows.column(each), dtype=numpy.int32), 0).astype(numpy.int64) for each in columns)
    largest = int(numpy.max(sizes, initial=0)) + HEADER_BYTES + MOST_OVERHEAD_BYTES
    if largest > max_request_size:
        raise OptionError(
            f"A record for topic {topic} takes {largest} bytes, more than kafka.max.request.size={max_request_size}: "
            "raise that, or make the rows smaller."
        )


def timestamps_of(batch: pa.RecordBatch, options: WriteOptions, now_ms: int) -> pa.Array | int:
    """The times of a batch's records, in milliseconds: its own where it names them and they were asked for, otherwise now."""
    if not options.include_timestamp:
        return now_ms
    named = batch.column("timestamp")
    plain = named.cast(pa.timestamp("ms", tz=named.type.tz), safe=False).cast(pa.int64())
    return compute.fill_null(plain, now_ms)


def choose_partitions(by_key: array[int], named: pa.Array | None, count: int, topic: str) -> array[int]:
    """The partition of every row: the one it names, else its key's (`by_key`, -1 without a key), else one of all in turn.

    Rows without a key go out in runs, so that each partition gets few large batches. Raises `OptionError` where a row names a
    partition that the topic does not have.
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
