"""Sets of messages as clients wrote them from 0.8 on, by hand: built here, and read back into plain values for comparison.

Rests on nothing of Ottla, so that it is not judged by its own idea of the formats. Reads gzip and uncompressed sets.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import Any

import crc32c

GZIP = 1
TIME_MS = 1_500_000_000_000


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(
    value: bytes | None, *, magic: int = 0, key: bytes | None = None, offset: int = 0, attributes: int = 0, time_ms: int = TIME_MS
) -> bytes:
    """One message of magic 0 or 1 with its offset and size."""
    timestamp = struct.pack(">q", time_ms) if magic else b""
    covered = struct.pack(">bb", magic, attributes) + timestamp + sized(key) + sized(value)
    body = struct.pack(">I", zlib.crc32(covered)) + covered
    return struct.pack(">qi", offset, len(body)) + body


def plain(*values: bytes, magic: int = 0, first: int = 0) -> bytes:
    """Messages with the offsets that producers give them: 0, 1, 2 …"""
    return b"".join(message(value, magic=magic, key=b"k", offset=first + i) for i, value in enumerate(values))


def unnumbered(*values: bytes) -> bytes:
    """Messages of magic 1 that all have offset -1, as pykafka sends them."""
    return b"".join(message(value, magic=1, offset=-1) for value in values)


def wrapped(inner: bytes, *, magic: int = 0, offset: int = 0) -> bytes:
    """A set inside one gzip message."""
    return message(gzip.compress(inner, mtime=0), magic=magic, attributes=GZIP, offset=offset)


def batch(*values: bytes) -> bytes:
    """An uncompressed batch of magic 2."""
    records = b""
    for delta, value in enumerate(values):
        record = b"\x00\x00" + bytes((delta * 2, 2)) + b"k" + bytes((len(value) * 2,)) + value + b"\x00"
        records += bytes((len(record) * 2,)) + record
    times = (TIME_MS, TIME_MS)
    covered = struct.pack(">hiqqqhii", 0, len(values) - 1, *times, -1, -1, -1, len(values)) + records
    head = struct.pack(">iBI", -1, 2, crc32c.crc32c(covered))
    return struct.pack(">qi", 0, len(head) + len(covered)) + head + covered


def read(data: bytes) -> list[Any]:
    """[offset, magic, attributes, timestamp, key, value] of each message; a wrapper's value is the list of those inside.

    What is no message, or not a whole one, is told by its size.
    """
    found: list[Any] = []
    position = 0
    while position + 17 <= len(data):
        offset, size = struct.unpack_from(">qi", data, position)
        end = position + 12 + size
        if end > len(data):
            break
        try:
            found.append(_read_one(data[position:end], offset))
        except (struct.error, OSError):
            found.append(f"{end - position} bytes at {offset} that are no message")
        position = end
    if position < len(data):
        found.append(f"{len(data) - position} bytes of a message")
    return found


def _read_one(entry: bytes, offset: int) -> list[Any]:
    magic, attributes = entry[16], entry[17]
    if magic == 2:
        (attributes,) = struct.unpack_from(">h", entry, 21)
        delta, first, newest = struct.unpack_from(">iqq", entry, 23)
        (count,) = struct.unpack_from(">i", entry, 57)
        return [offset, magic, attributes, [first, newest], f"{count} records to {offset + delta}", len(entry)]
    assert zlib.crc32(entry[16:]) == struct.unpack_from(">I", entry, 12)[0], "a broker sent a message with a wrong checksum"
    position, timestamp = 18, None
    if magic == 1:
        (timestamp,) = struct.unpack_from(">q", entry, position)
        position += 8
    key, position = _read_bytes(entry, position)
    value, position = _read_bytes(entry, position)
    if attributes & 7 == GZIP and value is not None:
        return [offset, magic, attributes, timestamp, _text(key), read(gzip.decompress(value))]
    return [offset, magic, attributes, timestamp, _text(key), _text(value)]


def _read_bytes(entry: bytes, position: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", entry, position)
    position += 4
    return (None, position) if size < 0 else (entry[position : position + size], position + size)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1") if len(data) < 100 else f"{len(data)} bytes"
