from array import array

from ottla.ports import Buffer

COMPILED: bool

Ints = memoryview[int] | array[int]

def spans_from_offsets(offsets: Ints, validity: Buffer, skipped: int, at: Ints, sizes: Ints) -> None: ...
def largest(sizes: Ints) -> int: ...
def total_bytes(sizes: Ints) -> tuple[int, int]: ...
def gather(
    data: Buffer,
    at: Ints,
    sizes: Ints,
    offsets: Ints,
    row: int,
    pos: int,
    out: bytearray | memoryview,
    validity: bytearray | memoryview,
) -> int: ...
def murmur2(key: Buffer) -> int: ...
def murmur2_partitions(data: Buffer, at: Ints, sizes: Ints, partition_count: int, out: Ints) -> None: ...
def group_rows(groups: Ints, starts: Ints, rows: Ints) -> None: ...
