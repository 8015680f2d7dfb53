"""A reader of a partition's files while the broker that owns them writes, compacts and deletes. It never changes anything.

It uses Kafka's files and the order in which compaction replaces them. The caller passes the end of the readable log, because
batches below the high watermark are never rewritten in place. If a file cannot be read, `StorageFailed` is raised, and the caller
fetches from the broker instead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple, Protocol

from ottla.log.names import INDEX, LOG, SWAP, TRANSACTION_INDEX, file_name, parse_file_name
from ottla.log.segments.index import OFFSET_ENTRY
from ottla.log.segments.scan import find_offset
from ottla.log.segments.transaction_index import Aborted, read_entries
from ottla.ports import Readable, StorageFailed
from ottla.records.batches.header import CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, BadBatch, batches, read_header

CHUNK_BYTES = 4 << 20
MOST_LISTINGS = 100
"""The most times that a directory is listed until two successive listings are equal."""


class Files(Protocol):
    """Read access to a data directory. Paths are relative to it. Errors are `StorageFailed`."""

    def names(self, path: str) -> dict[str, int]:
        """Return the names in a directory, each with a number that identifies the file."""

    def open(self, path: str) -> Readable: ...

    def size(self, file: Readable) -> int:
        """Return the size of an open file at this time."""

    def read_file(self, path: str) -> bytes: ...


class LiveBatches(NamedTuple):
    """Whole batches that a reader has read from a log while a broker writes it. The first can begin before the requested offset.

    `aborted` are the aborted transactions that can include records of these or later batches. `is_plain` means that the batches
    contain no transactional batch and no transaction marker.
    """

    records: memoryview
    aborted: list[Aborted]
    is_plain: bool


class _OpenSegment(NamedTuple):
    """An open segment: its end, the next segment's base offset, and the aborted transactions, as of its opening."""

    file: Readable
    position: int
    end: int
    next_base_offset: int | None
    aborted: list[Aborted]


