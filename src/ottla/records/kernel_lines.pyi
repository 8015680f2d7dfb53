from array import array

from ottla.ports import Buffer

COMPILED: bool
LITERAL: int
KEY: int
VALUE: int
OFFSET: int
TIME: int
KEY_BYTES: int
VALUE_BYTES: int

Longs = memoryview[int] | array[int]
Ints = memoryview[int] | array[int]

def split(data: bytes, delimiter: bytes, separator: bytes, null: bytes | None, spans: Ints) -> tuple[int, int]: ...
def join(
    data: Buffer,
    offsets: Longs,
    timestamps: Longs,
    spans: Ints,
    first: int,
    end: int,
    fields: Ints,
    literals: bytes,
    null: bytes,
    out: bytearray | memoryview,
    ends: Longs,
) -> tuple[int, int]: ...
