"""Records as they are printed: by a template, or as JSON objects. Each rendering returns one item of bytes for each record."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ottla.cli.consume.values import Decoder, as_bytes
from ottla.cli.record_format.json_records import json_line, json_lines
from ottla.cli.record_format.output_template import BatchInfo, Template
from ottla.client.consumer.fetched_columns import FetchedColumns
from ottla.client.types import TopicPartition
from ottla.errors import KafkaError
from ottla.records.batches.columns import Columns
from ottla.records.batches.lines import LineFormat
from ottla.records.batches.record import ConsumerRecord
from ottla.records.compression.codecs import NAMES
from ottla.schemas.libraries import UnfitValue

MARKERS = {0: b"ABORT", 1: b"COMMIT"}


class RecordRun(NamedTuple):
    """Consecutive records: of one batch if fields of batches are printed, otherwise of any number of batches."""

    records: list[ConsumerRecord]
    batch: BatchInfo


class Rendering(Protocol):
    """A converter of records to printed lines. `needs_batches`: it prints fields of the records' batches.

    `end` follows each line.
    """

    needs_batches: bool
    end: bytes

    def line_format(self, where: TopicPartition) -> LineFormat | None:
        """Return a format that prints columns of the partition as these lines; None if printing needs an object for each record."""

    def lines(self, run: RecordRun, first: int) -> list[bytes]:
        """Return the printed line of each record, without the `end`. Raises `KafkaError`.

        `first` is the number of the first record in the output, counted from 1.
        """


class TemplateRendering:
    """Renders records by a template. Without decoders, keys and values are printed as they are."""

    def __init__(self, template: Template, decode_key: Decoder | None, decode_value: Decoder | None) -> None:
        self.needs_batches, self.end = template.needs_batches, template.end
        self._template, self._decode_key, self._decode_value = template, decode_key, decode_value
        self._formats: dict[TopicPartition, LineFormat | None] = {}

    def line_format(self, where: TopicPartition) -> LineFormat | None:
        if self._decode_key or self._decode_value:
            return None
        if where not in self._formats:
            self._formats[where] = self._template.line_format(*where)
        return self._formats[where]

    def lines(self, run: RecordRun, first: int) -> list[bytes]:
        records = run.records
        if (self._decode_key or self._decode_value) and not run.batch.is_control:
            records = [self._shown(record) for record in records]
        return self._template.lines(records, run.batch, first)

    def _shown(self, record: ConsumerRecord) -> ConsumerRecord:
        key, value = record.key, record.value
        if self._decode_key is not None and key is not None:
            key = as_bytes(_decoded("key", record, self._decode_key, key))
        if self._decode_value is not None and value is not None:
            value = as_bytes(_decoded("value", record, self._decode_value, value))
        return ConsumerRecord(record.offset, record.timestamp, record.timestamp_type, key, value, record.headers, record.where)


class JsonRendering:
    """Renders records as JSON objects, one a line."""

    needs_batches = False
    end = b"\n"

    def __init__(self, decode_key: Decoder | None, decode_value: Decoder | None, *, is_meta_only: bool = False) -> None:
        self._decode_key, self._decode_value, self._is_meta_only = decode_key, decode_value, is_meta_only

    def line_format(self, where: TopicPartition) -> None:
        return None

    def lines(self, run: RecordRun, first: int) -> list[bytes]:
        if self._decode_key or self._decode_value or self._is_meta_only or run.batch.is_control:
            return [self._line(record, run.batch) for record in run.records]
        return json_lines(run.records)

    def _line(self, record: ConsumerRecord, batch: BatchInfo) -> bytes:
        key, value = record.key, record.value
        if batch.is_control:
            return json_line(record, batch, key, value)
        shown = key if key is None or self._decode_key is None else _decoded("key", record, self._decode_key, key)
        if self._is_meta_only:
            return json_line(record, batch, shown, None if value is None else len(value), name="value_size")
        return json_line(
            record,
            batch,
            shown,
            value if value is None or self._decode_value is None else _decoded("value", record, self._decode_value, value),
        )


def _decoded(name: str, record: ConsumerRecord, decode: Decoder, data: bytes) -> object:
    try:
        return decode(data, record.topic)
    except UnfitValue as error:
        place = f"{record.topic}-{record.partition} at offset {record.offset}"
        raise KafkaError(f"The {name} of {place} cannot be decoded: {error}; --{name}-format hex prints its bytes.") from None


def runs_of(found: FetchedColumns, columns: Columns, *, by_batch: bool) -> Iterator[RecordRun]:
    """Yield the records of `columns`, by batch if fields of batches are printed. Markers get their name as their value."""
    if not by_batch:
        yield RecordRun(columns.records(found.where), _info(found, columns))
        return
    for run in columns.pieces():
        part = columns.slice(run.first - columns.first, run.end - columns.first)
        records, batch = part.records(found.where), _info(found, part)
        yield RecordRun([_named_marker(record) for record in records] if batch.is_control else records, batch)


def _info(found: FetchedColumns, columns: Columns) -> BatchInfo:
    """Return the fields of the first batch of columns, and of the partition."""
    header = next(run.header for run in columns.pieces())
    return BatchInfo(
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        NAMES[header.codec] if header.codec < len(NAMES) else "unknown",
        header.codec,
        header.is_transactional,
        header.is_control,
        found.log_start_offset,
        found.last_stable_offset,
        found.high_watermark,
    )


def _named_marker(record: ConsumerRecord) -> ConsumerRecord:
    """Return a control record with a printable value and a null key.

    The value is COMMIT, ABORT, or CONTROL and the number of its type.
    """
    kind = struct.unpack_from(">h", record.key, 2)[0] if record.key is not None and len(record.key) >= 4 else -1
    name = MARKERS.get(kind, b"CONTROL %d" % kind)
    return ConsumerRecord(record.offset, record.timestamp, record.timestamp_type, None, name, record.headers, record.where)
