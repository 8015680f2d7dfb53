"""The loops that write records; compiled or not, as `kernel` is.

They handle the bytes of a record of magic 2, and columns of positions and sizes. Every function checks the ranges that it is given,
and that the output has room. Types: `kernel_build.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING
    from cython.cimports.libc.string import memcpy
    from cython.cimports.ottla.records.kernel_common import SPAN_COLUMNS, body_bytes, copy, put, row_inside, wrapped, zigzag_bytes
else:
    from ottla.records.kernel_common import SPAN_COLUMNS, body_bytes, copy, put, row_inside, wrapped, zigzag_bytes

COMPILED = cython.compiled


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(out: cython.uchar[::1], pos: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    if cython.compiled:
        return put(cython.address(out[0]), pos, number)
    return put(out, pos, number)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_span(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    pos = _put(out, pos, size)
    if size > 0:
        copy(out, pos, data, at, size)
        pos += size
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write_one(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    age: cython.longlong,
    delta: cython.longlong,
    row: cython.Py_ssize_t,
    spans: cython.const[cython.int][::1],
    capacity: cython.Py_ssize_t,
    key_data: cython.const[cython.uchar][::1],
    value_data: cython.const[cython.uchar][::1],
    header_data: cython.const[cython.uchar][::1],
) -> cython.Py_ssize_t:
    """Write one record if there is room for it; return -1 if not."""
    key_size: cython.longlong = spans[capacity + row]
    value_size: cython.longlong = spans[3 * capacity + row]
    header_size: cython.longlong = spans[5 * capacity + row]
    body: cython.longlong = body_bytes(age, delta, key_size, value_size, header_size)
    if body + zigzag_bytes(body) > len(out) - pos:
        return -1
    pos = _put(out, pos, body)
    out[pos] = 0
    pos = _put(out, pos + 1, age)
    pos = _put(out, pos, delta)
    pos = _put_span(out, pos, key_data, spans[row], key_size)
    pos = _put_span(out, pos, value_data, spans[2 * capacity + row], value_size)
    if header_size <= 0:
        out[pos] = 0
        return pos + 1
    copy(out, pos, header_data, spans[4 * capacity + row], header_size)
    return pos + header_size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _write(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    rows: cython.const[cython.int][::1],
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    deltas: cython.const[cython.longlong][::1],
    base_delta: cython.longlong,
    timestamps: cython.const[cython.longlong][::1],
    base_timestamp: cython.longlong,
    spans: cython.const[cython.int][::1],
    key_data: cython.const[cython.uchar][::1],
    value_data: cython.const[cython.uchar][::1],
    header_data: cython.const[cython.uchar][::1],
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t, cython.longlong]:
    capacity: cython.Py_ssize_t = len(timestamps)
    index: cython.Py_ssize_t = first
    row: cython.Py_ssize_t
    after: cython.Py_ssize_t
    delta: cython.longlong
    age: cython.longlong
    max_timestamp: cython.longlong = base_timestamp
    while index < end:
        row = rows[index] if len(rows) > 0 else index
        if not 0 <= row < capacity or not row_inside(spans, capacity, row, len(key_data), len(value_data), len(header_data)):
            return -1, pos, 0
        age = wrapped(timestamps[row] - base_timestamp)
        delta = deltas[row] if len(deltas) > 0 else base_delta + index - first
        after = _write_one(out, pos, age, delta, row, spans, capacity, key_data, value_data, header_data)
        if after < 0:
            break
        pos = after
        if timestamps[row] > max_timestamp:
            max_timestamp = timestamps[row]
        index += 1
    return index, pos, max_timestamp


def write(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    rows: cython.const[cython.int][::1],
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    deltas: cython.const[cython.longlong][::1],
    timestamps: cython.const[cython.longlong][::1],
    base_timestamp: cython.longlong,
    spans: cython.const[cython.int][::1],
    key_data: cython.const[cython.uchar][::1],
    value_data: cython.const[cython.uchar][::1],
    header_data: cython.const[cython.uchar][::1],
    base_delta: cython.longlong = 0,
):
    """Write records into `out` from `pos` while they fit; return (first index not written, position, greatest timestamp).

    Index i is row `rows[i]`, or row i if `rows` is empty; offset deltas count from `base_delta` if `deltas` is empty.
    """
    capacity: cython.Py_ssize_t = len(timestamps)
    if not 0 <= first <= end <= (len(rows) if len(rows) > 0 else capacity) or not 0 <= pos <= len(out) <= 0x7FFFFFFF:
        raise ValueError("write: the rows or the position are out of range")
    if len(spans) < SPAN_COLUMNS * capacity or (len(deltas) > 0 and len(deltas) < capacity):
        raise ValueError("write: the columns differ in length")
    with cython.nogil:
        first, pos, base_timestamp = _write(
            out, pos, rows, first, end, deltas, base_delta, timestamps, base_timestamp, spans, key_data, value_data, header_data
        )
    if first < 0:
        raise ValueError("write: a row or a span is outside its data")
    return first, pos, base_timestamp


def measure(items: list):
    """Return the bytes of all items together; -1 if an item is neither bytes nor None, which `write_items` does not accept."""
    total: cython.longlong = 0
    for item in items:
        if item is not None:
            if type(item) is not bytes:
                return -1
            total += len(item)
    return total


@cython.cfunc
@cython.inline
def _put_bytes(out: cython.uchar[::1], pos: cython.Py_ssize_t, item: bytes, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write `size` bytes of `item`, without a check for room; return the position after them."""
    if cython.compiled:
        memcpy(cython.address(out[pos]), PyBytes_AS_STRING(item), size)
    else:
        out[pos : pos + size] = item
    return pos + size


