"""Snappy in the framings of Kafka's clients: xerial's stream format is written. Raw blocks, as librdkafka sends, are also read.

The module handles the framing, and bounds the size that a block may claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import cramjam

from ottla.ports import Buffer, Pauses
from ottla.records.compression.limits import PAUSE_BYTES, OverLimit, room_slowly
from ottla.records.pauses import finish, replace_pauses

MAGIC: Final = b"\x82SNAPPY\x00"
HEADER: Final = MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
BLOCK_BYTES: Final = 32 * 1024
ANY_NUMBER: Final = 1 << 62
PIECE_BLOCKS: Final = 64
"""The most blocks decompressed for one piece, because each block costs a call."""

MOST_EXPANSION: Final = 24
"""A bound on the expansion of a block: no snappy element of n bytes yields more than 21.4 n, so a larger claim is false."""


def compress(data: Buffer) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [HEADER]
    for start in range(0, len(view), BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def decompress(data: Buffer, limit_bytes: int, *, most_blocks: int = ANY_NUMBER) -> memoryview:
    """Decompress a stream. Raises ValueError for bytes that are not snappy, or for more than `limit_bytes` or `most_blocks`."""
    return finish(decompress_slowly(data, limit_bytes, most_blocks=most_blocks))


def decompress_small(view: memoryview, room: memoryview) -> int:
    """Decompress a stream of one block, as most small batches have, into `room`; return its size, or -1 for any other stream.

    Raises cramjam's error for a broken block, and ValueError for a block that claims an impossible size.
    """
    block = view[len(HEADER) + 4 :]
    if (
        len(block) == 0
        or bytes(view[: len(MAGIC)]) != MAGIC
        or int.from_bytes(view[len(HEADER) : len(HEADER) + 4], "big") != len(block)
    ):
        return -1
    size = _claimed_size(block)
    if size > len(room):
        return -1
    cramjam.snappy.decompress_raw_into(block, room[:size])
    return size


def decompress_slowly(data: Buffer, limit_bytes: int, *, most_blocks: int = ANY_NUMBER) -> Pauses[memoryview]:
    """Return the result of `decompress`, with pauses between blocks."""
    blocks = _blocks(memoryview(data), most_blocks)
    sizes = [_claimed_size(block) for block in blocks]
    total = sum(sizes)
    if total > limit_bytes:
        raise OverLimit(f"it opens to {total} bytes, more than the limit of {limit_bytes}")
    room = memoryview((yield from room_slowly(total)))
    pos = paused_at = 0
    for block, size in zip(blocks, sizes, strict=True):
        cramjam.snappy.decompress_raw_into(block, room[pos : pos + size])
        pos += size
        if pos - paused_at >= PAUSE_BYTES:
            paused_at = pos
            yield
    return room


def pieces(view: memoryview, largest_bytes: int) -> Iterator[memoryview]:
    """Yield the stream decompressed in pieces. A piece is valid until the next one is requested. Raises ValueError.

    `largest_bytes` is the decompressed size of the largest block.
    """
    size = max(largest_bytes, min(PAUSE_BYTES, MOST_EXPANSION * len(view)))
    room = memoryview((yield from replace_pauses(room_slowly(size), view[:0])))
    at = count = 0
    for block in _each_block(view):
        size = _claimed_size(block)
        if size > len(room) - at or count == PIECE_BLOCKS:
            yield room[:at]
            at = count = 0
        cramjam.snappy.decompress_raw_into(block, room[at : at + size])
        at += size
        count += 1
    yield room[:at]


def largest_bytes(view: memoryview, limit_bytes: int) -> int:
    """Return the decompressed size of the largest block.

    Raises `OverLimit` if all blocks together exceed `limit_bytes`, and ValueError.
    """
    total = largest = 0
    for block in _each_block(view):
        size = _claimed_size(block)
        total, largest = total + size, max(largest, size)
        if total > limit_bytes:
            raise OverLimit(f"it opens to more than the limit of {limit_bytes} bytes")
    return largest


def opened_bytes(view: memoryview) -> int:
    """Return the decompressed size that all blocks claim together. Raises ValueError."""
    return sum(map(_claimed_size, _each_block(view)))


def _blocks(view: memoryview, most_blocks: int) -> list[memoryview]:
    found: list[memoryview] = []
    for block in _each_block(view):
        found.append(block)
        if len(found) > most_blocks:
            raise OverLimit("it has more blocks than can be opened at once")
    return found


def _each_block(view: memoryview) -> Iterator[memoryview]:
    """Yield the raw blocks of a xerial stream, or of several streams one after another, which snappy-java's reader allows."""
    if bytes(view[: len(MAGIC)]) != MAGIC:
        yield view
        return
    pos = len(HEADER)
    while pos < len(view):
        if bytes(view[pos : pos + len(MAGIC)]) == MAGIC:
            pos += len(HEADER)
            continue
        size = int.from_bytes(view[pos : pos + 4], "big")
        if size == 0 or size > len(view) - pos - 4:
            raise ValueError(f"a snappy block at byte {pos} claims {size} bytes and {len(view) - pos - 4} are left")
        yield view[pos + 4 : pos + 4 + size]
        pos += 4 + size


def _claimed_size(block: memoryview) -> int:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    else:
        raise ValueError("a snappy block does not begin with its size")
    if size > MOST_EXPANSION * len(block):
        raise ValueError(f"a snappy block of {len(block)} bytes claims to hold {size}")
    return size
