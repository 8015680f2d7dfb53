"""Decompression of records a piece at a time, in an amount of memory that is known beforehand, for callers that keep no piece.

gzip, lz4 and snappy are decompressed block by block, in a buffer that is reused. zstd is decompressed at once, because its library
requires that, and a frame's window can be as large as the frame. The module parses the codecs' frames. It must not depend on
batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import cramjam

from ottla.ports import Buffer
from ottla.records import kernel
from ottla.records.compression import codecs, lz4, snappy
from ottla.records.compression.codecs import GZIP, GZIP_TAKEN_BYTES, LZ4, NONE, SNAPPY, ZSTD, CodecFailed
from ottla.records.compression.limits import PAUSE_BYTES, OverLimit, room_slowly
from ottla.records.pauses import replace_pauses

AT_ONCE_BYTES: Final = PAUSE_BYTES
"""The most bytes that may be decompressed without a pause."""

AT_ONCE_BLOCKS: Final = 256
"""The most blocks of lz4 or snappy that may be decompressed without a pause."""

SMALL_BYTES: Final = 4096
"""The compressed size up to which data, except in zstd, decompresses to at most a few times `AT_ONCE_BYTES`."""

FREE_WINDOW_BYTES: Final = 8 << 20
"""The zstd window size, in bytes, up to which the window does not count as memory."""

MOST_WINDOW_BYTES: Final = 1 << 27
"""The largest zstd window, in bytes: the default limit of zstd's library, in Java too."""

ZSTD_MAGIC: Final = 0xFD2FB528
SKIPPABLE_MAGIC: Final = 0x184D2A50
ZSTD_BLOCK_BYTES: Final = 128 << 10
CHECKSUM_BYTES: Final = 4


class ZstdFrame(NamedTuple):
    """The header of a zstd frame: position of its blocks, decompressed size (-1: not stated), window size (RFC 8878)."""

    blocks_at: int
    content_bytes: int
    window_bytes: int
    has_checksum: bool


class ZstdSizes(NamedTuple):
    """The decompressed size of all zstd frames together, in bytes, and their largest window size.

    `is_exact`: every frame states its size.
    """

    opened_bytes: int
    window_bytes: int
    is_exact: bool


def at_once(codec: int, data: memoryview, most_bytes: int) -> memoryview | None:
    """Decompress `data` without pauses. Return None if that can take long: above `most_bytes`, or for many blocks.

    Raises `CodecFailed`.
    """
    if codec == GZIP and int.from_bytes(data[-4:], "little") > most_bytes:
        return None
    if codec == ZSTD and _claimed_bytes(data) > most_bytes:
        return None
    try:
        return memoryview(codecs.decompress(codec, data, limit_bytes=most_bytes, most_blocks=AT_ONCE_BLOCKS))
    except CodecFailed as failure:
        if failure.over_limit:
            return None
        raise


def opened_bytes(codec: int, data: memoryview, limit_bytes: int) -> int:
    """Return the decompressed size that `data` states, or an upper bound of it.

    For malformed data, or a size above `limit_bytes`, return any number above the limit.
    """
    try:
        if codec == ZSTD:
            return _zstd_sizes(data, limit_bytes).opened_bytes
        if codec == SNAPPY:
            return snappy.opened_bytes(data)
        if codec == LZ4:
            return lz4.most_bytes(data, limit_bytes)
    except ValueError:
        return limit_bytes + 1
    return int.from_bytes(data[-4:], "little") if codec == GZIP else len(data)


def may_be_large(codec: int, data: memoryview) -> bool:
    """Return whether `data` can decompress to more than `AT_ONCE_BYTES`, as far as its size and headers show."""
    if codec == ZSTD:
        try:
            return _zstd_sizes(data, AT_ONCE_BYTES).opened_bytes >= AT_ONCE_BYTES
        except ValueError:
            return True
    return len(data) > SMALL_BYTES


class Unpacking:
    """The decompression of one batch's records in pieces. Call `measure` first, then `pieces`. Both raise `CodecFailed`."""

    def __init__(self, codec: int, data: Buffer, limit_bytes: int) -> None:
        self._codec = codec
        self._view = memoryview(data)
        self._limit_bytes = limit_bytes
        self._largest_bytes = 0
        self._zstd = ZstdSizes(0, 0, False)

    def measure(self) -> int:
        """Return the bytes of memory that `pieces` uses, including a zstd window as far as it exceeds 8 MB.

        Raises `CodecFailed`, with `over_limit` if the memory exceeds the limit.
        """
        try:
            room_bytes = self._compute_memory()
            if room_bytes > self._limit_bytes:
                raise OverLimit(f"it takes more than {self._limit_bytes} bytes of memory to open")
        except ValueError as failure:
            raise self._failure(failure) from None
        return room_bytes

    def pieces(self) -> Iterator[memoryview]:
        """Yield the decompressed data in pieces. A piece is valid until the next one is requested."""
        size = 0
        try:
            for piece in self._pieces():
                size += len(piece)
                if size > self._limit_bytes:
                    raise OverLimit(f"it opens to more than the limit of {self._limit_bytes} bytes")
                yield piece
        except (ValueError, zlib.error, cramjam.DecompressionError) as failure:
            raise self._failure(failure) from None

    def _failure(self, failure: Exception) -> CodecFailed:
        return CodecFailed(self._codec, f"{failure}.", over_limit=isinstance(failure, OverLimit))

    def _compute_memory(self) -> int:
        if self._codec == ZSTD:
            self._zstd = _zstd_sizes(self._view, self._limit_bytes)
            opened_bytes, window_bytes, _ = self._zstd
            return opened_bytes + max(0, min(opened_bytes, window_bytes) - FREE_WINDOW_BYTES)
        if self._codec == SNAPPY:
            self._largest_bytes = snappy.largest_bytes(self._view, self._limit_bytes)
        elif self._codec == LZ4 and not lz4.is_plain(self._view):
            self._largest_bytes = min(lz4.most_bytes(self._view, self._limit_bytes), self._limit_bytes)
        return min(max(self._largest_bytes, lz4.MOST_BLOCK_BYTES), self._limit_bytes)

    def _pieces(self) -> Iterator[memoryview]:
        if self._codec == GZIP:
            return _gunzip(self._view)
        if self._codec == SNAPPY:
            return snappy.pieces(self._view, self._largest_bytes)
        if self._codec == LZ4:
            return lz4.pieces(self._view) if lz4.is_plain(self._view) else _unplain_lz4(self._view, self._limit_bytes)
        if self._codec == ZSTD:
            return _zstd_opened(self._view, self._zstd, self._limit_bytes)
        if self._codec == NONE:
            return iter((self._view,))
        raise ValueError("there is no codec of this number; use one of 0 to 4")


