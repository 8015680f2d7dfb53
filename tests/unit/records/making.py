"""Record batches to test with: sound ones of any shape, and sound ones edited so that only one thing is wrong."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record
from ottla.records.batches.header import HEADER, HEADER_BYTES, read_header, write_crc

Rows = list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]

TIMES = st.integers(-1, 2**45) | st.sampled_from([-(2**63), 2**63 - 1, 0])
ITEMS = st.none() | st.binary(max_size=40) | st.sampled_from([b"", bytes(63), bytes(64), bytes(8191), bytes(8192)])
HEADERS = st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=6)), max_size=3)
ROWS = st.lists(st.tuples(TIMES, ITEMS, ITEMS, HEADERS), min_size=1, max_size=12)


def build_rows(rows: Rows, **fields: Any) -> bytearray:
    times, keys, values, headers = (list(column) for column in zip(*rows, strict=True))
    return build(keys, values, times, headers, **fields)


def records_of(rows: Rows, base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, time, 0, key, value, tuple(headers)) for index, (time, key, value, headers) in enumerate(rows)
    ]


def simple(count: int = 3, **fields: Any) -> bytearray:
    return build([b"k"] * count, [b"v" * 10] * count, list(range(1000, 1000 + count)), **fields)


def edited(batch: bytes | bytearray, *, fix_crc: bool = True, **fields: Any) -> bytearray:
    """The batch with other header fields and, unless told otherwise, a CRC that is right for them."""
    out = bytearray(HEADER.pack(*read_header(batch)._replace(**fields)) + batch[HEADER_BYTES:])
    if fix_crc:
        write_crc(out, 0, len(out))
    return out
