"""Conversions of records between batches and the message sets of brokers before Kafka 0.11.

`as_batches` converts fetched records, and `message_set` converts the records of requests to older brokers.
"""

from __future__ import annotations

from typing import Final

from ottla.client.errors import NotSupported
from ottla.ports import Buffer
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BadBatch
from ottla.records.compression.codecs import CodecFailed
from ottla.records.kernel import HEADERS_SIZE
from ottla.records.message_sets.conversion import down_convert, up_convert
from ottla.records.message_sets.legacy import open_message_set

NO_HEADERS_BYTES: Final = 1
"""The size of the header count in a record without headers, in bytes."""
ENTRY_BYTES, MAGIC_AT, SIZE_AT, OLDEST_BATCH = 12, 16, 8, 2


def message_set(batch: Buffer, magic: int) -> bytes:
    """Convert batches to a message set of format `magic` (0 or 1). Raises `NotSupported` for contents that this format lacks."""
    if max(open_batches(batch).span_column(HEADERS_SIZE), default=0) > NO_HEADERS_BYTES:
        raise NotSupported("Record headers need Kafka 0.11 or newer: leave them out, or use a newer broker.")
    try:
        return b"".join(down_convert(batch, magic))
    except BadBatch as error:
        raise NotSupported(f"The records cannot be converted for this old broker: {error}") from error


def as_batches(records: memoryview) -> memoryview:
    """Return fetched records as whole batches. Messages of older formats keep their offsets and timestamps.

    Raises `BadBatch` for messages that cannot be read.
    """
    end = _end_of_messages(records)
    if not end:
        return records
    try:
        columns = open_message_set(records[:end])
    except CodecFailed as error:
        raise BadBatch(0, f"the compressed messages cannot be opened: {error}") from error
    if not len(columns):
        return records[end:]
    return memoryview(bytes(up_convert(columns, keep_offsets=True, codec=0)) + bytes(records[end:]))


def _end_of_messages(records: memoryview) -> int:
    """Return the position of the first batch after messages of older formats. An incomplete last message counts as a message."""
    at = 0
    while at + MAGIC_AT < len(records) and records[at + MAGIC_AT] < OLDEST_BATCH:
        at += ENTRY_BYTES + int.from_bytes(records[at + SIZE_AT : at + ENTRY_BYTES], "big")
    return min(at, len(records))
