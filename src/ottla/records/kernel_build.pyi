from array import array
from typing import Any

from ottla.ports import Buffer

COMPILED: bool

Longs = memoryview[int] | array[int]
Ints = memoryview[int] | array[int]

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
    base_delta: int = 0,
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
def write_batch(
    keys: list[Any],
    values: list[Any],
    timestamp: int,
    attributes: int,
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> bytearray | None: ...
