from array import array

from ottla.ports import Buffer

COMPILED: bool
SLOT_WORDS: int

Ints = memoryview[int] | array[int]

def hash_key(key: Buffer, key_low: int, key_high: int) -> tuple[int, int]: ...
def remember(
    data: Buffer,
    at: Ints,
    sizes: Ints,
    offsets: Ints,
    first: int,
    end: int,
    table: Ints,
    used: int,
    most: int,
    key_low: int,
    key_high: int,
) -> tuple[int, int]: ...
def retain(
    data: Buffer,
    spans: Ints,
    offsets: Ints,
    timestamps: Ints,
    first: int,
    end: int,
    base_offset: int,
    table: Ints,
    with_tombstones: bool,
    rows: Ints,
    deltas: Ints,
    key_low: int,
    key_high: int,
) -> tuple[int, int, int]: ...
