"""The header of a record batch, magic 2 (KIP-98): read, checked and stamped without reading a record.

It covers the first 61 bytes of a batch and its CRC-32C. The records section must not be read here: `columns` opens it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.ports import Buffer
from ottla.records import kernel_checksum
from ottla.records.checksum import crc32c
from ottla.wire.errors import CORRUPT_MESSAGE, INVALID_RECORD, NONE, UNSUPPORTED_COMPRESSION_TYPE

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""The bytes of the fields base offset and batch length. `batch_length` does not count them."""

MAGIC: Final = 2
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

ZSTD: Final = 4
ZSTD_SINCE_PRODUCE: Final = 7
SMALLEST_MESSAGE_BYTES: Final = 14
"""The smallest size of a message of any format, without its offset and length fields, in bytes."""

MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
CRC_FROM: Final = 21
LEADER_EPOCH_POSITION: Final = 12
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_POSITION: Final = 43
COUNT_POSITION: Final = 57

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qhi")
_ALL_BITS: Final = 0xFFFFFFFF


class BadBatch(ValueError):
    """Raised for bytes that cannot be a batch of magic 2. `position` is the byte at which the batch begins."""

    def __init__(self, position: int, sentence: str) -> None:
        super().__init__(f"at byte {position}: {sentence}")
        self.position = position
        self.sentence = sentence


class BatchHeader(NamedTuple):
    """The 13 fields before the records. Timestamps are milliseconds since 1970; `crc` is CRC-32C from `attributes` to the end."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Return the size of the batch in bytes, from the base offset to the end of the last record."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Return the sequence of the last record, or -1 without a producer id. Sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """Return 0 for CreateTime, and 1 for LogAppendTime. With LogAppendTime, `max_timestamp` is the time of every record."""
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """Return the time (ms since 1970) from which compaction may drop the batch's tombstones (KIP-534); None if it is not set.

        The time is stored in the base timestamp.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


_new_header: Final = tuple.__new__  # `_make` is Python, and takes three times as long

NO_HEADER: Final = BatchHeader(
    0, 0, NO_PARTITION_LEADER_EPOCH, MAGIC, 0, 0, -1, 0, NO_TIMESTAMP, NO_PRODUCER_ID, -1, NO_SEQUENCE, 0
)
"""The header used for a batch whose own header cannot be read."""


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header at `pos`, unchecked. Raises `BadBatch` if fewer than 61 bytes are left."""
    try:
        return BatchHeader._make(HEADER.unpack_from(buf, pos))
    except struct.error:
        raise BadBatch(pos, f"a batch header takes {HEADER_BYTES} bytes and {max(len(buf) - pos, 0)} are left.") from None


def crc_is_valid(view: memoryview) -> bool:
    """Return whether the CRC-32C in the header of the batch that fills `view` is right."""
    crc: int = _CRC.unpack_from(view, CRC_POSITION)[0]
    return bool(crc32c(view[CRC_FROM:]) == crc)


def check(view: memoryview, produce_version: int = ZSTD_SINCE_PRODUCE) -> tuple[int, BatchHeader | None]:
    """Check the records that a client produced to one partition, as Kafka does: return (0, header), or (error code, None).

    The records must be one batch of magic 2 that fills `view`. The batch is not opened: `verification` checks its content.

    - CORRUPT_MESSAGE: a length below that of a header, an unknown magic, a CRC-32C that differs.
    - INVALID_RECORD: no whole batch, more than one batch, magic 0 or 1, a base offset that is not 0, a record count that is not
      `last_offset_delta + 1`, a control batch, a producer id without a sequence. Also a torn batch after the first: Kafka cuts
      it off and accepts the first, but no client sends a torn batch.
    - UNSUPPORTED_COMPRESSION_TYPE: zstd in Produce below version 7 (KIP-110), an unknown codec (Kafka: UNKNOWN_SERVER_ERROR).
    """
    if len(view) < HEADER_BYTES:
        return _too_small(view), None
    header = _new_header(BatchHeader, HEADER.unpack_from(view))
    if header[1] + LOG_OVERHEAD_BYTES != len(view) or header[3] != MAGIC:
        return _frame_error(view, header), None
    if crc32c(view[CRC_FROM:]) != header[4]:
        return CORRUPT_MESSAGE, None
    if (header[5] & CODEC_MASK) >= ZSTD and (header.codec > ZSTD or produce_version < ZSTD_SINCE_PRODUCE):
        return UNSUPPORTED_COMPRESSION_TYPE, None
    count = header[12]
    if count <= 0 or header[6] != count - 1 or header[0] or header[5] & CONTROL_BIT or header[9] >= 0 > header[11]:
        return INVALID_RECORD, None
    return NONE, header


def _too_small(view: memoryview) -> int:
    """Return the error code for `view`, which is too small for a batch header: INVALID_RECORD, or CORRUPT_MESSAGE."""
    if len(view) < LOG_OVERHEAD_BYTES:
        return INVALID_RECORD
    size: int = _EPOCH.unpack_from(view, 8)[0] + LOG_OVERHEAD_BYTES
    if size < SMALLEST_MESSAGE_BYTES + LOG_OVERHEAD_BYTES:
        return CORRUPT_MESSAGE
    return INVALID_RECORD if size > len(view) or view[MAGIC_POSITION] < MAGIC else CORRUPT_MESSAGE


def _frame_error(view: memoryview, header: BatchHeader) -> int:
    if header.size < SMALLEST_MESSAGE_BYTES + LOG_OVERHEAD_BYTES or not 0 <= header.magic <= MAGIC:
        return CORRUPT_MESSAGE
    if header.size > len(view) or header.magic != MAGIC:
        return INVALID_RECORD
    if header.size < HEADER_BYTES or not crc_is_valid(view[: header.size]):
        return CORRUPT_MESSAGE
    rest = view[header.size :]
    return _too_small(rest) if LOG_OVERHEAD_BYTES <= len(rest) < HEADER_BYTES else INVALID_RECORD


def batches(view: Buffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch from `pos` on. A torn batch at the end, as in fetches, is left out.

    The CRC is not checked. Raises `BadBatch` for a magic other than 2, and for a length too small for a header.
    """
    end = len(view)
    while end - pos >= HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(view, pos))
        if header.magic != MAGIC:
            raise BadBatch(pos, f"magic {header.magic} instead of {MAGIC}: convert older message sets first.")
        if header.size < HEADER_BYTES:
            raise BadBatch(pos, f"a batch of {header.size} bytes cannot hold its header of {HEADER_BYTES}.")
        if pos + header.size > end:
            return
        yield pos, header
        pos += header.size


