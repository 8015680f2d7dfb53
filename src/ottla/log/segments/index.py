"""Sparse indexes: pairs of growing numbers, most of them on disk, the newest in memory, in Kafka's two entry formats.

An index is derived from its segment, so a missing entry costs time, never data. Entries stay in memory until a flush: on a roll,
a checkpoint, a close, or when there are many. After a flush they are read from the file, so that a segment at rest uses no memory.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from struct import Struct

from ottla.ports import Disk, File

PAGE = 64
"""The number of entries that a search reads at once."""

WORD_BYTES = 4
"""The size, in bytes, of positions and of relative offsets in an entry. Timestamps have twice that size."""

FLUSH_ENTRIES = 4096
FEW_ENTRIES = 4

Pair = tuple[int, int]


class SparseIndex:
    """A sparse index file of a segment. Its entries are pairs (first, second), and both columns increase.

    `entry` is the format of a stored entry, and `first_code` the array type of the first column.
    """

    __slots__ = ("_disk", "_entry", "_file", "_firsts", "_last", "_seconds", "_stored", "path")

    def __init__(self, disk: Disk, path: str, entry: Struct, first_code: str, *, new: bool) -> None:
        self._disk = disk
        self.path = path
        self._entry = entry
        self._file: File | None = None
        self._stored = 0 if new else -1
        self._firsts = array(first_code)
        self._seconds = array("i")
        self._last: Pair | None = None

    def __len__(self) -> int:
        return self.stored + len(self._firsts)

    @property
    def stored(self) -> int:
        """Return the number of entries in the file. They are counted on first use, so that opening a log reads no indexes."""
        if self._stored < 0:
            self._stored = self._disk.size(self.path) // self._entry.size if self._disk.exists(self.path) else 0
        return self._stored

    def add(self, first: int, second: int) -> None:
        self._firsts.append(first)
        self._seconds.append(second)

    def last(self) -> Pair | None:
        if self._firsts:
            return self._firsts[-1], self._seconds[-1]
        return self._last_stored()

    def floor(self, first: int) -> Pair | None:
        """Return the last entry whose first column is at most `first`."""
        firsts = self._firsts
        if firsts and firsts[0] <= first:
            at = bisect_right(firsts, first) - 1
            return firsts[at], self._seconds[at]
        return self._search(0, first)[1]

    def floor_second(self, second: int) -> Pair | None:
        """Return the last entry whose second column is at most `second`."""
        seconds = self._seconds
        if seconds and seconds[0] <= second:
            at = bisect_right(seconds, second) - 1
            return self._firsts[at], seconds[at]
        return self._search(1, second)[1]

    def flush(self, *, create: bool = False) -> File | None:
        """Write the entries in memory to the file, and return the file if it is open.

        With `create`, create it even without entries. Raises `StorageFailed`, and then keeps the entries in memory.
        """
        if not self._firsts:
            return self._open() if create else self._file
        file = self._open()
        file.append([_stored(self._firsts, self._seconds)])
        self._stored += len(self._firsts)
        self._last = (self._firsts[-1], self._seconds[-1])  # kept in memory: an append must not read it after its write
        del self._firsts[:], self._seconds[:]
        return file

    def is_whole(self) -> bool:
        """Return whether the file, if there is one, ends with a whole entry."""
        return not self._disk.exists(self.path) or self._disk.size(self.path) % self._entry.size == 0

    def is_growing(self) -> bool:
        """Return whether both columns of the stored entries increase. After a crash, holes in the file can break the order."""
        data = self._open().read(0, self.stored * self._entry.size) if self.stored else b""
        return all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(self._entry.iter_unpack(data)))

    @property
    def file(self) -> File | None:
        """Return the file if it is open, because it can then have unsynced entries; otherwise None."""
        return self._file

    @property
    def is_long(self) -> bool:
        """Return whether there are enough entries in memory for a flush."""
        return len(self._firsts) >= FLUSH_ENTRIES

    @property
    def is_nearly_flushed(self) -> bool:
        """Return whether so few entries are in memory that a start rebuilds them faster than a shutdown syncs them."""
        return len(self._firsts) <= FEW_ENTRIES

    def clear(self) -> None:
        """Remove every entry in memory and on disk. The caller rebuilds the index."""
        self.cut(0)

    def cut(self, count: int) -> None:
        """Keep the first `count` entries. Truncate the file behind them, where Kafka can have left zeros."""
        stored = min(count, self.stored)
        if self._file is not None or self._disk.exists(self.path):
            file = self._open()
            if file.size != stored * self._entry.size or not stored:  # the last start may have cut the file without a sync
                try:
                    self._cut_file(file, stored)
                finally:  # after a failed sync the file may be shorter
                    self._stored, self._last = min(self.stored, file.size // self._entry.size), None
        self._stored = stored
        in_memory = max(0, count - stored)
        del self._firsts[in_memory:], self._seconds[in_memory:]
        self._last = None

    def keep_below(self, second: int, column: int) -> None:
        """Drop every entry whose value in `column` (0 or 1) is `second` or more."""
        columns: tuple[array[int], array[int]] = (self._firsts, self._seconds)
        in_memory = bisect_right(columns[column], second - 1)
        stored = self.stored if in_memory else self._search(column, second - 1)[0]
        self.cut(stored + in_memory)

    def retire(self) -> None:
        """Close and empty the index before its file is removed, so that searches find nothing and do not create the file again."""
        self.close()
        del self._firsts[:], self._seconds[:]
        self._stored, self._last = 0, None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> File:
        if self._file is None:
            stored = self.stored
            self._file = self._disk.open(self.path, create=True)
            if self._file.size != stored * self._entry.size:
                self._cut_file(self._file, stored)
        return self._file

    def _cut_file(self, file: File, stored: int) -> None:
        file.truncate(stored * self._entry.size)
        file.sync()  # otherwise a power cut could mix the old bytes with newer entries

    def _stored_entry(self, number: int) -> Pair:
        first, second = self._entry.unpack(self._open().read(number * self._entry.size, self._entry.size))
        return first, second

    def _search(self, column: int, value: int) -> tuple[int, Pair | None]:
        """Return (number of stored entries whose value in `column` is at most `value`, the last of them or None).

        Consecutive batches are similar, so linear interpolation mostly finds the entry in one read.
        """
        low, high = 0, self.stored
        if not high:
            return 0, None
        guess = self._guess(column, value) if high > PAGE else 0
        while high - low > PAGE:
            start = min(max(low, guess - PAGE // 2), high - PAGE)
            page = self._page(start, PAGE)
            values = self._column(page, column)
            if start > low and values[0] > value:
                high = start
            elif start + PAGE < high and values[-1] <= value:
                low = start + PAGE - 1
            else:
                return self._search_page(page, values, start, value)
            guess = (low + high) // 2
        page = self._page(low, high - low)
        return self._search_page(page, self._column(page, column), low, value)

    def _search_page(self, page: bytes, values: Sequence[int], start: int, value: int) -> tuple[int, Pair | None]:
        found = bisect_right(values, value)
        if found:
            return start + found, self._at(page, found - 1)
        return start, self._stored_entry(start - 1) if start else None

    def _column(self, page: bytes, column: int) -> Sequence[int]:
        """Return the first column (0) or the second column (1) of stored entries."""
        if self._firsts.itemsize > WORD_BYTES and not column:
            return [first for first, _ in self._entry.iter_unpack(page)]
        words = array("i", page)
        if sys.byteorder == "little":
            words.byteswap()
        width = self._entry.size // WORD_BYTES
        return words[(width - 1) * column :: width]

    def _guess(self, column: int, value: int) -> int:
        """Return the number of the entry that probably has `value`: by interpolation, or the middle for timestamps."""
        last = self._last_stored()
        if last is None or not last[column] or (self._entry is TIME_ENTRY and not column):
            return self.stored // 2
        return self.stored * value // last[column]

    def _last_stored(self) -> Pair | None:
        if self._last is None and self.stored:
            self._last = self._stored_entry(self.stored - 1)
        return self._last

    def _page(self, start: int, count: int) -> bytes:
        width = self._entry.size
        return self._open().read(start * width, count * width) if count else b""

    def _at(self, page: bytes, number: int) -> Pair:
        first, second = self._entry.unpack_from(page, number * self._entry.size)
        return first, second


def _stored(firsts: array[int], seconds: array[int]) -> bytes:
    """Return the entries with these columns in the file's format: big-endian pairs, one after another."""
    words = array("i", _big_endian(firsts))
    width = firsts.itemsize // words.itemsize
    entries = array("i", bytes((width + 1) * words.itemsize * len(seconds)))
    for at in range(width):
        entries[at :: width + 1] = words[at::width]
    entries[width :: width + 1] = array("i", _big_endian(seconds))
    return entries.tobytes()


def _big_endian(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        return column.tobytes()
    swapped = column[:]
    swapped.byteswap()
    return swapped.tobytes()


OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


def offset_index(disk: Disk, path: str, *, new: bool) -> SparseIndex:
    """Return an index of (last offset of a batch relative to the segment's base, position at which the batch begins)."""
    return SparseIndex(disk, path, OFFSET_ENTRY, "i", new=new)


def time_index(disk: Disk, path: str, *, new: bool) -> SparseIndex:
    """Return an index of (largest timestamp so far in ms, last offset of its batch relative to the segment's base)."""
    return SparseIndex(disk, path, TIME_ENTRY, "q", new=new)
