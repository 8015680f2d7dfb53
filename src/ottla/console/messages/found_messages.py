"""Messages that were found in a topic: the beginnings of their keys, values and headers, and the facts of their batches. Pure.

A batch of a transaction is open until a marker decides it. What a fetch with read_committed returns is decided by its list of
aborted transactions; what lies above the last stable offset, by the markers that are read later.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.consumer.visible_batches import AbortedTransaction
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import NO_PRODUCER_ID, BadBatch, BatchHeader, batches
from ottla.records.batches.record import ConsumerRecord
from ottla.records.compression.codecs import NAMES, CodecFailed

NONE, OPEN, COMMITTED, ABORTED, COMMIT_MARKER, ABORT_MARKER, OTHER_MARKER = (
    "", "open", "committed", "aborted", "commit marker", "abort marker", "control record",
)  # fmt: skip
MARKERS: Final = {0: ABORT_MARKER, 1: COMMIT_MARKER}
LIMIT_BYTES: Final = 64 * 1024 * 1024
"""The decompressed size of the largest batch that is opened, in bytes."""
KEPT_BYTES, LEAST_KEPT_BYTES, ALL_KEPT_BYTES = 64 * 1024, 1024, 4 * 1024 * 1024
"""The bytes of a key or value that are kept: `KEPT_BYTES`, or the least once a reading has kept `ALL_KEPT_BYTES`."""
MOST_HEADERS: Final = 100


class ReadBatch(NamedTuple):
    """A batch that was read. `trouble` says why its records cannot be shown; they are then left out."""

    header: BatchHeader
    transaction: str
    records: Sequence[ConsumerRecord]
    bytes: int
    trouble: str = ""


@dataclass(slots=True)
class FoundMessage:
    """A message, of whose key, value and headers only the beginnings are kept. `transaction` changes when a marker is read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    key_size: int
    value_size: int
    header_count: int
    transaction: str
    compression: str
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    batch_records: int
    batch_bytes: int

    @property
    def kept_bytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


def found_message(record: ConsumerRecord, batch: ReadBatch, kept_bytes: int) -> FoundMessage:
    """Return what is kept of a record."""
    header, key, value = batch.header, record.key, record.value
    return FoundMessage(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        None if key is None else key[:kept_bytes],
        None if value is None else value[:kept_bytes],
        [(name[:KEPT_BYTES], None if data is None else data[:kept_bytes]) for name, data in record.headers[:MOST_HEADERS]],
        len(key or b""),
        len(value or b""),
        len(record.headers),
        _marker_of(record) if header.is_control else batch.transaction,
        NAMES[header.codec] if header.codec < len(NAMES) else str(header.codec),
        header.producer_id,
        header.producer_epoch,
        header.leader_epoch,
        header.record_count,
        batch.bytes,
    )


def _marker_of(record: ConsumerRecord) -> str:
    key = record.key
    return OTHER_MARKER if key is None or len(key) < 4 else MARKERS.get(struct.unpack_from(">h", key, 2)[0], OTHER_MARKER)


def read_batches(
    data: memoryview, where: tuple[str, int], aborted: Sequence[AbortedTransaction] | None, start: int, end: int
) -> Iterator[ReadBatch]:
    """Yield the batches in a fetched part of a partition with their records from offset `start` to `end`, which is excluded.

    `aborted` are the aborted transactions of a fetch with read_committed, None for read_uncommitted.
    """
    void = sorted(aborted or (), key=lambda each: each.first_offset)
    active: set[int] = set()
    try:
        for position, header in batches(data):
            while void and void[0].first_offset <= header.last_offset:
                active.add(void.pop(0).producer_id)
            state = _state(header, active, is_decided=aborted is not None)
            if header.is_control:
                active.discard(header.producer_id)
            if header.last_offset >= start and header.base_offset < end:
                yield _read_batch(data[position : position + header.size], header, state, where, start, end)
    except BadBatch as error:
        yield ReadBatch(_lost_header(start, end), NONE, (), len(data), f"A batch cannot be read: {error}")


def _state(header: BatchHeader, active: set[int], *, is_decided: bool) -> str:
    if header.is_control or not header.is_transactional:
        return NONE
    if not is_decided:
        return OPEN
    return ABORTED if header.producer_id in active else COMMITTED


def _read_batch(data: memoryview, header: BatchHeader, state: str, where: tuple[str, int], start: int, end: int) -> ReadBatch:
    try:
        columns = open_batches(data, from_offset=start, until_offset=end, limit_bytes=LIMIT_BYTES, control=True)
        return ReadBatch(header, state, columns.records(where), header.size)
    except (BadBatch, CodecFailed) as error:
        place = f"The batch of {where[0]}-{where[1]} from offset {header.base_offset} to {header.last_offset}"
        return ReadBatch(header, state, (), header.size, f"{place} cannot be opened: {error}")


def _lost_header(start: int, end: int) -> BatchHeader:
    return BatchHeader(start, 0, -1, 2, 0, 0, max(0, end - start - 1), -1, -1, NO_PRODUCER_ID, -1, -1, 0)


def decide(messages: Iterable[FoundMessage], batch: ReadBatch) -> None:
    """Mark the open messages before a marker's batch as committed or aborted."""
    if not batch.header.is_control or not batch.records:
        return
    marker = _marker_of(batch.records[0])
    state = {COMMIT_MARKER: COMMITTED, ABORT_MARKER: ABORTED}.get(marker)
    if state is None:
        return
    where, producer_id = batch.records[0].partition, batch.header.producer_id
    for each in messages:
        if each.transaction == OPEN and each.partition == where and each.producer_id == producer_id:
            each.transaction = state
