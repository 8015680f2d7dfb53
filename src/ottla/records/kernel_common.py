"""The functions that the kernels share, for uncompiled runs. Compiled kernels inline the same ones from `kernel_common.pxd`.

They handle varints and columns of spans. Numbers have 64 bits: sums that wrap in C are wrapped here too.
"""

from __future__ import annotations

from typing import Final

from ottla.ports import Buffer

SPAN_COLUMNS: Final = 6
"""The columns of positions and sizes of keys, values and headers: one after the other, each `capacity` int32."""

IS_BROKEN: Final = -2
IS_DOUBTFUL: Final = -3

AT, INDEX, STAGE, LEFT, SKIP, HEADERS, DIGITS, NEWEST, TIMESTAMP, HAS_KEY = range(10)
"""The state of a walk over pieces, as indices into an array.

`AT` is the position in the piece, and `INDEX` the number of records passed. For a record that began in an earlier piece, `STAGE` is
the next field, `LEFT` its remaining bytes, `SKIP` the bytes to skip before that field, `HEADERS` the remaining headers, and
`DIGITS` the bytes of a torn number. `NEWEST`, `TIMESTAMP` and `HAS_KEY` are results.
"""

WALK_STATES: Final = 10
LENGTH, ATTRIBUTES, AGE, DELTA, KEY, VALUE, COUNT, NAME, CONTENT = range(9)
"""The fields of a record, as values of `STAGE`; `NAME` and `CONTENT` are those of its headers."""

HEADER_BYTES: Final = 61
LENGTH_FROM: Final = 12
MAGIC_AT: Final = 16
CRC_FROM: Final = 21
LOG_APPEND_TIME_BIT: Final = 8
LARGEST_INT: Final = 0x7FFFFFFF
"""The header of a batch: its size, the bytes before those that batch_length counts, positions of fields, a bit of attributes."""

_MASK_64: Final = 0xFFFFFFFFFFFFFFFF
_MASK_32: Final = 0xFFFFFFFF
_MURMUR: Final = 0x5BD1E995


def zigzag(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return (number, position after it); position -1 if no number ends before `end`."""
    if pos < end and buf[pos] < 0x80:
        number = buf[pos]
        return (number >> 1) ^ -(number & 1), pos + 1
    if pos + 1 < end and buf[pos + 1] < 0x80:
        number = (buf[pos] & 0x7F) | (buf[pos + 1] << 7)
        return (number >> 1) ^ -(number & 1), pos + 2
    number = 0
    for shift in range(0, 70, 7):
        if pos >= end:
            break
        byte = buf[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= _MASK_64
            return (number >> 1) ^ -(number & 1), pos
    return 0, -1


def span(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return (size or -1 for null, position of the bytes); position -1 if they do not end before `end`."""
    size, pos = zigzag(buf, pos, end)
    if pos < 0 or size > end - pos:
        return 0, -1
    if size < 0:
        return -1, pos
    return size, pos


def uint32_at(buf: Buffer, pos: int) -> int:
    """Return the unsigned number in the four bytes at `pos`."""
    return buf[pos] << 24 | buf[pos + 1] << 16 | buf[pos + 2] << 8 | buf[pos + 3]


def int64_at(buf: Buffer, pos: int) -> int:
    """Return the signed number in the eight bytes at `pos`."""
    return wrapped(uint32_at(buf, pos) << 32 | uint32_at(buf, pos + 4))


def wrapped(number: int) -> int:
    """Wrap a sum or difference to 64 bits."""
    return (number + (1 << 63) & _MASK_64) - (1 << 63)


def inside(at: int, size: int, data_bytes: int) -> bool:
    """Return whether a span is within its data."""
    return size <= 0 or (at >= 0 and size <= data_bytes - at)


def row_inside(spans: memoryview[int], capacity: int, row: int, key_bytes: int, value_bytes: int, header_bytes: int) -> bool:
    """Return whether key, value and headers of a row are within their data."""
    if not inside(spans[row], spans[capacity + row], key_bytes):
        return False
    if not inside(spans[2 * capacity + row], spans[3 * capacity + row], value_bytes):
        return False
    return inside(spans[4 * capacity + row], spans[5 * capacity + row], header_bytes)


def copy(out: memoryview, pos: int, data: Buffer, at: int, size: int) -> None:
    """Copy `size` bytes of `data` from `at` to `pos` in `out`."""
    out[pos : pos + size] = data[at : at + size]


def zigzag_bytes(number: int) -> int:
    """Return the number of bytes of `number` as a zigzag varint."""
    rest = ((number << 1) ^ (number >> 63)) & _MASK_64
    return max(1, (rest.bit_length() + 6) // 7)


def put(out: bytearray | memoryview, pos: int, number: int) -> int:
    """Write a zigzag varint without a check for room; return the position after it."""
    rest = ((number << 1) ^ (number >> 63)) & _MASK_64
    while rest >= 0x80:
        out[pos] = (rest & 0x7F) | 0x80
        rest >>= 7
        pos += 1
    out[pos] = rest
    return pos + 1


def body_bytes(age: int, delta: int, key_size: int, value_size: int, header_size: int) -> int:
    """Return the bytes of a record after its length; negative sizes are nulls, headers of size 0 are written as a count of 0."""
    sizes = (max(key_size, 0), max(value_size, 0), max(header_size, 1))
    return 1 + sum(map(zigzag_bytes, (age, delta, key_size, value_size))) + sum(sizes)


def murmur2_of(data: Buffer, at: int, size: int) -> int:
    """Return MurmurHash2 of 32 bits with the seed of Kafka's clients, as an unsigned number."""
    hashed = 0x9747B28C ^ size
    end = at + size - (size & 3)
    for pos in range(at, end, 4):
        block = (data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16 | data[pos + 3] << 24) * _MURMUR & _MASK_32
        hashed = (hashed * _MURMUR & _MASK_32) ^ ((block ^ (block >> 24)) * _MURMUR & _MASK_32)
    for left in range((size & 3) - 1, -1, -1):
        hashed ^= data[end + left] << (8 * left)
    if size & 3:
        hashed = hashed * _MURMUR & _MASK_32
    hashed = (hashed ^ (hashed >> 13)) * _MURMUR & _MASK_32
    return hashed ^ (hashed >> 15)
