"""What logs hold, as the message sets of fetches before version 4: read, opened and written anew a piece at a time.

Knows partitions and `ottla.records`; memory is that of the reply and of one batch.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Steps
from ottla.broker.serving.later import Reply
from ottla.log.damaged import Damaged
from ottla.ports import FileSlice, StorageFailed
from ottla.records.batch import BadBatch
from ottla.records.codecs import CodecFailed
from ottla.records.convert import DownConversion
from ottla.records.legacy import BadMessage
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.errors import CORRUPT_MESSAGE, NONE, NOT_LEADER_OR_FOLLOWER

MAGIC: Final = (0, 0, 1, 1)
"""The message format that each fetch version carries, until 4 brought that of the log."""

WHOLE_MESSAGE_FROM: Final = 3
READ_BYTES: Final = 1 << 20
FetchPartition = FetchRequest.FetchPartition
PartitionData = FetchResponse.PartitionData


def down_converted(
    partitions: Partitions, body: FetchRequest, version: int, response: FetchResponse, fetch_max_bytes: int
) -> Steps[Reply]:
    """The response with message sets instead of slices of logs, each within its partition's `partition_max_bytes`.

    Up to version 2 bytes are cut off there, within the first message even, and a client that gets no whole one asks for more. From
    3 on the first message of the response is whole whatever its size, and all partitions share `max_bytes` (KIP-74).
    """
    left = min(body.max_bytes, fetch_max_bytes)
    size = 0
    for topic, answered in zip(body.topics, response.responses, strict=True):
        for part, data in zip(topic.partitions, answered.partitions, strict=True):
            partition = partitions.get(topic.topic, part.partition)
            if data.error_code or not data.records or partition is None:
                continue
            max_bytes = min(part.partition_max_bytes, left - size)
            whole = version >= WHOLE_MESSAGE_FROM and not size
            data.records = b""
            if max_bytes > 0 or whole:
                yield from _fill(partition, part.fetch_offset, MAGIC[version], max_bytes, whole, data)
                size += len(data.records)
    return response


def _fill(partition: Partition, offset: int, magic: int, max_bytes: int, whole: bool, data: PartitionData) -> Steps[None]:
    """Convert batch after batch until there is enough; what stands in the way of the first is the partition's error."""
    out = bytearray()
    error_code = NONE
    try:
        yield from _convert(partition, offset, data.high_watermark, magic, max(1, max_bytes), out)
    except BadMessage as bad:
        error_code = bad.error_code
    except (BadBatch, CodecFailed, Damaged):
        error_code = CORRUPT_MESSAGE
    except StorageFailed:
        error_code = NOT_LEADER_OR_FOLLOWER
    if error_code and not out:
        data.error_code, data.high_watermark = error_code, -1
    keep = max(max_bytes, _first_size(out)) if whole else max_bytes
    del out[keep:]
    data.records = out


def _convert(partition: Partition, offset: int, until: int, magic: int, max_bytes: int, out: bytearray) -> Steps[None]:
    """Add to `out` what is from `offset` on, below `until`, with a pause after each piece."""
    at = offset
    conversion = DownConversion(magic, from_offset=offset)
    while at < until and len(out) < max_bytes:
        found = partition.log.read(at, READ_BYTES, until_offset=until, min_one_batch=True)
        if found is None:
            return
        if not found.size:  # a large batch is being checked
            yield None
            continue
        read = yield from _read_slowly(found)
        for piece in conversion.pieces(read, max_bytes - len(out)):
            out += piece
            if len(out) >= max_bytes:
                return
            yield None
        at = conversion.next_offset


def _read_slowly(found: FileSlice) -> Steps[memoryview]:
    """What is in the slice, which is more than `READ_BYTES` only where one batch is, with pauses then."""
    if found.size <= READ_BYTES:
        return memoryview(found.read())
    read = bytearray()
    for start in range(0, found.size, READ_BYTES):
        read += found.file.read(found.position + start, min(READ_BYTES, found.size - start))
        yield None
    return memoryview(read)


def _first_size(message_set: bytearray) -> int:
    """The size of the first message with its offset and length."""
    return 12 + int.from_bytes(message_set[8:12], "big") if len(message_set) >= 12 else 0
