"""Batches of magic 2 as clients of Kafka 0.7 read them: each record is one message, with its value and nothing else.

A null value becomes an empty one; keys, headers and timestamps are lost. The batch's codec makes no difference. Positions in a
partition's log are in `log.positions07`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final
from zlib import crc32

from ottla.kafka07.records.messages import CRC, SIZE
from ottla.ports import Pauses
from ottla.records import kernel_07
from ottla.records.batches.header import HEADER_BYTES, BadBatch, BatchHeader
from ottla.records.compilation_warning import warn_once
from ottla.records.compression import codecs
from ottla.records.compression.limits import room_slowly

PIECE_RECORDS: Final = 65_536
"""The number of records measured between two pauses."""

PIECE_BYTES: Final = 512 * 1024
"""The bytes rendered between two pauses."""


class Kind07(IntEnum):
    """The form of a batch for clients of Kafka 0.7."""

    PLAIN0 = 0
    """Each record is a message of magic 0."""
    PLAIN1 = 1
    """Each record is a message of magic 1."""
    KEPT = 2
    """The batch was produced as one compressed message, which is kept as the client sent it."""
    NOTHING = 3
    """The batch is hidden: it is a control batch."""


def message_bytes(magic: int) -> int:
    """Return the bytes of a message besides its payload, including its size field: 9 or 10."""
    return 10 if magic else 9


class Rendering07:
    """One decompressed batch, rendered as messages of format `magic` from any position on.

    It stores where the last rendered bytes end, so that sequential reads skip no records. `size` is the size of all messages.
    """

    __slots__ = ("_at", "_data", "_head", "_index", "_pos", "_start", "count", "magic", "size")

    def __init__(self, data: memoryview, start: int, count: int, magic: int, size: int) -> None:
        """Prepare to render `data`, which has `count` records from byte `start` to its end.

        `size` is their size as messages of 0.7.
        """
        self._data = data
        self._start = start
        self.count = count
        self.magic = magic
        self.size = size
        self._rewind()

    def _rewind(self) -> None:
        self._index, self._pos, self._at = 0, self._start, 0
        self._head = b""

    def record_at(self, position: int) -> tuple[int, int]:
        """Return (index, position) of the message that contains the byte `position`, or (count, size) beyond the last message."""
        if position < self._at:
            self._rewind()
        data = self._data
        index, pos, passed = kernel_07.locate(data, self._pos, len(data), self.count - self._index, self.magic, position - self._at)
        if pos < 0:
            raise _broken()
        if index:
            self._index, self._pos, self._at, self._head = self._index + index, pos, self._at + passed, b""
        return self._index, self._at

    def position_of(self, index: int) -> int:
        """Return the position of the message of record `index`. For `count` it is the end of the last message."""
        values, pos = kernel_07.measure(self._data, self._start, len(self._data), index)
        if pos < 0:
            raise _broken()
        return values + index * message_bytes(self.magic)

    def into(self, position: int, out: memoryview) -> int:
        """Write the bytes from `position` on to `out`, as many as fit. Return the number of bytes written.

        The work grows with `out`, and with the records to skip unless the last call ended at `position`. Raises `BadBatch`.
        """
        written = 0
        self.record_at(position)
        while written < len(out) and self._index < self.count:
            if self._at == position + written:
                written += self._whole(out[written:])
            if written < len(out) and self._index < self.count:
                written += self._part(position + written - self._at, out[written:])
        return written

    def _whole(self, out: memoryview) -> int:
        """Write whole messages to `out` while they fit. Return the number of bytes written."""
        data = self._data
        records, pos, end = kernel_07.render(data, self._pos, len(data), self.count - self._index, self.magic, out, 0)
        if pos < 0:
            raise _broken()
        if records:
            self._index, self._pos, self._at, self._head = self._index + records, pos, self._at + end, b""
        return end

    def _part(self, skipped: int, out: memoryview) -> int:
        """Write the next message without its first `skipped` bytes, as far as it fits. Return the number of bytes written."""
        value, size, stop = kernel_07.value_at(self._data, self._pos, len(self._data))
        payload = self._data[value : value + size]
        if not self._head:
            prefix = b"\x01\x00" if self.magic else b"\x00"
            self._head = SIZE.pack(len(prefix) + CRC.size + size) + prefix + CRC.pack(crc32(payload))
        head = self._head[skipped : skipped + len(out)]
        out[: len(head)] = head
        rest = max(skipped - len(self._head), 0)
        room = min(len(out) - len(head), size - rest)
        out[len(head) : len(head) + room] = payload[rest : rest + room]
        if rest + room == size and skipped + len(head) + room >= len(self._head):
            self._index, self._pos, self._at, self._head = self._index + 1, stop, self._at + message_bytes(self.magic) + size, b""
        return len(head) + room


def open_batch(
    batch: memoryview, header: BatchHeader, magic: int, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES
) -> Pauses[Rendering07]:
    """Decompress and measure the batch that fills `batch`; pause after each piece of the work.

    Raises `BadBatch` for records that do not match the header, and `CodecFailed` for data that decompresses to more than
    `limit_bytes`.
    """
    warn_once()
    data, start = batch, HEADER_BYTES
    if header.codec:
        data = memoryview((yield from codecs.decompress_slowly(header.codec, batch[HEADER_BYTES:], limit_bytes=limit_bytes)))
        start = 0
    pos, left, values = start, header.record_count, 0
    while left:
        piece = min(left, PIECE_RECORDS)
        found, pos = kernel_07.measure(data, pos, len(data), piece)
        if pos < 0:
            raise _broken()
        left, values = left - piece, values + found
        if left:
            yield
    if pos != len(data):
        raise _broken()
    return Rendering07(data, start, header.record_count, magic, values + header.record_count * message_bytes(magic))


def size_of(batch: memoryview, header: BatchHeader, magic: int, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> Pauses[int]:
    """Return the size in bytes of the batch as messages. The exceptions and pauses are those of `open_batch`."""
    return (yield from open_batch(batch, header, magic, limit_bytes)).size


def render(batch: memoryview, header: BatchHeader, magic: int, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> Pauses[bytearray]:
    """Return the whole batch as messages. The exceptions are those of `open_batch`; there are more pauses."""
    rendering = yield from open_batch(batch, header, magic, limit_bytes)
    out = yield from room_slowly(rendering.size)
    view = memoryview(out)
    for start in range(0, rendering.size, PIECE_BYTES):
        rendering.into(start, view[start : start + PIECE_BYTES])
        yield
    return out


def _broken() -> BadBatch:
    return BadBatch(0, "the records are not as many and as whole as the batch says.")
