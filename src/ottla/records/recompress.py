"""A batch in another codec than its producer chose (compression.type of a topic). Knows the header and the codecs, no record.

The records' bytes stay what they are: offsets, timestamps, headers and all that the header says of the producer are kept.
"""

from __future__ import annotations

from ottla.ports import Buffer
from ottla.records import codecs
from ottla.records.batch import CODEC_MASK, HEADER, HEADER_BYTES, BatchHeader
from ottla.records.build import seal


def recompress(
    view: Buffer,
    header: BatchHeader,
    codec: int,
    level: int | None = None,
    *,
    limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES,
) -> tuple[bytearray, BatchHeader]:
    """The one batch that fills `view`, in `codec`, with its new header. Raises `CodecFailed` where it cannot be opened."""
    body = codecs.decompress(header.codec, memoryview(view)[HEADER_BYTES:], limit_bytes=limit_bytes)
    out = bytearray(HEADER_BYTES)
    out += body
    seal(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), out, level)
    return out, BatchHeader._make(HEADER.unpack_from(out))
