"""The loops over the headers of batches, stored or fetched: one source, which Cython compiles where it can.

They check the header of batches of magic 2 and their CRC-32C. They never read outside the view, and stop before any batch that is
not ordinary: callers find out what is wrong with it.
"""

from __future__ import annotations

from ottla.records.checksum import crc32c

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.ottla.records.kernel_common import (
        CRC_FROM,
        HEADER_BYTES,
        LARGEST_INT,
        LENGTH_FROM,
        MAGIC_AT,
        int64_at,
        uint32_at,
    )
else:
    from ottla.records.kernel_common import CRC_FROM, HEADER_BYTES, LARGEST_INT, LENGTH_FROM, MAGIC_AT, int64_at, uint32_at

COMPILED = cython.compiled

NO_EPOCH: cython.longlong = 0xFFFFFFFF


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
        base_offset = int64_at(buf, at)
        length = uint32_at(buf, at + 8)
        epoch = uint32_at(buf, at + LENGTH_FROM)
        delta = uint32_at(buf, at + 23)
        if buf[at + MAGIC_AT] != 2 or length < HEADER_BYTES - LENGTH_FROM or length > size - at - LENGTH_FROM:
            break
        if delta > LARGEST_INT or (epoch > latest_epoch and epoch != NO_EPOCH):
            break
        if base_offset < next_offset or base_offset >= until_offset - delta:
            break
        if crc32c(view[at + CRC_FROM : at + LENGTH_FROM + length]) != uint32_at(buf, at + 17):
            break
        last_at, last_next, last_base = at, next_offset, base_offset
        at += LENGTH_FROM + length
        next_offset = base_offset + delta + 1
        left -= 1
    return at, next_offset, left, last_at, last_next, last_base


def pass_alike(view: memoryview, mask: cython.int, kind: cython.int, check_crcs: cython.bint) -> tuple[int, int, int, bool]:
    """Pass the whole batches of one kind: the bits `mask` of their attributes are `kind`. Stop before any other batch.

    With `check_crcs`, a batch with a wrong CRC is another one. Return (position reached, number of records, next offset, whether
    all whole batches of the view were passed). An uncompressed batch has the 7 bytes that the smallest record takes, for each.
    """
    buf: cython.const[cython.uchar][::1] = view
    size: cython.Py_ssize_t = len(view)
    at: cython.Py_ssize_t = 0
    records: cython.longlong = 0
    next_offset: cython.longlong = -1
    base_offset: cython.longlong
    length: cython.longlong
    delta: cython.longlong
    count: cython.longlong
    while size - at >= HEADER_BYTES:
        length = uint32_at(buf, at + 8)
        if buf[at + MAGIC_AT] != 2 or length < HEADER_BYTES - LENGTH_FROM or length > LARGEST_INT:
            return at, records, next_offset, False
        if length > size - at - LENGTH_FROM:
            break
        base_offset = int64_at(buf, at)
        delta = uint32_at(buf, at + 23)
        count = uint32_at(buf, at + 57)
        if (buf[at + 22] & mask) != kind or base_offset >> 62 != 0:
            return at, records, next_offset, False
        if delta > LARGEST_INT or count > LARGEST_INT:
            return at, records, next_offset, False
        if buf[at + 22] & 7 == 0 and count * 7 > length - (HEADER_BYTES - LENGTH_FROM):
            return at, records, next_offset, False
        if check_crcs and crc32c(view[at + CRC_FROM : at + LENGTH_FROM + length]) != uint32_at(buf, at + 17):
            return at, records, next_offset, False
        records += count
        next_offset = base_offset + delta + 1
        at += LENGTH_FROM + length
    return at, records, next_offset, True
