"""The walk over the blocks of one file of a journal. A file can have a few hundred thousand of them, so few objects are made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.log.journal.format import (
    CRC_FROM,
    ENTRY,
    HEADER,
    MAGIC,
    SECTOR_BYTES,
    VERSION,
    BlockHead,
    Fields,
    NewerJournal,
    block_head,
)
from ottla.ports import File
from ottla.records.checksum import crc32c

CHUNK_BYTES: Final = 4 << 20
"""The bytes of one read. A larger block is read as one piece."""


class FileWindow:
    """Reads a file in large pieces, and returns views of them."""

    __slots__ = ("_base", "_data", "_end", "file", "size")

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = file.size
        self._data = memoryview(b"")
        self._base = self._end = 0

    def view(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`, or fewer at the end of the file."""
        size = min(size, self.size - position)
        if position < self._base or position + size > self._end:
            self._data, self._base = memoryview(self.file.read(position, max(size, CHUNK_BYTES))), position
            self._end = position + len(self._data)
        start = position - self._base
        return self._data[start : start + size]

    def find(self, position: int) -> int:
        """Return the position of the next sector, from `position` on, that begins like a block; the file's size if none does."""
        while position < self.size:
            data = self.file.read(position, CHUNK_BYTES)
            start = data.find(MAGIC)
            while start >= 0 and start % SECTOR_BYTES:
                start = data.find(MAGIC, start + SECTOR_BYTES - start % SECTOR_BYTES)
            if start >= 0:
                return position + start
            position += CHUNK_BYTES
        return self.size


def walk(file: File, place: int) -> Iterator[tuple[int, Fields, memoryview]]:
    """Yield (position, fields, header with its tables) of each block with a whole header in a file (an index in `PLACES`).

    The headers are of any incarnation, and the data is not read. Raises `NewerJournal`.
    """
    window, position, unpack, fixed, row = FileWindow(file), 0, HEADER.unpack, HEADER.size, ENTRY.size
    end = window.size - fixed
    while position <= end:
        fields: Fields = unpack(window.view(position, fixed))
        magic, crc, version, own_place, _, _, _, own_position, block_bytes, _, rows, rows_before = fields
        if magic != MAGIC:
            position = window.find(position + SECTOR_BYTES)
            continue
        size = fixed + (rows + rows_before) * row
        head = window.view(position, size) if size <= window.size - position else None
        if head is None or crc32c(head[CRC_FROM:]) != crc or own_place != place or own_position != position:
            position += SECTOR_BYTES
            continue
        if version != VERSION:
            raise NewerJournal(version)
        yield position, fields, head
        position += max(block_bytes, SECTOR_BYTES)


def heads(file: File, place: int) -> Iterator[tuple[int, BlockHead]]:
    """Yield (position, header) of each block that `walk` finds, as objects. Raises `NewerJournal`."""
    for position, fields, head in walk(file, place):
        yield position, block_head(position, fields, head)
