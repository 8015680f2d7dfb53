"""Fetched or stored batches cut into runs that open to little enough memory to be opened together.

What a batch opens to is read from its codec's frames; nothing is opened here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.batch import HEADER_BYTES, batches
from ottla.records.opening import opened_bytes


def openable(records: memoryview, most_bytes: int) -> Iterator[memoryview]:
    """Runs of whole batches that open to `most_bytes` of new memory at most, or of one batch alone that opens to more.

    Batches without a codec are views of `records` and cost nothing. Raises `BadBatch` where the bytes are not batches.
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
