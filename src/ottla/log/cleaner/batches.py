"""The records of a batch that survive compaction, and the batch built from them (KIP-534). Segments are unknown here."""

from __future__ import annotations

from itertools import islice

from ottla.log.cleaner.offset_map import OffsetMap
from ottla.log.producer_state.producers import Producers
from ottla.log.segments.transaction_index import TransactionsInOrder
from ottla.ports import Buffer
from ottla.records import kernel_build
from ottla.records.batches.builder import seal
from ottla.records.batches.columns import ROW_BYTES, Columns, Run, open_batches
from ottla.records.batches.header import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BadBatch,
    BatchHeader,
    batches,
    crc_is_valid,
)
from ottla.records.compression import codecs
from ottla.records.compression.decompression import opened_bytes
from ottla.records.compression.limits import PAUSE_BYTES, allocate

MOST_GROWTH_BYTES = 16
"""The most bytes by which a record can grow when its timestamp and length are encoded with another base."""

MOST_BYTES = 64 << 20
"""The most memory for a batch's decompressed records and columns. A larger batch is kept unchanged, and its keys are ignored."""

WRITTEN_AT_ONCE_BYTES = 4 << 20
"""The most bytes of records written in one step, during which no other thread runs."""

LATEST_HORIZON_MS = 1 << 62
"""The latest delete horizon in ms. Timestamps are stored as differences from the horizon, which must fit into 64 bits."""

NOTHING = memoryview(bytearray())


def opening_costs(header: BatchHeader, whole: memoryview) -> int:
    """Return how many bytes of memory it takes to decompress and decode the batch."""
    opened = opened_bytes(header.codec, whole[HEADER_BYTES:], MOST_BYTES) if header.codec else 0
    return opened + header.record_count * ROW_BYTES


def is_large(view: memoryview, most_bytes: int = PAUSE_BYTES) -> bool:
    """Return whether `view` is a single batch whose decoding takes more than `most_bytes` of memory."""
    return any(header.size == len(view) and opening_costs(header, view) > most_bytes for _, header in islice(batches(view), 1))


def stays_as_it_is(view: memoryview) -> bool:
    """Return whether `view` is a single batch that is too large to decode in memory, so that compaction keeps it unchanged."""
    return is_large(view, MOST_BYTES)


