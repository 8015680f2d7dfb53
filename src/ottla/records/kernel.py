"""The loops that open records: one source, which Cython compiles where it can and Python runs as it is elsewhere.

Knows the bytes of a record of magic 2, and columns of positions and sizes. Every function checks the ranges that it is given
and never reads or writes outside them, whatever the bytes say; it returns positions and counts, and a negative number for bytes
that make no sense. Callers turn that into words. `kernel.pyi` has the types for everybody else.

Both runs give the same results. Where C's wrapping arithmetic and Python's integers differ, `cython.compiled` chooses.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.ottla.records.kernel_common import SPAN_COLUMNS, inside, span, wrapped, zigzag
else:
    from ottla.records.kernel_common import SPAN_COLUMNS, inside, span, wrapped, zigzag
    from ottla.records.plain_walk import walk_common

COMPILED = cython.compiled

KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE, HEADERS_AT, HEADERS_SIZE = range(6)
"""The six columns of spans, each `capacity` int32 after the one before. A size of -1 is null. Headers begin with their count."""

BROKEN, DOUBTFUL = -2, -3
"""What `walk` says of records that make no sense, and of those that do but for a timestamp or a key."""


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip_headers(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The position after the headers, or -1. A header takes at least two bytes, which bounds the count."""
    count: cython.longlong
    size: cython.longlong
    count, pos = zigzag(buf, pos, end)
    if pos < 0 or count < 0 or count > (end - pos) >> 1:
        return -1
    while count > 0:
        size, pos = span(buf, pos, end)
        if pos < 0 or size < 0:
            return -1
        size, pos = span(buf, pos + size, end)
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
        number, pos = zigzag(buf, pos, end)
        if pos < 0 or number < 6 or number > end - pos:
            return -1 - start
        stop = pos + number
        number, pos = zigzag(buf, pos + 1, stop)
        if pos < 0:
            return -1 - start
        timestamps[row] = wrapped(base_timestamp + number)
        number, pos = zigzag(buf, pos, stop)
        if pos < 0 or number < 0 or number > 0x7FFFFFFF:
            return -1 - start
        offsets[row] = base_offset + number
        number, pos = span(buf, pos, stop)
        if pos < 0:
            return -1 - start
        spans[row] = pos
        spans[capacity + row] = number
        if number > 0:
            pos += number
        number, pos = span(buf, pos, stop)
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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """As `zigzag`, for a number of 32 bits: at most 5 bytes, as Kafka's readers refuse longer ones, whatever they say."""
    return zigzag(buf, pos, end if end - pos < 5 else pos + 5)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int_span(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """(size or -1 for null, position after the bytes); position -1 where they do not end before `end`."""
    size: cython.longlong
    size, pos = _int(buf, pos, end)
    if pos < 0 or size > end - pos:
        return 0, -1
    if size < 0:
        return -1, pos
    return size, pos + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _headers_end(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """As `_skip_headers`, and strict about the sizes of numbers."""
    count: cython.longlong
    size: cython.longlong
    count, pos = _int(buf, pos, end)
    if pos < 0 or count < 0 or count > (end - pos) >> 1:
        return -1
    while count > 0:
        size, pos = _int_span(buf, pos, end)
        if pos < 0 or size < 0:
            return -1
        size, pos = _int_span(buf, pos, end)
        if pos < 0:
            return -1
        count -= 1
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _pass(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t, index: cython.longlong
) -> tuple[cython.longlong, cython.bint, cython.Py_ssize_t]:
    """(timestamp delta, whether there is a key, position after it) of record `index` of a batch; position -1: it is broken."""
    number: cython.longlong
    age: cython.longlong
    key_size: cython.longlong
    stop: cython.Py_ssize_t
    number, pos = _int(buf, pos, end)
    if pos < 0 or number < 6 or number > end - pos:
        return 0, False, -1
    stop = pos + number
    age, pos = zigzag(buf, pos + 1, stop)
    if pos < 0:
        return 0, False, -1
    number, pos = _int(buf, pos, stop)
    if pos < 0 or number != index:
        return 0, False, -1
    key_size, pos = _int_span(buf, pos, stop)
    if pos < 0:
        return 0, False, -1
    number, pos = _int_span(buf, pos, stop)
    if pos < 0 or ((stop - pos != 1 or buf[pos] != 0) and _headers_end(buf, pos, stop) != stop):
        return 0, False, -1
    return age, key_size >= 0, stop


def walk(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    count: cython.longlong,
    base_timestamp: cython.longlong,
    earliest: cython.longlong,
    latest: cython.longlong,
    keyed: cython.bint,
):
    """Pass over `count` records from `pos` to the end of `buf`, whose offset deltas must be 0, 1, 2 …: the greatest timestamp.

    `BROKEN` where they do not fill it, and `DOUBTFUL` where one has a time (-1 is none) outside `earliest` to `latest`, or, if
    `keyed`, no key. No lower timestamp than -1 is given. Slices with fewer bytes than a record are broken.
    """
    end: cython.Py_ssize_t = len(buf)
    index: cython.longlong = 0
    timestamp: cython.longlong
    newest: cython.longlong = -1
    has_key: cython.bint
    doubtful: cython.bint = False
    if not 0 <= pos <= end or count < 0:
        raise ValueError("walk: the position or the count is out of range")
    while index < count:
        if not cython.compiled:
            walked = index, pos, newest, doubtful
            index, pos, newest, doubtful = walk_common(buf, walked, count, base_timestamp, (earliest, latest), keyed)
            if index == count:
                break
        timestamp, has_key, pos = _pass(buf, pos, end, index)
        if pos < 0:
            return BROKEN
        timestamp = wrapped(base_timestamp + timestamp)
        if timestamp > newest:
            newest = timestamp
        if (timestamp != -1 and (timestamp < earliest or timestamp > latest)) or (keyed and not has_key):
            doubtful = True
        index += 1
    if pos != end:
        return BROKEN
    return DOUBTFUL if doubtful else newest


def next_doubtful(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    index: cython.longlong,
    count: cython.longlong,
    base_timestamp: cython.longlong,
    earliest: cython.longlong,
    latest: cython.longlong,
    keyed: cython.bint,
):
    """The first record from `index`, which is at `pos`, that `walk` doubts: (index, position after it, timestamp, has a key).

    The index is `count` if there is none.
    """
    end: cython.Py_ssize_t = len(buf)
    timestamp: cython.longlong = 0
    has_key: cython.bint = True
    if not 0 <= pos <= end or index < 0:
        raise ValueError("next_doubtful: the position or the index is out of range")
    while index < count:
        timestamp, has_key, pos = _pass(buf, pos, end, index)
        if pos < 0:
            raise ValueError("next_doubtful: a record is broken")
        timestamp = wrapped(base_timestamp + timestamp)
        if (timestamp != -1 and (timestamp < earliest or timestamp > latest)) or (keyed and not has_key):
            break
        index += 1
    return index, pos, timestamp, bool(has_key)


def count_headers(buf: cython.const[cython.uchar][::1], at: cython.const[cython.int][::1], sizes: cython.const[cython.int][::1]):
    """How many headers the records have together, whose headers `scan` found at these spans."""
    total: cython.longlong = 0
    count: cython.longlong
    pos: cython.Py_ssize_t
    index: cython.Py_ssize_t
    for index in range(len(at)):
        if not inside(at[index], sizes[index], len(buf)):
            raise ValueError("count_headers: a span is outside the data")
        if sizes[index] > 1:
            count, pos = zigzag(buf, at[index], at[index] + sizes[index])
            if pos > 0 and count > 0:
                total += count
    return total


def header_spans(
    buf: cython.const[cython.uchar][::1],
    at: cython.const[cython.int][::1],
    sizes: cython.const[cython.int][::1],
    starts: cython.int[::1],
    row: cython.Py_ssize_t,
    entry: cython.Py_ssize_t,
    names: cython.int[::1],
    values: cython.int[::1],
):
    """Where the names and values of the headers lie: entries from `entry`, and `starts` of each record from `row`; the end.

    `names` and `values` are two columns each, of positions and of sizes.
    """
    capacity: cython.Py_ssize_t = len(names) // 2
    index: cython.Py_ssize_t
    pos: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    count: cython.longlong
    size: cython.longlong
    if row < 0 or entry < 0 or len(starts) < row + len(at) + 1 or len(sizes) < len(at) or len(values) < 2 * capacity:
        raise ValueError("header_spans: the columns differ in length")
    for index in range(len(at)):
        starts[row + index] = entry
        if sizes[index] <= 1:
            continue
        if not inside(at[index], sizes[index], len(buf)):
            raise ValueError("header_spans: a span is outside the data")
        stop = at[index] + sizes[index]
        count, pos = zigzag(buf, at[index], stop)
        while count > 0 and pos >= 0:
            if entry >= capacity:
                raise ValueError("header_spans: there are more headers than entries")
            size, pos = span(buf, pos, stop)
            if pos < 0 or size < 0:
                raise ValueError("header_spans: the headers are broken")
            names[entry], names[capacity + entry] = pos, size
            size, pos = span(buf, pos + size, stop)
            if pos < 0:
                raise ValueError("header_spans: the headers are broken")
            values[entry], values[capacity + entry] = pos, size
            pos += size if size > 0 else 0
            entry += 1
            count -= 1
    starts[row + len(at)] = entry
    return entry
