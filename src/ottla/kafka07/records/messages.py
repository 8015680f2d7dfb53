"""Message sets of Kafka 0.7, in its formats 0 and 1: read and written.

A message is its size, a magic byte, attributes in format 1, a CRC-32 of the payload alone, and the payload. It has no key, no
timestamp and no offset: its identity is its position in bytes in its partition's log. Messages compressed together are a set in one
message, and only the outer message has a position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from zlib import crc32

from ottla.kafka07.wire import INVALID_MESSAGE
from ottla.ports import Buffer
from ottla.records.compression import codecs
from ottla.records.message_sets.legacy import BadMessage

SIZE: Final = struct.Struct(">i")
CRC: Final = struct.Struct(">I")
SMALLEST_BYTES: Final = 5
CODEC_MASK: Final = 0x03
MOST_NESTED: Final = 8
"""The most levels of compressed sets within one another. Clients of 0.7 read any number of levels, but write only one."""


class Message07(NamedTuple):
    """A message's payload, and the offset from which to fetch after it was processed.

    For messages compressed together, it is the beginning of the outer message, because a fetch returns all of them. For the last of
    them it is the outer message's end.
    """

    next_offset: int
    payload: bytes
    magic: int


class RawMessage07(NamedTuple):
    """A message in its set: from `start` to `end`, with its payload not decompressed."""

    start: int
    end: int
    magic: int
    codec: int
    payload: memoryview


def messages(view: Buffer, offset: int = 0, *, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> Iterator[Message07]:
    """Iterate over the messages in `view`, which begins at `offset` of the log. A torn message at the end is left out.

    Compressed messages may decompress to `limit_bytes` together. Raises `BadMessage` (INVALID_MESSAGE) for an impossible size or
    magic and a wrong CRC-32, and `CodecFailed` for data that cannot be decompressed.
    """
    budget = [limit_bytes]
    for entry in raw_messages(memoryview(view)):
        opened = list(_open(entry, budget, 0))
        for index, (magic, payload) in enumerate(opened):
            last = index == len(opened) - 1
            yield Message07(offset + (entry.end if last else entry.start), payload, magic)


def whole_bytes(view: Buffer) -> int:
    """Return the size in bytes of the whole messages at the beginning of `view`. Raises `BadMessage`."""
    end = 0
    for entry in raw_messages(memoryview(view)):
        end = entry.end
    return end


def message_set(payloads: Iterable[bytes], *, magic: int = 1, codec: int = codecs.NONE) -> bytes:
    """Return payloads as a message set; with a codec (gzip or snappy, only magic 1) as one compressed message."""
    if codec and (magic == 0 or codec > codecs.SNAPPY):
        raise ValueError(f"Kafka 0.7 has no {codecs.NAMES[codec]} in message format {magic}: use gzip or snappy in format 1.")
    inner = b"".join(_message(payload, magic, codecs.NONE) for payload in payloads)
    return compress(inner, codec) if codec else inner


def compress(messages: Buffer, codec: int) -> bytes:
    """Return a message set as one message of format 1, compressed with gzip or snappy."""
    return _message(codecs.compress(codec, messages), 1, codec)


def _message(payload: bytes, magic: int, attributes: int) -> bytes:
    head = bytes((magic, attributes)) if magic else bytes((magic,))
    return SIZE.pack(len(head) + CRC.size + len(payload)) + head + CRC.pack(crc32(payload)) + payload


def raw_messages(view: memoryview) -> Iterator[RawMessage07]:
    """Iterate over the whole messages in `view`, checked and not decompressed. Raises `BadMessage`."""
    pos = 0
    while len(view) - pos >= SIZE.size:
        size: int = SIZE.unpack_from(view, pos)[0]
        start, pos = pos, pos + SIZE.size
        if size < SMALLEST_BYTES:
            raise BadMessage(start, f"a message of {size} bytes is impossible: the smallest has {SMALLEST_BYTES}.", INVALID_MESSAGE)
        if size > len(view) - pos:
            return
        yield _entry(view[pos : pos + size], start)
        pos += size


def _entry(data: memoryview, start: int) -> RawMessage07:
    magic = data[0]
    if magic > 1:
        raise BadMessage(start, f"magic {magic} is none of Kafka 0.7, which has 0 and 1.", INVALID_MESSAGE)
    head = 1 + magic
    if len(data) < head + CRC.size:
        raise BadMessage(start, f"a message of {len(data)} bytes cannot hold its checksum.", INVALID_MESSAGE)
    codec = data[1] & CODEC_MASK if magic else codecs.NONE
    payload = data[head + CRC.size :]
    if crc32(payload) != CRC.unpack_from(data, head)[0]:
        raise BadMessage(start, "the CRC-32 of the payload is wrong.", INVALID_MESSAGE)
    return RawMessage07(start, start + SIZE.size + len(data), magic, codec, payload)


def _open(entry: RawMessage07, budget: list[int], depth: int) -> Iterator[tuple[int, bytes]]:
    """Yield (magic, payload) of the message or of all messages in it. `budget[0]` is how many bytes may still be decompressed."""
    if not entry.codec:
        yield entry.magic, bytes(entry.payload)
        return
    data = inner_set(entry, budget[0], depth)
    budget[0] -= len(data)
    end = 0
    for inner in raw_messages(data):
        end = inner.end
        yield from _open(inner, budget, depth + 1)
    if end != len(data):
        raise BadMessage(entry.start, "a compressed set ends within a message.", INVALID_MESSAGE)


def inner_set(entry: RawMessage07, limit_bytes: int, depth: int) -> memoryview:
    """Return the set in the compressed message `entry`, which is nested `depth` levels deep. Raises `BadMessage`, `CodecFailed`."""
    if entry.codec > codecs.SNAPPY or depth == MOST_NESTED:
        reason = "Kafka 0.7 has no codec 3" if entry.codec > codecs.SNAPPY else f"sets are nested more than {MOST_NESTED} deep"
        raise BadMessage(entry.start, f"{reason}.", INVALID_MESSAGE)
    return memoryview(codecs.decompress(entry.codec, entry.payload, limit_bytes=limit_bytes))