class Filter:
    """The filter of compaction: batches pass through it in order, and it drops records and batches.

    `has_changed` is True once it has dropped or changed any. If no records remain in a batch, the batch is kept back until the next
    one comes, and is then dropped. At a segment's end it is kept without records, because it has the segment's end offset.
    """

    __slots__ = (
        "_held",
        "_last_offsets",
        "_map",
        "_now_ms",
        "_only_markers",
        "_retention_ms",
        "_transactions",
        "has_changed",
        "records_read",
    )

    def __init__(self, map: OffsetMap, now_ms: int, delete_retention_ms: int, transactions: TransactionsInOrder) -> None:
        self._map = map
        self._now_ms = now_ms
        self._retention_ms = delete_retention_ms
        self._transactions = transactions
        self._last_offsets: dict[int, int] = {}
        self._only_markers: dict[int, int] = {}
        self._held: tuple[BatchHeader, memoryview] | None = None
        self.has_changed = False
        self.records_read = 0

    def note_last_batches(self, producers: Producers) -> None:
        """Keep each producer's last batch even without records: after a restart its sequence identifies retries."""
        for producer_id, producer in producers.by_id.items():
            if producer.batches:
                self._last_offsets[producer_id] = producer.batches[-1].last_offset
            else:
                self._only_markers[producer_id] = producer.epoch

    def filter_batches(self, view: memoryview) -> tuple[list[Buffer], list[BatchHeader]]:
        """Return the remaining batches in `view`, and their headers. Keep the last batch back if no records remain in it."""
        found = list(batches(view))
        self.drop_held()
        gone = {header.base_offset for _, header in found if self._is_over(header)}
        stays = stays_as_it_is(view)

        def to_be_opened(header: BatchHeader) -> bool:
            return header.record_count > 0 and header.base_offset not in gone and not stays

        columns = open_batches(view, wanted=to_be_opened, check_crcs=True)
        runs = {run.header.base_offset: run for run in columns.runs}
        rows, deltas = _room(columns)
        parts: list[Buffer] = []
        headers: list[BatchHeader] = []
        for position, header in found:
            self.drop_held()
            whole = view[position : position + header.size]
            needed = self._is_last_of_producer(header)
            part: Buffer | None
            if not header.record_count:
                part = whole if needed else None
            elif stays and header.base_offset not in gone:
                part = _proven(whole)
            elif header.is_control:
                part = self._marker(whole, header) if header.base_offset in gone else whole
            elif header.base_offset in runs:
                part = self._records(whole, header, columns, runs[header.base_offset], rows, deltas)
            else:
                part = None
            if part is None and needed:
                part = _without_records(header)
            if part is None:
                self._held = header, whole
                continue
            parts.append(part)
            headers.append(header if part is whole else next(batches(part))[1])
            if part is not whole:
                self.has_changed = True
        self.records_read += len(columns)
        return parts, headers

    def drop_held(self) -> None:
        """Drop the batch without records that was kept back, because another batch follows."""
        if self._held is not None:
            self._held = None
            self.has_changed = True

    def finish_segment(self) -> tuple[list[Buffer], list[BatchHeader]]:
        """Return the batch without records that was kept back, and its header; empty lists if there is none.

        Call this at a segment's end: the batch has the segment's end offset. Without it, there would be a gap before the next
        segment.
        """
        if self._held is None:
            return [], []
        (header, whole), self._held = self._held, None
        if not header.record_count:
            return [whole], [header]
        self.has_changed = True
        part = _without_records(header)
        return [part], [next(batches(part))[1]]

    def _is_over(self, header: BatchHeader) -> bool:
        """Return whether a batch can be dropped.

        This is so if its transaction was aborted, or if it is a marker whose transaction has no batches left. Call this for every
        batch, in order of offsets.
        """
        if header.is_control:
            return self._transactions.ends_nothing(header)
        return self._transactions.is_aborted(header)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id < 0:
            return False
        if header.producer_id in self._last_offsets:
            return self._last_offsets[header.producer_id] == header.last_offset
        return header.is_control and self._only_markers.get(header.producer_id) == header.producer_epoch

    def _marker(self, whole: memoryview, header: BatchHeader) -> Buffer | None:
        """Return the batch of a transaction marker with a delete horizon in its header. Return None once that horizon has passed.

        A marker is kept `delete.retention.ms` longer than its transaction's records.
        """
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is not None:
            return None if horizon_ms <= self._now_ms else whole
        columns = open_batches(whole, control=True, check_crcs=True)
        rows, deltas = _room(columns)
        for row, offset in enumerate(columns.offsets):
            rows[row], deltas[row] = row, offset - header.base_offset
        return self._rebuilt(header, columns, columns.runs[0], rows[: len(columns)], deltas, header.max_timestamp, marked=True)

    def _records(
        self,
        whole: memoryview,
        header: BatchHeader,
        columns: Columns,
        run: Run,
        rows: memoryview[int],
        deltas: memoryview[int],
    ) -> Buffer | None:
        horizon_ms = header.delete_horizon_ms
        with_tombstones = horizon_ms is None or horizon_ms > self._now_ms
        kept, tombstones, newest = self._map.retain(columns, run, rows, deltas, with_tombstones=with_tombstones)
        if not kept:
            return None
        marked = tombstones > 0 and horizon_ms is None
        if kept == run.end - run.first and not marked:
            return whole
        return self._rebuilt(header, columns, run, rows[:kept], deltas, newest, marked=marked)

    def _rebuilt(
        self,
        header: BatchHeader,
        columns: Columns,
        run: Run,
        rows: memoryview[int],
        deltas: memoryview[int],
        newest: int,
        *,
        marked: bool,
    ) -> bytearray:
        """Build the batch again with only the records whose numbers are in `rows`.

        If `marked`, the base timestamp is a new delete horizon for the batch's tombstones or marker.
        """
        base_timestamp, attributes = header.base_timestamp, header.attributes
        if marked:
            horizon_ms = min(self._now_ms + self._retention_ms, LATEST_HORIZON_MS)
            base_timestamp, attributes = horizon_ms, attributes | DELETE_HORIZON_BIT
        body_bytes = len(run.data) if header.codec else header.size
        out = bytearray(HEADER_BYTES)
        _append_records(out, rows, deltas, columns, base_timestamp, run.data, body_bytes)
        if header.timestamp_type == LOG_APPEND_TIME:
            newest = header.max_timestamp
        new = header._replace(base_timestamp=base_timestamp, attributes=attributes, max_timestamp=newest, record_count=len(rows))
        return seal(new, out)


def _append_records(
    out: bytearray,
    rows: memoryview[int],
    deltas: memoryview[int],
    columns: Columns,
    base_timestamp: int,
    data: Buffer,
    body_bytes: int,
) -> None:
    """Append records to `out`, relative to a base timestamp. `body_bytes` is the size of all records of their batch."""
    room_bytes = body_bytes + len(rows) * MOST_GROWTH_BYTES
    room = bytearray(min(room_bytes, WRITTEN_AT_ONCE_BYTES))
    written, count, timestamps = 0, len(rows), columns.all_timestamps
    while written < count:
        before = written
        written, end, _ = kernel_build.write(
            room, 0, rows, written, count, deltas, timestamps, base_timestamp, columns.spans, data, data, data
        )
        if written == before:
            assert len(room) < room_bytes, "there is room for every record that was there before"
            room = bytearray(min(room_bytes, 2 * len(room)))
        else:
            out += memoryview(room)[:end]


def _room(columns: Columns) -> tuple[memoryview[int], memoryview[int]]:
    """Return two empty arrays for the numbers and the offset deltas of the records that remain in a batch."""
    capacity = len(columns.all_offsets)
    if not capacity:
        return NOTHING.cast("i"), NOTHING.cast("q")
    return allocate(4 * capacity).cast("i"), allocate(8 * capacity).cast("q")


def _proven(whole: memoryview) -> memoryview:
    if not crc_is_valid(whole):
        raise BadBatch(0, "the CRC-32C of the batch is wrong: it was damaged on disk.")
    return whole


def _without_records(header: BatchHeader) -> bytearray:
    """Build a batch without records that keeps offsets, producer and sequence."""
    attributes = header.attributes & ~CODEC_MASK | codecs.NONE
    return seal(header._replace(attributes=attributes, record_count=0), bytearray(HEADER_BYTES))
