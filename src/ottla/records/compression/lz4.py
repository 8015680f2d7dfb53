"""LZ4 frames as Kafka requires them: independent blocks of at most 64 KB, no content size, a header checksum.

The header checksum of message format 0 covers the wrong bytes (KAFKA-3160): such a checksum is written for format 0, and ignored on
reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import Final

import cramjam

from ottla.ports import Buffer, Pauses
from ottla.records.compression.limits import PAUSE_BYTES, OverLimit, room_slowly

MAGIC: Final = b"\x04\x22\x4d\x18"
BLOCK_BYTES: Final = 64 * 1024
STORED: Final = 0x80000000
HEADER: Final = MAGIC + b"\x60\x40\x82"
"""The usual header: magic, a byte for version 01 and independent blocks, a byte for blocks of 64 KB at most, their checksum."""

HEADER_FORMAT_0: Final = MAGIC + b"\x60\x40\x1a"
"""The usual header with the checksum of message format 0, which also covers the magic."""

END_MARK: Final = bytes(4)
_START: Final = Struct("<7sI")
_END: Final = Struct("<I")
BLOCK_AT: Final = _START.size
"""The position of the first block's data, which follows the usual header and the block's size."""

MOST_EXPANSION: Final = 255
BLOCK_CHECKSUM, CONTENT_SIZE, DICTIONARY, INDEPENDENT, VERSION_01 = 0x10, 0x08, 0x01, 0x20, 0x40
PLAIN: Final = VERSION_01 | INDEPENDENT
BLOCK_SIZES: Final = (0x40, 0x50, 0x60, 0x70)
"""The valid values of the byte after the flags. They mean blocks of at most 64 KB, 256 KB, 1 MB and 4 MB."""

MOST_BLOCK_BYTES: Final = 4 << 20
ANY_NUMBER: Final = 1 << 62
PIECE_BLOCKS: Final = 64
"""The most blocks decompressed for one piece, because each block costs a call."""

_MASK: Final = 0xFFFFFFFF

FAST_LEVEL: Final = 9
"""Kafka's default level, which means lz4's fast compressor, not level 9 of its thorough one."""

LOWEST_THOROUGH: Final = 3
"""The lowest level passed to the thorough compressor. For lower levels the library would use the fast one, unlike Kafka."""


def compress(data: Buffer, level: int | None = None, *, format_0: bool = False) -> bytes:
    """Compress `data` as a frame.

    With `level` 9 or None use the fast compressor, with any other level of 1 to 17 the thorough one, as in Kafka.
    """
    view = memoryview(data)
    pack: Callable[[memoryview], Buffer] = _fast_block if level in (None, FAST_LEVEL) else partial(_thorough_block, level=level)
    if 0 < len(view) <= BLOCK_BYTES:
        return b"".join((HEADER_FORMAT_0 if format_0 else HEADER, *_frame(view, pack(view)), END_MARK))
    parts: list[Buffer] = [HEADER_FORMAT_0 if format_0 else HEADER]
    for start in range(0, len(view), BLOCK_BYTES):
        chunk = view[start : start + BLOCK_BYTES]
        parts += _frame(chunk, pack(chunk))
    parts.append(END_MARK)
    return b"".join(parts)


def _frame(chunk: memoryview, block: Buffer) -> tuple[bytes, Buffer]:
    """Return (size field, data) of a block: the compressed `block`, or the `chunk` uncompressed if `block` is not smaller."""
    if len(block) < len(chunk):
        return len(block).to_bytes(4, "little"), block
    return (len(chunk) | STORED).to_bytes(4, "little"), chunk


def _fast_block(chunk: memoryview) -> bytes:
    """Return a chunk compressed as a block. It is a copy, so that the library's buffer of the worst-case size is freed."""
    return bytes(cramjam.lz4.compress_block(chunk, store_size=False))


def _thorough_block(chunk: memoryview, level: int) -> memoryview:
    """Return a chunk compressed at a level, as a block. The library has levels only for frames, so take it from a frame."""
    frame = memoryview(cramjam.lz4.compress(chunk, level=max(level, LOWEST_THOROUGH)))
    start = 15 if frame[4] & CONTENT_SIZE else 7
    size = int.from_bytes(frame[start : start + 4], "little")
    return chunk if size & STORED else frame[start + 4 : start + 4 + size]


