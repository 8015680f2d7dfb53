"""Message sets of magic 0 and 1 produced by old clients, checked and converted to batches of magic 2 piece by piece.

Both formats are read into columns. A piece is a few milliseconds of work, after which other work can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from ottla.ports import Buffer, Pauses
from ottla.records import kernel, kernel_legacy
from ottla.records.batches.columns import Columns
from ottla.records.batches.header import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    MAGIC_POSITION,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    BatchHeader,
    batches,
    stamp,
)
from ottla.records.batches.verification import ANY_TIME, MOST_OPENED_BYTES, Demands
from ottla.records.compression import codecs
from ottla.records.compression.codecs import CodecFailed
from ottla.records.message_sets.conversion import PIECE_BYTES, up_convert_slowly
from ottla.records.message_sets.legacy import ENTRY, BadMessage, open_message_set, open_wrapper
from ottla.records.pauses import replace_pauses
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    NONE,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_COMPRESSION_TYPE,
)

LOG_OVERHEAD_BYTES: Final = 12


class Inside(Enum):
    """The checks of messages within a compressed message: the degrees of strictness."""

    NOTHING = "neither format nor offsets: a wrapper of format 1 is read as one of format 0, which fails (UNKNOWN_SERVER_ERROR)"
    FORMATS = "their format, which is to be the wrapper's"
    OFFSETS = "the last offset too: a wrapper's own may not be less, unless it is 0"


class Terms(NamedTuple):
    """The rules for accepting messages: the topic's demands at `now_ms`, the largest message, and the newest codec allowed.

    `inside` is how far messages in a wrapper are checked. `codec` and `level` are the topic's for stored batches. A `codec` of None
    keeps the producer's, which is the last one in the set.
    """

    demands: Demands = Demands()
    now_ms: int = 0
    max_message_bytes: int = 0x7FFFFFFF
    newest_codec: int = codecs.ZSTD
    inside: Inside = Inside.OFFSETS
    codec: int | None = None
    level: int | None = None
    limit_bytes: int = MOST_OPENED_BYTES


class Arrived(NamedTuple):
    """The result of a conversion: batches with offsets from 0, which fill `view`, and their headers; or an error code with a
    message.
    """

    error_code: int
    sentence: str = ""
    view: bytearray = bytearray()
    headers: tuple[BatchHeader, ...] = ()


class OuterMessages(NamedTuple):
    """Plain messages of one magic and attributes from `start` to `end` of the set, or one compressed message: a wrapper."""

    start: int
    end: int
    codec: int


class Untakable(ValueError):
    """Raised for messages that the `Terms` do not allow. `error_code` is the error code for the producer."""

    def __init__(self, error_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code


FORMATS: Final[dict[int, Callable[[memoryview, Terms], Pauses[Arrived]]]] = {}
"""Magic -> the converter of that format. Records of any other magic are treated as message sets of magic 0 or 1."""


def arrive(view: Buffer, terms: Terms) -> Pauses[Arrived]:
    """Convert records that a client produced in another format than magic 2 to batches, with pauses."""
    view = memoryview(view)
    return FORMATS.get(view[MAGIC_POSITION] if len(view) > MAGIC_POSITION else 0, _message_set)(view, terms)


def _message_set(view: memoryview, terms: Terms) -> Pauses[Arrived]:
    """Convert messages of magic 0 and 1 to batches.

    A message torn at the end is cut off. If no message remains, there are no batches. The error codes:

    - CORRUPT_MESSAGE: a wrong size, magic or CRC-32, also in a compressed message; data that its codec cannot decompress.
    - INVALID_RECORD: compression within compression, mixed formats, a wrapper's offset below its last message's; on a compacted
      topic a null key.
    - INVALID_TIMESTAMP: a timestamp that the topic does not allow, or a producer's message with LogAppendTime.
    - MESSAGE_TOO_LARGE: a message whose size, as sent, exceeds the topic's limit.
    - UNSUPPORTED_COMPRESSION_TYPE: zstd, which these formats do not have, or a codec that is newer than the release.
    """
    try:
        entries = yield from _entries(view, terms)
        codec = terms.codec if terms.codec is not None else next((e.codec for e in reversed(entries) if e.codec), codecs.NONE)
        out = bytearray()
        count = 0
        for entry in entries:
            for columns in _open(view, entry, terms):
                if columns is not None:
                    if not entry.codec and entry.end - entry.start > terms.max_message_bytes:
                        _check_sizes(columns, terms.max_message_bytes)
                    _check(columns, terms)
                    batch = yield from up_convert_slowly(columns, codec, terms.level)
                    stamp(batch, 0, count, NO_PARTITION_LEADER_EPOCH)
                    out += batch
                    count += len(columns)
                yield
    except (BadMessage, Untakable) as bad:
        return Arrived(bad.error_code, str(bad))
    except CodecFailed as failure:
        return Arrived(MESSAGE_TOO_LARGE if failure.over_limit else CORRUPT_MESSAGE, str(failure))
    return Arrived(NONE, "", out, tuple(header for _, header in batches(out)))


def _entries(view: memoryview, terms: Terms) -> Pauses[list[OuterMessages]]:
    """Return the outer messages of a set. Each entry is a piece of plain messages or one wrapper. Raises `Untakable`."""
    found: list[OuterMessages] = []
    for start, end in _runs(view, PIECE_BYTES[codecs.NONE]):
        codec = view[start + 17] & CODEC_MASK
        while codec and start < end:
            size = ENTRY.unpack_from(view, start)[1] + LOG_OVERHEAD_BYTES
            if size > terms.max_message_bytes:
                raise Untakable(MESSAGE_TOO_LARGE, f"A message of {size} bytes exceeds max.message.bytes.")
            found.append(OuterMessages(start, start + size, codec))
            start += size
        if codec > terms.newest_codec or codec == codecs.ZSTD:
            raise Untakable(UNSUPPORTED_COMPRESSION_TYPE, f"The codec {codec} is not one of the message format.")
        if start < end:
            found.append(OuterMessages(start, end, codecs.NONE))
        if len(found) % 64 == 0:
            yield
    return found


def _runs(view: memoryview, piece_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of whole messages of one magic and attributes, about `piece_bytes` at a time; omit a torn message."""
    pos, size = 0, len(view)
    while pos < size:
        count, end = kernel_legacy.run_of(view, pos, min(size, pos + piece_bytes))
        if count == 0 and size - pos >= ENTRY.size:
            count, end = kernel_legacy.run_of(view, pos, min(size, pos + LOG_OVERHEAD_BYTES + ENTRY.unpack_from(view, pos)[1]))
        if count < 0:
            raise BadMessage(pos, "the size or the magic of the message is impossible.", CORRUPT_MESSAGE)
        if count == 0:
            return
        yield pos, end
        pos = end


