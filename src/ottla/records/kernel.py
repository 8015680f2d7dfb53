"""The loops that open records: one source, which Cython compiles where it can and Python runs unchanged elsewhere.

They handle the bytes of a record of magic 2, and columns of positions and sizes. Every function checks the ranges that it is given,
and never reads or writes outside them, whatever the bytes are. It returns positions and counts, and a negative number for
malformed bytes, from which callers make a message. `kernel.pyi` has the types for importing modules.

Compiled and uncompiled runs give the same results. Where C's wrapping arithmetic and Python's integers differ, the code tests
`cython.compiled`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.ottla.records.kernel_common import *  # noqa: F403  # the names below, as C has them
else:
    from ottla.records.kernel_common import (
        AGE,
        AT,
        ATTRIBUTES,
        CONTENT,
        COUNT,
        DELTA,
        DIGITS,
        HAS_KEY,
        HEADER_BYTES,
        HEADERS,
        INDEX,
        IS_BROKEN,
        IS_DOUBTFUL,
        KEY,
        LEFT,
        LENGTH,
        LENGTH_FROM,
        LOG_APPEND_TIME_BIT,
        NAME,
        NEWEST,
        SKIP,
        SPAN_COLUMNS,
        STAGE,
        TIMESTAMP,
        WALK_STATES,
        inside,
        int64_at,
        span,
        uint32_at,
        wrapped,
        zigzag,
    )
    from ottla.records.plain_walk import walk_common

COMPILED = cython.compiled

KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE, HEADERS_AT, HEADERS_SIZE = range(6)
"""The six columns of spans, each of `capacity` int32, one after the other. A size of -1 is null. Headers begin with their count."""

BROKEN, DOUBTFUL = -2, -3
"""The results of `walk` for malformed records, and for sound records with a bad timestamp or a missing key."""


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip_headers(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the position after the headers, or -1. A header takes at least two bytes, which bounds the count."""
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
    """Open `count` records from `pos` into rows from `row`; return the position after them, or -1 minus that of a broken one."""
    capacity: cython.Py_ssize_t = len(offsets)
    if not 0 <= pos <= end <= len(buf) or end > 0x7FFFFFFF or base_offset < 0 or base_offset > 0x3FFFFFFFFFFFFFFF:
        raise ValueError("scan: the position, end or base offset is out of range")
    if row < 0 or count < 0 or count > capacity - row or len(timestamps) < capacity or len(spans) < SPAN_COLUMNS * capacity:
        raise ValueError("scan: the columns are too short for the rows")
    with cython.nogil:
        pos = _scan(buf, pos, end, row, row + count, base_offset, base_timestamp, offsets, timestamps, spans, capacity)
    return pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _scan_batches(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    spans: cython.int[::1],
    capacity: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    row: cython.Py_ssize_t = 0
    first: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    base_offset: cython.longlong
    length: cython.longlong
    count: cython.longlong
    while pos < end:
        if end - pos < HEADER_BYTES:
            return -1
        base_offset = int64_at(buf, pos)
        length = uint32_at(buf, pos + 8)
        count = uint32_at(buf, pos + 57)
        if length < HEADER_BYTES - LENGTH_FROM or length > end - pos - LENGTH_FROM or count > capacity - row:
            return -1
        if base_offset >> 62 != 0:
            return -1
        first = row
        row += count
        stop = pos + LENGTH_FROM + length
        if (
            _scan(
                buf,
                pos + HEADER_BYTES,
                stop,
                first,
                row,
                base_offset,
                int64_at(buf, pos + 27),
                offsets,
                timestamps,
                spans,
                capacity,
            )
            != stop
        ):
            return -1
        if buf[pos + 22] & LOG_APPEND_TIME_BIT:
            while first < row:
                timestamps[first] = int64_at(buf, pos + 35)
                first += 1
        pos = stop
    return row


def scan_batches(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    spans: cython.int[::1],
):
    """Open the uncompressed batches that fill `buf` from `pos` to `end`; return the number of rows, or -1 if one is broken.

    The caller has checked their magic and attributes. With LogAppendTime, the batch's time is that of its records.
    """
    capacity: cython.Py_ssize_t = len(offsets)
    rows: cython.Py_ssize_t
    if not 0 <= pos <= end <= len(buf) or end > 0x7FFFFFFF:
        raise ValueError("scan_batches: the position or the end is out of range")
    if len(timestamps) < capacity or len(spans) < SPAN_COLUMNS * capacity:
        raise ValueError("scan_batches: the columns differ in length")
    with cython.nogil:
        rows = _scan_batches(buf, pos, end, offsets, timestamps, spans, capacity)
    return rows


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """Read a zigzag varint of 32 bits: of at most 5 bytes, because Kafka's readers refuse longer ones, whatever their value."""
    return zigzag(buf, pos, end if end - pos < 5 else pos + 5)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int_span(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """Return (size or -1 for null, position after the bytes); position -1 if they do not end before `end`."""
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
    """Skip headers as `_skip_headers` does, with strict limits on the sizes of numbers."""
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
    """Return (timestamp delta, whether there is a key, position after it) of record `index` of a batch; position -1 if broken."""
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
    """Check `count` records from `pos` to the end of `buf`, whose offset deltas must be 0, 1, 2 …; return the greatest timestamp.

    The result is `BROKEN` if they do not fill `buf`. It is `DOUBTFUL` if a timestamp (other than -1) is outside `earliest` to
    `latest` or, with `keyed`, a key is null. No result is below -1 otherwise. A `buf` with fewer bytes than a record is broken.
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


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _field(state: cython.longlong[::1], stage: cython.longlong, number: cython.longlong) -> cython.bint:
    """Store the number that begins a field of a torn record, or is the field. Return False for an impossible number."""
    if stage == LENGTH:
        state[LEFT] = number
        state[STAGE] = ATTRIBUTES
        return number >= 6
    if stage == AGE:
        state[TIMESTAMP] = number
        state[STAGE] = DELTA
        return True
    if stage == DELTA:
        state[STAGE] = KEY
        return number == state[INDEX]
    if number > state[LEFT] or (number < 0 and stage in (COUNT, NAME)):
        return False
    if stage == COUNT:
        state[HEADERS] = number
        state[STAGE] = NAME
        return number <= state[LEFT] >> 1
    state[SKIP] = number if number > 0 else 0
    if stage == KEY:
        state[HAS_KEY] = number >= 0
    if stage == CONTENT:
        state[HEADERS] -= 1
    state[STAGE] = NAME if stage == CONTENT else stage + 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _pass_torn(  # noqa: C901 - one loop for all fields: a record can be torn anywhere
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    state: cython.longlong[::1],
    digits: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Continue byte by byte, except for skipped bytes, to the end of the record or piece; return the position, or -1 if broken."""
    size: cython.longlong
    stage: cython.longlong
    number: cython.longlong
    most: cython.longlong
    _after: cython.Py_ssize_t
    while True:
        if state[SKIP] > 0:
            size = state[SKIP] if state[SKIP] < end - pos else end - pos
            pos += size
            state[SKIP] -= size
            state[LEFT] -= size
            if state[SKIP] > 0:
                return pos
        stage = state[STAGE]
        if stage == NAME and state[HEADERS] == 0:
            state[STAGE] = LENGTH
            return pos if state[LEFT] == 0 else -1
        if stage != LENGTH and state[LEFT] == 0:
            return -1
        if pos >= end:
            return pos
        if stage == ATTRIBUTES:
            state[STAGE] = AGE
        else:
            most = 10 if stage == AGE else 5
            digits[state[DIGITS]] = buf[pos]
            state[DIGITS] += 1
            if buf[pos] >= 0x80 and state[DIGITS] == most:
                return -1
        pos += 1
        if stage != LENGTH:
            state[LEFT] -= 1
        if stage != ATTRIBUTES and buf[pos - 1] < 0x80:
            number, _after = zigzag(digits, 0, state[DIGITS])
            state[DIGITS] = 0
            if not _field(state, stage, number):
                return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _walk_on(  # noqa: C901 - written out, as calls would take most of the time
    buf: cython.const[cython.uchar][::1],
    end: cython.Py_ssize_t,
    state: cython.longlong[::1],
    digits: cython.uchar[::1],
    count: cython.longlong,
    base_timestamp: cython.longlong,
    earliest: cython.longlong,
    latest: cython.longlong,
    keyed: cython.bint,
) -> cython.longlong:
    pos: cython.Py_ssize_t = state[AT]
    at: cython.Py_ssize_t
    number: cython.longlong
    timestamp: cython.longlong
    has_key: cython.bint
    while pos < end:
        at = -1
        if state[STAGE] == LENGTH and state[DIGITS] == 0:
            if state[INDEX] >= count:
                return IS_BROKEN
            number, at = _int(buf, pos, end)
            if at >= 0 and number <= end - at:
                timestamp, has_key, pos = _pass(buf, pos, end, state[INDEX])
                if pos < 0:
                    return IS_BROKEN
                state[TIMESTAMP], state[HAS_KEY] = timestamp, has_key
            else:
                at = -1
        if at < 0:
            pos = _pass_torn(buf, pos, end, state, digits)
            if pos < 0:
                return IS_BROKEN
            if state[STAGE] != LENGTH or state[DIGITS] != 0:
                break
        state[INDEX] += 1
        timestamp = wrapped(base_timestamp + state[TIMESTAMP])
        state[TIMESTAMP] = timestamp
        if timestamp > state[NEWEST]:
            state[NEWEST] = timestamp
        if (timestamp != -1 and (timestamp < earliest or timestamp > latest)) or (keyed and state[HAS_KEY] == 0):
            state[AT] = pos
            return IS_DOUBTFUL
    state[AT] = pos
    return 0


def walk_on(
    buf: cython.const[cython.uchar][::1],
    state: cython.longlong[::1],
    digits: cython.uchar[::1],
    count: cython.longlong,
    base_timestamp: cython.longlong,
    earliest: cython.longlong,
    latest: cython.longlong,
    keyed: cython.bint,
):
    """Walk over the next piece of the records' bytes from `state[AT]` on; return 0 at its end. Pieces may begin anywhere.

    It returns `DOUBTFUL` after each doubtful record, whose timestamp is `state[TIMESTAMP]`: call it again for the rest. The records
    are sound if finally `state[INDEX]` is the count, and `STAGE` and `DIGITS` are 0. `digits` has room for 10 bytes. The state
    begins with zeros, except `NEWEST` with -1.
    """
    end: cython.Py_ssize_t = len(buf)
    if len(state) != WALK_STATES or len(digits) < 10 or not 0 <= state[AT] <= end or not 0 <= state[DIGITS] < 10:
        raise ValueError("walk_on: the state or its position is out of range")
    found: cython.longlong
    with cython.nogil:
        found = _walk_on(buf, end, state, digits, count, base_timestamp, earliest, latest, keyed)
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _three_bytes(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t) -> cython.longlong:
    return buf[pos] | buf[pos + 1] << 8 | buf[pos + 2] << 16


def zstd_blocks(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    most_block_bytes: cython.longlong,
):
    """Return (upper bound of the decompressed size of a zstd frame's blocks from `pos`, position after the last), or position -1.

    The position is -1 if the blocks end too early. A block states its decompressed size unless it is compressed (RFC 8878,
    3.1.1.2).
    """
    end: cython.Py_ssize_t = len(buf)
    total: cython.longlong = 0
    head: cython.longlong
    size: cython.longlong
    if not 0 <= pos <= end:
        raise ValueError("zstd_blocks: the position is out of range")
    with cython.nogil:
        while True:
            if end - pos < 3:
                pos = -1
                break
            head = _three_bytes(buf, pos)
            size = head >> 3
            total += most_block_bytes if head >> 1 & 3 == 2 else size
            pos += 3 + (1 if head >> 1 & 3 == 1 else size)
            if pos > end:
                pos = -1
                break
            if head & 1:
                break
    return total, pos


def count_headers(buf: cython.const[cython.uchar][::1], at: cython.const[cython.int][::1], sizes: cython.const[cython.int][::1]):
    """Return the number of headers in all records, at spans that `scan` has checked."""
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
    """Write the spans of the headers' names and values as entries from `entry`, and `starts` for each record from `row`.

    `names` and `values` are two columns each, positions and sizes. Return the entry after the last.
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
