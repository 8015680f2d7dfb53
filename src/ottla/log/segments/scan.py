"""The scan of a segment's batches by their headers: bounded reads, no batch opened. It uses files and header fields only."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from ottla.log.errors import Astray, Damaged
from ottla.ports import File, Readable
from ottla.records.batches.header import HEADER_BYTES, BatchHeader, read_header

SPAN = Struct(">qi11xi")
"""base_offset, batch_length, last_offset_delta"""

TIMED_SPAN = Struct(">qi11xi8xq")
"""base_offset, batch_length, last_offset_delta, max_timestamp"""

LENGTH_FROM = 12
"""The bytes of a batch before the bytes that its `batch_length` counts."""

SHORTEST = HEADER_BYTES - LENGTH_FROM
CHUNK_BYTES = 4096 + HEADER_BYTES
"""One index interval, in bytes: the most that a search reads, unless a batch is longer."""


ANY = -1
"""The last offset of a batch for which no index gives it."""


def find_offset(file: Readable, position: int, end: int, offset: int, *, last_offset: int = ANY) -> int:
    """Return the position of the first batch from `position` on that contains `offset` or a later one; `end` if there is none.

    `last_offset` is the last offset of the batch at `position`, if an index gives it. Raises `Astray` if the batch has another
    one, and `Damaged` where no batch can be.
    """
    unpack = SPAN.unpack_from
    if last_offset != ANY:
        check_entry(file, position, end, last_offset)
    while end - position >= HEADER_BYTES:
        chunk = file.read(position, min(CHUNK_BYTES, end - position))
        at, last = 0, len(chunk) - SPAN.size
        while at <= last:
            base_offset, batch_length, last_offset_delta = unpack(chunk, at)
            if base_offset + last_offset_delta >= offset:
                return position + at
            if batch_length < SHORTEST:
                raise damaged_at(file, position + at)
            at += batch_length + LENGTH_FROM
        if not at:
            raise damaged_at(file, position)
        position += at
    return end


def check_entry(file: Readable, position: int, end: int, last_offset: int) -> None:
    """Raise `Astray` unless the batch at `position` ends with `last_offset`, the offset in an index entry."""
    check_span(file, position, file.read(position, SPAN.size) if 0 <= position <= end - HEADER_BYTES else b"", last_offset)


def check_span(file: Readable, position: int, data: bytes, last_offset: int) -> None:
    """Raise `Astray` unless `data`, read at `position`, begins with a batch that ends with `last_offset`."""
    if len(data) >= SPAN.size:
        base_offset, _, last_offset_delta = SPAN.unpack_from(data)
        if base_offset + last_offset_delta == last_offset:
            return
    directory, _, name = file.path.rpartition("/")
    raise Astray(directory, name, max(0, position), "the index points here, where no batch begins.")


def last_boundary(file: File, position: int, limit: int, *, last_offset: int = ANY) -> tuple[int, int]:
    """Return (end, next_offset) of the last batch at or after `position` that ends by `limit`.

    `next_offset` is the offset after the last batch, which a reader continues with at `end`. If no batch ends by `limit`, `end` is
    `position`, and `next_offset` the base offset of the batch there, or -1. `last_offset` and `Astray` are as for
    `find_offset`, but `last_offset` is checked only if a batch fits before `limit`. Raises `Damaged` where no batch can be.
    """
    unpack = SPAN.unpack_from
    next_offset = -1
    while limit - position >= HEADER_BYTES:
        chunk = file.read(position, min(CHUNK_BYTES, limit - position))
        if last_offset != ANY:
            check_span(file, position, chunk, last_offset)
            last_offset = ANY
        at, last = 0, len(chunk) - SPAN.size
        while at <= last:
            base_offset, batch_length, last_offset_delta = unpack(chunk, at)
            if batch_length < SHORTEST:
                raise damaged_at(file, position + at)
            if position + at + batch_length + LENGTH_FROM > limit:
                return position + at, base_offset if next_offset < 0 else next_offset
            at += batch_length + LENGTH_FROM
            next_offset = base_offset + last_offset_delta + 1
        if not at:
            raise damaged_at(file, position)
        position += at
    return position, next_offset


def find_timestamp(file: File, position: int, end: int, timestamp: int) -> int:
    """Return the position of the first batch from `position` on with a max_timestamp of at least `timestamp`; else `end`."""
    return next((at for at, max_timestamp in max_timestamps(file, position, end) if max_timestamp >= timestamp), end)


def max_timestamps(file: File, position: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (position, max_timestamp) of each batch from `position` to `end`. Raises `Damaged`."""
    unpack = TIMED_SPAN.unpack_from
    while end - position >= HEADER_BYTES:
        chunk = file.read(position, min(CHUNK_BYTES, end - position))
        at, last = 0, len(chunk) - TIMED_SPAN.size
        while at <= last:
            _, batch_length, _, max_timestamp = unpack(chunk, at)
            if batch_length < SHORTEST:
                raise damaged_at(file, position + at)
            yield position + at, max_timestamp
            at += batch_length + LENGTH_FROM
        if not at:
            raise damaged_at(file, position)
        position += at


def base_offset(file: File, position: int) -> int:
    """Return the first offset of the batch at `position`."""
    return int.from_bytes(file.read(position, 8), "big", signed=True)


def batch_size(file: File, position: int) -> int:
    """Return the size of the batch at `position`, in bytes."""
    return int.from_bytes(file.read(position + 8, 4), "big") + LENGTH_FROM


def headers(file: File, position: int, end: int, *, chunk_bytes: int = 65536) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch from `position` to `end`; stop where no whole batch follows."""
    while end - position >= HEADER_BYTES:
        chunk = file.read(position, min(chunk_bytes, end - position))
        at, last = 0, len(chunk) - HEADER_BYTES
        while at <= last:
            header = read_header(chunk, at)
            size = header.batch_length + LENGTH_FROM
            if size < HEADER_BYTES or position + at + size > end:
                return
            yield position + at, header
            at += size
        if not at:
            return
        position += at


def damaged_at(file: Readable, position: int) -> Damaged:
    """Return the error for a position at which no batch can begin, although one must."""
    directory, _, name = file.path.rpartition("/")
    return Damaged(directory, name, position, "no batch of records begins here.")
