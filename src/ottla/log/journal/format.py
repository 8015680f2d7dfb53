"""The blocks of a journal: how bytes of many partitions are written as one, and how a block is verified.

A block is a fixed header, the table of its entries, the table of the block before, and the entries' bytes. The header's CRC-32C
includes both tables, and each entry has a CRC-32C of its own: damaged bytes concern the partitions whose bytes they are, and damage
of a header concerns the partitions that the next block repeats. A header contains its own place, so that a copy of a journal in a
topic's records is never taken for a block. All numbers are big-endian. This module packs and unpacks bytes, and uses no files.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.ports import Buffer, FileSlice
from ottla.records.checksum import crc32c

MAGIC: Final = b"OttlaJnl"
VERSION: Final = 1
SECTOR_BYTES: Final = 512
"""The smallest alignment of a block."""

DATA, VOID, DAMAGE = 1, 2, 3
"""Kinds of entries: batches; a partition whose earlier entries are void; a note that batches were lost (in the kept file)."""

JOURNAL: Final = "journal"
"""The name of the directory of a journal, in the data directory and in each other log directory."""

FILES: Final = ("0", "1")
KEPT: Final = "kept"
INCARNATION: Final = "incarnation"
INCOMPLETE: Final = ".new"
"""The suffix of a file of a journal that is not complete yet."""

PLACES: Final = (*FILES, KEPT)
"""The names of the files with blocks. A header contains the index of its file's name."""

MARK: Final = ".journal"
"""The file in a log directory which says that a journal was complete there: if its files are missing, they are lost."""

NAMES: Final = frozenset((*PLACES, INCARNATION))

HEADER: Final = struct.Struct(">8sIHHQQQQQQII")
ENTRY: Final = struct.Struct(">B16siqqiII")
_CRC: Final = struct.Struct(">I")
_CRC_POSITION: Final = 8
CRC_FROM: Final = 12
"""The position of the first byte that the header's CRC includes: only the magic and the CRC itself are before it."""

NO_OFFSET: Final = -1


class Key(NamedTuple):
    """A partition: the id of its topic, and its index. A topic that is created again has another id."""

    topic_id: bytes
    partition: int


class JournalEntry(NamedTuple):
    """Whole batches of one partition to write: `size` bytes in `parts`, with offsets from `base_offset` to before `next_offset`."""

    key: Key
    base_offset: int
    next_offset: int
    leader_epoch: int
    parts: Sequence[FileSlice]
    size: int


class EntryHead(NamedTuple):
    """One row of a block's table: an entry without its bytes."""

    kind: int
    topic_id: bytes
    partition: int
    base_offset: int
    next_offset: int
    leader_epoch: int
    size: int
    crc: int

    @property
    def key(self) -> Key:
        return Key(self.topic_id, self.partition)


class BlockHead(NamedTuple):
    """The header of a block, verified by its CRC.

    The journal needs no block before the sequence `oldest`. `block_bytes` is the distance to the next block. `table` and `before`
    are the packed tables. The data begins at byte `data_from` of the file.
    """

    incarnation: int
    sequence: int
    oldest: int
    block_bytes: int
    data_bytes: int
    data_from: int
    table: bytes
    before: bytes

    def entries(self) -> list[EntryHead]:
        return unpack_table(self.table)


Fields: TypeAlias = tuple[bytes, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of a header: magic, CRC, version, place, incarnation, sequence, oldest, position, sizes of block and data, counts."""


def block_head(position: int, fields: Fields, head: memoryview) -> BlockHead:
    """Return the header at `position`. `head` is the header with its tables."""
    middle = HEADER.size + fields[10] * ENTRY.size
    tables = bytes(head[HEADER.size : middle]), bytes(head[middle:])
    return BlockHead(*fields[4:7], *fields[8:10], position + len(head), *tables)


def unpack_table(table: Buffer) -> list[EntryHead]:
    """Return the rows of a block's table."""
    return [EntryHead._make(row) for row in ENTRY.iter_unpack(table)]


def pack_void(key: Key) -> bytes:
    """Return the row that makes all earlier entries of a partition void."""
    return ENTRY.pack(VOID, key.topic_id, key.partition, NO_OFFSET, NO_OFFSET, -1, 0, 0)


def pack_entry(kind: int, key: Key, base_offset: int, next_offset: int, leader_epoch: int, data: bytes) -> bytes:
    """Return the row of an entry with the bytes `data`."""
    return ENTRY.pack(kind, key[0], key[1], base_offset, next_offset, leader_epoch, len(data), crc32c(data))


def pad_size(size: int, alignment: int) -> int:
    """Return `size`, rounded up to a multiple of `alignment`."""
    return (size + alignment - 1) // alignment * alignment


class BlockPlace(NamedTuple):
    """Where a block is and belongs: its file (an index in `PLACES`), its position there, and its numbers in the journal."""

    file: int
    position: int
    incarnation: int
    sequence: int
    oldest: int


def pack_head(place: BlockPlace, block_bytes: int, data_bytes: int, table: bytes, before: bytes) -> bytearray:
    """Return the part of a block before its data. `before` is the table of the previous block."""
    file, position, incarnation, sequence, oldest = place
    counts = len(table) // ENTRY.size, len(before) // ENTRY.size
    numbers = (incarnation, sequence, oldest, position, block_bytes, data_bytes)
    head = bytearray(b"".join((HEADER.pack(MAGIC, 0, VERSION, file, *numbers, *counts), table, before)))
    _CRC.pack_into(head, _CRC_POSITION, crc32c(memoryview(head)[CRC_FROM:]))
    return head


class NewerJournal(ValueError):
    """Raised for a block of a version that this code does not know."""
