from array import array

from ottla.ports import Buffer

COMPILED: bool

Longs = memoryview[int] | array[int]
Ints = memoryview[int] | array[int]

def run_of(buf: Buffer, pos: int, end: int) -> tuple[int, int]: ...
def scan_messages(buf: Buffer, pos: int, end: int, row: int, count: int, offsets: Longs, timestamps: Longs, spans: Ints) -> int: ...
def write_messages(
    out: bytearray | memoryview,
    pos: int,
    first: int,
    end: int,
    magic: int,
    attributes: int,
    base_offset: int,
    offsets: Longs,
    timestamps: Longs,
    spans: Ints,
    data: Buffer,
) -> tuple[int, int]: ...
def settle(offsets: Longs, shift: int, timestamps: Longs) -> int | None: ...
