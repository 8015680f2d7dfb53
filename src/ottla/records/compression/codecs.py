"""The five codecs of record batches, by Kafka's numbers, each with a limit on decompressed bytes against decompression bombs.

It handles the framing of each codec in Kafka (`snappy` and `lz4` have modules of their own). It must not depend on batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam

from ottla.ports import Buffer, Pauses
from ottla.records.compression import lz4, snappy
from ottla.records.compression.limits import PAUSE_BYTES, OverLimit

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS: Final = {GZIP: 6, ZSTD: 3}
"""The default levels: zlib's and zstd's own, which are Kafka's."""

DEFAULT_LIMIT_BYTES: Final = 256 * 1024 * 1024
SMALLEST_BYTES: Final = 4096
FIRST_EXPANSION: Final = 6
NEXT_EXPANSION: Final = 4
SMALL_EXPANSION: Final = 8
MOST_ROOM_BYTES: Final = 1 << 20
MOST_EXPANSION: Final = 1032
"""The most bytes to which one byte of gzip decompresses. For snappy and lz4 the number is smaller."""

GZIP_PAUSE_BYTES: Final = 512 * 1024
GZIP_TAKEN_BYTES: Final = 128 * 1024
TAKEN_BYTES: Final = 512 * 1024
"""The bytes compressed between two pauses: whole blocks of snappy and lz4, so that the frames can be joined."""


class CodecFailed(ValueError):
    """Raised if a codec cannot decompress the bytes, or if they decompress to more than the limit (then `over_limit` is set)."""

    def __init__(self, codec: int, sentence: str, *, over_limit: bool = False) -> None:
        super().__init__(f"{NAMES[codec] if 0 <= codec < len(NAMES) else codec}: {sentence}")
        self.codec = codec
        self.over_limit = over_limit


