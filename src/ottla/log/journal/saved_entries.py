"""The entries of one partition that a journal's files contain, as numbers: a full journal has several hundred thousand."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, overload

from ottla.ports import File, FileSlice, StorageFailed
from ottla.records.checksum import crc32c

FIELDS: Final = 6
PLACE_SHIFT: Final = 56
"""The bits of a position. The bits above are the index of the file."""

POSITION_MASK: Final = (1 << PLACE_SHIFT) - 1


class SavedEntry(NamedTuple):
    """An entry that a file of a journal contains. `read` verifies its bytes."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    data: FileSlice
    crc: int

    def read(self) -> bytes:
        """Return the entry's bytes. Raises `StorageFailed` if they changed since the journal was read."""
        found = self.data.read()
        if len(found) != self.data.size or crc32c(found) != self.crc:
            position = self.data.position
            raise StorageFailed(self.data.file.path, f"at byte {position}: an entry changed since the start; restart the broker.")
        return found


class SavedEntries(Sequence[SavedEntry]):
    """A partition's entries in the order of their blocks. `files` are those of `PLACES`.

    `numbers` has for each entry: base offset, next offset, leader epoch, place and position, size in bytes, and CRC-32C.
    """

    __slots__ = ("files", "numbers")

    def __init__(self, files: Sequence[File | None]) -> None:
        self.files = files
        self.numbers = array("q")

    def __len__(self) -> int:
        return len(self.numbers) // FIELDS

    @overload
    def __getitem__(self, number: int) -> SavedEntry: ...

    @overload
    def __getitem__(self, number: slice) -> list[SavedEntry]: ...

    def __getitem__(self, number: int | slice) -> SavedEntry | list[SavedEntry]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        at = range(len(self))[number] * FIELDS
        base_offset, next_offset, leader_epoch, place, size, crc = self.numbers[at : at + FIELDS]
        file = self.files[place >> PLACE_SHIFT]
        assert file is not None, "a file without a name has no entries"
        return SavedEntry(base_offset, next_offset, leader_epoch, FileSlice(file, place & POSITION_MASK, size), crc)

    def beyond(self, offset: int) -> Iterator[SavedEntry]:
        """Yield the entries that end beyond `offset`. The others cost next to nothing."""
        for number, next_offset in enumerate(self.numbers[1::FIELDS]):
            if next_offset > offset:
                yield self[number]
