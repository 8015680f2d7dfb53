"""The loops over messages of magic 0 and 1, the formats before batches; compiled or not, as `kernel` is.

They handle the bytes of one message: offset, size, CRC-32, magic, attributes, from magic 1 on a timestamp, key, value. `legacy`
decompresses message sets in wrappers. Every function checks the ranges that it is given. Types: `kernel_legacy.pyi`.
"""

from __future__ import annotations

from zlib import crc32

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.ottla.records.kernel_common import SPAN_COLUMNS, copy, crc32_of, inside, tabulate
else:
    from ottla.records.kernel_common import SPAN_COLUMNS, copy, inside

COMPILED = cython.compiled

KIND_MASK = 0x0F
"""The attribute bits that distinguish kinds of messages: the codec and the timestamp type."""

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
def _int32(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t) -> cython.longlong:
    number: cython.longlong = buf[pos]
    borrow: cython.longlong = 1
    number = (number << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | buf[pos + 3]
    return number - (borrow << 32) if buf[pos] & 0x80 else number


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int64(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = _int32(buf, pos)
    low: cython.longlong = _int32(buf, pos + 4)
    mask: cython.longlong = 1
    return high * (mask << 32) + (low & ((mask << 32) - 1))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _span(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """Return (size or -1 for null, position of the bytes); position -1 if they do not end before `end`."""
    size: cython.longlong
    if end - pos < 4:
        return 0, -1
    size = _int32(buf, pos)
    if size > end - pos - 4:
        return 0, -1
    return (size if size >= 0 else -1), pos + 4


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _whole(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the end of the message at `pos`; 0 if it is torn, -1 if its size or magic is impossible."""
    size: cython.longlong
    if end - pos < 12:
        return 0
    size = _int32(buf, pos + 8)
    if size < 14:
        return -1
    if size > end - pos - 12:
        return 0
    if buf[pos + 16] > 1 or (buf[pos + 16] == 1 and size < 22):
        return -1
    return pos + 12 + size


def run_of(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Count the messages of one kind (magic, codec, timestamp type) from `pos` on: return (count, end position).

    The result is (0, pos) at the end and for a torn message, and (-1, pos) for a broken one.
    """
    if not 0 <= pos <= end <= len(buf):
        raise ValueError("run_of: the position or the end is out of range")
    count: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t = _whole(buf, pos, end)
    if stop <= 0:
        return stop, pos
    magic: cython.int = buf[pos + 16]
    kind: cython.int = buf[pos + 17] & KIND_MASK
    while stop > 0 and buf[pos + 16] == magic and (buf[pos + 17] & KIND_MASK) == kind:
        count += 1
        pos = stop
        stop = _whole(buf, pos, end)
    return count, pos


def scan_messages(
    buf: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    spans: cython.int[::1],
):
    """Open `count` messages into rows from `row`; return the position after them, or -1 minus the position of a broken one.

    Offsets are stored unchanged. The timestamp of magic 0 is -1. The CRC is checked.
    """
    capacity: cython.Py_ssize_t = len(offsets)
    stop_row: cython.Py_ssize_t = row + count
    stop: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong
    if not 0 <= pos <= end <= len(buf) or end > 0x7FFFFFFF or row < 0 or count < 0 or count > capacity - row:
        raise ValueError("scan_messages: the range is outside the buffer or the columns")
    if len(timestamps) < capacity or len(spans) < SPAN_COLUMNS * capacity:
        raise ValueError("scan_messages: the columns differ in length")
    while row < stop_row:
        stop = _whole(buf, pos, end)
        if stop <= 0 or _crc32(buf, pos + 16, stop) != _int32(buf, pos + 12) & 0xFFFFFFFF:
            return -1 - pos
        offsets[row] = _int64(buf, pos)
        timestamps[row] = _int64(buf, pos + 18) if buf[pos + 16] else -1
        size, at = _span(buf, pos + (26 if buf[pos + 16] else 18), stop)
        if at < 0:
            return -1 - pos
        spans[row], spans[capacity + row] = at, size
        size, at = _span(buf, at + (size if size > 0 else 0), stop)
        if at < 0 or at + (size if size > 0 else 0) != stop:
            return -1 - pos
        spans[2 * capacity + row], spans[3 * capacity + row] = at, size
        spans[4 * capacity + row], spans[5 * capacity + row] = stop, 0
        pos = stop
        row += 1
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(out: cython.uchar[::1], pos: cython.Py_ssize_t, number: cython.longlong, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write a number of `size` bytes, big-endian; return the position after it."""
    shift: cython.Py_ssize_t = 8 * (size - 1)
    while shift >= 0:
        out[pos] = (number >> shift) & 0xFF
        shift -= 8
        pos += 1
    return pos


@cython.cfunc
@cython.inline
def _put_span(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    pos = _put(out, pos, size if size >= 0 else -1, 4)
    if size <= 0:
        return pos
    copy(out, pos, data, at, size)
    return pos + size


def write_messages(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    magic: cython.int,
    attributes: cython.int,
    base_offset: cython.longlong,
    offsets: cython.const[cython.longlong][::1],
    timestamps: cython.const[cython.longlong][::1],
    spans: cython.const[cython.int][::1],
    data: cython.const[cython.uchar][::1],
):
    """Write rows `first` to `end` as messages, with offsets relative to `base_offset`; return (end position, newest timestamp)."""
    if (
        not 0 <= first <= end <= len(offsets)
        or len(timestamps) < len(offsets)
        or len(spans) < SPAN_COLUMNS * len(offsets)
        or pos < 0
    ):
        raise ValueError("write_messages: the rows are outside the columns")
    return _messages(out, pos, first, end, magic, attributes, base_offset, offsets, timestamps, spans, data)


@cython.cfunc
@cython.inline
def _messages(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    magic: cython.int,
    attributes: cython.int,
    base_offset: cython.longlong,
    offsets: cython.const[cython.longlong][::1],
    timestamps: cython.const[cython.longlong][::1],
    spans: cython.const[cython.int][::1],
    data: cython.const[cython.uchar][::1],
) -> tuple[cython.Py_ssize_t, cython.longlong]:
    """Write rows that are within the columns as messages; return (position after them, greatest timestamp)."""
    capacity: cython.Py_ssize_t = len(offsets)
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    key_size: cython.longlong
    value_size: cython.longlong
    newest: cython.longlong = -1
    for row in range(first, end):
        key_size, value_size = spans[capacity + row], spans[3 * capacity + row]
        if not (inside(spans[row], key_size, len(data)) and inside(spans[2 * capacity + row], value_size, len(data))):
            raise ValueError("write_messages: a span is outside the data")
        if 34 + (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0) > len(out) - pos:
            raise ValueError("write_messages: there is too little room")
        start = pos
        out[pos + 16] = magic
        out[pos + 17] = attributes
        pos += 18
        if magic:
            pos = _put(out, pos, timestamps[row], 8)
        pos = _put_span(out, pos, data, spans[row], key_size)
        pos = _put_span(out, pos, data, spans[2 * capacity + row], value_size)
        _put(out, start, offsets[row] - base_offset, 8)
        _put(out, start + 8, pos - start - 12, 4)
        _put(out, start + 12, _crc32(out, start + 16, pos), 4)
        if timestamps[row] > newest:
            newest = timestamps[row]
    return pos, newest


@cython.cfunc
def _wrap(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    offset: cython.longlong,
    magic: cython.int,
    attributes: cython.int,
    timestamp: cython.longlong,
    packed: cython.const[cython.uchar][::1],
) -> cython.Py_ssize_t:
    """Write a message without a key around a compressed set; return the position after it, or -1 for too little room."""
    start: cython.Py_ssize_t = pos
    if 34 + len(packed) > len(out) - pos:
        return -1
    out[pos + 16] = magic
    out[pos + 17] = attributes
    pos += 18
    if magic:
        pos = _put(out, pos, timestamp, 8)
    pos = _put(out, pos, -1, 4)
    pos = _put_span(out, pos, packed, 0, len(packed))
    _put(out, start, offset, 8)
    _put(out, start + 8, pos - start - 12, 4)
    _put(out, start + 12, _crc32(out, start + 16, pos), 4)
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _small_size(
    buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, most_bytes: cython.Py_ssize_t, most_rows: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return the size of the batch at `pos` if it is whole, small, of a known codec and no control batch; 0 otherwise."""
    size: cython.longlong
    count: cython.longlong
    if len(buf) - pos < 61 or buf[pos + 16] != 2 or (buf[pos + 22] & 0x07) > 3 or buf[pos + 22] & 0x20:
        return 0
    size = _int32(buf, pos + 8) + 12
    count = _int32(buf, pos + 57)
    if size < 61 or size > len(buf) - pos or size > most_bytes or count <= 0 or count > most_rows:
        return 0
    return size if buf[pos] < 0x40 else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _fill(column: cython.longlong[::1], count: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    row: cython.Py_ssize_t
    for row in range(count):
        column[row] = number
    return count


@cython.cclass
class SmallBatches:
    """A converter of small batches of magic 2 to messages of magic 0 or 1, in buffers that it reuses.

    `room` is a tuple of memoryviews: `offsets`, `timestamps` and `spans` for the rows of one batch, `opened` for its decompressed
    records, `plain` for a set to compress, `out` for the result. `tools` are the kernel's `scan`; `unpack(codec, bytes, opened)`,
    which returns a size or -1; `pack(codec, bytes)`.
    """

    _magic: cython.int
    _from_offset: cython.longlong
    _room: tuple
    _scan: object
    _unpack: object
    _pack: object
    _offsets: cython.longlong[::1]
    _timestamps: cython.longlong[::1]
    _spans: cython.const[cython.int][::1]
    _opened: cython.const[cython.uchar][::1]
    _plain: cython.uchar[::1]
    _out: cython.uchar[::1]

    def __init__(self, magic: cython.int, from_offset: cython.longlong, room, tools):
        self._magic, self._from_offset, self._room = magic, from_offset, room
        self._offsets, self._timestamps, self._spans, self._opened, self._plain, self._out = room
        self._scan, self._unpack, self._pack = tools
        rows: cython.Py_ssize_t = len(self._offsets)
        if len(self._timestamps) < rows or len(self._spans) < SPAN_COLUMNS * rows:
            raise ValueError("SmallBatches: the columns differ in length")
        if len(self._plain) < len(self._opened) + 34 * rows:
            raise ValueError("SmallBatches: there is too little room for a set")

    def convert(self, view, pos: cython.Py_ssize_t, enough: cython.longlong):
        """Write batches from `pos` on; return (position of the first one left, end of the messages, next offset).

        It ends after `enough` bytes or about a millisecond. It also ends before a batch that is not whole, sound and small, has
        another codec than these formats, or is a control batch.
        """
        buf: cython.const[cython.uchar][::1] = view
        size: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        at: cython.Py_ssize_t = 0
        taken: cython.Py_ssize_t = 0
        next_offset: cython.longlong = -1
        if pos < 0:
            raise ValueError("convert: the position is out of range")
        while at < enough and taken < 0x20000 and len(self._out) - at >= len(self._plain):
            size = _small_size(buf, pos, len(self._opened), len(self._offsets))
            if size == 0 or not self._open(buf, view, pos, size):
                break
            stop = self._write(buf, pos, at)
            if stop < 0:
                break
            at = stop
            taken += (size + 1024) << (2 if buf[pos + 22] & 0x07 == 1 else 0)  # gzip takes several times as long
            next_offset = _int64(buf, pos) + _int32(buf, pos + 23) + 1
            pos += size
        return pos, at, next_offset

    @cython.cfunc
    def _open(
        self, buf: cython.const[cython.uchar][::1], view: object, pos: cython.Py_ssize_t, size: cython.Py_ssize_t
    ) -> cython.bint:
        """Scan the records of the batch at `pos` into the rows; return whether they are sound."""
        codec: cython.int = buf[pos + 22] & 0x07
        start: cython.Py_ssize_t = pos + 61
        stop: cython.Py_ssize_t = pos + size
        source: object = view
        if codec:
            source = self._room[3]
            stop = self._unpack(codec, view[start:stop], source)
            start = 0
            if stop < 0 or stop > len(self._opened):
                return False
        count, base_offset, base_timestamp = _int32(buf, pos + 57), _int64(buf, pos), _int64(buf, pos + 27)
        found: cython.Py_ssize_t = self._scan(source, start, stop, 0, count, base_offset, base_timestamp, *self._room[:3])
        return found == stop

    @cython.cfunc
    def _write(self, buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write the rows of the batch at `pos` to `at`, in its codec; return the position after them, or -1 without room."""
        count: cython.Py_ssize_t = _int32(buf, pos + 57)
        codec: cython.int = buf[pos + 22] & 0x07
        timestamp_bit: cython.int = buf[pos + 22] & 0x08
        base: cython.longlong = self._offsets[0] if self._magic else 0
        newest: cython.longlong
        row: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        if timestamp_bit:
            _fill(self._timestamps, count, _int64(buf, pos + 35))
        if not self._magic:
            timestamp_bit = 0
        if self._offsets[count - 1] < self._from_offset:
            return at
        if not codec:
            while self._offsets[row] < self._from_offset:
                row += 1
            end, newest = _messages(
                self._out, at, row, count, self._magic, timestamp_bit, 0, self._offsets, self._timestamps, self._spans, buf
            )
            return end
        end, newest = _messages(
            self._plain, 0, 0, count, self._magic, timestamp_bit, base, self._offsets, self._timestamps, self._spans, self._opened
        )
        packed = self._pack(codec, self._room[4][:end])
        return _wrap(self._out, at, self._offsets[count - 1], self._magic, codec | timestamp_bit, newest, packed)


def settle(offsets: cython.longlong[::1], shift: cython.longlong, timestamps: cython.longlong[::1]):
    """Add `shift` to relative offsets; return the greatest timestamp, or None if an offset is not from 0 to the last one."""
    row: cython.Py_ssize_t
    newest: cython.longlong = -1
    last: cython.longlong = offsets[len(offsets) - 1] if len(offsets) > 0 else -1
    if shift:
        for row in range(len(offsets)):
            if offsets[row] < 0 or offsets[row] > last:
                return None
            offsets[row] += shift
    for row in range(len(timestamps)):
        if timestamps[row] > newest:
            newest = timestamps[row]
    return newest
