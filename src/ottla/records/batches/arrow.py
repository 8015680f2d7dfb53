"""Columns of records as Arrow record batches, and Arrow columns as record batches of Kafka. Needs pyarrow.

The module uses Arrow's memory layout, and makes no Python object for a record. Reading copies keys, values and headers once,
because Arrow requires them to be adjacent; offsets and timestamps in milliseconds are shared. Writing copies keys and values from
Arrow's buffers directly into the batch (`rows`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.records import kernel, kernel_arrow
from ottla.records.batches.rows import Rows

if TYPE_CHECKING:
    from ottla.records.batches.columns import Columns

COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType")
"""The default columns of `to_arrow`. It can also make `topic`, `partition` and `headers`."""

HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
NOTHING: Final = memoryview(b"")
NO_ROOM: Final = memoryview(bytearray())
MOST_BYTES: Final = 0x7FFFFFFF
MOST_REPEATED: Final = 1 << 14
"""The rows up to which an array of one repeated value is kept for further batches."""


def to_arrow(
    columns: Columns,
    names: Sequence[str] = COLUMNS,
    *,
    topic: str | None = None,
    partition: int | None = None,
    timestamp_type: pa.DataType | None = None,
    headers_type: pa.DataType = HEADERS,
    delivery_count: int | None = None,
) -> pa.RecordBatch:
    """Return the columns in `names`, which are names of Spark's Kafka source, in that order.

    key, value: binary. offset: int64. timestamp: `timestamp_type`, by default timestamp[ms, UTC], which shares memory; other units
    are converted. timestampType, partition: int32. delivery_count: int16. topic: string. headers: `headers_type`, a list of structs
    (key, value).
    Raises ValueError if all keys or all values take more than 2 GB: convert a `slice` of the columns.
    """
    makers: dict[str, Any] = {
        "key": lambda: spans_array(columns, kernel.KEY_AT),
        "value": lambda: spans_array(columns, kernel.VALUE_AT),
        "offset": lambda: _share(columns.offsets, pa.int64()),
        "timestamp": lambda: _timestamps(columns, timestamp_type),
        "timestampType": lambda: _timestamp_types(columns),
        "headers": lambda: headers_array(columns, headers_type),
        "topic": lambda: _repeat(topic, pa.string(), len(columns)),
        "partition": lambda: _repeat(partition, pa.int32(), len(columns)),
        "delivery_count": lambda: _repeat(delivery_count, pa.int16(), len(columns)),
    }
    return pa.RecordBatch.from_arrays([makers[name]() for name in names], names=list(names))


def spans_array(columns: Columns, column: int, kind: pa.DataType | None = None) -> pa.Array:
    """Return the keys or values of the records as one binary array. `column` is `kernel.KEY_AT` or `VALUE_AT`."""
    pieces = [(run.data, run.first - columns.first, run.end - columns.first) for run in columns.pieces()]
    at, sizes = columns.span_column(column), columns.span_column(column + 1)
    return _gather(pieces, at, sizes, kind or pa.binary())


def _repeat(value: str | int | None, kind: pa.DataType, rows: int) -> pa.Array:
    """Return an array that has `value` in each row: a slice of a larger one, which the next batches use too."""
    if rows > MOST_REPEATED:
        return pa.repeat(pa.scalar(value, kind), rows)
    return _repeat_many(value, kind, 1 << max(rows - 1, 1).bit_length())[:rows]


@lru_cache(maxsize=16)
def _repeat_many(value: str | int | None, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def _gather(pieces: list[tuple[memoryview, int, int]], at: memoryview, sizes: memoryview, kind: pa.DataType) -> pa.Array:
    total, nulls = kernel_arrow.total_bytes(sizes)
    if total > MOST_BYTES:
        raise ValueError(f"{total} bytes are more than an Arrow binary array holds: take a slice of the columns first.")
    rows = len(sizes)
    if nulls == rows:
        return pa.nulls(rows, kind)
    data = pa.allocate_buffer(total)
    offsets = pa.allocate_buffer(4 * (rows + 1))
    offset_view = memoryview(offsets).cast("B").cast("i")
    offset_view[0] = 0
    validity = bytearray((rows + 7) // 8) if nulls else NO_ROOM
    room = memoryview(data).cast("B")
    pos = 0
    for source, first, end in pieces:
        pos = kernel_arrow.gather(source, at[first:end], sizes[first:end], offset_view, first, pos, room, validity)
    buffers = [pa.py_buffer(validity) if nulls else None, offsets, data]
    return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


def _share(numbers: memoryview, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)], null_count=0)


def _timestamps(columns: Columns, kind: pa.DataType | None) -> pa.Array:
    shared = _share(columns.timestamps, pa.timestamp("ms", tz="UTC"))
    return shared if kind is None or kind == shared.type else shared.cast(kind, safe=False)


def _timestamp_types(columns: Columns) -> pa.Array:
    kinds = array("i")
    for run in columns.pieces():
        kinds.extend(array("i", [run.header.timestamp_type]) * (run.end - run.first))
    return _share(memoryview(kinds), pa.int32())


def headers_array(columns: Columns, kind: pa.DataType = HEADERS) -> pa.Array:
    """Return an array with a list of structs (key, value) for each record: its headers, or an empty list."""
    rows = len(columns)
    at, sizes = columns.span_column(kernel.HEADERS_AT), columns.span_column(kernel.HEADERS_SIZE)
    pieces = [(run.data, run.first - columns.first, run.end - columns.first) for run in columns.pieces()]
    counts = [kernel.count_headers(data, at[first:end], sizes[first:end]) for data, first, end in pieces]
    total = sum(counts)
    if not total:
        return _empty_lists(kind, rows)
    names, values = (memoryview(bytearray(8 * total)).cast("i") if total else NO_ROOM.cast("i") for _ in range(2))
    starts = memoryview(bytearray(4 * (rows + 1))).cast("i")
    entries: list[tuple[memoryview, int, int]] = []
    entry = 0
    for data, first, end in pieces:
        stop = kernel.header_spans(data, at[first:end], sizes[first:end], starts, first, entry, names, values)
        entries.append((data, entry, stop))
        entry = stop
    name_kind, value_kind = kind.value_type.field(0).type, kind.value_type.field(1).type
    fields = [
        _gather(entries, names[:total], names[total:], name_kind),
        _gather(entries, values[:total], values[total:], value_kind),
    ]
    structs = pa.Array.from_buffers(kind.value_type, total, [None], null_count=0, children=fields)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(starts)], null_count=0, children=[structs])


def _empty_lists(kind: pa.DataType, rows: int) -> pa.Array:
    starts = pa.py_buffer(bytes(4 * (rows + 1)))
    return pa.Array.from_buffers(kind, rows, [None, starts], null_count=0, children=[_empty_array(kind.value_type)])


@lru_cache(maxsize=4)
def _empty_array(kind: pa.DataType) -> pa.Array:
    return pa.array([], kind)


# --- from Arrow to record batches --------------------------------------------------------------------------------------------


def arrow_rows(value: pa.Array, key: pa.Array | None, timestamps: pa.Array | int, headers: pa.Array | None = None) -> Rows:
    """Return Arrow's values, keys, timestamps and headers as rows to write. Keys and values are not copied.

    `value`, `key`: binary or string arrays (large ones and views are converted); `key` None: null keys. `timestamps`: one int, or
    an array of milliseconds (int64) or of Arrow timestamps. `headers`: list<struct<string, binary>>.
    """
    if any(isinstance(column, pa.Array) and len(column) != len(value) for column in (key, timestamps, headers)):
        raise ValueError("Keys, timestamps and headers must have as many rows as the values.")
    rows = Rows(len(value), _milliseconds(timestamps))
    rows.value_data = _fill(rows, kernel.VALUE_AT, value)
    if key is None:
        rows.fill(kernel.KEY_SIZE, -1)
    else:
        rows.key_data = _fill(rows, kernel.KEY_AT, key)
    if headers is not None:
        rows.header_data = _encode_headers(headers, rows)
    return rows


def _fill(rows: Rows, column: int, values: pa.Array) -> memoryview:
    """Write the position and the size of each item to two columns of spans. Return the buffer of the items' bytes."""
    return _spans_of(values, rows.column(column), rows.column(column + 1))


