"""The loops that touch every record: one source, which Cython compiles where it can and Python runs as it is elsewhere.

Knows the bytes of a record of magic 2, and columns of positions and sizes. Every function checks the
ranges that it is given and never reads or writes outside them, whatever the bytes say; it returns positions and counts, and a
negative number for bytes that make no sense. Callers turn that into words. `kernel.pyi` has the types for everybody else.

Both runs give the same results. Where C's wrapping arithmetic and Python's integers differ, `cython.compiled` chooses.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.object import PyObject, PyTypeObject
    from cython.cimports.libc.string import memcpy

COMPILED = cython.compiled

KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE, HEADERS_AT, HEADERS_SIZE = range(6)
"""The six columns of spans, each `capacity` int32 after the one before. A size of -1 is null. Headers begin with their count."""

SPAN_COLUMNS = 6
MASK_64 = 0xFFFFFFFFFFFFFFFF
MOST_LENGTH_BYTES = 5


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _zigzag(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """(number, position after it); position -1 where no number ends before `end`."""
    number: cython.ulonglong
    if pos < end and buf[pos] < 0x80:
        number = buf[pos]
        return (number >> 1) ^ -(number & 1), pos + 1
    if pos + 1 < end and buf[pos + 1] < 0x80:
        number = (buf[pos] & 0x7F) | (buf[pos + 1] << 7)
        return (number >> 1) ^ -(number & 1), pos + 2
    return _long_zigzag(buf, pos, end)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _long_zigzag(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    number: cython.ulonglong = 0
    byte: cython.ulonglong
    shift: cython.int = 0
    while pos < end and shift < 70:
        byte = buf[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not cython.compiled:
                number &= MASK_64
            return (number >> 1) ^ -(number & 1), pos
        shift += 7
    return 0, -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _wrap(number: cython.longlong) -> cython.longlong:
    """A sum or difference as 64 bits hold it: C has wrapped it already."""
    if cython.compiled:
        return number
    return (number + (1 << 63) & MASK_64) - (1 << 63)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _span(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """(size or -1 for null, position of the bytes); position -1 where they do not end before `end`."""
    size: cython.longlong
    size, pos = _zigzag(buf, pos, end)
    if pos < 0 or size > end - pos:
        return 0, -1
    if size < 0:
        return -1, pos
    return size, pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip_headers(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The position after the headers, or -1. A header takes at least two bytes, which bounds the count."""
    count: cython.longlong
    size: cython.longlong
    count, pos = _zigzag(buf, pos, end)
    if pos < 0 or count < 0 or count > (end - pos) >> 1:
        return -1
    while count > 0:
        size, pos = _span(buf, pos, end)
        if pos < 0 or size < 0:
            return -1
        size, pos = _span(buf, pos + size, end)
        if pos < 0:
            return -1
        if size > 0:
            pos += size
        count -= 1
    return pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _scan(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    stop_row: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    spans: cython.int[::1],
    capacity: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    number: cython.longlong
    while row < stop_row:
        start = pos
        number, pos = _zigzag(buf, pos, end)
        if pos < 0 or number < 6 or number > end - pos:
            return -1 - start
        stop = pos + number
        number, pos = _zigzag(buf, pos + 1, stop)
        if pos < 0:
            return -1 - start
        timestamps[row] = _wrap(base_timestamp + number)
        number, pos = _zigzag(buf, pos, stop)
        if pos < 0 or number < 0 or number > 0x7FFFFFFF:
            return -1 - start
        offsets[row] = base_offset + number
        number, pos = _span(buf, pos, stop)
        if pos < 0:
            return -1 - start
        spans[row] = pos
        spans[capacity + row] = number
        if number > 0:
            pos += number
        number, pos = _span(buf, pos, stop)
        if pos < 0:
            return -1 - start
        spans[2 * capacity + row] = pos
        spans[3 * capacity + row] = number
        if number > 0:
            pos += number
        spans[4 * capacity + row] = pos
        spans[5 * capacity + row] = stop - pos
        if (stop - pos != 1 or buf[pos] != 0) and _skip_headers(buf, pos, stop) != stop:
            return -1 - start
        pos = stop
        row += 1
    return pos


def scan(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    spans: cython.int[::1],
):
    """Open `count` records from `pos` into rows from `row`. The position after them, or -1 - the position of a broken one."""
    capacity: cython.Py_ssize_t = len(offsets)
    if not 0 <= pos <= end <= len(buf) or end > 0x7FFFFFFF or base_offset < 0 or base_offset > 0x3FFFFFFFFFFFFFFF:
        raise ValueError("scan: the position, end or base offset is out of range")
    if row < 0 or count < 0 or count > capacity - row or len(timestamps) < capacity or len(spans) < SPAN_COLUMNS * capacity:
        raise ValueError("scan: the columns are too short for the rows")
    with cython.nogil:
        pos = _scan(buf, pos, end, row, row + count, base_offset, base_timestamp, offsets, timestamps, spans, capacity)
    return pos


@cython.cfunc
def _slice(buf: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.Py_ssize_t):
    """`size` bytes from `start` as bytes of their own. The range is checked already."""
    if not cython.compiled:
        return bytes(buf[start : start + size])
    if size == 0:
        return b""
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, cython.address(buf[start])), size)


