"""Batches of records for the log's tests: right in every header field, opaque inside."""

from __future__ import annotations

import struct

from ottla.log.log import Appended, Log
from ottla.ports import Disk, Now
from ottla.records.batches.header import HEADER, HEADER_BYTES, BatchHeader, batches, read_header, write_crc

NOW = Now(1_700_000_000_000, 0)


def make_batch(
    count: int = 1, size: int = 40, timestamp: int = NOW.wall_ms, producer_id: int = -1, epoch: int = -1, sequence: int = -1
) -> bytearray:
    """One batch of `count` records in `size` opaque bytes."""
    body = bytes(at * 7 % 251 for at in range(size))
    fields = (0, HEADER_BYTES - 12 + size, -1, 2, 0, 0, count - 1, timestamp, timestamp, producer_id, epoch, sequence, count)
    batch = bytearray(HEADER.pack(*fields) + body)
    write_crc(batch, 0, len(batch))
    return batch


def append(log: Log, batch: bytearray, *, leader_epoch: int = 0, now: Now = NOW, origin_client: bool = True) -> Appended:
    headers = [header for _, header in batches(batch)]
    return log.append(batch, headers, leader_epoch, now, origin_client=origin_client)


def sync(log: Log) -> None:
    """What a broker does: sync all that is dirty, then tell the log."""
    end = log.log_end_offset
    for file in log.dirty_files():
        file.sync()
    log.mark_synced(end)


def read_all(log: Log, max_bytes: int = 1 << 20) -> list[tuple[BatchHeader, bytes]]:
    """Every batch from the start of the log to its end, as fetches get them."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = log.log_start_offset
    while (part := log.read(offset, max_bytes, until_offset=log.log_end_offset, min_one_batch=True)) is not None:
        data = part.read()
        found += [(header, data[at : at + header.size]) for at, header in batches(data)]
        offset = found[-1][0].next_offset
    return found


def index_faults(log: Log, disk: Disk) -> list[str]:
    """The named invariant: every entry of an offset index points at the batch that ends with its offset."""
    faults = []
    for segment in log.segments:
        segment.flush_indexes()
        path = segment.path(".index")
        data = disk.read_file(path) if disk.exists(path) else b""
        for relative, position in struct.iter_unpack(">ii", data):
            head = segment.file.read(position, HEADER_BYTES)
            if len(head) < HEADER_BYTES or read_header(head).last_offset != segment.base_offset + relative:
                faults.append(f"{path}: ({relative}, {position})")
    return faults
