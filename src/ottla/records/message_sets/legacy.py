"""Message sets of magic 0 and 1, the formats before Kafka 0.11: opened into columns, and written from them.

It handles messages, and wrappers: messages that contain a compressed set. Offsets in a wrapper are absolute in format 0, and
relative to the wrapper's offset in format 1 (KIP-31). Headers of magic 2 describe the runs of columns.
"""

from __future__ import annotations

import struct
from array import array
from typing import Final, NamedTuple
from zlib import crc32

from ottla.ports import Buffer, Pauses
from ottla.records import kernel, kernel_arrow, kernel_legacy
from ottla.records.batches.columns import EMPTY, ROW_BYTES, Columns, Run
from ottla.records.batches.header import CODEC_MASK, LOG_APPEND_TIME, TIMESTAMP_TYPE_BIT, BadBatch, BatchHeader
from ottla.records.compression import codecs
from ottla.records.compression.limits import PAUSE_BYTES
from ottla.records.pauses import finish
from ottla.wire.errors import CORRUPT_MESSAGE, INVALID_RECORD

ENTRY: Final = struct.Struct(">qiIbb")
TIMESTAMP: Final = struct.Struct(">q")
SIZE: Final = struct.Struct(">i")
LARGE_BYTES: Final = 512 << 10
"""The bytes of a key and value, or of a wrapped set, above which a message is written with pauses."""

MOST_OVERHEAD_BYTES: Final = 34
"""The bytes of a message besides its key and value in format 1, the larger one."""


class BadMessage(BadBatch):
    """Raised for a malformed message set. `error_code` is the error code for the producer."""

    def __init__(self, position: int, sentence: str, error_code: int) -> None:
        super().__init__(position, sentence)
        self.error_code = error_code


class MessageRun(NamedTuple):
    """Messages of one magic and attributes from `start` to `end` of `data`; `messages` is their number.

    `attributes` include the codec of the wrapper. `wrapper_offset` is the offset of a wrapper of format 1, to which the messages'
    offsets are relative. `timestamp`, if not None, replaces the messages' timestamps.
    """

    data: memoryview
    start: int
    end: int
    messages: int
    magic: int
    attributes: int
    wrapper_offset: int | None
    timestamp: int | None


