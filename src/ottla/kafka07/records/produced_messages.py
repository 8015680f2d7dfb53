"""Message sets produced by clients of Kafka 0.7, checked in the order of its brokers, and converted to batches of magic 2.

Plain messages of one format become batches of bounded size, so that newer clients can fetch them. A compressed message becomes one
batch of all messages in it, at any depth, and its bytes are kept for readers of 0.7.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.kafka07.records.messages import CODEC_MASK, CRC, MOST_NESTED, SIZE
from ottla.kafka07.records.renderer import Kind07
from ottla.kafka07.wire import INVALID_MESSAGE
from ottla.ports import Buffer, Pauses
from ottla.records import kernel_07
from ottla.records.batches.builder import seal
from ottla.records.batches.header import (
    HEADER_BYTES,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    read_header,
)
from ottla.records.batches.verification import MOST_OPENED_BYTES
from ottla.records.compilation_warning import warn_once
from ottla.records.compression import codecs
from ottla.records.compression.codecs import CodecFailed
from ottla.records.message_sets.legacy import BadMessage

PIECE_BYTES: Final = 512 * 1024
"""The bytes checked and written between two pauses, and the most bytes of messages in a batch, unless it has a single message."""

ANY_SIZE: Final = 0x7FFFFFFF
MAGIC_POSITION: Final = 4


class Terms07(NamedTuple):
    """The rules for accepting messages: their timestamp, the largest payload, and the newest formats allowed.

    `codec` and `level` are the topic's for stored batches; a `codec` of None keeps the producer's codec.
    """

    now_ms: int
    max_message_bytes: int = ANY_SIZE
    codec: int | None = None
    level: int | None = None
    newest_magic: int = 1
    newest_codec: int = codecs.SNAPPY
    limit_bytes: int = MOST_OPENED_BYTES


class Run07(NamedTuple):
    """Consecutive messages as one batch with offsets from 0. For clients of 0.7 the batch takes `size` bytes of the log.

    `kept` is the compressed message as the client sent it, or None.
    """

    kind: Kind07
    batch: bytearray
    header: BatchHeader
    size: int
    kept: memoryview | None


class Arrived07(NamedTuple):
    """The batches into which a produced message set was converted.

    If a message is too large, there are no batches, and `too_large_bytes` is the size of this message.
    """

    runs: tuple[Run07, ...]
    too_large_bytes: int = 0


class Span07(NamedTuple):
    """Plain messages of one format from `start` to `end` of a set, or one compressed message. `messages` is their number."""

    start: int
    end: int
    magic: int
    codec: int
    messages: int
    payload_bytes: int


def arrive(view: Buffer, terms: Terms07) -> Pauses[Arrived07]:
    """Convert a message set that a client produced to one partition; pause after each piece of the work.

    A message torn at the end is cut off, unless it is the first. A compressed message that contains no message is left out. A
    message that decompresses to more than the terms allow counts as too large. Raises `BadMessage` for an impossible size, format
    or codec, for a wrong CRC-32, also within a compressed message, and for data that cannot be decompressed.
    """
    warn_once()
    view = memoryview(view)
    spans = yield from _check(view, terms.max_message_bytes)
    if isinstance(spans, Arrived07):
        return spans
    runs: list[Run07] = []
    budget = [terms.limit_bytes]
    for span in spans:
        try:
            run = yield from _convert(view, span, terms, budget)
        except CodecFailed as failure:
            if failure.over_limit:
                return Arrived07((), terms.limit_bytes + 1)
            raise BadMessage(span.start, f"{failure}", INVALID_MESSAGE) from None
        if run is not None:
            runs.append(run)
        yield
    return Arrived07(tuple(runs))


def _check(view: memoryview, most_bytes: int) -> Pauses[list[Span07] | Arrived07]:
    """Check the CRCs of the outer messages, and return them; return an `Arrived07` if a message is too large."""
    spans: list[Span07] = []
    pos = 0
    while True:
        span = _span(view, pos, most_bytes)
        if span is None:
            break
        if span.messages == kernel_07.TOO_LARGE:
            return Arrived07((), span.payload_bytes)
        spans.append(span)
        pos = span.end
        yield
    if not spans and len(view) >= SIZE.size:
        raise BadMessage(0, "the first message is torn.", INVALID_MESSAGE)
    return spans


def _span(view: memoryview, pos: int, most_bytes: int) -> Span07 | None:
    """Return the messages of one format from `pos` on; None at the end of `view` and for a torn message. Raises `BadMessage`."""
    size = len(view)
    count, end, payload_bytes = kernel_07.look(view, pos, min(size, pos + PIECE_BYTES), most_bytes)
    if count == 0 and size - pos >= SIZE.size:
        large: int = SIZE.unpack_from(view, pos)[0] + SIZE.size
        if large > size - pos:
            return None
        count, end, payload_bytes = kernel_07.look(view, pos, pos + large, most_bytes)
    if count == 0:
        return None
    if count in REASONS:
        raise BadMessage(end, REASONS[count], INVALID_MESSAGE)
    magic = view[pos + MAGIC_POSITION]
    codec = view[pos + MAGIC_POSITION + 1] & CODEC_MASK if magic else codecs.NONE
    return Span07(pos, end, magic, codec, count, payload_bytes)


REASONS: Final = {
    kernel_07.BAD_SIZE: "the size of the message is impossible.",
    kernel_07.BAD_MAGIC: "the magic of the message is none of Kafka 0.7, which has 0 and 1.",
    kernel_07.BAD_CRC: "the CRC-32 of the payload is wrong.",
}


def _convert(view: memoryview, span: Span07, terms: Terms07, budget: list[int]) -> Pauses[Run07 | None]:
    """Convert the messages of `span` to one batch. Return None for a compressed message that contains no messages."""
    kept = view[span.start : span.end] if span.codec else None
    codec = span.codec if terms.codec is None else terms.codec
    out = bytearray(HEADER_BYTES)
    count = yield from _append_messages(out, view, span, 0, terms, budget, 0)
    if not count:
        return None
    if codec:
        packed = yield from codecs.compress_slowly(codec, memoryview(out)[HEADER_BYTES:], terms.level)
        out = bytearray(HEADER_BYTES) + packed
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=terms.now_ms,
        max_timestamp=terms.now_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    batch = seal(header, out, packed=True)
    kind = Kind07.KEPT if span.codec else Kind07(span.magic)
    return Run07(kind, batch, read_header(batch), span.end - span.start, kept)


def _append_messages(
    out: bytearray, view: memoryview, span: Span07, count: int, terms: Terms07, budget: list[int], depth: int
) -> Pauses[int]:
    """Append the messages of `span`, decompressed, as records to `out`, which has `count` records. Return the new count.

    `budget[0]` is how many bytes may still be decompressed.
    """
    if span.magic > terms.newest_magic or span.codec > terms.newest_codec:
        raise BadMessage(span.start, f"magic {span.magic} and codec {span.codec} are not of this release.", INVALID_MESSAGE)
    if not span.codec:
        at = len(out)
        out += bytes(span.payload_bytes + span.messages * kernel_07.MOST_RECORD_BYTES)
        end = kernel_07.write(view, span.start, span.end, out, at, count)
        del out[end:]
        return count + span.messages
    if depth == MOST_NESTED:
        raise BadMessage(span.start, f"sets are nested more than {MOST_NESTED} deep.", INVALID_MESSAGE)
    payload = view[span.start + SIZE.size + 2 + CRC.size : span.end]
    data = memoryview((yield from codecs.decompress_slowly(span.codec, payload, limit_bytes=budget[0])))
    budget[0] -= len(data)
    pos = 0
    while (inner := _span(data, pos, ANY_SIZE)) is not None:
        count = yield from _append_messages(out, data, inner, count, terms, budget, depth + 1)
        pos = inner.end
        yield
    if pos != len(data):
        raise BadMessage(span.start, "a compressed set ends within a message.", INVALID_MESSAGE)
    return count