def _spans_of(values: pa.Array, at: memoryview[int], sizes: memoryview[int]) -> memoryview:
    plain = values
    if plain.type not in (pa.binary(), pa.string()):
        plain = plain.cast(pa.binary())
    validity, offsets, data = plain.buffers()
    if not len(plain):
        return NOTHING
    bits = NOTHING if validity is None or not plain.null_count else memoryview(validity).cast("B")
    ends = memoryview(offsets).cast("B").cast("i")[plain.offset :]
    kernel_arrow.spans_from_offsets(ends, bits, plain.offset, at, sizes)
    return NOTHING if data is None else memoryview(data).cast("B")


def _milliseconds(timestamps: pa.Array | int) -> memoryview[int] | int:
    if isinstance(timestamps, int):
        return timestamps
    plain = timestamps
    if pa.types.is_timestamp(plain.type):
        can_overflow = plain.type.unit == "s"  # others lose only what is finer than ms
        plain = plain.cast(pa.timestamp("ms", tz=plain.type.tz), safe=can_overflow)
    if plain.null_count:
        raise ValueError("A timestamp is null: fill it first, for example with the current time.")
    plain = plain.cast(pa.int64())
    if not len(plain):
        return NOTHING.cast("q")
    return memoryview(plain.buffers()[1]).cast("B").cast("q")[plain.offset : plain.offset + len(plain)]


def _encode_headers(headers: pa.Array, rows: Rows) -> bytes:
    """Return the headers of all rows encoded one after the other. Headers are rare and small, so these become Python objects."""
    from ottla.records.batches.builder import encode_headers

    at, sizes = rows.column(kernel.HEADERS_AT), rows.column(kernel.HEADERS_SIZE)
    out = bytearray()
    for row, own in enumerate(headers.to_pylist()):
        at[row] = len(out)
        if own:
            pairs = [(None, None) if header is None else tuple(header.values()) for header in own]
            if any(name is None for name, _ in pairs):
                raise ValueError("A header or its name is null: leave it out of its list.")
            out += encode_headers(pairs)
        sizes[row] = len(out) - at[row]
    return bytes(out)