def compress(codec: int, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress `data` in the framing of batches of `magic`. `level`: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22.

    snappy has no levels, and ignores `level`.
    """
    if codec == NONE:
        return bytes(data)
    if codec == SNAPPY:
        return snappy.compress(data)
    if codec == LZ4:
        return lz4.compress(data, level, format_0=magic == 0)
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data, level=LEVELS[GZIP] if level is None else level))
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=LEVELS[ZSTD] if level is None else level))
    raise CodecFailed(codec, "there is no codec of this number; use one of 0 to 4.")


def compress_slowly(codec: int, data: Buffer, level: int | None = None, *, magic: int = 2) -> Pauses[bytes]:
    """Return the result of `compress`, with pauses if `data` is large. There are no pauses for zstd."""
    view = memoryview(data)
    if codec not in (GZIP, SNAPPY, LZ4) or len(view) <= PAUSE_BYTES:
        return compress(codec, data, level, magic=magic)
    parts: list[bytes | memoryview] = []
    if codec == GZIP:
        member = zlib.compressobj(LEVELS[GZIP] if level is None else level, wbits=31)
        for start in range(0, len(view), GZIP_TAKEN_BYTES):
            parts.append(member.compress(view[start : start + GZIP_TAKEN_BYTES]))
            yield
        return b"".join((*parts, member.flush()))
    head, tail = (len(snappy.HEADER), 0) if codec == SNAPPY else (len(lz4.HEADER), len(lz4.END_MARK))
    packed = b""
    for start in range(0, len(view), TAKEN_BYTES):
        packed = compress(codec, view[start : start + TAKEN_BYTES], level, magic=magic)
        parts.append(memoryview(packed)[head : len(packed) - tail])
        yield
    return b"".join((packed[:head], *parts, packed[len(packed) - tail :]))


def decompress(
    codec: int, data: Buffer, *, limit_bytes: int = DEFAULT_LIMIT_BYTES, most_blocks: int = lz4.ANY_NUMBER, magic: int = 2
) -> Buffer:
    """Decompress `data` to at most `limit_bytes`, whatever size it claims, and never use more memory than `limit_bytes`.

    Raises `CodecFailed`. More than `most_blocks` blocks of lz4 or snappy also count as over the limit, because even a small block
    takes time.
    """
    if codec == NONE:
        return data
    try:
        if codec == SNAPPY:
            return snappy.decompress(data, limit_bytes, most_blocks=most_blocks)
        if codec == LZ4:
            return lz4.decompress(data, limit_bytes, format_0=magic == 0, most_blocks=most_blocks)
        if codec == GZIP:
            return _grow(cramjam.gzip.decompress_into, data, _gzip_hint(data), limit_bytes)
        if codec == ZSTD:
            return _grow(cramjam.zstd.decompress_into, data, _zstd_hint(data), limit_bytes)
    except (ValueError, cramjam.DecompressionError) as failure:
        raise CodecFailed(codec, f"{failure}.", over_limit=isinstance(failure, OverLimit)) from None
    raise CodecFailed(codec, "there is no codec of this number; use one of 0 to 4.")


def decompress_small(codec: int, data: memoryview, room: memoryview) -> int:
    """Decompress `data` of magic 2 into `room`; return its size, or -1 if that fails for any reason."""
    try:
        if codec == LZ4:
            return lz4.decompress_small(data, room)
        if codec == GZIP:
            return int(cramjam.gzip.decompress_into(data, room))
        if codec == SNAPPY:
            return snappy.decompress_small(data, room)
    except (ValueError, cramjam.DecompressionError):
        pass
    return -1


class Opener:
    """A decompressor for many batches. Small batches in lz4 or snappy share a buffer.

    lz4 frames do not state their decompressed size, so a buffer for each batch would have the largest possible size, many times
    the needed size.
    """

    __slots__ = ("_at", "_room")

    def __init__(self) -> None:
        self._room = memoryview(b"")
        self._at = 0

    def open(self, codec: int, data: memoryview, limit_bytes: int) -> memoryview:
        """Decompress `data`. Raises `CodecFailed`."""
        if codec in (LZ4, SNAPPY) and len(data) <= lz4.BLOCK_BYTES:
            size = self._open_small(codec, data)
            if 0 <= size <= limit_bytes:
                self._at += size
                return self._room[self._at - size : self._at]
        return memoryview(decompress(codec, data, limit_bytes=limit_bytes))

    def _open_small(self, codec: int, data: memoryview) -> int:
        wanted = min(len(data) * SMALL_EXPANSION, lz4.BLOCK_BYTES)
        if len(self._room) - self._at < wanted:
            self._room = memoryview(bytearray(max(wanted, min(2 * len(self._room), MOST_ROOM_BYTES))))
            self._at = 0
        return decompress_small(codec, data, self._room[self._at : self._at + wanted])


def decompress_slowly(codec: int, data: Buffer, *, limit_bytes: int = DEFAULT_LIMIT_BYTES, magic: int = 2) -> Pauses[Buffer]:
    """Return the result of `decompress`, with a pause about every millisecond. There are no pauses for zstd."""
    try:
        if codec == SNAPPY:
            return (yield from snappy.decompress_slowly(data, limit_bytes))
        if codec == LZ4:
            return (yield from lz4.decompress_slowly(data, limit_bytes, format_0=magic == 0))
        if codec == GZIP:
            return (yield from _gunzip_slowly(data, limit_bytes))
    except (ValueError, zlib.error, cramjam.DecompressionError) as failure:
        raise CodecFailed(codec, f"{failure}.", over_limit=isinstance(failure, OverLimit)) from None
    return decompress(codec, data, limit_bytes=limit_bytes, magic=magic)


def _gunzip_slowly(data: Buffer, limit_bytes: int) -> Pauses[bytearray]:
    """Decompress all members of a gzip stream, one after another."""
    out = bytearray()
    rest: Buffer = data
    while len(rest):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            opened = member.decompress(rest, GZIP_PAUSE_BYTES)
            out += opened
            if len(out) > limit_bytes:
                raise OverLimit(f"it opens to more than the limit of {limit_bytes} bytes")
            if not opened and not member.eof:
                raise ValueError("the stream ends too early")
            rest = member.unused_data if member.eof else member.unconsumed_tail
            if not member.eof:
                yield
    if not len(data):
        raise ValueError("there is no stream")
    return out


def _grow(into: Callable[[Any, Any], int], data: Buffer, hint: int, limit_bytes: int) -> memoryview:
    """Decompress into a buffer of the size `hint`. If it is too small, retry with larger buffers, up to the limit.

    The library distinguishes a truncated stream, which is not retried, from a too small buffer.
    """
    room = min(hint or max(len(data) * FIRST_EXPANSION, SMALLEST_BYTES), limit_bytes)
    while True:
        out = bytearray(room)
        try:
            return memoryview(out)[: into(data, out)]
        except cramjam.DecompressionError as failure:
            if "whole buffer" not in str(failure):
                raise
        if room >= limit_bytes:
            raise OverLimit(f"it opens to more than the limit of {limit_bytes} bytes")
        del out  # free this buffer before the next one is allocated
        room = min(room * NEXT_EXPANSION, limit_bytes)


def _gzip_hint(data: Buffer) -> int:
    """Return the size that the last member of a gzip stream claims, or 0 if `data` cannot decompress to that size."""
    claimed = int.from_bytes(data[-4:], "little")
    return claimed if claimed <= len(data) * MOST_EXPANSION else 0


def _zstd_hint(data: Buffer) -> int:
    """Return the content size in a zstd frame header (RFC 8878, 3.1.1.1), or 0 if it is missing or impossible."""
    if len(data) < 6:
        return 0
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    claimed = int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)
    return claimed if claimed <= len(data) * MOST_EXPANSION else 0