def _gunzip(view: memoryview) -> Iterator[memoryview]:
    """Decompress all members of a gzip stream. The input is read in small parts, because zlib copies the unused rest of a part."""
    if not len(view):
        raise ValueError("there is no stream")
    at = 0
    while at < len(view):
        member = zlib.decompressobj(wbits=31)
        taken: Buffer = b""
        while not member.eof:
            if not len(taken):
                taken = view[at : at + GZIP_TAKEN_BYTES]
                at += len(taken)
            opened = member.decompress(taken, PAUSE_BYTES)
            if not len(taken) and not opened and not member.eof:
                raise ValueError("the stream ends too early")
            taken = member.unconsumed_tail
            yield memoryview(opened)
        at -= len(member.unused_data)


def _unplain_lz4(view: memoryview, limit_bytes: int) -> Iterator[memoryview]:
    """Decompress a frame with unusual flags, as one piece."""
    yield (yield from replace_pauses(lz4.decompress_slowly(view, limit_bytes), view[:0]))


def _zstd_opened(view: memoryview, sizes: ZstdSizes, limit_bytes: int) -> Iterator[memoryview]:
    """Decompress all frames as one piece.

    If all frames state their sizes, the library allocates the buffer, and memory is used only as far as it is written.
    """
    size = max(sizes.opened_bytes, 1)
    if sizes.is_exact:
        yield memoryview(cramjam.zstd.decompress(view, output_len=size))[: sizes.opened_bytes]
        return
    room = memoryview((yield from replace_pauses(room_slowly(size), view[:0])))
    try:
        yield room[: cramjam.zstd.decompress_into(view, room)]
    except cramjam.DecompressionError as failure:
        if size < limit_bytes or "whole buffer" not in str(failure):
            raise
        raise OverLimit(f"it opens to more than the limit of {limit_bytes} bytes") from None


def _zstd_sizes(view: memoryview, limit_bytes: int) -> ZstdSizes:
    """Return the sizes of all frames, at most `limit_bytes` together. Raises `OverLimit` if they state more, and ValueError."""
    opened_bytes = window_bytes = pos = 0
    is_exact = True
    if not len(view):
        raise ValueError("there is no zstd frame")
    while pos < len(view):
        if int.from_bytes(view[pos : pos + 4], "little") & ~0xF == SKIPPABLE_MAGIC:
            pos += 8 + int.from_bytes(view[pos + 4 : pos + 8], "little")
            continue
        frame = _zstd_frame(view, pos)
        most_bytes, pos = kernel.zstd_blocks(view, frame.blocks_at, min(frame.window_bytes, ZSTD_BLOCK_BYTES))
        if pos < 0:
            raise ValueError("a zstd frame ends too early")
        pos += CHECKSUM_BYTES if frame.has_checksum else 0
        if frame.content_bytes > limit_bytes - opened_bytes:
            raise OverLimit(f"it opens to {opened_bytes + frame.content_bytes} bytes, more than the limit of {limit_bytes}")
        if frame.window_bytes > MOST_WINDOW_BYTES:
            raise ValueError(f"a zstd frame has a window of {frame.window_bytes} bytes, more than the {MOST_WINDOW_BYTES} allowed")
        is_exact &= frame.content_bytes >= 0
        opened_bytes = min(opened_bytes + (most_bytes if frame.content_bytes < 0 else frame.content_bytes), limit_bytes)
        window_bytes = max(window_bytes, frame.window_bytes)
    return ZstdSizes(opened_bytes, window_bytes, is_exact)


def _zstd_frame(view: memoryview, pos: int) -> ZstdFrame:
    """Return the header of the frame at `pos`. Raises ValueError."""
    if int.from_bytes(view[pos : pos + 4], "little") != ZSTD_MAGIC or len(view) - pos < 6:
        raise ValueError("it does not begin as a zstd frame")
    descriptor, window = view[pos + 4], view[pos + 5]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    start = pos + 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    content_bytes = int.from_bytes(view[start : start + width], "little") + (256 if width == 2 else 0) if width else -1
    base = 1 << 10 + (window >> 3)
    window_bytes = content_bytes if single_segment else base + (base >> 3) * (window & 7)
    if start + width > len(view):
        raise ValueError("a zstd frame ends within its header")
    return ZstdFrame(start + width, content_bytes, window_bytes, bool(descriptor & 4))


def _claimed_bytes(data: memoryview) -> int:
    """Return the decompressed size that the first frame states; 0 if it states none."""
    try:
        return max(0, _zstd_frame(data, 0).content_bytes)
    except ValueError:
        return 0
