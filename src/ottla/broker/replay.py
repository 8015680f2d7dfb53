"""Reading an internal topic back from its log, at start-up. A record that can't be read is named and passed over."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ottla.broker.partitions import Partition
from ottla.coord.records import Stored, Unreadable, decode_record
from ottla.records.batch import batches
from ottla.records.columns import open_batches

log = logging.getLogger("ottla.broker")

CHUNK_BYTES = 1 << 20


def stored_records(partition: Partition) -> Iterator[Stored]:
    """Every coordinator record of a partition, in order. Raises `StorageFailed`."""
    offset, end = partition.log.log_start_offset, partition.log.log_end_offset
    while offset < end:
        piece = partition.log.read(offset, CHUNK_BYTES, until_offset=end, min_one_batch=True)
        if piece is None or not len(piece):
            return
        view = piece.read()
        for record in open_batches(view, from_offset=offset).records():
            decoded = _decoded(partition, record.offset, record.key, record.value)
            if decoded is not None:
                yield decoded
        # Compaction leaves gaps, so the next offset is the batches' affair, not the records'.
        offset = max(header.next_offset for _, header in batches(view))


def _decoded(partition: Partition, offset: int, key: bytes | None, value: bytes | None) -> Stored | None:
    try:
        return decode_record(key or b"", value)
    except Unreadable as unreadable:
        log.error("%s: the record at offset %d is passed over: %s", partition, offset, unreadable)
        return None
