"""The builder of record batches of magic 2, from Python bytes; `arrow` builds them from columns of Arrow.

It writes the records of a batch, then its header and CRC. Base offset and leader epoch are stamped later, on append.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

from ottla.ports import Buffer
from ottla.records import kernel_build
from ottla.records.batches.header import (
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    write_crc,
)
from ottla.records.compilation_warning import warn_once
from ottla.records.compression import codecs

Headers = Sequence[tuple[str, bytes | None]]

MOST_OVERHEAD_BYTES: Final = 32
"""The most bytes of a record besides its key, value and headers: five sizes, two deltas, attributes, a count of no headers."""

NO_ROWS: Final = array("i")
NO_DELTAS: Final = array("q")
MOST_BATCH_BYTES: Final = 0x7FFFFFFF - HEADER_BYTES


def build(
    keys: Sequence[Buffer | None] | None,
    values: Sequence[Buffer | None],
    timestamps: Sequence[int] | int,
    headers: Sequence[Headers | None] | None = None,
    *,
    codec: int = codecs.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """Return one batch of `len(values)` records, uncompressed or in `codec`.

    If `keys` is None, no record has a key. An int as `timestamps` is the time of all records, in milliseconds since 1970. Raises
    ValueError if there are no records, the columns have different lengths, or the batch exceeds 2 GB.
    """
    warn_once()
    attributes = codec | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    if headers is None and not codec and isinstance(timestamps, int) and type(values) is list and values:
        plain = _write_plain(
            keys, values, timestamps, attributes, base_offset, leader_epoch, producer_id, producer_epoch, base_sequence
        )
        if plain is not None:
            return plain
    count = len(values)
    ages = [timestamps] * count if isinstance(timestamps, int) else list(timestamps)
    uneven = (keys is not None and len(keys) != count) or (headers is not None and len(headers) != count)
    if not count or uneven or len(ages) != count:
        raise ValueError("A batch holds at least one record, and as many keys, timestamps and headers as values.")
    out, newest = _write(keys, values, ages, headers)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=len(out) - LOG_OVERHEAD_BYTES,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=ages[0],
        max_timestamp=newest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return seal(header, out, level)


def _write_plain(
    keys: Sequence[Buffer | None] | None, values: list[Buffer | None], timestamp: int, *header: int
) -> bytearray | None:
    """Return a batch as coordinators write it, in a third of the time of any batch; None if the columns are no lists."""
    if keys is not None and (type(keys) is not list or len(keys) != len(values)):
        return None
    batch = kernel_build.write_batch(keys or [], values, timestamp, *header)
    if batch is not None:
        write_crc(batch, 0, len(batch))
    return batch


def _write(
    keys: Sequence[Buffer | None] | None,
    values: Sequence[Buffer | None],
    timestamps: list[int],
    headers: Sequence[Headers | None] | None,
) -> tuple[bytearray, int]:
    """Return (a buffer with room for the header and with all records, the greatest timestamp)."""
    key_items, key_bytes = _items(keys or ())
    value_items, value_bytes = _items(values)
    header_items = [encode_headers(own) for own in headers] if headers and any(headers) else []
    record_bytes = key_bytes + value_bytes + sum(map(len, header_items)) + len(values) * MOST_OVERHEAD_BYTES
    if record_bytes > MOST_BATCH_BYTES:
        raise ValueError(f"{record_bytes} bytes of records are more than one batch can hold: build several.")
    out = bytearray(HEADER_BYTES + record_bytes)
    end, newest = kernel_build.write_items(out, HEADER_BYTES, timestamps, key_items, value_items, header_items)
    del out[end:]
    return out, newest


def _items(items: Sequence[Buffer | None]) -> tuple[list[bytes | None], int]:
    """Return (the items as a list of bytes or None, as the kernel takes them, their total size in bytes)."""
    listed: list[Any] = items if isinstance(items, list) else list(items)
    total = kernel_build.measure(listed)
    if total < 0:
        listed = [None if item is None else bytes(item) for item in listed]
        total = kernel_build.measure(listed)
    return listed, total


def seal(header: BatchHeader, out: bytearray, level: int | None = None, *, packed: bool = False) -> bytearray:
    """Finish the batch in `out`, which has room for `header` and then the records, in place; return `out`.

    The records are compressed with the header's codec, unless they are already compressed (`packed`). Batch length and CRC are
    filled in.
    """
    if header.codec and not packed:
        out[HEADER_BYTES:] = codecs.compress(header.codec, memoryview(out)[HEADER_BYTES:], level)
    if header.batch_length != len(out) - LOG_OVERHEAD_BYTES:
        header = header._replace(batch_length=len(out) - LOG_OVERHEAD_BYTES)
    HEADER.pack_into(out, 0, *header)
    write_crc(out, 0, len(out))
    return out


def encode_headers(headers: Headers | None) -> bytes:
    """Encode the count and the headers of one record. Names are written as UTF-8; a value may be None."""
    if not headers:
        return b"\x00"
    parts = [zigzag(len(headers))]
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (zigzag(len(encoded)), encoded)
        parts += (zigzag(-1),) if value is None else (zigzag(len(value)), value)
    return b"".join(parts)


def zigzag(number: int) -> bytes:
    """Encode a signed number as a zigzag varint (Protocol Buffers' sint64)."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
