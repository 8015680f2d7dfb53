"""Records to write, as columns of positions and sizes, and the batches of magic 2 that are encoded from them.

No Python object is made for a record. Arrow's columns (`arrow`), lines of text (`lines`) and lists of values become such rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

from ottla.ports import Buffer
from ottla.records import kernel, kernel_arrow, kernel_build
from ottla.records.batches.builder import MOST_OVERHEAD_BYTES, NO_DELTAS, seal
from ottla.records.batches.header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from ottla.records.compilation_warning import warn_once
from ottla.records.compression import codecs
from ottla.records.kernel_common import SPAN_COLUMNS
from ottla.records.kernel_send import RecordBuffer

BATCH_BYTES: Final = 1 << 20
NOTHING: Final = memoryview(b"")
MOST_BYTES: Final = 0x7FFFFFFF
UNKNOWN_TIME: Final = -(1 << 63)
"""Noted instead of a timestamp for rows that have several."""
_UNKNOWN_BYTES: Final = array("q", [UNKNOWN_TIME]).tobytes()
Order: TypeAlias = "array[int] | memoryview[int]"


class Rows:
    """Keys, values, timestamps and headers, prepared for writing as records in any order and in any batches.

    `spans` has the six columns of `kernel` (`KEY_AT` …), with a size of -1 for null: they refer to `key_data`, `value_data` and
    `header_data`. At first, all values are empty, and without `key_data`, no row has a key. An int as `timestamps` is the time of
    all records, in ms since 1970.
    """

    def __init__(self, row_count: int, timestamps: memoryview[int] | int) -> None:
        self.row_count = row_count
        self.spans = memoryview(bytearray(4 * SPAN_COLUMNS * row_count or 4)).cast("i")
        self.key_data: Buffer | None = None
        self.value_data: Buffer = NOTHING
        self.header_data: Buffer = NOTHING
        self.only_timestamp = timestamps if isinstance(timestamps, int) else None
        self.timestamps = memoryview(array("q", [timestamps]) * row_count) if isinstance(timestamps, int) else timestamps

    def fill(self, column: int, number: int) -> None:
        """Write a number to column number `column` of the spans, for all rows."""
        self.column(column)[:] = memoryview(array("i", [number]) * self.row_count)

    def column(self, column: int) -> memoryview[int]:
        """Return column number `column` of the spans (`kernel.KEY_AT` …), by row."""
        return self.spans[column * self.row_count : (column + 1) * self.row_count]

    @property
    def data(self) -> tuple[Buffer, Buffer, Buffer]:
        """Return the buffers of keys, values and headers."""
        return NOTHING if self.key_data is None else self.key_data, self.value_data, self.header_data

    def key(self, row: int) -> bytes | None:
        """Return the key of one row."""
        return self._item(self.data[0], kernel.KEY_AT, row)

    def value(self, row: int) -> bytes | None:
        """Return the value of one row."""
        return self._item(self.value_data, kernel.VALUE_AT, row)

    def _item(self, data: Buffer, column: int, row: int) -> bytes | None:
        at, size = self.column(column)[row], self.column(column + 1)[row]
        return None if size < 0 else bytes(data[at : at + size])

    def partitions(self, partition_count: int) -> array[int]:
        """Return the partition of every row by murmur2 of its key, as Kafka's clients choose it; -1 for a null key."""
        out = array("i", bytes(4 * self.row_count))
        at, sizes = self.column(kernel.KEY_AT), self.column(kernel.KEY_SIZE)
        kernel_arrow.murmur2_partitions(self.data[0], at, sizes, partition_count, out)
        return out

    def largest_bytes(self, row: int) -> int:
        """Return an upper bound of the size of one row as a record."""
        sizes = (self.column(column)[row] for column in (kernel.KEY_SIZE, kernel.VALUE_SIZE, kernel.HEADERS_SIZE))
        return MOST_OVERHEAD_BYTES + sum(max(size, 0) for size in sizes)

    def usual_bytes(self, count: int) -> int:
        """Return an estimate of the size of `count` rows as records, from the average size of all rows."""
        data_bytes = sum(map(len, self.data))
        return count * (MOST_OVERHEAD_BYTES + data_bytes // max(self.row_count, 1))

    def data_bytes(self, start: int, stop: int) -> int:
        """Return the size of the keys and values from row `start` to `stop`."""
        columns = (self.column(column)[start:stop] for column in (kernel.KEY_SIZE, kernel.VALUE_SIZE))
        return sum(kernel_arrow.total_bytes(sizes)[0] for sizes in columns)

    def first_above(self, most_bytes: int, start: int, stop: int) -> int:
        """Return the first row from `start` to `stop` that can be larger than `most_bytes` as a record, or `stop`."""
        shared = {id(data): len(data) for data in self.data}
        if sum(shared.values()) + MOST_OVERHEAD_BYTES <= most_bytes:
            return stop  # even a row of all bytes is not
        columns = (self.column(column)[start:stop] for column in (kernel.KEY_SIZE, kernel.VALUE_SIZE, kernel.HEADERS_SIZE))
        if sum(map(kernel_arrow.largest, columns)) + MOST_OVERHEAD_BYTES <= most_bytes:
            return stop
        return next((row for row in range(start, stop) if self.largest_bytes(row) > most_bytes), stop)


class RowBatch(RecordBuffer):
    """A batch that is being filled, by rows or by single records. Each is encoded as soon as it is added."""

    __slots__ = ()

    def extend(self, rows: Rows, order: Order, start: int, stop: int, most_bytes: int) -> int:
        """Add the rows `order[start:stop]`, or `start` to `stop` if `order` is empty, until the batch has `most_bytes`.

        An empty batch takes its first row whatever the size. Return the first index that was not added. Meanwhile, other threads
        can add no record.
        """
        self.is_open = False  # the kernel writes rows without Python's lock
        try:
            return self._extend(rows, order, start, stop, most_bytes)
        finally:
            self.is_open = True

    def _extend(self, rows: Rows, order: Order, start: int, stop: int, most_bytes: int) -> int:
        if not self.record_count and start < stop:
            self.base_timestamp = self.max_timestamp = rows.timestamps[order[start] if len(order) else start]
        if start < stop:
            self.note_time(UNKNOWN_TIME if rows.only_timestamp is None else rows.only_timestamp)
        at = start
        while at < stop:
            alone = len(self.out) > most_bytes  # room for one record that is larger than a batch, and for no other
            more, self.end, newest = kernel_build.write(
                self.out,
                self.end,
                order,
                at,
                at + 1 if alone else stop,
                NO_DELTAS,
                rows.timestamps,
                self.base_timestamp,
                rows.spans,
                *rows.data,
                self.record_count,
            )
            self.record_count += more - at
            self.max_timestamp = max(self.max_timestamp, newest)
            at = more
            if at == stop or alone or not self._grow(rows, order, at, stop, most_bytes):
                break
        return at

    @property
    def has_unknown_times(self) -> bool:
        """Return whether `timestamp` can return None."""
        return _UNKNOWN_BYTES in self.times

    def timestamp(self, index: int) -> int | None:
        """Return the timestamp of a record if it can be told without decoding the batch."""
        times = memoryview(self.times).cast("q")
        found = times[2 * bisect_right(times[::2], index) - 1]
        return None if found == UNKNOWN_TIME else found

    def _grow(self, rows: Rows, order: Order, at: int, stop: int, most_bytes: int) -> bool:
        """Make room for rows from `at` on. Return False if the batch is full."""
        size = len(self.out)
        if size < most_bytes:
            wanted = max(4 * size, self.end + 2 * rows.usual_bytes(stop - at))  # a batch that grows often is copied often
            wanted = min(most_bytes, wanted)
        elif not self.record_count:
            wanted = size + rows.largest_bytes(order[at] if len(order) else at)
        else:
            return False
        self.reserve(wanted)
        return True

    def seal(
        self,
        *,
        codec: int = codecs.NONE,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytearray:
        """Return the whole batch, which has at least one record. No row can be added afterwards."""
        warn_once()
        self.is_open = False
        del self.out[self.end :]
        header = BatchHeader(
            base_offset=0,
            batch_length=len(self.out) - LOG_OVERHEAD_BYTES,
            leader_epoch=NO_PARTITION_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=codec | (TRANSACTIONAL_BIT if transactional else 0),
            last_offset_delta=self.record_count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.record_count,
        )
        return seal(header, self.out, level)


def by_partition(partitions: Order, partition_count: int) -> tuple[array[int], array[int]]:
    """Return (starts, order) for `batches_of`: partition p has the rows `order[starts[p]:starts[p + 1]]`, in their order."""
    starts, order = array("i", bytes(4 * (partition_count + 1))), array("i", bytes(4 * len(partitions)))
    kernel_arrow.group_rows(partitions, starts, order)
    return starts, order


def batches_of(
    rows: Rows,
    order: Order,
    start: int,
    stop: int,
    *,
    batch_bytes: int = BATCH_BYTES,
    base_sequence: int = NO_SEQUENCE,
    **fields: Any,
) -> Iterator[bytearray]:
    """Yield record batches of the rows `order[start:stop]`, or of rows `start` to `stop` if `order` is empty.

    The other arguments are those of `RowBatch.seal`.
    """
    while start < stop:
        batch = RowBatch(HEADER_BYTES + batch_bytes)
        start = batch.extend(rows, order, start, stop, HEADER_BYTES + batch_bytes)
        yield batch.seal(base_sequence=base_sequence, **fields)
        if base_sequence != NO_SEQUENCE:
            base_sequence = (base_sequence + batch.record_count) & 0x7FFFFFFF


def value_rows(values: Sequence[bytes], timestamp_ms: int) -> Rows:
    """Return rows that have only values. Raises `ValueError` if they take more than 2 GB together."""
    rows = Rows(len(values), timestamp_ms)
    data = b"".join(values)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{len(data)} bytes of values are too many at once: send fewer.")
    sizes = array("i", map(len, values))
    rows.fill(kernel.KEY_SIZE, -1)
    if sizes:
        rows.column(kernel.VALUE_SIZE)[:] = memoryview(sizes)
        rows.column(kernel.VALUE_AT)[:] = memoryview(array("i", accumulate(sizes[:-1], initial=0)))
    rows.value_data = data
    return rows
