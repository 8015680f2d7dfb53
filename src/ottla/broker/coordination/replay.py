"""The replay of an internal topic from its log. Unreadable records are logged and skipped.

Depends on batches and transactions; each coordinator's own reader decodes its records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, Generic

from ottla.broker.partitions.partition import Partition
from ottla.coord.runtime.record_reader import Record, RecordReader, RecordRows, UnreadableRecord
from ottla.log.errors import Damaged
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.records.batches.columns import EMPTY, Columns, Run, open_batches
from ottla.records.batches.header import (
    CONTROL_BIT,
    LOG_OVERHEAD_BYTES,
    SMALLEST_MESSAGE_BYTES,
    TRANSACTIONAL_BIT,
    BadBatch,
    BatchHeader,
    read_header,
)
from ottla.records.compression.codecs import CodecFailed
from ottla.records.kernel import KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE

log = logging.getLogger("ottla.broker")

CHUNK_BYTES: Final = 64 * 1024
"""Bytes of a log that are read and decoded in one step."""
NAMED: Final = 10
"""Upper limit of unreadable records that are logged with their offsets, per partition. Further records are only counted."""

_MARKER: Final = Struct(">hh")
"""Version and type: the key of a control record."""

LEAST_BYTES: Final = LOG_OVERHEAD_BYTES + SMALLEST_MESSAGE_BYTES
TRANSACTIONS: Final = TRANSACTIONAL_BIT | CONTROL_BIT


def stored_records(partition: Partition, reader: RecordReader[Record], chunk_bytes: int = CHUNK_BYTES) -> Iterator[Record]:
    """Yield every record of a coordinator's partition, in order, including records appended meanwhile. Raises `StorageFailed`."""
    replay = Replay(str(partition), reader)
    offset = partition.log.log_start_offset
    while offset < (end := partition.log.log_end_offset):
        try:
            piece = partition.log.read(offset, chunk_bytes, until_offset=end, min_one_batch=True)
        except Damaged as damaged:
            replay.pass_over("batch", offset, damaged)
            offset = partition.log.behind_damage(offset)
            continue
        if piece is None:
            break
        if not len(piece):  # a large batch is being verified
            continue
        found, following = replay.read(memoryview(piece.read()), offset)
        yield from found
        if following <= offset:
            replay.pass_over("rest", offset, "nothing behind it can be read either")
            break
        offset = following
    replay.summarize()


class Replay(Generic[Record]):
    """The decoder of one partition's bytes. It counts skipped records, and logs the first few."""

    def __init__(self, name: str, reader: RecordReader[Record]) -> None:
        self._name = name
        self._reader = reader
        self._broken = 0
        self._unknown = 0

    def read(self, view: memoryview, offset: int) -> tuple[Iterable[Record], int]:
        """Return the records of `view` from `offset` on, and the next offset; at most `offset` if no whole batch is left."""
        try:
            columns = _open(view, offset)
        except (BadBatch, CodecFailed):
            return self._one_by_one(view, offset)
        return self._records(columns), columns.next_offset

    def pass_over(self, what: str, offset: int, reason: object) -> None:
        self._broken += 1
        if self._broken <= NAMED:
            log.error("%s: the %s at offset %d is passed over: %s", self._name, what, offset, reason)

    def summarize(self) -> None:
        if self._broken > NAMED:
            log.error(
                "%s: %d records or batches were passed over, of which the first %d are named", self._name, self._broken, NAMED
            )
        if self._unknown:
            log.warning("%s: %d records of types of a newer release were skipped", self._name, self._unknown)

    def _one_by_one(self, view: memoryview, offset: int) -> tuple[list[Record], int]:
        """Read batch by batch, because a batch is unreadable. Return the records of the other batches, and the next offset."""
        found: list[Record] = []
        position = following = 0
        while (header := _header(view, position)) is not None:
            batch = view[position : position + header.size]
            try:
                columns = _open(batch, offset)
                found += self._records(columns)
                following = columns.next_offset
            except (BadBatch, CodecFailed) as failure:
                self.pass_over("batch", header.base_offset, failure)
                following = max(header.base_offset, header.last_offset if 0 <= header.last_offset_delta < 1 << 20 else 0) + 1
            position += header.size
        return found, following

    def _records(self, columns: Columns) -> Iterator[Record]:
        spans = [columns.span_column(column).tolist() for column in (KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE)]
        data, raw = EMPTY, b""
        for run in _stretches(columns):
            if run.data is not data:
                data, raw = run.data, bytes(run.data)
            part = slice(run.first - columns.first, run.end - columns.first)
            rows = RecordRows(raw, columns.offsets[part], *(column[part] for column in spans))
            if run.header.is_control:
                yield from self._end_transaction(run.header.producer_id, rows)
            elif run.header.is_transactional:
                yield from self._reader.of_transaction(run.header.producer_id, self._decode_rows(rows))
            else:
                yield from self._decode_rows(rows)

    def _decode_rows(self, rows: RecordRows) -> Iterator[Record]:
        def unusual(row: int) -> Record | None:
            try:
                decoded = self._reader.read(*rows.record(row))
            except UnreadableRecord as unreadable:
                self.pass_over("record", rows.offsets[row], unreadable)
                return None
            self._unknown += decoded is None
            return decoded

        return self._reader.read_all(rows, unusual)

    def _end_transaction(self, producer_id: int, rows: RecordRows) -> Iterator[Record]:
        for row in range(len(rows.keys_at)):
            key = rows.record(row)[0] or b""
            if len(key) >= _MARKER.size:
                kind = _MARKER.unpack_from(key)[1]
                if kind in (ABORT, COMMIT):
                    yield from self._reader.transaction_ended(producer_id, committed=kind == COMMIT)


def _stretches(columns: Columns) -> Iterator[Run]:
    """Yield groups of consecutive batches whose records are read together. Each batch of a transaction is a group of its own."""
    begun: Run | None = None
    end = 0
    for run in columns.pieces():
        if begun is None or run.data is not begun.data or (run.header.attributes | begun.header.attributes) & TRANSACTIONS:
            if begun is not None:
                yield begun._replace(end=end)
            begun = run
        end = run.end
    if begun is not None:
        yield begun._replace(end=end)


def _open(view: memoryview, offset: int) -> Columns:
    return open_batches(view, from_offset=offset, control=True, check_crcs=True)


def _header(view: memoryview, position: int) -> BatchHeader | None:
    """Return the header at `position`; None if no whole batch begins there."""
    try:
        header = read_header(view, position)
    except BadBatch:
        return None
    return header if LEAST_BYTES <= header.size <= len(view) - position else None
