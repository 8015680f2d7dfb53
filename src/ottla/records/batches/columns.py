"""Record batches opened into columns: offsets, timestamps, and the position of each key, value and header.

It walks and decompresses fetched or stored batches. No Python object is made for a record before `records()` is called.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from ottla.ports import Buffer
from ottla.records import kernel, kernel_record, kernel_sound
from ottla.records.batches.arenas import Arenas
from ottla.records.batches.builder import build
from ottla.records.batches.header import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_BIT,
    BadBatch,
    BatchHeader,
    batches,
    crc_is_valid,
    read_header,
)
from ottla.records.batches.record import ConsumerRecord, Record, Where
from ottla.records.compilation_warning import warn_once
from ottla.records.compression import codecs
from ottla.records.compression.limits import allocate
from ottla.records.kernel_arrow import murmur2, murmur2_partitions
from ottla.records.kernel_common import SPAN_COLUMNS

if TYPE_CHECKING:
    from ottla.records.kernel_record import RecordIterator

__all__ = ["Columns", "Record", "Run", "build", "murmur2", "murmur2_partitions", "open_batches", "record_iterator"]

SMALLEST_RECORD_BYTES: Final = 7
ROW_BYTES: Final = 8 + 8 + 4 * SPAN_COLUMNS
MOST_OFFSET: Final = 1 << 62
EMPTY: Final = memoryview(b"")
ARENAS: Final = Arenas()


class Run(NamedTuple):
    """The rows from `first` up to `end` of `Columns`, which come from one batch, or from joined ones (`open_batches`).

    `data` contains their bytes.
    """

    first: int
    end: int
    data: memoryview
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class Columns:
    """The records of one or more batches, as columns of `record_count` rows.

    `offsets` and `timestamps` are int64. `spans` are int32: six columns (`kernel.KEY_AT`, `KEY_SIZE` …), each as long as
    `all_offsets`. They contain position and size of key, value and headers in the data of the row's run; a size of -1 is null.
    `next_offset` is the offset to continue at: after the last batch, even if none of its records is included, or -1 if there was
    no batch.
    """

    all_offsets: memoryview[int]
    all_timestamps: memoryview[int]
    spans: memoryview[int]
    runs: tuple[Run, ...]
    first: int
    end: int
    next_offset: int

    @property
    def record_count(self) -> int:
        return self.end - self.first

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def offsets(self) -> memoryview[int]:
        return self.all_offsets[self.first : self.end]

    @property
    def timestamps(self) -> memoryview[int]:
        return self.all_timestamps[self.first : self.end]

    def span_column(self, column: int) -> memoryview[int]:
        """Return column number `column` of the spans (`kernel.KEY_AT` …), by row."""
        start = column * len(self.all_offsets)
        return self.spans[start + self.first : start + self.end]

    def pieces(self) -> list[Run]:
        """Return the runs of the rows from `first` to `end`. Shorten runs that are partly outside, and omit runs that are
        outside.
        """
        if self.first == 0 and self.end == len(self.all_offsets):
            return [run for run in self.runs if run.first < run.end]
        cut = (Run(max(run.first, self.first), min(run.end, self.end), run.data, run.header) for run in self.runs)
        return [run for run in cut if run.first < run.end]

    def slice(self, start: int, stop: int) -> Columns:
        """Return columns of the rows `start` to `stop`, without copying them."""
        first = min(self.first + max(start, 0), self.end)
        return replace(self, first=first, end=max(first, min(self.first + stop, self.end)))

    @overload
    def records(self) -> list[Record]: ...
    @overload
    def records(self, where: Where) -> list[ConsumerRecord]: ...
    def records(self, where: Where | None = None) -> list[Any]:
        """Return a `Record` for each row, or a `ConsumerRecord` if `where` is given. This is slow compared with columns."""
        pieces = self.pieces()
        if len(pieces) == 1:
            return self._records(pieces[0], where)
        return [record for run in pieces for record in self._records(run, where)]

    def _records(self, run: Run, where: Where | None) -> list[Any]:
        kind = Record if where is None else ConsumerRecord
        table = self.all_offsets, self.all_timestamps, self.spans
        return kernel_record.make_records(kind, where, run.data, *table, run.first, run.end, run.header.timestamp_type)


def record_iterator(parts: Iterable[Columns], where: Where) -> RecordIterator[ConsumerRecord]:
    """Return an iterator over the records of all parts, which makes each when it is requested.

    Adjacent batches are one run of the iterator if they are not compressed.
    """
    runs: list[tuple[memoryview, memoryview[int], memoryview[int], memoryview[int], int, int, int]] = []
    for columns in parts:
        table = columns.all_offsets, columns.all_timestamps, columns.spans
        for run in columns.pieces():
            kind = run.header.timestamp_type
            if runs and runs[-1][0] is run.data and runs[-1][1] is columns.all_offsets and runs[-1][5:] == (run.first, kind):
                runs[-1] = run.data, *table, runs[-1][4], run.end, kind
            else:
                runs.append((run.data, *table, run.first, run.end, kind))
    return kernel_record.RecordIterator(ConsumerRecord, where, runs)


def open_batches(
    view: Buffer,
    *,
    from_offset: int = 0,
    until_offset: int | None = None,
    limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES,
    control: bool = False,
    check_crcs: bool = False,
    wanted: Callable[[BatchHeader], bool] | None = None,
    joined: bool = False,
) -> Columns:
    """Open the whole batches in `view` into columns. A torn batch at the end is left out.

    Records below `from_offset` or from `until_offset` on are left out. Batches for which `wanted(header)` is false are left out,
    and control batches unless `control` is set. Compressed batches may decompress to `limit_bytes` together. Raises `BadBatch` for
    malformed batches, and `CodecFailed` for batches that cannot be decompressed.

    With `joined`, which excludes `until_offset` and `wanted`, uncompressed batches of one timestamp type are one run, whose header
    is that of the first batch: then nothing is done in Python for each batch.
    """
    warn_once()
    whole = memoryview(view)
    if joined and (columns := _open_joined(whole, control=control, check_crcs=check_crcs)) is not None:
        return _cut(columns, from_offset, None)
    bodies: list[tuple[BatchHeader, memoryview, int, int]] = []
    next_offset, opener = -1, codecs.Opener()
    for pos, header in batches(whole):
        if until_offset is not None and header.base_offset >= until_offset:
            break
        next_offset = header.next_offset
        if header.last_offset < from_offset or (header.is_control and not control) or (wanted and not wanted(header)):
            continue
        if check_crcs and not crc_is_valid(whole[pos : pos + header.size]):
            raise BadBatch(pos, "the CRC-32C of the batch is wrong: it was damaged in transit or on disk.")
        data, start, end = _open(whole, pos, header, opener, limit_bytes)
        limit_bytes -= len(data) if data is not whole else 0
        bodies.append((header, data, start, end))
    columns = _columns(bodies, next_offset)
    return _cut(columns, from_offset, until_offset)


def _open_joined(whole: memoryview, *, control: bool, check_crcs: bool) -> Columns | None:
    """Return the batches in `whole` as one run, or None if they are not sound, uncompressed batches of one timestamp type."""
    if len(whole) < HEADER_BYTES:
        return None
    header = read_header(whole)
    mask = CODEC_MASK | TIMESTAMP_TYPE_BIT | (0 if control else CONTROL_BIT)
    end, count, next_offset, has_all = kernel_sound.pass_alike(whole, mask, header.attributes & TIMESTAMP_TYPE_BIT, check_crcs)
    if not (has_all and count):
        return None
    offsets, timestamps, spans = _split(ARENAS.allocate(ROW_BYTES * count), count)
    if kernel.scan_batches(whole, 0, end, offsets, timestamps, spans) != count:
        return None
    return Columns(offsets, timestamps, spans, (Run(0, count, whole, header),), 0, count, next_offset)


def _split(arena: memoryview, rows: int) -> tuple[memoryview, memoryview, memoryview]:
    """Return offsets, timestamps and spans of `rows` rows, which are in one allocation."""
    return arena[: 8 * rows].cast("q"), arena[8 * rows : 16 * rows].cast("q"), arena[16 * rows :].cast("i")


def _open(whole: memoryview, pos: int, header: BatchHeader, opener: codecs.Opener, limit_bytes: int) -> tuple[memoryview, int, int]:
    """Return (buffer, start, end) of the records of one batch. Raises `BadBatch` if the header claims too many records."""
    start, end, data = pos + HEADER_BYTES, pos + header.size, whole
    if header.codec:
        data = opener.open(header.codec, whole[start:end], limit_bytes)
        start, end = 0, len(data)
    if not 0 <= header.record_count <= (end - start) // SMALLEST_RECORD_BYTES:
        raise BadBatch(pos, f"{end - start} bytes cannot hold the {header.record_count} records that the header claims.")
    if not 0 <= header.base_offset < MOST_OFFSET:
        raise BadBatch(pos, f"base offset {header.base_offset} is out of range.")
    return data, start, end


def _columns(bodies: list[tuple[BatchHeader, memoryview, int, int]], next_offset: int) -> Columns:
    """Scan the records of all batches into columns."""
    capacity = sum(header.record_count for header, _, _, _ in bodies)
    if not capacity:
        return Columns(EMPTY.cast("q"), EMPTY.cast("q"), EMPTY.cast("i"), (), 0, 0, next_offset)
    offsets, timestamps, spans = _split(allocate(ROW_BYTES * capacity), capacity)
    runs: list[Run] = []
    row = 0
    for header, data, start, end in bodies:
        count = header.record_count
        stop = kernel.scan(data, start, end, row, count, header.base_offset, header.base_timestamp, offsets, timestamps, spans)
        if stop != end:
            raise BadBatch(-1 - stop if stop < 0 else stop, _misfit(header, stop))
        if header.timestamp_type == LOG_APPEND_TIME:
            timestamps[row : row + count] = memoryview(array("q", [header.max_timestamp]) * count)
        runs.append(Run(row, row + count, data, header))
        row += count
    return Columns(offsets, timestamps, spans, tuple(runs), 0, row, next_offset)


def _misfit(header: BatchHeader, stop: int) -> str:
    where = f"the batch at offset {header.base_offset}"
    return f"a record of {where} is broken." if stop < 0 else f"bytes remain after the last record of {where}."


def _cut(columns: Columns, from_offset: int, until_offset: int | None) -> Columns:
    """Return the columns without rows whose offsets are outside the requested range.

    Offsets increase, so these rows are at both ends.
    """
    first, end, next_offset = columns.first, columns.end, columns.next_offset
    if columns.record_count and columns.all_offsets[0] < from_offset:
        first = bisect_left(columns.all_offsets, from_offset, 0, columns.runs[0].end)
    if until_offset is not None:
        next_offset = min(next_offset, until_offset)
        if columns.record_count and columns.all_offsets[end - 1] >= until_offset:
            end = max(first, bisect_left(columns.all_offsets, until_offset, columns.runs[-1].first, end))
    if (first, end, next_offset) == (columns.first, columns.end, columns.next_offset):
        return columns
    return replace(columns, first=first, end=end, next_offset=next_offset)
