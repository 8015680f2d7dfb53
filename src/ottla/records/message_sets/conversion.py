"""Conversion between batches of magic 2 and message sets of magic 0 and 1, for old clients.

Up: produced message sets become batches, because the log contains magic 2 only (`up_conversion` checks them). Down: fetched batches
are converted one by one to save memory, and in pieces, so that no other work waits long. Both formats are read into columns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from typing import Final

from ottla.ports import Buffer, Pauses
from ottla.records import kernel, kernel_arrow, kernel_build, kernel_legacy
from ottla.records.batches.builder import MOST_OVERHEAD_BYTES, NO_DELTAS, NO_ROWS, seal
from ottla.records.batches.columns import MOST_OFFSET, ROW_BYTES, SMALLEST_RECORD_BYTES, Columns, Run
from ottla.records.batches.header import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    BadBatch,
    BatchHeader,
    batches,
    read_header,
)
from ottla.records.compression import codecs, lz4
from ottla.records.compression.limits import PAUSE_BYTES
from ottla.records.message_sets import legacy
from ottla.records.message_sets.legacy import BadMessage, write_slowly
from ottla.records.pauses import replace_pauses
from ottla.wire.errors import UNSUPPORTED_COMPRESSION_TYPE

PIECE_BYTES: Final = {codecs.NONE: 512 << 10, codecs.GZIP: 128 << 10, codecs.SNAPPY: 512 << 10, codecs.LZ4: 512 << 10}
"""The decompressed bytes of a batch that are converted between two pauses, by codec: one to three milliseconds of work."""

PIECE_ROWS: Final = 16_384
"""The most records in a piece, for small records. A large record is a separate piece, written in parts."""

SMALL_BYTES: Final = lz4.BLOCK_BYTES
SMALL_ROWS: Final = 512
"""The most records of a batch, of at most `SMALL_BYTES`, that is converted in one call and in a reused buffer."""

OUT_BYTES: Final = 192 << 10
"""The size in bytes of the buffer for a piece that contains many small batches."""


def up_convert(columns: Columns, *, keep_offsets: bool = False, codec: int | None = None, level: int | None = None) -> bytearray:
    """Return all rows, of any format, as one batch.

    The new offsets start at 0. With `keep_offsets` the offsets are kept, and the batch ends before `columns.next_offset`. If
    `codec` is None, the last codec among the runs is used.
    """
    base_offset = columns.offsets[0] if keep_offsets else 0
    base_timestamp = newest = columns.timestamps[0]
    deltas = _deltas(columns, base_offset, keep_offsets)
    sizes = (columns.span_column(column) for column in (kernel.KEY_SIZE, kernel.VALUE_SIZE, kernel.HEADERS_SIZE))
    total = sum(kernel_arrow.total_bytes(column)[0] for column in sizes)
    out = bytearray(HEADER_BYTES + total + MOST_OVERHEAD_BYTES * len(columns))
    end = HEADER_BYTES
    for run in columns.pieces():
        table = deltas, columns.all_timestamps, base_timestamp, columns.spans, run.data, run.data, run.data
        _, end, latest = kernel_build.write(out, end, NO_ROWS, run.first, run.end, *table)
        newest = max(newest, latest)
    del out[end:]
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=_attributes(columns, codec),
        last_offset_delta=columns.next_offset - 1 - base_offset if keep_offsets else len(columns) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=len(columns),
    )
    return seal(header, out, level)


def up_convert_slowly(columns: Columns, codec: int, level: int | None) -> Pauses[bytearray]:
    """Return the result of `up_convert` with offsets from 0, with pauses during the compression."""
    if not codec or sum(len(run.data) for run in columns.runs) <= PAUSE_BYTES:
        return up_convert(columns, codec=codec, level=level)
    batch = up_convert(columns, codec=codecs.NONE)
    header = read_header(batch)
    batch[HEADER_BYTES:] = yield from codecs.compress_slowly(codec, batch[HEADER_BYTES:], level)
    return seal(header._replace(attributes=header.attributes | codec), batch, packed=True)


def _deltas(columns: Columns, base_offset: int, keep_offsets: bool) -> array[int]:
    """Return the offset deltas by row; an empty array means 0, 1, 2 …, which the kernel counts itself."""
    if keep_offsets:
        return array("q", map(base_offset.__rsub__, columns.all_offsets))
    if len(columns.pieces()) == 1:
        return NO_DELTAS
    return array("q", range(-columns.first, len(columns.all_offsets) - columns.first))


def _attributes(columns: Columns, codec: int | None) -> int:
    """Return a batch's attributes: the codec, by default the last one among the runs, and the last run's LogAppendTime bit."""
    runs = columns.pieces()
    if codec is None:
        codec = next((run.header.codec for run in reversed(runs) if run.header.codec), codecs.NONE)
    return codec | (TIMESTAMP_TYPE_BIT if runs[-1].header.timestamp_type == LOG_APPEND_TIME else 0)


def down_convert(
    view: Buffer, magic: int, *, from_offset: int = 0, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES
) -> Iterator[bytes]:
    """Convert the whole batches in `view` to message sets of format `magic`. Yield them as `DownConversion.pieces` does."""
    return DownConversion(magic, from_offset=from_offset, limit_bytes=limit_bytes).pieces(memoryview(view))


class DownConversion:
    """The conversion of batches to message sets of format `magic`: large batches in pieces, many small ones in one piece.

    Small batches, from producers with a short linger, are decompressed and written in reused buffers, because allocations would
    take longer than the work. Batches that the kernel does not convert go to `down_convert_batch`, which has all the rules.
    """

    __slots__ = ("_from_offset", "_limit_bytes", "_magic", "_out", "_small", "next_offset")

    def __init__(self, magic: int, *, from_offset: int = 0, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> None:
        self.next_offset = from_offset
        """The offset after the last batch that was converted or is being converted."""
        self._magic = magic
        self._from_offset = from_offset
        self._limit_bytes = limit_bytes
        self._out = memoryview(bytearray(OUT_BYTES))
        opened = memoryview(bytearray(min(SMALL_BYTES, limit_bytes)))
        plain = memoryview(bytearray(SMALL_BYTES + SMALL_ROWS * legacy.MOST_OVERHEAD_BYTES))
        tools = kernel.scan, codecs.decompress_small, partial(codecs.compress, magic=magic)
        self._small = kernel_legacy.SmallBatches(magic, from_offset, (*_table(SMALL_ROWS), opened, plain, self._out), tools)

    def pieces(self, view: memoryview, enough_bytes: int = MOST_OFFSET) -> Iterator[bytes]:
        """Yield the whole batches in `view` as message sets. Stop at the end of a batch, after `enough_bytes` of message sets.

        An empty piece is a pause. A piece or a pause comes at least every few milliseconds. Raises the exceptions of
        `down_convert_batch`.
        """
        pos = 0
        while enough_bytes > 0:
            start, (pos, size, next_offset) = pos, self._small.convert(view, pos, enough_bytes)
            if pos > start:
                self.next_offset = next_offset
                enough_bytes -= size
                yield bytes(self._out[:size])
                continue
            pos, header = next(batches(view, pos), (pos, None))
            if header is None:
                return
            self.next_offset = header.next_offset
            batch, pos = view[pos : pos + header.size], pos + header.size
            for piece in down_convert_batch(
                batch, header, self._magic, from_offset=self._from_offset, limit_bytes=self._limit_bytes
            ):
                enough_bytes -= len(piece)
                yield piece


def down_convert_batch(
    batch: memoryview,
    header: BatchHeader,
    magic: int,
    *,
    from_offset: int = 0,
    limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES,
) -> Iterator[bytes]:
    """Yield one batch, described by `header`, as a message set of format `magic`: in one piece, or in several if it is large.

    An empty piece is a pause. A piece or a pause comes at least every few milliseconds.

    Control batches and record headers are lost. Records below `from_offset` are left out of uncompressed batches, as some clients
    require; compressed batches keep these records. The codec is kept. Raises `BadMessage` with UNSUPPORTED_COMPRESSION_TYPE for
    zstd, which these formats do not have, and `BadBatch` or `CodecFailed` for a batch that cannot be opened.
    """
    if header.is_control:
        return
    if header.codec >= codecs.ZSTD:
        raise BadMessage(0, "zstd cannot be sent in an old message format.", UNSUPPORTED_COMPRESSION_TYPE)
    for columns in _pieces(batch, header, limit_bytes):
        if columns is None or columns.offsets[-1] < from_offset:
            yield b""
            continue
        if not header.codec and columns.offsets[0] < from_offset:
            columns = columns.slice(bisect_left(columns.offsets, from_offset), len(columns))
        for run in columns.pieces():
            for part in (yield from replace_pauses(write_slowly(columns, run, magic, codec=header.codec), b"")):
                yield bytes(part)


def _pieces(batch: memoryview, header: BatchHeader, limit_bytes: int) -> Iterator[Columns | None]:
    """Yield the records of one batch in pieces of about `PIECE_BYTES`; None is a pause."""
    data, pos = batch, HEADER_BYTES
    if header.codec:
        steps = codecs.decompress_slowly(header.codec, batch[HEADER_BYTES:], limit_bytes=limit_bytes)
        data, pos = memoryview((yield from replace_pauses(steps, None))), 0
    left, end = header.record_count, len(data)
    if not 0 <= header.base_offset < MOST_OFFSET:
        raise BadBatch(0, f"base offset {header.base_offset} is out of range.")
    if not 0 <= left <= (end - pos) // SMALLEST_RECORD_BYTES:
        raise BadBatch(0, f"{end - pos} bytes cannot hold the {left} records that the header claims.")
    rows = min(PIECE_ROWS, max(1, left * PIECE_BYTES[header.codec] // max(end - pos, 1)))
    while left:
        count = min(rows, left)
        columns, pos = _scan(data, pos, end, count, header)
        yield columns
        left -= count
    if pos != end:
        raise BadBatch(pos, f"bytes remain after the last record of the batch at offset {header.base_offset}.")


def _scan(data: memoryview, pos: int, end: int, count: int, header: BatchHeader) -> tuple[Columns, int]:
    """Return (`count` records of a batch from `pos` on, the position after these records). Raises `BadBatch`."""
    offsets, timestamps, spans = _table(count)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    stop = kernel.scan(data, pos, end, 0, count, base_offset, base_timestamp, offsets, timestamps, spans)
    if stop < 0:
        raise BadBatch(-1 - stop, f"a record of the batch at offset {base_offset} is broken.")
    if header.timestamp_type == LOG_APPEND_TIME:
        timestamps[:] = memoryview(array("q", [header.max_timestamp]) * count)
    return Columns(offsets, timestamps, spans, (Run(0, count, data, header),), 0, count, offsets[-1] + 1), stop


def _table(capacity: int) -> tuple[memoryview[int], memoryview[int], memoryview[int]]:
    """Return new columns for the offsets, timestamps and spans of `capacity` rows."""
    arena = memoryview(bytearray(ROW_BYTES * capacity))
    return arena[: 8 * capacity].cast("q"), arena[8 * capacity : 16 * capacity].cast("q"), arena[16 * capacity :].cast("i")