def stamp(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and the leader epoch into the header of the batch at `pos`. The CRC does not include these fields."""
    _OFFSET.pack_into(buf, pos, base_offset)
    _EPOCH.pack_into(buf, pos + LEADER_EPOCH_POSITION, leader_epoch)


def set_log_append_time(buf: bytearray | memoryview, pos: int, size: int, now_ms: int) -> None:
    """Set the batch of `size` bytes at `pos` to LogAppendTime, in place: attribute bit, max_timestamp and a new CRC (KIP-32)."""
    set_max_timestamp(buf, pos, size, now_ms, _ATTRIBUTES.unpack_from(buf, pos + CRC_FROM)[0] | TIMESTAMP_TYPE_BIT)


def set_max_timestamp(buf: bytearray | memoryview, pos: int, size: int, max_timestamp: int, attributes: int) -> None:
    """Set max_timestamp and attributes of the batch of `size` bytes at `pos`, in place, with a new CRC."""
    _ATTRIBUTES.pack_into(buf, pos + CRC_FROM, attributes)
    _OFFSET.pack_into(buf, pos + MAX_TIMESTAMP_POSITION, max_timestamp)
    write_crc(buf, pos, size)


def write_crc(buf: bytearray | memoryview, pos: int, size: int) -> None:
    """Compute and write the CRC-32C of the batch of `size` bytes at `pos`."""
    _CRC.pack_into(buf, pos + CRC_POSITION, crc32c(memoryview(buf)[pos + CRC_FROM : pos + size]))


def set_producer(buf: bytearray, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False) -> None:
    """Write a producer's identity into the header of the batch that fills `buf`. With `transactional`, set that bit too.

    The CRC is changed by what the fields change in it, without reading the records.
    """
    before = int.from_bytes(buf[CRC_FROM:COUNT_POSITION])
    if transactional:
        buf[CRC_FROM + 1] |= TRANSACTIONAL_BIT
    _PRODUCER.pack_into(buf, PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    changed = before ^ int.from_bytes(buf[CRC_FROM:COUNT_POSITION])
    remainder = ~crc32c(changed.to_bytes(COUNT_POSITION - CRC_FROM), _ALL_BITS) & _ALL_BITS
    crc: int = _CRC.unpack_from(buf, CRC_POSITION)[0]
    _CRC.pack_into(buf, CRC_POSITION, crc ^ kernel_checksum.remainder_after_zeros(remainder, len(buf) - COUNT_POSITION))
