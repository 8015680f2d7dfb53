"""Reading an internal topic back from its log, at start-up. A record that can't be read is named and passed over."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ottla.broker.partitions import Partition
from ottla.coord.records import Stored, Unreadable, decode_record
from ottla.records.batch import BadBatch, BatchHeader, batches
from ottla.records.codecs import CodecFailed
from ottla.records.columns import Record, open_batches

log = logging.getLogger("ottla.broker")

CHUNK_BYTES = 1 << 20


def stored_records(partition: Partition) -> Iterator[Stored]:
    """Every coordinator record of a partition, in order. Raises `StorageFailed`."""
    offset, end = partition.log.log_start_offset, partition.log.log_end_offset
    while offset < end:
        piece = partition.log.read(offset, CHUNK_BYTES, until_offset=end, min_one_batch=True)
        if piece is None or not len(piece):
            return
        view = memoryview(piece.read())
        for record in _opened(partition, view, offset):
            decoded = _decoded(partition, record.offset, record.key, record.value)
            if decoded is not None:
                yield decoded
        last = max((header.next_offset for _, header in batches(view)), default=offset)
        if last <= offset:
            return
        offset = last


def _opened(partition: Partition, view: memoryview, offset: int) -> list[Record]:
    """The records of these batches from `offset` on; where a batch can't be opened, those of the others."""
    try:
        return open_batches(view, from_offset=offset).records()
    except (BadBatch, CodecFailed):
        return [record for pos, header in batches(view) for record in _opened_alone(partition, view, pos, header, offset)]


def _opened_alone(partition: Partition, view: memoryview, pos: int, header: BatchHeader, offset: int) -> list[Record]:
    try:
        return open_batches(view[pos : pos + header.size], from_offset=offset).records()
    except (BadBatch, CodecFailed) as failure:
        log.error("%s: the batch at offset %d is passed over: %s", partition, header.base_offset, failure)
        return []


def _decoded(partition: Partition, offset: int, key: bytes | None, value: bytes | None) -> Stored | None:
    try:
        return decode_record(key or b"", value)
    except Unreadable as unreadable:
        log.error("%s: the record at offset %d is passed over: %s", partition, offset, unreadable)
        return None
