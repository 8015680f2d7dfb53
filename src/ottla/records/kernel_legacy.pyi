from array import array
from collections.abc import Callable

from ottla.ports import Buffer

COMPILED: bool

Longs = memoryview[int] | array[int]
Ints = memoryview[int] | array[int]

Scan = Callable[[Buffer, int, int, int, int, int, int, Longs, Longs, Ints], int]
Unpack = Callable[[int, memoryview, memoryview], int]
Pack = Callable[[int, memoryview], Buffer]
Room = tuple[memoryview[int], memoryview[int], memoryview[int], memoryview, memoryview, memoryview]
Tools = tuple[Scan, Unpack, Pack]

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

class SmallBatches:
    def __init__(self, magic: int, from_offset: int, room: Room, tools: Tools) -> None: ...
    def convert(self, view: memoryview, pos: int, enough: int) -> tuple[int, int, int]: ...

def settle(offsets: Longs, shift: int, timestamps: Longs) -> int | None: ...
