"""Recompression of a batch from its producer's codec to the topic's (`compression.type`), without opening its records.

The records' bytes are unchanged. Offsets, timestamps, record headers and the producer's fields of the batch header are kept.
"""

from __future__ import annotations

import zlib
from typing import Final

from ottla.ports import Buffer
from ottla.records.batches.builder import seal
from ottla.records.batches.header import CODEC_MASK, HEADER, HEADER_BYTES, BatchHeader
from ottla.records.compression import codecs, lz4, snappy
from ottla.records.compression.codecs import GZIP, LEVELS, LZ4, NONE, SNAPPY
from ottla.records.compression.limits import PAUSE_BYTES, OverLimit

ENDS: Final = {SNAPPY: (len(snappy.HEADER), 0), LZ4: (len(lz4.HEADER), len(lz4.END_MARK))}
"""The bytes before and after the blocks of a stream, by codec. Without these bytes, streams can be joined into one."""


def recompress(
    view: Buffer,
    header: BatchHeader,
    codec: int,
    level: int | None = None,
    *,
    limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES,
) -> tuple[bytearray, BatchHeader]:
    """Return the batch that fills `view`, compressed with `codec`, and its new header.

    Raises `CodecFailed` if the batch cannot be decompressed.
    """
    body = codecs.decompress(header.codec, memoryview(view)[HEADER_BYTES:], limit_bytes=limit_bytes)
    out = bytearray(HEADER_BYTES)
    out += body
    seal(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), out, level)
    return out, BatchHeader._make(HEADER.unpack_from(out))


HIGHEST_LEVEL: Final = 16
"""The highest zstd level for batches above `PAUSE_BYTES`, because higher levels take hundreds of MB instead of 36 MB."""


class Recompression:
    """The recompression of one batch, in steps with pauses between them. The new batch takes at most `most_bytes` of memory.

    For zstd it keeps all decompressed pieces and compresses them at the end, as one frame that every client can read.
    """

    def __init__(self, codec: int, level: int | None, most_bytes: int) -> None:
        self._codec = codec
        self._level = level
        self._most_bytes = most_bytes
        self._out = bytearray(HEADER_BYTES)
        self._gzip = zlib.compressobj(LEVELS[GZIP] if level is None else level, wbits=31) if codec == GZIP else None
        self._kept = bytearray() if codec == codecs.ZSTD else None
        if codec in ENDS:
            self._out += codecs.compress(codec, b"")[: ENDS[codec][0]]

    @property
    def keeps_all(self) -> bool:
        """Return whether all pieces are kept until the end, as zstd requires."""
        return self._kept is not None

    def add(self, piece: memoryview) -> None:
        """Add the next decompressed piece of the records. Raises `OverLimit` if the new batch grows too large."""
        if self._gzip is not None:
            self._out += self._gzip.compress(piece)
        elif self._kept is not None:
            self._kept += piece
        elif self._codec == NONE:
            self._out += piece
        else:
            head, tail = ENDS[self._codec]
            packed = codecs.compress(self._codec, piece, self._level)
            self._out += memoryview(packed)[head : len(packed) - tail]
        if len(self._out) > self._most_bytes:
            raise OverLimit(f"the batch takes more than {self._most_bytes} bytes in the topic's codec")

    def finish(self, header: BatchHeader) -> tuple[bytearray, BatchHeader]:
        """Return the new batch and its header. Call this after the last piece. `header` is the header of the old batch."""
        if self._gzip is not None:
            self._out += self._gzip.flush()
        elif self._kept is not None:
            level = self._level if len(self._kept) <= PAUSE_BYTES else min(self._level or LEVELS[codecs.ZSTD], HIGHEST_LEVEL)
            self._out += codecs.compress(codecs.ZSTD, self._kept, level)
        elif self._codec == LZ4:
            self._out += lz4.END_MARK
        seal(header._replace(attributes=header.attributes & ~CODEC_MASK | self._codec), self._out, packed=True)
        return self._out, BatchHeader._make(HEADER.unpack_from(self._out))