def open_message_set(view: Buffer, *, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> Columns:
    """Open the whole messages in `view` into columns, and omit a torn message at the end.

    Messages with equal magic and attributes form one run of the columns, whose header has their magic. CRCs are checked. Raises
    `BadMessage`, and `CodecFailed` for data that cannot be decompressed within `limit_bytes`.
    """
    segments = _segments(memoryview(view), limit_bytes)
    capacity = sum(segment.messages for segment in segments)
    if not capacity:
        return Columns(EMPTY.cast("q"), EMPTY.cast("q"), EMPTY.cast("i"), (), 0, 0, -1)
    arena = memoryview(bytearray(ROW_BYTES * capacity))
    offsets, timestamps = arena[: 8 * capacity].cast("q"), arena[8 * capacity : 16 * capacity].cast("q")
    spans = arena[16 * capacity :].cast("i")
    runs: list[Run] = []
    row = 0
    for segment in segments:
        stop_row = row + segment.messages
        stop = kernel_legacy.scan_messages(
            segment.data, segment.start, segment.end, row, segment.messages, offsets, timestamps, spans
        )
        if stop < 0:
            raise BadMessage(-1 - stop, "the CRC-32 or a length of the message is wrong.", CORRUPT_MESSAGE)
        newest = _resolve(segment, offsets[row:stop_row], timestamps[row:stop_row])
        runs.append(Run(row, stop_row, segment.data, _header(segment, offsets, timestamps[row], row, newest)))
        row = stop_row
    return Columns(offsets, timestamps, spans, tuple(runs), 0, row, offsets[row - 1] + 1)


def _segments(view: memoryview, limit_bytes: int) -> list[MessageRun]:
    found: list[MessageRun] = []
    pos = 0
    while True:
        count, stop = kernel_legacy.run_of(view, pos, len(view))
        if count < 0:
            raise BadMessage(pos, "the size or the magic of the message is impossible.", CORRUPT_MESSAGE)
        if count == 0:
            return found
        _, size, _, magic, attributes = ENTRY.unpack_from(view, pos)
        if attributes & CODEC_MASK:
            stop = pos + 12 + size
            inner = _unwrap(view, pos, stop, limit_bytes)
            limit_bytes -= len(inner[0].data) if inner else 0
            found += inner
        else:
            found.append(MessageRun(view, pos, stop, count, magic, attributes, None, None))
        pos = stop


class Wrapper(NamedTuple):
    """A message whose value is a compressed message set. `timestamp` is the LogAppendTime of all messages in the set, or None."""

    offset: int
    magic: int
    attributes: int
    timestamp: int | None
    value: memoryview


def open_wrapper(view: memoryview, pos: int, stop: int) -> Wrapper:
    """Check the CRC of the compressed message from `pos` to `stop`, and return the message. Raises `BadMessage`."""
    offset, _, crc, magic, attributes = ENTRY.unpack_from(view, pos)
    if crc32(view[pos + 16 : stop]) != crc:
        raise BadMessage(pos, "the CRC-32 of the message is wrong.", CORRUPT_MESSAGE)
    timestamp = TIMESTAMP.unpack_from(view, pos + 18)[0] if magic and attributes & TIMESTAMP_TYPE_BIT else None
    value = _value(view, pos + (26 if magic else 18), stop)
    if value is None:
        raise BadMessage(pos, "a compressed message has no value.", INVALID_RECORD)
    return Wrapper(offset, magic, attributes, timestamp, value)


def _unwrap(view: memoryview, pos: int, stop: int, limit_bytes: int) -> list[MessageRun]:
    """Return the messages in the wrapper at `pos`. They must have the wrapper's format, and must not be compressed again."""
    offset, magic, attributes, timestamp, value = open_wrapper(view, pos, stop)
    opened = codecs.decompress(attributes & CODEC_MASK, value, limit_bytes=limit_bytes, magic=magic)
    data = memoryview(opened)
    inner: list[MessageRun] = []
    at = 0
    while at < len(data):
        count, end = kernel_legacy.run_of(data, at, len(data))
        if count <= 0 or data[at + 16] != magic or data[at + 17] & CODEC_MASK:
            raise BadMessage(pos, "a compressed set holds a broken, a compressed or another format's message.", INVALID_RECORD)
        kind = data[at + 17] | attributes & TIMESTAMP_TYPE_BIT
        inner.append(MessageRun(data, at, end, count, magic, kind | attributes & CODEC_MASK, None, timestamp))
        at = end
    if not inner:
        raise BadMessage(pos, "a compressed set holds no message.", INVALID_RECORD)
    return _with_offsets(inner, magic, offset, pos)


def _with_offsets(inner: list[MessageRun], magic: int, offset: int, pos: int) -> list[MessageRun]:
    """Return the messages of a wrapper. In format 1, store the wrapper's `offset`, to which their offsets are relative.

    Some producers send 0 as the wrapper's offset.
    """
    if magic == 0:
        return inner
    if len(inner) > 1:
        raise BadMessage(pos, "a compressed set mixes types of timestamps.", INVALID_RECORD)
    return [inner[0]._replace(wrapper_offset=offset)]


def _value(view: memoryview, pos: int, stop: int) -> memoryview | None:
    """Return the value that follows the key at `pos`. Raises `BadMessage` if the value does not end at `stop`."""
    for last in (False, True):
        if stop - pos < 4:
            break
        size = SIZE.unpack_from(view, pos)[0]
        pos += 4
        if size > stop - pos or (last and max(size, 0) != stop - pos):
            break
        if last:
            return view[pos:stop] if size >= 0 else None
        pos += max(size, 0)
    raise BadMessage(pos, "a length of the message is wrong.", CORRUPT_MESSAGE)


def _resolve(segment: MessageRun, offsets: memoryview[int], timestamps: memoryview[int]) -> int:
    """Make relative offsets absolute, set a wrapper's LogAppendTime as timestamps, and return the greatest timestamp."""
    shift = segment.wrapper_offset - offsets[-1] if segment.wrapper_offset else 0
    if segment.timestamp is not None:
        timestamps[:] = memoryview(array("q", [segment.timestamp]) * len(timestamps))
    fits = not shift or (shift > 0 and offsets[-1] >= 0)  # otherwise a sum can be beyond 64 bits
    newest = kernel_legacy.settle(offsets, shift, timestamps) if fits else None
    if newest is None:
        raise BadMessage(
            segment.start, f"the offsets within a wrapper do not fit its own, {segment.wrapper_offset}.", INVALID_RECORD
        )
    return newest


def _header(segment: MessageRun, offsets: memoryview[int], timestamp: int, row: int, newest: int) -> BatchHeader:
    return BatchHeader(
        base_offset=offsets[row],
        batch_length=0,
        leader_epoch=-1,
        magic=segment.magic,
        crc=0,
        attributes=segment.attributes & (CODEC_MASK | (TIMESTAMP_TYPE_BIT if segment.magic else 0)),
        last_offset_delta=offsets[row + segment.messages - 1] - offsets[row],
        base_timestamp=timestamp,
        max_timestamp=newest,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=segment.messages,
    )


def write_message_set(columns: Columns, run: Run, magic: int, *, codec: int = codecs.NONE, level: int | None = None) -> bytes:
    """Return the rows of one run as a message set of format `magic`: plain messages, or with a codec one wrapper of all messages.

    The wrapper has the offset of its last message, and the greatest timestamp of all. Record headers are lost, because these
    formats have none.
    """
    return b"".join(finish(write_slowly(columns, run, magic, codec=codec, level=level)))


def write_slowly(
    columns: Columns, run: Run, magic: int, *, codec: int = codecs.NONE, level: int | None = None
) -> Pauses[list[Buffer]]:
    """Return the result of `write_message_set` as parts, with pauses. Each part is about a millisecond to copy."""
    whole = (run.first, run.end) == (columns.first, columns.end)
    part = columns if whole else columns.slice(run.first - columns.first, run.end - columns.first)
    timestamp_bit = TIMESTAMP_TYPE_BIT if magic and run.header.timestamp_type == LOG_APPEND_TIME else 0
    base = part.offsets[0] if codec and magic else 0
    message_set, newest = yield from _plain_slowly(part, run.data, magic, timestamp_bit, base)
    if not codec:
        return _parts(message_set)
    body = yield from codecs.compress_slowly(codec, message_set, level, magic=magic)
    return (yield from _wrap_slowly(part.offsets[-1], magic, codec | timestamp_bit, newest, body))


def _plain_slowly(part: Columns, data: memoryview, magic: int, attributes: int, base: int) -> Pauses[tuple[memoryview, int]]:
    """Return (the rows as plain messages, the greatest timestamp). Write large messages in parts, with pauses."""
    sizes = [part.span_column(column) for column in (kernel.KEY_SIZE, kernel.VALUE_SIZE)]
    total = sum(kernel_arrow.total_bytes(column)[0] for column in sizes)
    large: list[int] = []
    if total > PAUSE_BYTES:
        large = [row for row, both in enumerate(zip(*sizes, strict=True), part.first) if sum(both) > LARGE_BYTES]
    table = part.all_offsets, part.all_timestamps, part.spans, data
    if not large:
        room = memoryview(bytearray(total + len(part) * MOST_OVERHEAD_BYTES))
        end, newest = kernel_legacy.write_messages(room, 0, part.first, part.end, magic, attributes, base, *table)
        return room[:end], newest
    out, newest, first = bytearray(), -1, part.first  # grown in steps, because zeroing the whole buffer at once would take long
    for row in (*large, part.end):
        between = part.slice(first - part.first, row - part.first)
        message_set, latest = yield from _plain_slowly(between, data, magic, attributes, base)
        out += message_set
        newest, first = max(newest, latest), row + 1
        if row < part.end:
            newest = max(newest, part.all_timestamps[row])
            yield from _large_slowly(out, part, row, data, magic, attributes, base)
    return memoryview(out), newest


def _large_slowly(
    out: bytearray, part: Columns, row: int, data: memoryview, magic: int, attributes: int, base: int
) -> Pauses[None]:
    """Append the message of row `row` to `out`, copying key and value in parts with pauses between them."""
    start, index = len(out), row - part.first
    head = bytes((magic, attributes)) + (TIMESTAMP.pack(part.all_timestamps[row]) if magic else b"")
    out += bytes(16) + head
    crc = crc32(head)
    for column in (kernel.KEY_AT, kernel.VALUE_AT):
        at, size = part.span_column(column)[index], part.span_column(column + 1)[index]
        field = SIZE.pack(max(size, -1))
        out += field
        crc = crc32(field, crc)
        for copied in _parts(data[at : at + max(size, 0)]):
            out += copied
            crc = crc32(copied, crc)
            yield
    ENTRY.pack_into(out, start, part.all_offsets[row] - base, len(out) - start - 12, crc, magic, attributes)


def _wrap_slowly(offset: int, magic: int, attributes: int, timestamp: int, value: bytes) -> Pauses[list[Buffer]]:
    """Return the result of `wrapper` as parts; compute the CRC of a large set with pauses."""
    if len(value) <= LARGE_BYTES:
        return [wrapper(offset, magic, attributes, timestamp, value)]
    parts = _parts(memoryview(value))
    covered = _before_value(magic, attributes, timestamp, len(value))
    crc = crc32(covered)
    for part in parts:
        crc = crc32(part, crc)
        yield
    return [_before_crc(offset, len(covered) + len(value)) + crc.to_bytes(4, "big") + covered, *parts]


def _parts(view: memoryview) -> list[Buffer]:
    return [view[start : start + PAUSE_BYTES] for start in range(0, len(view), PAUSE_BYTES)]


def wrapper(offset: int, magic: int, attributes: int, timestamp: int, value: bytes) -> bytes:
    """Return a message without a key whose value is a compressed set."""
    covered = _before_value(magic, attributes, timestamp, len(value)) + value
    return b"".join((_before_crc(offset, len(covered)), crc32(covered).to_bytes(4, "big"), covered))


def _before_crc(offset: int, covered_bytes: int) -> bytes:
    return TIMESTAMP.pack(offset) + SIZE.pack(covered_bytes + 4)


def _before_value(magic: int, attributes: int, timestamp: int, value_bytes: int) -> bytes:
    """Return the bytes between CRC and value of a message without a key: magic, attributes, timestamp and sizes."""
    time = TIMESTAMP.pack(timestamp) if magic else b""
    return b"".join((bytes((magic, attributes)), time, SIZE.pack(-1), SIZE.pack(value_bytes)))
