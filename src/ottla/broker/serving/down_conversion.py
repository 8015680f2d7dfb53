"""Down-conversion of logs to message sets for fetches before version 4: read, decompressed and encoded in pieces.

Depends on partitions and `ottla.records`. The memory of the reply and of one batch counts toward the limit of all long checks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.broker.long_checks import LARGE_BYTES, MOST_HELD_BY_LARGE_BYTES, LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.purgatory import Reply
from ottla.log.errors import Damaged
from ottla.ports import FileSlice, Steps, StorageFailed
from ottla.records.batches.header import BadBatch
from ottla.records.compression.codecs import DEFAULT_LIMIT_BYTES, CodecFailed
from ottla.records.message_sets.conversion import DownConversion
from ottla.records.message_sets.legacy import BadMessage
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.errors import CORRUPT_MESSAGE, NONE, NOT_LEADER_OR_FOLLOWER

MAGIC: Final = (0, 0, 1, 1)
"""The message format (magic) of Fetch versions 0 to 3. From version 4 on, records keep the format of the log."""

WHOLE_MESSAGE_FROM: Final = 3
READ_BYTES: Final = 1 << 20
EXPANSION: Final = 8
"""Typical growth of batches by decompression, and of message sets compared with the log."""

FetchPartition = FetchRequest.FetchPartition
PartitionData = FetchResponse.PartitionData


class Wanted(NamedTuple):
    """One partition of a fetch that has data to convert."""

    partition: Partition
    offset: int
    max_bytes: int
    found_bytes: int
    data: PartitionData


class OldRecords(NamedTuple):
    """The result for one partition: a message set in an old format, or the error before its first message."""

    records: bytearray
    error_code: int = NONE


class OldFetch:
    """One fetch of an old version, with the data to convert. `left` is the limit of all partitions together, in bytes."""

    def __init__(self, partitions: Partitions, body: FetchRequest, version: int, response: FetchResponse, left: int) -> None:
        self._response = response
        self._magic = MAGIC[version]
        self._has_whole_message = version >= WHOLE_MESSAGE_FROM
        self._left = min(body.max_bytes, left)
        self._wanted: list[Wanted] = []
        for topic, answered in zip(body.topics, response.responses, strict=True):
            for part, data in zip(topic.partitions, answered.partitions, strict=True):
                partition = partitions.get(topic.topic, part.partition)
                if not data.error_code and data.records and partition is not None:
                    wanted = Wanted(partition, part.fetch_offset, part.partition_max_bytes, len(data.records), data)
                    self._wanted.append(wanted)
                    data.records = b""

    def convert(self, checks: LongChecks) -> Steps[Reply]:
        """Return the response with message sets instead of slices of logs, each within its partition's `partition_max_bytes`.

        Up to version 2, bytes beyond the limit are cut off, even within the first message, after which a client increases its
        limit. From version 3 on, the first message of the response is always whole, and all partitions share `max_bytes` (KIP-74).

        The memory of the message sets, and of one decompressed batch, counts toward the limit of all long checks. A batch is first
        assumed to be small, and then of the maximum size. Message sets count twice, because the next reply can be converted while
        this reply is being sent.
        """
        found = sum(wanted.found_bytes for wanted in self._wanted)
        own = min(self._left, sum(min(wanted.max_bytes, EXPANSION * wanted.found_bytes) for wanted in self._wanted))
        for opened in (min(LARGE_BYTES, max(READ_BYTES, EXPANSION * found)), DEFAULT_LIMIT_BYTES):
            size = min(2 * max(own, 0) + opened, MOST_HELD_BY_LARGE_BYTES)
            results = yield from checks.hold_during(size, self._convert_all(opened))
            if results is not None:
                break
        for wanted, result in zip(self._wanted, results or (), strict=True):
            wanted.data.records = result.records
            if result.error_code and not result.records:
                wanted.data.error_code, wanted.data.high_watermark = result.error_code, -1
        return self._response

    def _convert_all(self, limit_bytes: int) -> Steps[list[OldRecords] | None]:
        """Return the results of all partitions; None if a batch exceeds `limit_bytes` and a higher limit may help."""
        results: list[OldRecords] = []
        size = 0
        for wanted in self._wanted:
            max_bytes = min(wanted.max_bytes, self._left - size)
            whole = self._has_whole_message and not size
            result = OldRecords(bytearray())
            if max_bytes > 0 or whole:
                try:
                    result = yield from self._fill(wanted, max_bytes, whole, limit_bytes)
                except CodecFailed:
                    return None
                size += len(result.records)
            results.append(result)
        return results

    def _fill(self, wanted: Wanted, max_bytes: int, whole: bool, limit_bytes: int) -> Steps[OldRecords]:
        """Convert batch after batch up to `max_bytes`. Raises `CodecFailed` if a higher limit of memory may help."""
        out = bytearray()
        error_code = NONE
        try:
            yield from _convert(wanted, self._magic, max(1, max_bytes), out, limit_bytes)
        except BadMessage as bad:
            error_code = bad.error_code
        except CodecFailed as failure:
            if failure.over_limit and limit_bytes < DEFAULT_LIMIT_BYTES:
                raise
            error_code = CORRUPT_MESSAGE
        except (BadBatch, Damaged):
            error_code = CORRUPT_MESSAGE
        except StorageFailed:
            error_code = NOT_LEADER_OR_FOLLOWER
        keep = max(max_bytes, _first_size(out)) if whole else max_bytes
        del out[keep:]
        return OldRecords(out, error_code)


def _convert(wanted: Wanted, magic: int, max_bytes: int, out: bytearray, limit_bytes: int) -> Steps[None]:
    """Append converted records from the offset on to `out`, with a pause after each piece."""
    at, until = wanted.offset, wanted.data.high_watermark
    conversion = DownConversion(magic, from_offset=at, limit_bytes=limit_bytes)
    while at < until and len(out) < max_bytes:
        found = wanted.partition.log.read(at, READ_BYTES, until_offset=until, min_one_batch=True)
        if found is None:
            return
        if not found.size:  # a large batch is being verified
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
    """Return the bytes of a slice. A slice larger than `READ_BYTES` is a single batch, and is read with pauses."""
    if found.size <= READ_BYTES:
        return memoryview(found.read())
    read = bytearray()
    for start in range(0, found.size, READ_BYTES):
        read += found.file.read(found.position + start, min(READ_BYTES, found.size - start))
        yield None
    return memoryview(read)


def _first_size(records: bytearray) -> int:
    """Return the size in bytes of the first message, counted from its offset field to its end."""
    return 12 + int.from_bytes(records[8:12], "big") if len(records) >= 12 else 0
