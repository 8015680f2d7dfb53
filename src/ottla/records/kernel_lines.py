"""The loops between records and lines of text; compiled or not, as `kernel` is.

They handle bytes, and columns of positions and sizes. Every function checks the ranges that it is given, and that the output has
room. Types: `kernel_lines.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.libc.string import memchr, memcmp
    from cython.cimports.ottla.records.kernel_common import SPAN_COLUMNS, copy, row_inside
else:
    from ottla.records.kernel_common import SPAN_COLUMNS, copy, row_inside

COMPILED = cython.compiled

LITERAL, KEY, VALUE, OFFSET, TIME, KEY_BYTES, VALUE_BYTES = range(7)
"""The kinds of a printed field. `LITERAL` is a range of the literals; `KEY_BYTES` and `VALUE_BYTES` are sizes, -1 for null."""


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find(
    data: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    wanted: cython.const[cython.uchar][::1],
) -> cython.Py_ssize_t:
    """Return the first position of `wanted`, which is not empty, or -1 if it is not between `pos` and `end`."""
    if not cython.compiled:
        return data.find(wanted, pos, end)
    size: cython.Py_ssize_t = len(wanted)
    start: cython.pointer(cython.const[cython.uchar]) = cython.address(data[0])
    found: cython.pointer(cython.const[cython.uchar])
    while end - pos >= size:
        found = cython.cast(
            cython.pointer(cython.const[cython.uchar]), memchr(cython.address(data[pos]), wanted[0], end - pos - size + 1)
        )
        if found == cython.NULL:
            return -1
        pos = found - start
        if memcmp(found, cython.address(wanted[0]), size) == 0:
            return pos
        pos += 1
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _size(
    data: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    null: cython.const[cython.uchar][::1],
    nullable: cython.bint,
) -> cython.Py_ssize_t:
    """Return the number of bytes from `pos` to `end`, or -1 if they are those that stand for null."""
    if not nullable or end - pos != len(null):
        return end - pos
    if not cython.compiled:
        return -1 if data[pos:end] == null else end - pos
    return -1 if end == pos or memcmp(cython.address(data[pos]), cython.address(null[0]), end - pos) == 0 else end - pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _split(
    data: cython.const[cython.uchar][::1],
    delimiter: cython.const[cython.uchar][::1],
    separator: cython.const[cython.uchar][::1],
    null: cython.const[cython.uchar][::1],
    nullable: cython.bint,
    spans: cython.int[::1],
    capacity: cython.Py_ssize_t,
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t]:
    pos: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    mid: cython.Py_ssize_t
    while row < capacity:
        end = _find(data, pos, len(data), delimiter)
        if end < 0:
            break
        spans[capacity + row] = -1
        if len(separator) > 0:
            mid = _find(data, pos, end, separator)
            if mid < 0:
                break
            spans[row] = pos
            spans[capacity + row] = _size(data, pos, mid, null, nullable)
            pos = mid + len(separator)
        spans[2 * capacity + row] = pos
        spans[3 * capacity + row] = _size(data, pos, end, null, nullable)
        pos = end + len(delimiter)
        row += 1
    return row, pos


def split(data: bytes, delimiter: bytes, separator: bytes, null: object, spans: cython.int[::1]):
    """Write the spans of the lines of `data`, each of which ends with `delimiter`, up to the capacity of `spans`.

    With a `separator`, what is before its first occurrence in a line is the key; a line without it ends the loop. A key or value
    that is `null`, unless that is None, gets a size of -1. Return (number of lines, position after the last).
    """
    capacity: cython.Py_ssize_t = len(spans) // SPAN_COLUMNS
    nullable: cython.bint = null is not None
    nulls: bytes = null if nullable else b""
    row: cython.Py_ssize_t
    pos: cython.Py_ssize_t
    if len(delimiter) < 1 or len(data) > 0x7FFFFFFF:
        raise ValueError("split: the delimiter is empty, or the data too large")
    view: cython.const[cython.uchar][::1] = data
    delimiters: cython.const[cython.uchar][::1] = delimiter
    separators: cython.const[cython.uchar][::1] = separator
    null_view: cython.const[cython.uchar][::1] = nulls
    with cython.nogil:
        row, pos = _split(view, delimiters, separators, null_view, nullable, spans, capacity)
    return row, pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_number(out: cython.uchar[::1], pos: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    """Write a number in decimal digits; return the position after it, or -1 if there is too little room."""
    rest: cython.ulonglong = number
    size: cython.Py_ssize_t = 1
    at: cython.Py_ssize_t
    if number < 0:
        rest = 0 - rest
        size = 2
    more: cython.ulonglong = rest
    while more >= 10:
        more = more // 10
        size += 1
    if size > len(out) - pos:
        return -1
    if number < 0:
        out[pos] = 45
    pos += size
    at = pos - 1
    out[at] = 48 + rest % 10
    while rest >= 10:
        rest = rest // 10
        at -= 1
        out[at] = 48 + rest % 10
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Copy bytes; return the position after them, or -1 if there is too little room."""
    if size > len(out) - pos:
        return -1
    if size > 0:
        copy(out, pos, data, at, size)
    return pos + size


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
    null: cython.const[cython.uchar][::1],
) -> cython.Py_ssize_t:
    if size < 0:
        return _put(out, pos, null, 0, len(null))
    return _put(out, pos, data, at, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _join_one(
    data: cython.const[cython.uchar][::1],
    offset: cython.longlong,
    timestamp: cython.longlong,
    spans: cython.const[cython.int][::1],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    fields: cython.const[cython.int][::1],
    literals: cython.const[cython.uchar][::1],
    null: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
    pos: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the fields of one record; return the position after them, or -1 if there is too little room."""
    index: cython.Py_ssize_t = 0
    kind: cython.int
    while index < len(fields) and pos >= 0:
        kind = fields[index]
        if kind == 0:
            pos = _put(out, pos, literals, fields[index + 1], fields[index + 2])
        elif kind == 1:
            pos = _put_span(out, pos, data, spans[row], spans[capacity + row], null)
        elif kind == 2:
            pos = _put_span(out, pos, data, spans[2 * capacity + row], spans[3 * capacity + row], null)
        elif kind == 3:
            pos = _put_number(out, pos, offset)
        elif kind == 4:
            pos = _put_number(out, pos, timestamp)
        elif kind == 5:
            pos = _put_number(out, pos, spans[capacity + row] if spans[capacity + row] > 0 else -(spans[capacity + row] < 0))
        else:
            pos = _put_number(
                out, pos, spans[3 * capacity + row] if spans[3 * capacity + row] > 0 else -(spans[3 * capacity + row] < 0)
            )
        index += 3
    return pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _are_known(fields: cython.const[cython.int][::1], literal_bytes: cython.Py_ssize_t) -> cython.bint:
    """Return whether all fields are of a known kind, and inside the literals."""
    index: cython.Py_ssize_t = 0
    while index < len(fields):
        if len(fields) - index < 3 or not 0 <= fields[index] <= 6 or not 0 <= fields[index + 1] <= literal_bytes:
            return False
        if not 0 <= fields[index + 2] <= literal_bytes - fields[index + 1]:
            return False
        index += 3
    return True


def join(
    data: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    timestamps: cython.const[cython.longlong][::1],
    spans: cython.const[cython.int][::1],
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    fields: cython.const[cython.int][::1],
    literals: cython.const[cython.uchar][::1],
    null: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
    ends: cython.longlong[::1],
):
    """Write a line for each of the rows from `first`, whose bytes are in `data`, while there is room in `out` and in `ends`.

    `fields` are a line's fields, each as its kind, and for `LITERAL` a position and a size in `literals`. `ends` gets the position
    after each line. Return (first row not written, position after the last line).
    """
    capacity: cython.Py_ssize_t = len(offsets)
    row: cython.Py_ssize_t = first
    pos: cython.Py_ssize_t = 0
    after: cython.Py_ssize_t
    outside: cython.bint = False
    if not 0 <= first <= end <= capacity or len(timestamps) < capacity or len(spans) < SPAN_COLUMNS * capacity:
        raise ValueError("join: the rows are outside the columns")
    if not _are_known(fields, len(literals)):
        raise ValueError("join: a field is unknown, or outside the literals")
    if end - row > len(ends):
        end = row + len(ends)
    with cython.nogil:
        while row < end:
            if not row_inside(spans, capacity, row, len(data), len(data), len(data)):
                outside = True
                break
            after = _join_one(data, offsets[row], timestamps[row], spans, capacity, row, fields, literals, null, out, pos)
            if after < 0:
                break
            pos = after
            ends[row - first] = pos
            row += 1
    if outside:
        raise ValueError("join: a span is outside the data")
    return row, pos
