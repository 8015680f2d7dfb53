from array import array

from ottla.ports import Buffer

COMPILED: bool
KEY_AT: int
KEY_SIZE: int
VALUE_AT: int
VALUE_SIZE: int
HEADERS_AT: int
HEADERS_SIZE: int
BROKEN: int
DOUBTFUL: int

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
def scan_batches(buf: Buffer, pos: int, end: int, offsets: Longs, timestamps: Longs, spans: Ints) -> int: ...
def walk(buf: Buffer, pos: int, count: int, base_timestamp: int, earliest: int, latest: int, keyed: bool) -> int: ...
def walk_on(
    buf: Buffer,
    state: Longs,
    digits: bytearray,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    keyed: bool,
) -> int: ...
def zstd_blocks(buf: Buffer, pos: int, most_block_bytes: int) -> tuple[int, int]: ...
def count_headers(buf: Buffer, at: Ints, sizes: Ints) -> int: ...
def header_spans(buf: Buffer, at: Ints, sizes: Ints, starts: Ints, row: int, entry: int, names: Ints, values: Ints) -> int: ...