class LiveReader:
    """A reader of a partition's files while a broker writes them. It reads batches from offset `start` to before `end`.

    `path` is the partition's directory.
    """

    def __init__(
        self, files: Files, path: str, start: int, end: int, *, read_committed: bool, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self._files = files
        self._path = path
        self._end = end
        self._read_committed = read_committed
        self._chunk_bytes = chunk_bytes
        self.next_offset = start

    def chunks(self) -> Iterator[LiveBatches]:
        """Yield groups of consecutive whole batches. When a group is yielded, `next_offset` is the offset after it.

        Raises `StorageFailed`.
        """
        while self.next_offset < self._end:
            opened = self._open()
            with closing(opened.file):
                yield from self._chunks_of(opened)
            if self.next_offset < self._end:
                if opened.next_base_offset is None:
                    raise StorageFailed(self._path, f"its files end at offset {self.next_offset}, before {self._end}")
                # Compaction may leave no batch at the end of a segment.
                self.next_offset = max(self.next_offset, opened.next_base_offset)

    def _chunks_of(self, opened: _OpenSegment) -> Iterator[LiveBatches]:
        position = opened.position
        while position < opened.end and self.next_offset < self._end:
            records = self._read(opened, position)
            run = _walk(opened.file, records, self._end)
            if run.size:
                position += run.size
                self.next_offset = max(self.next_offset, run.next_offset)
                aborted = [entry for entry in opened.aborted if entry.last_offset >= run.first_offset]
                yield LiveBatches(records[: run.size], aborted, run.is_plain)
            if run.is_last:
                self.next_offset = self._end
            elif not run.size:
                return  # the following bytes were not a whole batch when the file was opened

    def _read(self, opened: _OpenSegment, position: int) -> memoryview:
        """Read a fixed number of bytes at `position`. If the batch there is larger, read the whole batch."""
        data = opened.file.read(position, min(self._chunk_bytes, opened.end - position))
        if len(data) >= HEADER_BYTES and (size := read_header(data).size) > len(data):
            data = opened.file.read(position, min(size, opened.end - position))
        return memoryview(data)

    def _open(self) -> _OpenSegment:
        """Open the segment that contains the next offset. Retry until the directory did not change during the opening."""
        names = self._files.names(self._path)
        for _ in range(MOST_LISTINGS):
            opened = self._open_from(names)
            before, names = names, self._files.names(self._path)
            if opened is not None and names == before:
                return opened
            if opened is not None:
                opened.file.close()
            elif names == before:
                raise StorageFailed(self._path, f"its files begin behind offset {self.next_offset}")
        raise StorageFailed(self._path, "its files change continuously")

    def _open_from(self, names: dict[str, int]) -> _OpenSegment | None:
        """Open the segment of the next offset. Return None if no segment in `names` contains it, or a file has been removed."""
        segments = _segments(names)
        bases = sorted(segments)
        number = bisect_right(bases, self.next_offset) - 1
        if number < 0:
            return None
        try:
            return self._opened_segment(names, segments, bases, number)
        except StorageFailed:
            if self._files.names(self._path) == names:
                raise
            return None

    def _opened_segment(self, names: dict[str, int], segments: dict[int, str], bases: list[int], number: int) -> _OpenSegment:
        base = bases[number]
        aborted = self._load_aborted(names, segments, bases[number:]) if self._read_committed else []
        file = self._files.open(f"{self._path}/{file_name(base, LOG)}{segments[base]}")
        try:
            end = self._files.size(file)
            position = find_offset(file, self._search_index(names, base, segments[base], end), end, self.next_offset)
        except BaseException:
            file.close()
            raise
        return _OpenSegment(file, position, end, bases[number + 1] if number + 1 < len(bases) else None, aborted)

    def _search_index(self, names: dict[str, int], base: int, ending: str, end: int) -> int:
        """Return the position of a batch that begins at or before the next offset, by the offset index."""
        name = f"{file_name(base, INDEX)}{ending}"
        if name not in names:
            return 0
        entries = memoryview(self._files.read_file(f"{self._path}/{name}"))
        found = _floor(entries, self.next_offset - base)
        return found if found < end else 0

    def _load_aborted(self, names: dict[str, int], segments: dict[int, str], bases: list[int]) -> list[Aborted]:
        found: list[Aborted] = []
        for base in bases:
            name = f"{file_name(base, TRANSACTION_INDEX)}{segments[base]}"
            if name in names:
                found += read_entries(self._files.read_file(f"{self._path}/{name}"))
            if found and found[-1].last_stable_offset >= self._end:
                break
        return found


class _Run(NamedTuple):
    """The whole batches at the beginning of some bytes, up to the limit.

    `is_last` means that the next batch is beyond the limit.
    """

    size: int
    first_offset: int
    next_offset: int
    is_plain: bool
    is_last: bool


def _walk(file: Readable, records: memoryview, end_offset: int) -> _Run:
    size, first_offset, next_offset, is_plain, is_last = 0, 0, 0, True, False
    try:
        for at, header in batches(records):
            is_last = header.base_offset >= end_offset
            if is_last:
                break
            first_offset = first_offset if size else header.base_offset
            size, next_offset = at + header.size, header.next_offset
            is_plain = is_plain and not header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)
    except BadBatch as error:
        if not size:
            raise StorageFailed(file.path, error.sentence) from error
    return _Run(size, first_offset, next_offset, is_plain, is_last)


def _segments(names: dict[str, int]) -> dict[int, str]:
    """Return the suffix of each segment's file, by base offset.

    Compaction gives a new segment the suffix `.swap` before it removes the old segments, one of which has the same base offset.
    """
    found: dict[int, str] = {}
    for name in names:
        ending = SWAP if name.endswith(SWAP) else ""
        known = parse_file_name(name.removesuffix(ending))
        if known is not None and known[1] == LOG and found.get(known[0]) != SWAP:
            found[known[0]] = ending
    return found


def _floor(entries: memoryview, relative_offset: int) -> int:
    """Return the position in the last entry with an offset of at most `relative_offset`, or 0. Preallocated entries are zeros."""

    def key(number: int) -> int:
        offset, position = OFFSET_ENTRY.unpack_from(entries, number * OFFSET_ENTRY.size)
        return offset if position or not number else 1 << 62

    count = bisect_right(range(len(entries) // OFFSET_ENTRY.size), relative_offset, key=key)
    return int(OFFSET_ENTRY.unpack_from(entries, (count - 1) * OFFSET_ENTRY.size)[1]) if count else 0
