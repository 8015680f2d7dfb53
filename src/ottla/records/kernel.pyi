from array import array
from typing import Any, TypeVar

from ottla.ports import Buffer

R = TypeVar("R")

COMPILED: bool
KEY_AT: int
KEY_SIZE: int
VALUE_AT: int
VALUE_SIZE: int
HEADERS_AT: int
HEADERS_SIZE: int
SPAN_COLUMNS: int

Longs = memoryview[int] | array[int]
Ints = memoryview[int] | array[int]

def scan(
    buf: Buffer,
    pos: int,
    end: int,
    row: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    offsets: Longs,
    timestamps: Longs,
    spans: Ints,
) -> int: ...
def make_records(
    record_type: type[R],
    buf: Buffer,
    offsets: Longs,
    timestamps: Longs,
    spans: Ints,
    first: int,
    end: int,
    timestamp_type: int,
) -> list[R]: ...
def write(
    out: bytearray | memoryview,
    pos: int,
    rows: Ints,
    first: int,
    end: int,
    deltas: Longs,
    timestamps: Longs,
    base_timestamp: int,
    spans: Ints,
    key_data: Buffer,
    value_data: Buffer,
    header_data: Buffer,
) -> tuple[int, int, int]: ...
def measure(items: list[Any]) -> int: ...
def write_items(
    out: bytearray | memoryview,
    pos: int,
    timestamps: list[int],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[bytes],
) -> tuple[int, int]: ...