def decompress(data: Buffer, limit_bytes: int, *, format_0: bool = False, most_blocks: int = ANY_NUMBER) -> memoryview:
    """Decompress a frame.

    Raises ValueError for bytes that are not one whole frame, or for more than `limit_bytes` or `most_blocks`.
    """
    view, header_bytes, most_bytes = _prepare(data, limit_bytes, format_0, most_blocks)
    out = memoryview(bytearray(most_bytes))
    if view[4] == PLAIN and view[5] in BLOCK_SIZES:
        size = 0
        for size in _open_blocks(view, header_bytes, out):  # noqa: B007 - the last one counts
            pass
    else:
        size = cramjam.lz4.decompress_into(view, out)
    return _within(out, size, limit_bytes)


def decompress_small(view: memoryview, room: memoryview) -> int:
    """Decompress a frame of one block, as most small batches have, into `room`; return its size, or -1 for any other frame.

    Raises cramjam's error for a broken block.
    """
    if len(view) < BLOCK_AT + len(END_MARK):
        return -1
    header, size = _START.unpack_from(view)
    end = len(view) - len(END_MARK)
    if header != HEADER or BLOCK_AT + (size & ~STORED) != end or _END.unpack_from(view, end)[0]:
        return -1
    block = view[BLOCK_AT:end]
    if not size & STORED:
        return int(cramjam.lz4.decompress_block_into(block, room, output_len=min(BLOCK_BYTES, len(room))))
    if len(block) > min(BLOCK_BYTES, len(room)):
        return -1
    room[: len(block)] = block
    return len(block)


def decompress_slowly(data: Buffer, limit_bytes: int, *, format_0: bool = False) -> Pauses[memoryview]:
    """Return the result of `decompress`, with pauses if the frame is plain (`is_plain`), as Kafka's clients write it."""
    view, header_bytes, most_bytes = _prepare(data, limit_bytes, format_0)
    out = memoryview((yield from room_slowly(most_bytes)))
    if view[4] != PLAIN or view[5] not in BLOCK_SIZES:
        return _within(out, cramjam.lz4.decompress_into(view, out), limit_bytes)
    size = paused_at = 0
    for size in _open_blocks(view, header_bytes, out):
        if size - paused_at >= PAUSE_BYTES:
            paused_at = size
            yield
    return _within(out, size, limit_bytes)


def is_plain(view: memoryview) -> bool:
    """Return whether `pieces` can decompress the frame, because it has no checksums of blocks or content and no content size."""
    return len(view) >= len(HEADER) and view[4] == PLAIN and view[5] in BLOCK_SIZES


def most_bytes(view: memoryview, limit_bytes: int) -> int:
    """Return an upper bound of a frame's decompressed size. Raises ValueError for a bad frame, and if it exceeds the limit."""
    return _prepare(view, limit_bytes, False)[2]


def pieces(view: memoryview) -> Iterator[memoryview]:
    """Yield a plain frame decompressed in pieces. A piece is valid until the next one is requested. Raises ValueError."""
    pos = _header_bytes(view)
    _check_header(view, pos)
    block_bytes = _block_bytes(view)
    room = memoryview(bytearray(max(block_bytes, PAUSE_BYTES)))
    at = blocks = 0
    for stored, block in _blocks(view, pos):
        if len(room) - at < block_bytes or blocks == PIECE_BLOCKS:
            yield room[:at]
            at = blocks = 0
        at += _open_block(stored, block, room[at : at + block_bytes])
        blocks += 1
    yield room[:at]


def _prepare(data: Buffer, limit_bytes: int, format_0: bool, most_blocks: int = ANY_NUMBER) -> tuple[memoryview, int, int]:
    """Return (the frame with a right header checksum, the size of the header, an upper bound of the decompressed size)."""
    view = memoryview(data)
    if view[: len(HEADER)] == HEADER:  # nearly all frames of magic 1 and 2, whose header needs no parsing
        return view, len(HEADER), _most_bytes(view, len(HEADER), limit_bytes, most_blocks)
    header_bytes = _header_bytes(view)
    if format_0:
        expected = header_checksum(view[4 : header_bytes - 1])
        view = memoryview(b"".join((view[: header_bytes - 1], bytes((expected,)), view[header_bytes:])))
    _check_header(view, header_bytes)
    return view, header_bytes, _most_bytes(view, header_bytes, limit_bytes, most_blocks)


def _check_header(view: memoryview, header_bytes: int) -> None:
    expected = header_checksum(view[4 : header_bytes - 1])
    if view[header_bytes - 1] != expected:
        raise ValueError(f"the checksum of an LZ4 frame header is {view[header_bytes - 1]:02x} instead of {expected:02x}")


