"""The loop that checks whether stored batches are intact: one source, which Cython compiles where it can.

It checks the header of batches of magic 2, their CRC-32C, and that offsets increase. It never reads outside the view, and stops
before any batch that is not ordinary: callers find out what is wrong with it.
"""

from __future__ import annotations

from crc32c import crc32c

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

COMPILED = cython.compiled

HEADER_BYTES: cython.Py_ssize_t = 61
LENGTH_FROM: cython.Py_ssize_t = 12
"""The bytes before those that batch_length counts."""

MAGIC_AT: cython.Py_ssize_t = 16
CRC_FROM: cython.Py_ssize_t = 21
NO_EPOCH: cython.longlong = 0xFFFFFFFF
LARGEST_INT: cython.longlong = 0x7FFFFFFF


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    number: cython.longlong = buf[at]
    number = number << 8 | buf[at + 1]
    number = number << 8 | buf[at + 2]
    return number << 8 | buf[at + 3]


def sound(
    view: memoryview,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    left: cython.Py_ssize_t,
    next_offset: cython.longlong,
    until_offset: cython.longlong,
    latest_epoch: cython.longlong,
) -> tuple[int, int, int, int, int, int]:
    """Pass sound batches from `at` on. Stop at `end`, after `left` batches, and before a batch that is not ordinary.

    That is a batch which is not whole in the view, has a wrong CRC, an offset below `next_offset` or not below `until_offset`, or
    an epoch above `latest_epoch`. Return (position reached, next offset, how many are left, and for the last batch passed: its
    position, the next offset before it, its base offset).
    """
    buf: cython.const[cython.uchar][::1] = view
    size: cython.Py_ssize_t = len(view)
    last_at: cython.Py_ssize_t = at
    last_next: cython.longlong = next_offset
    last_base: cython.longlong = next_offset
    base_offset: cython.longlong
    length: cython.longlong
    delta: cython.longlong
    epoch: cython.longlong
    while 0 <= at < end and left > 0 and size - at >= HEADER_BYTES:
        base_offset = _int(buf, at) << 32 | _int(buf, at + 4)
        length = _int(buf, at + 8)
        epoch = _int(buf, at + LENGTH_FROM)
        delta = _int(buf, at + 23)
        if buf[at + MAGIC_AT] != 2 or length < HEADER_BYTES - LENGTH_FROM or length > size - at - LENGTH_FROM:
            break
        if delta > LARGEST_INT or (epoch > latest_epoch and epoch != NO_EPOCH):
            break
        if base_offset < next_offset or base_offset >= until_offset - delta:
            break
        if crc32c(view[at + CRC_FROM : at + LENGTH_FROM + length]) != _int(buf, at + 17):
            break
        last_at, last_next, last_base = at, next_offset, base_offset
        at += LENGTH_FROM + length
        next_offset = base_offset + delta + 1
        left -= 1
    return at, next_offset, left, last_at, last_next, last_base