def write_items(out: cython.uchar[::1], pos: cython.Py_ssize_t, timestamps: list, keys: list, values: list, headers: list):
    """Write a record for each of `values`; return (position after the last, greatest timestamp). Items are bytes or None.

    `keys` empty: all null. `headers` empty: none; otherwise each item is the count and the headers of one record, encoded.
    """
    index: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(values)
    key_size: cython.longlong = -1
    value_size: cython.longlong
    header_size: cython.longlong = 1
    body: cython.longlong
    age: cython.longlong
    timestamp: cython.longlong
    base_timestamp: cython.longlong = timestamps[0]
    newest: cython.longlong = base_timestamp
    key: bytes = None
    header: bytes = b"\x00"
    keyed: cython.bint = len(keys) > 0
    headed: cython.bint = len(headers) > 0
    if len(timestamps) != count or (keyed and len(keys) != count) or (headed and len(headers) != count) or pos < 0:
        raise ValueError("write_items: the lists differ in length")
    for index in range(count):
        value: bytes = values[index]
        value_size = -1 if value is None else len(value)
        if keyed:
            key = keys[index]
            key_size = -1 if key is None else len(key)
        if headed:
            header = headers[index]
            header_size = len(header)
        timestamp = timestamps[index]
        newest = timestamp if timestamp > newest else newest
        age = wrapped(timestamp - base_timestamp)
        body = body_bytes(age, index, key_size, value_size, header_size)
        if body + 5 > len(out) - pos:  # a literal: with a name, which is Python's, this sum would take a third of the time
            raise ValueError("write_items: there is too little room")
        pos = _put(out, pos, body)
        out[pos] = 0
        pos = _put(out, _put(out, pos + 1, age), index)
        pos = _put(out, pos, key_size)
        if key_size > 0:
            pos = _put_bytes(out, pos, key, key_size)
        pos = _put(out, pos, value_size)
        if value_size > 0:
            pos = _put_bytes(out, pos, value, value_size)
        pos = _put_bytes(out, pos, header, header_size)
    return pos, newest


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_number(out: cython.uchar[::1], pos: cython.Py_ssize_t, size: cython.int, number: cython.longlong) -> cython.Py_ssize_t:
    """Write a big-endian number of `size` bytes; return the position after it."""
    end: cython.Py_ssize_t = pos + size
    pos = end
    while size > 0:
        size -= 1
        pos -= 1
        out[pos] = number & 0xFF
        number >>= 8
    return end


