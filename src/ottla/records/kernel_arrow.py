"""The loops between spans and Arrow's layout, and over keys; compiled or not, as `kernel` is.

They handle columns of positions and sizes, Arrow's offsets and validity bits, and the hash that partitions keys. Records are not
parsed here. Every function checks its ranges, so that broken offsets never lead outside the data. Types: `kernel_arrow.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.ottla.records.kernel_common import copy, inside, murmur2_of
else:
    from ottla.records.kernel_common import copy, inside, murmur2_of

COMPILED = cython.compiled


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _difference(more: cython.longlong, less: cython.longlong) -> cython.int:
    """Return a span's size between two Arrow offsets.

    Broken offsets may decrease, or differ by more than 31 bits hold: the span is then empty, or outside its data anyway.
    """
    if more < less:
        return 0
    return more - less if more - less < 0x7FFFFFFF else 0x7FFFFFFF


def spans_from_offsets(
    offsets: cython.const[cython.int][::1],
    validity: cython.const[cython.uchar][::1],
    skipped: cython.Py_ssize_t,
    at: cython.int[::1],
    sizes: cython.int[::1],
):
    """Fill `at` and `sizes` from Arrow's n + 1 offsets and its validity bits (empty: no nulls), after skipping `skipped` bits."""
    count: cython.Py_ssize_t = len(at)
    index: cython.Py_ssize_t
    bit: cython.Py_ssize_t
    if len(sizes) < count or len(offsets) < count + 1 or skipped < 0:
        raise ValueError("spans_from_offsets: the columns differ in length")
    if len(validity) > 0 and len(validity) * 8 < count + skipped:
        raise ValueError("spans_from_offsets: the validity bits are too few")
    with cython.nogil:
        for index in range(count):
            bit = index + skipped
            at[index] = offsets[index]
            if len(validity) > 0 and not (validity[bit >> 3] >> (bit & 7)) & 1:
                sizes[index] = -1
            else:
                sizes[index] = _difference(offsets[index + 1], offsets[index])


def total_bytes(sizes: cython.const[cython.int][::1]):
    """Return (bytes of all spans together, number of nulls)."""
    total: cython.longlong = 0
    nulls: cython.longlong = 0
    index: cython.Py_ssize_t
    with cython.nogil:
        for index in range(len(sizes)):
            if sizes[index] < 0:
                nulls += 1
            else:
                total += sizes[index]
    return total, nulls


def largest(sizes: cython.const[cython.int][::1]):
    """Return the largest size; 0 if there is none above."""
    found: cython.int = 0
    index: cython.Py_ssize_t
    with cython.nogil:
        for index in range(len(sizes)):
            if sizes[index] > found:
                found = sizes[index]
    return found


def gather(
    data: cython.const[cython.uchar][::1],
    at: cython.const[cython.int][::1],
    sizes: cython.const[cython.int][::1],
    offsets: cython.int[::1],
    row: cython.Py_ssize_t,
    pos: cython.Py_ssize_t,
    out: cython.uchar[::1],
    validity: cython.uchar[::1],
):
    """Copy spans of `data` one after another to `out` from `pos`; return the end position.

    Arrow's offsets and validity bits are written from `row` on.
    """
    if len(sizes) < len(at) or row < 0 or len(offsets) < row + len(at) + 1 or not 0 <= pos <= len(out) <= 0x7FFFFFFF:
        raise ValueError("gather: the columns differ in length")
    if len(validity) > 0 and len(validity) * 8 < row + len(at):
        raise ValueError("gather: the validity bits are too few")
    index: cython.Py_ssize_t
    is_inside: cython.bint = True
    with cython.nogil:
        for index in range(len(at)):
            offsets[row] = pos
            if sizes[index] >= 0:
                is_inside = sizes[index] <= len(out) - pos and inside(at[index], sizes[index], len(data))
                if not is_inside:
                    break
                if sizes[index] > 0:
                    copy(out, pos, data, at[index], sizes[index])
                pos += sizes[index]
                if len(validity) > 0:
                    validity[row >> 3] = validity[row >> 3] | (1 << (row & 7))
            row += 1
    if not is_inside:
        raise ValueError("gather: a span is outside its data")
    offsets[row] = pos
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _murmur2(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.uint:
    if cython.compiled:
        return murmur2_of(cython.address(data[0]), at, size)
    return murmur2_of(data, at, size)


def murmur2(key: cython.const[cython.uchar][::1]):
    """Return the hash by which Kafka's clients partition a key, as the signed 32-bit number of Java."""
    hashed: cython.longlong = _murmur2(key, 0, len(key))
    return hashed - 0x100000000 if hashed > 0x7FFFFFFF else hashed


def murmur2_partitions(
    data: cython.const[cython.uchar][::1],
    at: cython.const[cython.int][::1],
    sizes: cython.const[cython.int][::1],
    partition_count: cython.int,
    out: cython.int[::1],
):
    """Fill `out` with the partition of every key of a column; -1 for null keys, whose partition the caller chooses."""
    index: cython.Py_ssize_t
    is_inside: cython.bint = True
    if len(sizes) < len(at) or len(out) < len(at) or partition_count < 1:
        raise ValueError("murmur2_partitions: the columns differ in length, or there are no partitions")
    with cython.nogil:
        for index in range(len(at)):
            if sizes[index] < 0:
                out[index] = -1
                continue
            is_inside = inside(at[index], sizes[index], len(data))
            if not is_inside:
                break
            out[index] = (_murmur2(data, at[index], sizes[index]) & 0x7FFFFFFF) % partition_count
    if not is_inside:
        raise ValueError("murmur2_partitions: a span is outside its data")


def group_rows(groups: cython.const[cython.int][::1], starts: cython.int[::1], rows: cython.int[::1]):
    """Sort rows by group, stably: the rows of group g are `rows[starts[g]:starts[g + 1]]`. Groups are 0 to len(starts) - 2."""
    count: cython.Py_ssize_t = len(groups)
    group_count: cython.Py_ssize_t = len(starts) - 1
    index: cython.Py_ssize_t
    if group_count < 1 or len(rows) < count:
        raise ValueError("group_rows: the columns differ in length")
    for index in range(group_count + 1):
        starts[index] = 0
    for index in range(count):
        if groups[index] < 0 or groups[index] >= group_count:
            raise ValueError("group_rows: a group is outside its range")
        starts[groups[index] + 1] += 1
    for index in range(group_count):
        starts[index + 1] += starts[index]
    for index in range(count):
        rows[starts[groups[index]]] = index
        starts[groups[index]] += 1
    for index in range(group_count, 0, -1):
        starts[index] = starts[index - 1]
    starts[0] = 0