@cython.cfunc
def _headers(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """The headers that `scan` found sound, as a tuple of (name, value or None)."""
    count: cython.longlong
    size: cython.longlong
    count, pos = _zigzag(buf, pos, end)
    found = []
    while count > 0 and pos >= 0:
        size, pos = _span(buf, pos, end)
        name = _slice(buf, pos, size).decode("utf-8", "surrogateescape")
        size, pos = _span(buf, pos + size, end)
        if size < 0:
            found.append((name, None))
        else:
            found.append((name, _slice(buf, pos, size)))
            pos += size
        count -= 1
    return tuple(found)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _inside(at: cython.longlong, size: cython.longlong, data_bytes: cython.longlong) -> cython.bint:
    return size <= 0 or (at >= 0 and size <= data_bytes - at)


def make_records(
    record_type,
    buf: cython.const[cython.uchar][::1],
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    spans: cython.int[::1],
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    timestamp_type,
):
    """Rows `first` to `end`, whose bytes lie in `buf`, as objects of `record_type`, a subclass of tuple with six fields."""
    capacity: cython.Py_ssize_t = len(offsets)
    if not 0 <= first <= end <= capacity or len(timestamps) < capacity or len(spans) < SPAN_COLUMNS * capacity:
        raise ValueError("make_records: the rows are outside the columns")
    found: list = []
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    for row in range(first, end):
        if not _sound(spans, capacity, row, len(buf), len(buf), len(buf)):
            raise ValueError("make_records: a span is outside the data")
        key = value = None
        if spans[capacity + row] >= 0:
            key = _slice(buf, spans[row], spans[capacity + row])
        if spans[3 * capacity + row] >= 0:
            value = _slice(buf, spans[2 * capacity + row], spans[3 * capacity + row])
        headers = ()
        if spans[5 * capacity + row] > 1:
            at = spans[4 * capacity + row]
            headers = _headers(buf, at, at + spans[5 * capacity + row])
        found.append(_new(record_type, (offsets[row], timestamps[row], timestamp_type, key, value, headers)))
    return found


@cython.cfunc
@cython.inline
def _new(record_type, fields: tuple):
    """A subclass of tuple from its fields: straight to the slot, which is several times faster than a call."""
    if cython.compiled:
        arguments = (fields,)
        kind = cython.cast(cython.pointer[PyTypeObject], tuple)
        return kind.tp_new(record_type, cython.cast(cython.pointer[PyObject], arguments), cython.NULL)
    return tuple.__new__(record_type, fields)


# --- from columns to records -------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _zigzag_bytes(number: cython.longlong) -> cython.Py_ssize_t:
    """How many bytes `number` takes."""
    rest: cython.ulonglong = (number << 1) ^ (number >> 63)
    size: cython.Py_ssize_t = 1
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(out: cython.uchar[::1], pos: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    rest: cython.ulonglong = (number << 1) ^ (number >> 63)
    while rest >= 0x80:
        out[pos] = (rest & 0x7F) | 0x80
        rest >>= 7
        pos += 1
    out[pos] = rest
    return pos + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(cython.address(out[pos]), cython.address(data[at]), size)
    else:
        out[pos : pos + size] = data[at : at + size]


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
        _copy(out, pos, data, at, size)
        pos += size
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sound(
    spans: cython.const[cython.int][::1],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    key_bytes: cython.Py_ssize_t,
    value_bytes: cython.Py_ssize_t,
    header_bytes: cython.Py_ssize_t,
) -> cython.bint:
    """Whether the row exists and its spans lie inside their data."""
    if row < 0 or row >= capacity:
        return False
    if not _inside(spans[row], spans[capacity + row], key_bytes):
        return False
    if not _inside(spans[2 * capacity + row], spans[3 * capacity + row], value_bytes):
        return False
    return _inside(spans[4 * capacity + row], spans[5 * capacity + row], header_bytes)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _body_bytes(
    age: cython.longlong,
    delta: cython.longlong,
    key_size: cython.longlong,
    value_size: cython.longlong,
    header_size: cython.longlong,
) -> cython.longlong:
    """What a record takes after its length; negative sizes are nulls, headers of no size are written as a count of 0."""
    body: cython.longlong = 1 + _zigzag_bytes(age) + _zigzag_bytes(delta) + (header_size if header_size > 0 else 1)
    body += _zigzag_bytes(key_size) + (key_size if key_size > 0 else 0)
    return body + _zigzag_bytes(value_size) + (value_size if value_size > 0 else 0)


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
    """Write one record if there is room for it; -1 if not."""
    key_size: cython.longlong = spans[capacity + row]
    value_size: cython.longlong = spans[3 * capacity + row]
    header_size: cython.longlong = spans[5 * capacity + row]
    body: cython.longlong = _body_bytes(age, delta, key_size, value_size, header_size)
    if body + _zigzag_bytes(body) > len(out) - pos:
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
    _copy(out, pos, header_data, spans[4 * capacity + row], header_size)
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
        if not _sound(spans, capacity, row, len(key_data), len(value_data), len(header_data)):
            return -1, pos, 0
        age = _wrap(timestamps[row] - base_timestamp)
        delta = deltas[row] if len(deltas) > 0 else index - first
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
):
    """Write records into `out` from `pos` while there is room: (first index not written, position, greatest timestamp).

    Index i is row `rows[i]`, or row i where `rows` is empty; offset deltas count from 0 where `deltas` is empty.
    """
    capacity: cython.Py_ssize_t = len(timestamps)
    if not 0 <= first <= end <= (len(rows) if len(rows) > 0 else capacity) or not 0 <= pos <= len(out) <= 0x7FFFFFFF:
        raise ValueError("write: the rows or the position are out of range")
    if len(spans) < SPAN_COLUMNS * capacity or (len(deltas) > 0 and len(deltas) < capacity):
        raise ValueError("write: the columns differ in length")
    with cython.nogil:
        first, pos, base_timestamp = _write(
            out, pos, rows, first, end, deltas, timestamps, base_timestamp, spans, key_data, value_data, header_data
        )
    if first < 0:
        raise ValueError("write: a row or a span is outside its data")
    return first, pos, base_timestamp


def measure(items: list):
    """The bytes of all items together; -1 where one is neither bytes nor None, for `write_items` takes no others."""
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
    """`size` bytes of `item`, for which there is room."""
    if cython.compiled:
        memcpy(cython.address(out[pos]), PyBytes_AS_STRING(item), size)
    else:
        out[pos : pos + size] = item
    return pos + size


def write_items(out: cython.uchar[::1], pos: cython.Py_ssize_t, timestamps: list, keys: list, values: list, headers: list):
    """Write a record for each of `values`: (position after the last, greatest timestamp). Items are bytes or None.

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
        age = _wrap(timestamp - base_timestamp)
        body = _body_bytes(age, index, key_size, value_size, header_size)
        if body + MOST_LENGTH_BYTES > len(out) - pos:
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
