"""LZ4 frames as Kafka wants them: independent blocks of at most 64 KB, no content size, a header checksum.

Message format 0 carries a checksum computed over the wrong bytes (KAFKA-3160): written so there, ignored when read there.
Knows the frame. May not know what the bytes are.
"""

from __future__ import annotations

from typing import Final

import cramjam

from ottla.ports import Buffer
from ottla.records.limits import OverLimit

MAGIC: Final = b"\x04\x22\x4d\x18"
BLOCK_BYTES: Final = 64 * 1024
STORED: Final = 0x80000000
HEADER: Final = MAGIC + b"\x60\x40\x82"
"""Version 01, independent blocks, blocks of 64 KB at most, and the checksum of these two bytes."""

HEADER_FORMAT_0: Final = MAGIC + b"\x60\x40\x1a"
"""The same with the checksum that also covers the magic, as message format 0 has it."""

MOST_EXPANSION: Final = 255
BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM, DICTIONARY, INDEPENDENT, VERSION_01 = 0x10, 0x08, 0x04, 0x01, 0x20, 0x40
PLAIN: Final = VERSION_01 | INDEPENDENT
BLOCK_SIZES: Final = (0x40, 0x50, 0x60, 0x70)
"""What the byte after the flags may say: blocks of at most 64 KB, 256 KB, 1 MB, 4 MB."""

_MASK: Final = 0xFFFFFFFF


def compress(data: Buffer, *, format_0: bool = False) -> bytes:
    view = memoryview(data)
    parts: list[bytes | memoryview] = [HEADER_FORMAT_0 if format_0 else HEADER]
    for start in range(0, len(view), BLOCK_BYTES):
        chunk = view[start : start + BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(chunk, store_size=False))
        if len(block) < len(chunk):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(chunk) | STORED).to_bytes(4, "little"), chunk)
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)


def decompress(data: Buffer, limit_bytes: int, *, format_0: bool = False) -> memoryview:
    """Raises ValueError for bytes that are not one whole frame, or that hold more than `limit_bytes`."""
    view = memoryview(data)
    header_bytes = _header_bytes(view)
    expected = header_checksum(view[4 : header_bytes - 1])
    if view[header_bytes - 1] != expected:
        if not format_0:
            raise ValueError(f"the checksum of an LZ4 frame header is {view[header_bytes - 1]:02x} instead of {expected:02x}")
        view = memoryview(b"".join((view[: header_bytes - 1], bytes((expected,)), view[header_bytes:])))
    out = bytearray(_most_bytes(view, header_bytes, limit_bytes))
    if view[4] == PLAIN and view[5] in BLOCK_SIZES:
        size = _open_blocks(view, header_bytes, out)
    else:
        size = cramjam.lz4.decompress_into(view, out)
    if size > limit_bytes:
        raise OverLimit(f"it opens to {size} bytes, more than the limit of {limit_bytes}")
    return memoryview(out)[:size]


def _open_blocks(view: memoryview, pos: int, out: bytearray) -> int:
    """Open the blocks of a frame without checksums into `out`, several times faster than whole frames are; bytes opened."""
    room, at, block_bytes = memoryview(out), 0, 1 << (8 + 2 * (view[5] >> 4))
    while size := int.from_bytes(view[pos : pos + 4], "little"):
        stored, size = size & STORED, size & ~STORED
        block = view[pos + 4 : pos + 4 + size]
        if size > block_bytes:
            raise ValueError(f"an LZ4 block at byte {pos} has {size} bytes, more than the {block_bytes} of its frame")
        if stored:
            room[at : at + size] = block
            at += size
        else:
            most = min(block_bytes, len(out) - at)
            at += cramjam.lz4.decompress_block_into(block, room[at : at + most], output_len=most)
        pos += 4 + size
    if pos + 4 != len(view):
        raise ValueError("an LZ4 frame does not end with its end mark")
    return at


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


def _most_bytes(view: memoryview, pos: int, limit_bytes: int) -> int:
    """An upper bound of what the frame opens to, from its block sizes: never more than `limit_bytes` and one block."""
    block_bytes = 1 << (8 + 2 * (view[5] >> 4 & 7))
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
        if total > limit_bytes + block_bytes:
            raise OverLimit(f"it opens to more than the limit of {limit_bytes} bytes")
        pos += size + checksum
    return total


def header_checksum(data: Buffer) -> int:
    """The second byte of XXH32 (seed 0) over fewer than 16 bytes: all that a frame header has."""
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
