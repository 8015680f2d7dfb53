"""The loops over messages of Kafka 0.7; compiled or not, as `kernel` is.

They handle the bytes of one message: size, magic, attributes from magic 1 on, the CRC-32 of the payload, the payload. Records of
magic 2 are rendered as messages. Messages are written as records without key and headers, all with the same timestamp. Every
function checks the ranges that it is given, and stays in them whatever the bytes are. Types: `kernel_07.pyi`.
"""

from __future__ import annotations

from zlib import crc32

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.ottla.records.kernel_common import copy, crc32_of, tabulate, zigzag
else:
    from ottla.records.kernel_common import copy, zigzag

COMPILED = cython.compiled

BAD_SIZE, BAD_MAGIC, BAD_CRC, TOO_LARGE = -1, -2, -3, -4
"""The results of `look` in place of a count, for a message that is invalid or larger than allowed."""

MOST_RECORD_BYTES = 24
"""The most bytes of a record besides its value."""

if cython.compiled:
    _remainders = cython.declare(cython.uint[2048])
    tabulate(_remainders)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _crc32(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """Return the CRC-32 of a range inside `buf`. Most messages are short, and a call of zlib would take longer than its work."""
    if not cython.compiled or end - pos > 4096:
        return crc32(memoryview(buf)[pos:end])
    return crc32_of(_remainders, buf, pos, end)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _uint32(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t) -> cython.longlong:
    number: cython.longlong = buf[pos]
    return (number << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | buf[pos + 3]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int32(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t) -> cython.longlong:
    borrow: cython.longlong = 1
    return _uint32(buf, pos) - (borrow << 32) if buf[pos] & 0x80 else _uint32(buf, pos)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put32(out: cython.uchar[::1], pos: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    out[pos] = (number >> 24) & 0xFF
    out[pos + 1] = (number >> 16) & 0xFF
    out[pos + 2] = (number >> 8) & 0xFF
    out[pos + 3] = number & 0xFF
    return pos + 4


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(out: cython.uchar[::1], pos: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    """Write a nonnegative number as a zigzag varint; return the position after it."""
    number <<= 1
    while number >= 0x80:
        out[pos] = (number & 0x7F) | 0x80
        number >>= 7
        pos += 1
    out[pos] = number
    return pos + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_bytes(number: cython.longlong) -> cython.Py_ssize_t:
    size: cython.Py_ssize_t = 1
    number >>= 6
    while number:
        number >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _value(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t]:
    """Return (position of the value, its bytes, end of the record) of the record at `pos`; position -1 if it is broken."""
    number: cython.longlong
    stop: cython.Py_ssize_t
    number, pos = zigzag(buf, pos, end)
    if pos < 0 or number < 1 or number > end - pos:
        return -1, 0, 0
    stop = pos + number
    number, pos = zigzag(buf, pos + 1, stop)
    if pos >= 0:
        number, pos = zigzag(buf, pos, stop)
    if pos >= 0:
        number, pos = zigzag(buf, pos, stop)
        if number > stop - pos:
            return -1, 0, 0
    if pos >= 0:
        number, pos = zigzag(buf, pos + (number if number > 0 else 0), stop)
    if pos < 0 or number > stop - pos:
        return -1, 0, 0
    return pos, (number if number > 0 else 0), stop


def measure(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t):
    """Return (bytes of the values of `count` records from `pos` together, position after them); (0, -1) if one is broken."""
    total: cython.longlong = 0
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    if not 0 <= pos <= end <= len(buf):
        raise ValueError("measure: the range is outside the buffer")
    while count > 0:
        at, size, pos = _value(buf, pos, end)
        if at < 0:
            return 0, -1
        total += size
        count -= 1
    return total, pos


def locate(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    magic: cython.int,
    wanted: cython.longlong,
):
    """Pass the records, of `count`, whose messages end within the first `wanted` bytes: return (records, position, bytes passed).

    The position is -1 if a record is broken.
    """
    overhead: cython.longlong = 10 if magic else 9
    passed: cython.longlong = 0
    index: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    if not 0 <= pos <= end <= len(buf):
        raise ValueError("locate: the range is outside the buffer")
    while index < count:
        at, size, stop = _value(buf, pos, end)
        if at < 0:
            return index, -1, passed
        if overhead + size > wanted - passed:
            break
        passed += overhead + size
        pos = stop
        index += 1
    return index, pos, passed


def value_at(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Return (position of the value, its bytes, end of the record) of the record at `pos`; position -1 if it is broken."""
    if not 0 <= pos <= end <= len(buf):
        raise ValueError("value_at: the range is outside the buffer")
    return _value(buf, pos, end)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _rendered(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    magic: cython.int,
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t]:
    overhead: cython.Py_ssize_t = 10 if magic else 9
    index: cython.Py_ssize_t = 0
    value: cython.Py_ssize_t
    size: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    while index < count:
        value, size, stop = _value(buf, pos, end)
        if value < 0:
            return index, -1, at
        if size > len(out) - at - overhead:
            break
        at = _put32(out, at, overhead - 4 + size)
        out[at] = magic
        at += 1
        if magic:
            out[at] = 0
            at += 1
        at = _put32(out, at, _crc32(buf, value, value + size))
        if size > 0:
            copy(out, at, buf, value, size)
        at += size
        pos = stop
        index += 1
    return index, pos, at


def render(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    magic: cython.int,
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
):
    """Write up to `count` records as messages of `magic` to `out` from `at` while they fit.

    Return (records written, position after them, end in `out`). The position is -1 if a record is broken.
    """
    if not 0 <= pos <= end <= len(buf) or not 0 <= at <= len(out):
        raise ValueError("render: the range is outside the buffer, or the position outside the room")
    return _rendered(buf, pos, end, count, magic, out, at)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _ordinary(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t, next_offset: cython.longlong
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t, cython.longlong]:
    """Return (end, records, next offset) of the batch at `pos` if it is whole, begins at `next_offset` and is plain; else end -1.

    A plain batch is uncompressed and no control batch.
    """
    size: cython.longlong
    count: cython.longlong
    base_offset: cython.longlong
    if end - pos < 61 or buf[pos + 16] != 2 or buf[pos + 22] & 0x27:
        return -1, 0, 0
    base_offset = (_uint32(buf, pos) << 32) | _uint32(buf, pos + 4)
    size = _int32(buf, pos + 8) + 12
    count = _int32(buf, pos + 57)
    if base_offset != next_offset or size < 61 or size > end - pos or count < 0 or buf[pos] & 0x80:
        return -1, 0, 0
    return pos + size, count, base_offset + _int32(buf, pos + 23) + 1


def measure_batches(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    next_offset: cython.longlong,
    magic: cython.int,
):
    """Pass consecutive plain batches from `pos`, the first one at `next_offset`, that end at or before `end`.

    Return (position, next offset, bytes of the batches as messages). The loop stops before any other batch, and before a broken
    one.
    """
    overhead: cython.longlong = 10 if magic else 9
    total: cython.longlong = 0
    values: cython.longlong
    count: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    here: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    following: cython.longlong
    if not 0 <= pos <= end <= len(buf):
        raise ValueError("measure_batches: the range is outside the buffer")
    while True:
        stop, count, following = _ordinary(buf, pos, end, next_offset)
        if stop < 0:
            break
        here, values = pos + 61, count * overhead
        while count > 0:
            at, size, here = _value(buf, here, stop)
            if at < 0:
                break
            values += size
            count -= 1
        if count > 0 or here != stop:
            break
        total += values
        pos, next_offset = stop, following
    return pos, next_offset, total


def render_batches(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    next_offset: cython.longlong,
    until_offset: cython.longlong,
    magic: cython.int,
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
):
    """Pass plain batches before `until_offset`, and write them as messages to `out` from `at` while whole batches fit.

    Return (position, next offset, end in `out`); the bytes after that end are undefined.
    """
    count: cython.Py_ssize_t
    found: cython.Py_ssize_t
    here: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    written: cython.Py_ssize_t
    following: cython.longlong
    if not 0 <= pos <= end <= len(buf) or not 0 <= at <= len(out):
        raise ValueError("render_batches: the range is outside the buffer, or the position outside the room")
    while next_offset < until_offset:
        stop, count, following = _ordinary(buf, pos, end, next_offset)
        if stop < 0:
            break
        found, here, written = _rendered(buf, pos + 61, stop, count, magic, out, at)
        if found != count or here != stop:
            break
        pos, next_offset, at = stop, following, written
    return pos, next_offset, at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _whole(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the end of the message at `pos`; 0 if it is torn, or one of the `BAD_` results."""
    size: cython.longlong
    if end - pos < 4:
        return 0
    size = _int32(buf, pos)
    if size < 0:
        return -1
    if size > end - pos - 4:
        return 0
    if size > 0 and buf[pos + 4] > 1:
        return -2
    return -1 if size < 5 or size < 5 + buf[pos + 4] else pos + 4 + size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _codec(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t) -> cython.int:
    return buf[pos + 5] & 0x03 if buf[pos + 4] else 0


def look(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t, most_bytes: cython.longlong):
    """Check plain messages of one magic from `pos`, or one compressed message: return (count, end, bytes of their payloads).

    The result is (0, position, 0) at the end and for a torn message. For a bad message the count is `BAD_SIZE`, `BAD_MAGIC` or
    `BAD_CRC`, and the end is its position. For a payload above `most_bytes` they are `TOO_LARGE`, its position and its size.
    """
    stop: cython.Py_ssize_t
    start: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    total: cython.longlong = 0
    magic: cython.int
    codec: cython.int
    if not 0 <= pos <= end <= len(buf):
        raise ValueError("look: the range is outside the buffer")
    stop = _whole(buf, pos, end)
    if stop <= 0:
        return stop, pos, 0
    magic = buf[pos + 4]
    codec = _codec(buf, pos)
    while stop > 0 and buf[pos + 4] == magic and _codec(buf, pos) == codec and not (codec and count):
        start = pos + 9 + magic
        if _crc32(buf, start, stop) != _uint32(buf, start - 4):
            return BAD_CRC, pos, 0
        if stop - start > most_bytes:
            return TOO_LARGE, pos, stop - start
        total += stop - start
        count += 1
        pos = stop
        stop = _whole(buf, pos, end)
    return (stop if stop < 0 else count), pos, total


def write(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    delta: cython.longlong,
):
    """Write the plain messages from `pos` to `end` as records to `out` from `at`; return the end there.

    Offset deltas count from `delta`. The result is -1 if a message is not whole. Each message takes its payload and
    `MOST_RECORD_BYTES` of room.
    """
    stop: cython.Py_ssize_t
    size: cython.longlong
    if not 0 <= pos <= end <= len(buf) or not 0 <= at <= len(out) or not 0 <= delta <= 0x7FFFFFFF:
        raise ValueError("write: the range is outside the buffer, or the position outside the room")
    while pos < end:
        stop = _whole(buf, pos, end)
        if stop <= 0:
            return -1
        pos += 9 + buf[pos + 4]
        size = stop - pos
        if size + MOST_RECORD_BYTES > len(out) - at:
            raise ValueError("write: there is too little room")
        at = _put(out, at, 4 + _put_bytes(delta) + _put_bytes(size) + size)
        out[at] = 0
        out[at + 1] = 0
        at = _put(out, at + 2, delta)
        out[at] = 1
        at = _put(out, at + 1, size)
        if size > 0:
            copy(out, at, buf, pos, size)
        at += size
        out[at] = 0
        at += 1
        delta += 1
        pos = stop
    return at
