"""What was fetched from a broker of Kafka 0.7 as one batch, whose offsets are the bytes where the messages stand in the log.

So whoever reads batches reads these. Messages that are compressed together have one place, and all of them its offset; the batch
ends where the last whole message ends. Knows nothing of requests.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Final

from ottla.ports import Buffer
from ottla.records import codecs
from ottla.records.batch import (
    HEADER_BYTES,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
)
from ottla.records.build import seal
from ottla.records.codecs import CodecFailed
from ottla.records.columns import Columns, Run
from ottla.records.convert import up_convert
from ottla.records.kafka07 import messages, whole_bytes
from ottla.records.legacy import BadMessage

NO_TIME: Final = -1
"""The timestamp of a record whose format has none."""


def as_batch(view: Buffer, position: int, *, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> bytearray:
    """The whole messages in `view`, which stand at `position`, as a batch; empty if there is none.

    What stands before a broken message is returned without it. Raises `BadMessage` or `CodecFailed` for a first one that is broken,
    or that opens to more than `limit_bytes`.
    """
    payloads: list[bytes] = []
    offsets: list[int] = []
    end = position
    try:
        for next_offset, payload, _ in messages(view, position, limit_bytes=limit_bytes):
            payloads.append(payload)
            offsets.append(end)
            end = next_offset
        end = position + whole_bytes(view)
    except (BadMessage, CodecFailed):
        if not payloads:
            raise
    if end == position:
        return bytearray()
    return up_convert(_columns(payloads, offsets, end), keep_offsets=True) if payloads else _nothing(position, end)


def _columns(payloads: list[bytes], offsets: list[int], end: int) -> Columns:
    count = len(payloads)
    sizes = [len(payload) for payload in payloads]
    none, null = [0] * count, [-1] * count
    spans = array("i", [*none, *null, *accumulate(sizes[:-1], initial=0), *sizes, *none, *none])
    data = memoryview(b"".join(payloads))
    run = Run(0, count, data, _header(offsets[0], end, count))
    times = memoryview(array("q", [NO_TIME]) * count)
    return Columns(memoryview(array("q", offsets)), times, memoryview(spans), (run,), 0, count, end)


def _nothing(position: int, end: int) -> bytearray:
    """A batch without records: sets of nothing were compressed."""
    return seal(_header(position, end, 0), bytearray(HEADER_BYTES))


def _header(position: int, end: int, count: int) -> BatchHeader:
    return BatchHeader(
        base_offset=position,
        batch_length=0,
        leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codecs.NONE,
        last_offset_delta=end - 1 - position,
        base_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
