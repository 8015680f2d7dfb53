"""The conversion of bytes fetched from a broker of Kafka 0.7 to one batch, which every reader of batches can read.

The offsets in the batch are the messages' positions in the log. Messages compressed together have one position, which is the offset
of all of them. The batch ends where the last whole message ends.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate
from operator import add
from typing import Final, NamedTuple

from ottla.kafka07.records.messages import CODEC_MASK, MOST_NESTED
from ottla.kafka07.wire import INVALID_MESSAGE
from ottla.ports import Buffer
from ottla.records import kernel, kernel_07
from ottla.records.batches.builder import seal
from ottla.records.batches.columns import ROW_BYTES, Columns, Run
from ottla.records.batches.header import (
    HEADER_BYTES,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
)
from ottla.records.compression import codecs
from ottla.records.compression.codecs import CodecFailed
from ottla.records.message_sets.conversion import up_convert
from ottla.records.message_sets.legacy import BadMessage

NO_TIME: Final = -1
"""The timestamp of a record whose format has none."""

ANY_SIZE: Final = 0x7FFFFFFF
REASONS: Final = {
    kernel_07.BAD_SIZE: "its size is impossible.",
    kernel_07.BAD_MAGIC: "its magic is none of Kafka 0.7, which has 0 and 1.",
    kernel_07.BAD_CRC: "the CRC-32 of its payload is wrong.",
}


class PlainRun(NamedTuple):
    """Adjacent messages of one format (magic 0 or 1), from byte `start` to byte `end` of `data`.

    `place` is None for messages that were not compressed. Otherwise it is the log position of the compressed message that contained
    them, which Kafka 0.7 gives all of them as their offset.
    """

    data: memoryview
    start: int
    end: int
    message_count: int
    payload_bytes: int
    place: int | None


def as_batch(view: Buffer, position: int, *, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> bytearray:
    """Return the whole messages in `view`, which begins at `position` of the log, as a batch; empty bytes if none is whole.

    The batch ends before the first broken message. Raises `BadMessage` or `CodecFailed` if the first message in `view` is broken,
    or decompresses to more than `limit_bytes`.
    """
    data, runs, end, budget = memoryview(view), list[PlainRun](), 0, [limit_bytes]
    try:
        for found, stop in _messages(data):
            runs += [found] if not _codec(found) else _open(found, position + found.start, budget, 0)
            end = stop
    except (BadMessage, CodecFailed):
        if not end:
            raise
    if not end:
        return bytearray()
    count = sum(run.message_count for run in runs)
    return up_convert(_columns(runs, count, position, end), keep_offsets=True) if count else _empty_batch(position, position + end)


def _messages(data: memoryview) -> Iterator[tuple[PlainRun, int]]:
    """Yield (messages of one magic, their end); each compressed message is yielded alone.

    Raises `BadMessage` at a broken message.
    """
    pos = 0
    while True:
        count, end, size = kernel_07.look(data, pos, len(data), ANY_SIZE)
        broken = REASONS.get(count)
        if broken is not None and end > pos:
            count, end, size = kernel_07.look(data, pos, end, ANY_SIZE)  # the messages before the broken one
        elif broken is not None:
            raise BadMessage(pos, f"the message cannot be decoded: {broken}", INVALID_MESSAGE)
        if not count:
            return
        yield PlainRun(data, pos, end, count, size, None), end
        pos = end


def _codec(run: PlainRun) -> int:
    return run.data[run.start + 5] & CODEC_MASK if run.data[run.start + 4] else codecs.NONE


def _open(run: PlainRun, place: int, budget: list[int], depth: int) -> list[PlainRun]:
    """Return the messages in the compressed message `run`. `budget[0]` is how many bytes may still be decompressed."""
    codec = _codec(run)
    if codec > codecs.SNAPPY or depth == MOST_NESTED:
        reason = "Kafka 0.7 has no codec 3" if codec > codecs.SNAPPY else f"sets are nested more than {MOST_NESTED} deep"
        raise BadMessage(run.start, f"{reason}.", INVALID_MESSAGE)
    data = memoryview(codecs.decompress(codec, run.data[run.end - run.payload_bytes : run.end], limit_bytes=budget[0]))
    budget[0] -= len(data)
    inner, end = list[PlainRun](), 0
    for found, stop in _messages(data):
        inner += [found._replace(place=place)] if not _codec(found) else _open(found, place, budget, depth + 1)
        end = stop
    if end != len(data):
        raise BadMessage(run.start, "a compressed set ends within a message.", INVALID_MESSAGE)
    return inner


def _columns(runs: list[PlainRun], count: int, position: int, end: int) -> Columns:
    arena = memoryview(bytearray(ROW_BYTES * count))
    offsets, timestamps = arena[: 8 * count].cast("q"), arena[8 * count : 16 * count].cast("q")
    spans = arena[16 * count :].cast("i")
    row, made = 0, list[Run]()
    for run in runs:
        room = bytearray(run.payload_bytes + run.message_count * kernel_07.MOST_RECORD_BYTES)
        stop = kernel_07.write(run.data, run.start, run.end, room, 0, 0)
        kernel.scan(room, 0, stop, row, run.message_count, 0, NO_TIME, offsets, timestamps, spans)
        rows = slice(row, row + run.message_count)
        offsets[rows] = memoryview(_places(run, spans[kernel.VALUE_SIZE * count :][rows], position))
        made.append(Run(row, row + run.message_count, memoryview(room), _header(position, position + end, run.message_count)))
        row += run.message_count
    return Columns(offsets, timestamps, spans, tuple(made), 0, count, position + end)


def _places(run: PlainRun, sizes: memoryview[int], position: int) -> array[int]:
    """Return the offset of each message: its own position, or the position of the message that contained it."""
    if run.place is not None:
        return array("q", [run.place]) * run.message_count
    head = (run.end - run.start - run.payload_bytes) // run.message_count
    start = position + run.start
    return array("q", map(add, accumulate(sizes[:-1], initial=start), range(0, head * run.message_count, head)))


def _empty_batch(position: int, end: int) -> bytearray:
    """Return a batch without records, for a compressed set without messages."""
    return seal(_header(position, end, 0), bytearray(HEADER_BYTES))


def _header(position: int, end: int, count: int) -> BatchHeader:
    return BatchHeader(
        base_offset=position,
        batch_length=0,
        leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codecs.NONE,
        last_offset_delta=end - 1 - position,
        base_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
