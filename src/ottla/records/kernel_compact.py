"""The loops of compaction: hash keys, remember the newest offset of each, and leave out older records; compiled or not.

They handle columns of positions and sizes, and a hash table in one block of memory. A key is represented only by 128 bits of
SipHash-2-4: two keys with one hash would lose a record. So the hash is long, and its secret is unknown to producers. Every function
checks the ranges that it is given. Types: `kernel_compact.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.ottla.records.kernel_common import SPAN_COLUMNS, inside
else:
    from ottla.records.kernel_common import SPAN_COLUMNS, inside

COMPILED = cython.compiled

SLOT_WORDS = 3
"""The words of a slot: two words of hash, and the offset plus one; 0 there means that the slot is free."""

MASK_64 = 0xFFFFFFFFFFFFFFFF


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sum(a: cython.ulonglong, b: cython.ulonglong) -> cython.ulonglong:
    if cython.compiled:
        return a + b
    return (a + b) & MASK_64


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _turn(word: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    if cython.compiled:
        return (word << bits) | (word >> (64 - bits))
    return ((word << bits) | (word >> (64 - bits))) & MASK_64


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _round(
    a: cython.ulonglong, b: cython.ulonglong, c: cython.ulonglong, d: cython.ulonglong
) -> tuple[cython.ulonglong, cython.ulonglong, cython.ulonglong, cython.ulonglong]:
    a = _sum(a, b)
    b = _turn(b, 13) ^ a
    a = _turn(a, 32)
    c = _sum(c, d)
    d = _turn(d, 16) ^ c
    a = _sum(a, d)
    d = _turn(d, 21) ^ a
    c = _sum(c, b)
    b = _turn(b, 17) ^ c
    c = _turn(c, 32)
    return a, b, c, d


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _finish(
    a: cython.ulonglong, b: cython.ulonglong, c: cython.ulonglong, d: cython.ulonglong
) -> tuple[cython.ulonglong, cython.ulonglong, cython.ulonglong, cython.ulonglong]:
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    return _round(a, b, c, d)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _siphash(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    key_low: cython.ulonglong,
    key_high: cython.ulonglong,
) -> tuple[cython.ulonglong, cython.ulonglong]:
    """Return SipHash-2-4 of 128 bits, as two words."""
    a: cython.ulonglong = 0x736F6D65
    b: cython.ulonglong = 0x646F7261
    c: cython.ulonglong = 0x6C796765
    d: cython.ulonglong = 0x74656462
    pos: cython.Py_ssize_t = at
    end: cython.Py_ssize_t = at + size - (size & 7)
    index: cython.Py_ssize_t
    word: cython.ulonglong
    byte: cython.ulonglong
    low: cython.ulonglong
    a = (a << 32 | 0x70736575) ^ key_low  # in halves: Cython treats a constant of 64 bits as a Python object
    b = (b << 32 | 0x6E646F6D) ^ key_high ^ 0xEE
    c = (c << 32 | 0x6E657261) ^ key_low
    d = (d << 32 | 0x79746573) ^ key_high
    while pos <= end:
        word = 0
        for index in range(8 if pos < end else size & 7):
            byte = data[pos + index]
            word |= byte << (8 * index)
        if pos == end:
            byte = size & 0xFF
            word |= byte << 56
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        pos += 8
    c ^= 0xEE
    a, b, c, d = _finish(a, b, c, d)
    low = a ^ b ^ c ^ d
    b ^= 0xDD
    a, b, c, d = _finish(a, b, c, d)
    return low, a ^ b ^ c ^ d


def hash_key(key: cython.const[cython.uchar][::1], key_low: cython.ulonglong, key_high: cython.ulonglong):
    """Return the two words that represent a key in a table whose secret is `key_low` and `key_high`."""
    return _siphash(key, 0, len(key), key_low, key_high)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _slot(
    table: cython.const[cython.ulonglong][::1], slots: cython.ulonglong, low: cython.ulonglong, high: cython.ulonglong
) -> cython.Py_ssize_t:
    """Return the position of the slot with this hash, or of the free slot for it. The table is never full."""
    slot: cython.ulonglong = low % slots
    while table[slot * 3 + 2] != 0 and (table[slot * 3] != low or table[slot * 3 + 1] != high):
        slot += 1
        if slot == slots:
            slot = 0
    return slot * 3


def remember(
    data: cython.const[cython.uchar][::1],
    at: cython.const[cython.int][::1],
    sizes: cython.const[cython.int][::1],
    offsets: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    table: cython.ulonglong[::1],
    used: cython.Py_ssize_t,
    most: cython.Py_ssize_t,
    key_low: cython.ulonglong,
    key_high: cython.ulonglong,
):
    """Store the offsets of the keys of rows `first` to `end` while at most `most` slots are used; return (next row, used slots).

    A later row replaces an earlier one with the same key. Rows without a key are skipped.
    """
    if not 0 <= first <= end <= len(offsets) or len(at) < end or len(sizes) < end:
        raise ValueError("remember: the rows are outside the columns")
    if not 0 <= used <= most or most >= len(table) // SLOT_WORDS:
        raise ValueError("remember: the table has too few slots")
    row: cython.Py_ssize_t = first
    slots: cython.ulonglong = len(table) // 3
    slot: cython.Py_ssize_t
    low: cython.ulonglong
    high: cython.ulonglong
    is_inside: cython.bint = True
    with cython.nogil:
        while row < end:
            if sizes[row] >= 0:
                is_inside = inside(at[row], sizes[row], len(data))
                if not is_inside:
                    break
                low, high = _siphash(data, at[row], sizes[row], key_low, key_high)
                slot = _slot(table, slots, low, high)
                if table[slot + 2] == 0:
                    if used >= most:
                        break
                    used += 1
                    table[slot] = low
                    table[slot + 1] = high
                table[slot + 2] = offsets[row] + 1
            row += 1
    if not is_inside:
        raise ValueError("remember: a key is outside its data")
    return row, used


def retain(
    data: cython.const[cython.uchar][::1],
    spans: cython.const[cython.int][::1],
    offsets: cython.const[cython.longlong][::1],
    timestamps: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base_offset: cython.longlong,
    table: cython.const[cython.ulonglong][::1],
    with_tombstones: cython.bint,
    rows: cython.int[::1],
    deltas: cython.longlong[::1],
    key_low: cython.ulonglong,
    key_high: cython.ulonglong,
):
    """Select the rows from `first` to `end` to keep; return (how many, tombstones among them, their greatest timestamp).

    A row is kept if it has a key for which no greater offset was remembered; a tombstone only `with_tombstones`. The kept row
    numbers go into `rows`. `deltas` gets, at each row's own index, the distance of its offset from `base_offset`.
    """
    capacity: cython.Py_ssize_t = len(offsets)
    if not 0 <= first <= end <= capacity or len(timestamps) < capacity or len(spans) < SPAN_COLUMNS * capacity:
        raise ValueError("retain: the rows are outside the columns")
    if len(rows) < end - first or len(deltas) < end or len(table) < SLOT_WORDS:
        raise ValueError("retain: there is too little room")
    row: cython.Py_ssize_t
    slots: cython.ulonglong = len(table) // 3
    slot: cython.Py_ssize_t
    newest_offset: cython.ulonglong
    kept: cython.Py_ssize_t = 0
    tombstones: cython.Py_ssize_t = 0
    newest: cython.longlong = -1
    low: cython.ulonglong
    high: cython.ulonglong
    is_inside: cython.bint = True
    with cython.nogil:
        for row in range(first, end):
            if spans[capacity + row] < 0 or not (with_tombstones or spans[3 * capacity + row] >= 0):
                continue
            is_inside = inside(spans[row], spans[capacity + row], len(data))
            if not is_inside:
                break
            low, high = _siphash(data, spans[row], spans[capacity + row], key_low, key_high)
            slot = _slot(table, slots, low, high)
            newest_offset = offsets[row] + 1
            if table[slot + 2] <= newest_offset:
                rows[kept] = row
                deltas[row] = offsets[row] - base_offset
                kept += 1
                if spans[3 * capacity + row] < 0:
                    tombstones += 1
                if timestamps[row] > newest:
                    newest = timestamps[row]
    if not is_inside:
        raise ValueError("retain: a key is outside its data")
    return kept, tombstones, newest