def _open(view: memoryview, entry: OuterMessages, terms: Terms) -> Iterator[Columns | None]:
    """Yield the messages of an entry in pieces; None is a pause."""
    if not entry.codec:
        yield open_message_set(view[entry.start : entry.end])
    else:
        yield from _unwrap(view, entry, terms)


def _unwrap(view: memoryview, entry: OuterMessages, terms: Terms) -> Iterator[Columns | None]:
    """Yield the messages of a wrapper in pieces; None is a pause. Check their offsets, but the caller assigns new ones.

    The wrapper's offset can be wrong, because pykafka sends -1. Raises `BadMessage` and `Untakable`.
    """
    wrapper = open_wrapper(view, entry.start, entry.end)
    if wrapper.magic and terms.inside is Inside.NOTHING:
        raise Untakable(UNKNOWN_SERVER_ERROR, f"Compressed messages of magic {wrapper.magic} cannot be opened.")
    steps = codecs.decompress_slowly(entry.codec, wrapper.value, limit_bytes=terms.limit_bytes, magic=wrapper.magic)
    data = memoryview((yield from replace_pauses(steps, None)))
    last, at = 0, 0
    for start, at in _runs(data, PIECE_BYTES[entry.codec]):
        if data[start + 17] & CODEC_MASK or (terms.inside is not Inside.NOTHING and data[start + 16] != wrapper.magic):
            raise BadMessage(entry.start, "a compressed set holds a compressed or another format's message.", INVALID_RECORD)
        if wrapper.timestamp is not None:
            raise Untakable(
                INVALID_TIMESTAMP, "Only the broker may give records the timestamp type LogAppendTime: send CreateTime."
            )
        columns = open_message_set(data[start:at])
        last = columns.offsets[-1]
        yield columns
    if not at or at != len(data):
        raise BadMessage(entry.start, "a compressed set holds no message, or a torn one.", INVALID_RECORD)
    if terms.inside is Inside.OFFSETS and wrapper.magic and wrapper.offset and wrapper.offset < last:
        raise BadMessage(
            entry.start, f"the offset of a wrapper, {wrapper.offset}, is less than its last message's.", INVALID_RECORD
        )


def _check(columns: Columns, terms: Terms) -> None:
    demands = terms.demands
    if any(run.header.timestamp_type == LOG_APPEND_TIME for run in columns.runs):
        raise Untakable(INVALID_TIMESTAMP, "Only the broker may give records the timestamp type LogAppendTime: send CreateTime.")
    if demands.keyed and min(columns.span_column(kernel.KEY_SIZE)) < 0:
        raise Untakable(INVALID_RECORD, "A record of a compacted topic needs a key.")
    earliest, latest = ANY_TIME if demands.append_time else (terms.now_ms - demands.before_ms, terms.now_ms + demands.after_ms)
    oldest, newest = min(columns.timestamps), max(columns.timestamps)
    if oldest < earliest:
        oldest = min((time for time in columns.timestamps if time != NO_TIMESTAMP), default=earliest)
    if newest > latest or oldest < earliest:
        raise Untakable(INVALID_TIMESTAMP, f"A timestamp is outside {earliest} to {latest}, which the topic accepts.")


def _check_sizes(columns: Columns, max_message_bytes: int) -> None:
    """Raise `Untakable` if an uncompressed message exceeds the limit. Its size includes its offset and its size field."""
    run = columns.runs[0]
    overhead = LOG_OVERHEAD_BYTES + (22 if run.header.magic else 14)
    sizes = zip(columns.span_column(kernel.KEY_SIZE), columns.span_column(kernel.VALUE_SIZE), strict=True)
    largest = overhead + max(max(key, 0) + max(value, 0) for key, value in sizes)
    if largest > max_message_bytes:
        raise Untakable(MESSAGE_TOO_LARGE, f"A message of {largest} bytes is larger than max.message.bytes.")