def _within(out: memoryview, size: int, limit_bytes: int) -> memoryview:
    if size > limit_bytes:
        raise OverLimit(f"it opens to {size} bytes, more than the limit of {limit_bytes}")
    return out[:size]


def _open_blocks(view: memoryview, pos: int, room: memoryview) -> Iterator[int]:
    """Decompress the blocks of a plain frame into `room`. After each block yield the number of bytes written so far.

    This is several times as fast as decompressing the whole frame in one call.
    """
    at, block_bytes = 0, _block_bytes(view)
    for stored, block in _blocks(view, pos):
        at += _open_block(stored, block, room[at : at + block_bytes])
        yield at


def _blocks(view: memoryview, pos: int) -> Iterator[tuple[int, memoryview]]:
    """Yield (nonzero if the block is stored uncompressed, the block) for each block of a plain frame. Raises ValueError."""
    block_bytes = _block_bytes(view)
    while size := int.from_bytes(view[pos : pos + 4], "little"):
        stored, size = size & STORED, size & ~STORED
        if size > block_bytes:
            raise ValueError(f"an LZ4 block at byte {pos} has {size} bytes, more than the {block_bytes} of its frame")
        if size > len(view) - pos - 4:
            raise ValueError(f"an LZ4 block at byte {pos} claims {size} bytes and {len(view) - pos - 4} are left")
        yield stored, view[pos + 4 : pos + 4 + size]
        pos += 4 + size
    if pos + 4 != len(view):
        raise ValueError("an LZ4 frame does not end with its end mark")


def _open_block(stored: int, block: memoryview, room: memoryview) -> int:
    if not stored:
        return int(cramjam.lz4.decompress_block_into(block, room, output_len=len(room)))
    room[: len(block)] = block
    return len(block)


def _block_bytes(view: memoryview) -> int:
    return 1 << (8 + 2 * (view[5] >> 4 & 7))


def _header_bytes(view: memoryview) -> int:
    if len(view) < 7 or bytes(view[:4]) != MAGIC:
        raise ValueError("it does not begin as an LZ4 frame")
    flags = view[4]
    if flags & 0xC0 != VERSION_01:
        raise ValueError(f"LZ4 frame version {flags >> 6} is unknown")
    if flags & DICTIONARY or not flags & INDEPENDENT:
        raise ValueError("an LZ4 frame with linked blocks or a dictionary is not allowed in Kafka's formats")
    size = 15 if flags & CONTENT_SIZE else 7
    if len(view) < size:
        raise ValueError("an LZ4 frame ends within its header")
    return size


def _most_bytes(view: memoryview, pos: int, limit_bytes: int, most_blocks: int) -> int:
    """Return an upper bound of the frame's decompressed size, by its block sizes. Raises ValueError.

    The bound exceeds `limit_bytes` by at most one block; above that `OverLimit` is raised.
    """
    block_bytes = _block_bytes(view)
    checksum = 4 if view[4] & BLOCK_CHECKSUM else 0
    total = 0
    while True:
        size = int.from_bytes(view[pos : pos + 4], "little")
        pos += 4
        if size == 0:
            break
        stored = size & STORED
        size &= ~STORED
        if size > len(view) - pos:
            raise ValueError(f"an LZ4 block at byte {pos} claims {size} bytes and {len(view) - pos} are left")
        total += size if stored else min(block_bytes, size * MOST_EXPANSION)
        most_blocks -= 1
        if most_blocks < 0:
            raise OverLimit("it has more blocks than can be opened at once")
        if total > limit_bytes + block_bytes:
            raise OverLimit(f"it opens to more than the limit of {limit_bytes} bytes")
        pos += size + checksum
    return total


def header_checksum(data: Buffer) -> int:
    """Return the second byte of XXH32 (seed 0) over fewer than 16 bytes, the most that a frame header has."""
    hashed = 374761393 + len(data)
    whole = len(data) & ~3
    for pos in range(0, whole, 4):
        hashed = hashed + int.from_bytes(data[pos : pos + 4], "little") * 3266489917 & _MASK
        hashed = _rotate(hashed, 17) * 668265263 & _MASK
    for byte in data[whole:]:
        hashed = _rotate(hashed + byte * 374761393 & _MASK, 11) * 2654435761 & _MASK
    hashed = (hashed ^ hashed >> 15) * 2246822519 & _MASK
    hashed = (hashed ^ hashed >> 13) * 3266489917 & _MASK
    return (hashed ^ hashed >> 16) >> 8 & 0xFF


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
