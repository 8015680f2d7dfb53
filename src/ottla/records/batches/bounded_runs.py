"""The division of batches into runs that are small enough to be decompressed together.

The codec's frames state the decompressed size of a batch, so nothing is decompressed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.batches.header import HEADER_BYTES, batches
from ottla.records.compression.decompression import opened_bytes


def openable(records: memoryview, most_bytes: int) -> Iterator[memoryview]:
    """Yield runs of whole batches that need at most `most_bytes` of new memory, or one batch alone that needs more.

    Uncompressed batches need no new memory, because they are views of `records`. Raises `BadBatch` for bytes that are not batches.
    """
    first = end = opened = 0
    for position, header in batches(records):
        if header.codec:
            size = opened_bytes(header.codec, records[position + HEADER_BYTES : position + header.size], most_bytes)
            if opened and opened + size > most_bytes:
                yield records[first:position]
                first, opened = position, 0
            opened += size
        end = position + header.size
    if first < end:
        yield records[first:end]
