"""Conversion between batches of magic 2 and message sets of magic 0 and 1, as old clients need it.

Up: what they produce becomes one batch, for the log holds magic 2 only. Down: what they fetch is turned batch by batch, so that
memory stays that of one batch. Knows both formats through columns. May not know requests; callers say the version's magic.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from ottla.ports import Buffer
from ottla.records import codecs, kernel, kernel_arrow, kernel_build
from ottla.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    batches,
)
from ottla.records.build import MOST_OVERHEAD_BYTES, NO_DELTAS, NO_ROWS, seal
from ottla.records.codecs import CodecFailed
from ottla.records.columns import Columns, open_batches
from ottla.records.legacy import BadMessage, open_message_set, write_message_set
from ottla.wire.errors import CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, NONE, UNSUPPORTED_COMPRESSION_TYPE


def accept(view: Buffer, *, compacted: bool = False, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> tuple[int, bytearray | None]:
    """What an old client produced to one partition, as one batch of magic 2: (0, batch), or (error code, None).

    A message torn at the end is cut off; where nothing is left, (0, None). The codec is the last one met, as old brokers had it.

    - CORRUPT_MESSAGE: sizes, magic or a CRC-32 that are wrong, within a compressed message too; a codec that cannot open its data.
    - INVALID_RECORD: compression within compression, mixed formats, a wrapper's offset below its last message's; on a compacted
      topic a null key.
    - INVALID_TIMESTAMP: a producer that claims the broker's time.
    """
    try:
        columns = open_message_set(view, limit_bytes=limit_bytes)
    except BadMessage as bad:
        return bad.error_code, None
    except CodecFailed:
        return CORRUPT_MESSAGE, None
    if not len(columns):
        return NONE, None
    if any(run.header.timestamp_type == LOG_APPEND_TIME for run in columns.runs):
        return INVALID_TIMESTAMP, None
    if compacted and min(columns.span_column(kernel.KEY_SIZE)) < 0:
        return INVALID_RECORD, None
    return NONE, up_convert(columns)


def up_convert(columns: Columns, *, keep_offsets: bool = False, level: int | None = None) -> bytearray:
    """All rows, of any format, as one batch. Offsets are new ones from 0, unless `keep_offsets`."""
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
        attributes=_attributes(columns),
        last_offset_delta=deltas[columns.end - 1] if deltas else len(columns) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=len(columns),
    )
    return seal(header, out, level)


def _deltas(columns: Columns, base_offset: int, keep_offsets: bool) -> array[int]:
    """Offset deltas by row; none where the kernel can count for itself."""
    if keep_offsets:
        return array("q", (offset - base_offset for offset in columns.all_offsets))
    if len(columns.pieces()) == 1:
        return NO_DELTAS
    return array("q", range(-columns.first, len(columns.all_offsets) - columns.first))


def _attributes(columns: Columns) -> int:
    """The last codec met, and the broker's time where the last run has it."""
    runs = columns.pieces()
    codec = next((run.header.codec for run in reversed(runs) if run.header.codec), codecs.NONE)
    return codec | (TIMESTAMP_TYPE_BIT if runs[-1].header.timestamp_type == LOG_APPEND_TIME else 0)


def down_convert(
    view: Buffer, magic: int, *, from_offset: int = 0, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES
) -> Iterator[bytes]:
    """The whole batches in `view` as message sets of format `magic`, one piece for each batch.

    Control batches and headers are lost. Records below `from_offset` are left out of plain batches, as some clients need; in
    compressed ones they stay. A codec is kept. Raises `BadMessage` with UNSUPPORTED_COMPRESSION_TYPE for zstd, which these
    formats do not have, and `BadBatch` or `CodecFailed` for what cannot be opened.
    """
    whole = memoryview(view)
    for pos, header in batches(whole):
        if header.is_control:
            continue
        if header.codec >= codecs.ZSTD:
            raise BadMessage(pos, "zstd cannot be sent in an old message format.", UNSUPPORTED_COMPRESSION_TYPE)
        kept_from = 0 if header.codec else from_offset
        columns = open_batches(whole[pos : pos + header.size], from_offset=kept_from, limit_bytes=limit_bytes)
        for run in columns.pieces():
            yield write_message_set(columns, run, magic, codec=header.codec)