@cython.cfunc
def _records_bytes(keys: list, values: list) -> cython.longlong:
    """Return the exact size of records of one time without headers; -1 if an item is neither bytes nor None."""
    index: cython.Py_ssize_t
    total: cython.longlong = 0
    key_size: cython.longlong = -1
    value_size: cython.longlong
    body: cython.longlong
    keyed: cython.bint = len(keys) > 0
    for index in range(len(values)):
        value = values[index]
        if value is not None and type(value) is not bytes:
            return -1
        value_size = -1 if value is None else len(value)
        if keyed:
            key = keys[index]
            if key is not None and type(key) is not bytes:
                return -1
            key_size = -1 if key is None else len(key)
        body = body_bytes(0, index, key_size, value_size, 1)
        total += body + zigzag_bytes(body)
    return total


@cython.cfunc
def _put_records(out: cython.uchar[::1], pos: cython.Py_ssize_t, keys: list, values: list) -> cython.Py_ssize_t:
    """Write records that `_records_bytes` has measured, so that there is room for them; return the position after them."""
    index: cython.Py_ssize_t
    key: bytes = None
    value: bytes
    key_size: cython.longlong = -1
    value_size: cython.longlong
    keyed: cython.bint = len(keys) > 0
    for index in range(len(values)):
        value = values[index]
        value_size = -1 if value is None else len(value)
        if keyed:
            key = keys[index]
            key_size = -1 if key is None else len(key)
        pos = _put(out, pos, body_bytes(0, index, key_size, value_size, 1))
        out[pos] = out[pos + 1] = 0  # attributes, and the age
        pos = _put(out, _put(out, pos + 2, index), key_size)
        if key_size > 0:
            pos = _put_bytes(out, pos, key, key_size)
        pos = _put(out, pos, value_size)
        if value_size > 0:
            pos = _put_bytes(out, pos, value, value_size)
        out[pos] = 0  # no headers
        pos += 1
    return pos


def write_batch(
    keys: list,
    values: list,
    timestamp: cython.longlong,
    attributes: cython.int,
    base_offset: cython.longlong,
    leader_epoch: cython.longlong,
    producer_id: cython.longlong,
    producer_epoch: cython.longlong,
    base_sequence: cython.longlong,
):
    """Return an uncompressed batch of records of one time without headers, whose CRC is 0.

    `keys` empty: all null. Return None if an item is neither bytes nor None, or if the batch exceeds 2 GB.
    """
    count: cython.Py_ssize_t = len(values)
    if count == 0 or (len(keys) > 0 and len(keys) != count):
        raise ValueError("write_batch: the lists differ in length")
    size: cython.longlong = _records_bytes(keys, values)
    if size < 0 or size > 0x7FFFFFFF - 61:
        return None
    batch = bytearray(61 + size)
    out: cython.uchar[::1] = batch
    pos: cython.Py_ssize_t = _put_number(out, 0, 8, base_offset)
    pos = _put_number(out, pos, 4, size + 49)
    pos = _put_number(out, pos, 4, leader_epoch)
    pos = _put_number(out, pos, 1, 2)
    pos = _put_number(out, pos + 4, 2, attributes)
    pos = _put_number(out, pos, 4, count - 1)
    pos = _put_number(out, pos, 8, timestamp)
    pos = _put_number(out, pos, 8, timestamp)
    pos = _put_number(out, pos, 8, producer_id)
    pos = _put_number(out, pos, 2, producer_epoch)
    pos = _put_number(out, pos, 4, base_sequence)
    pos = _put_number(out, pos, 4, count)
    _put_records(out, pos, keys, values)
    return batch
