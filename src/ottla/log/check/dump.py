"""The content of a log's files as plain values, for people and programs, from Kafka's formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.log.check import stored_records
from ottla.log.checkpoints import parse_checkpoint
from ottla.log.names import INDEX, LEADER_EPOCHS, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX, parse_file_name
from ottla.log.producer_state.producers import Producers
from ottla.log.recovery.recovery import good_batches
from ottla.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.segments.scan import LENGTH_FROM
from ottla.log.segments.transaction_index import ENTRY as ABORTED_ENTRY
from ottla.ports import Disk, File
from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.header import BatchHeader
from ottla.records.compression.codecs import NAMES

Row = dict[str, Any]


def dump(disk: Disk, path: str, *, deep: bool = False, topic: str = "") -> Iterator[Row]:
    """Yield a row for each batch, entry or line of a file. Where the file is unreadable, the row has the key `error`.

    With `deep`, rows of batches include the records. Records of an internal `topic` have named fields.
    """
    name = path.rpartition("/")[2]
    base_offset, suffix = parse_file_name(name) or (0, "")
    if LOG in suffix:
        yield from _batches(disk.open(path), base_offset, topic if deep else None)
    elif suffix.startswith((INDEX, TIME_INDEX, TRANSACTION_INDEX)):
        yield from _entries(suffix, disk.read_file(path), base_offset)
    elif suffix == SNAPSHOT:
        yield from _producers(disk.read_file(path))
    else:
        yield from _lines(name, disk.read_file(path))


def _batches(file: File, base_offset: int, topic: str | None) -> Iterator[Row]:
    """Yield batches, with records unless `topic` is None."""
    end = 0
    for position, header in good_batches(file, 0, file.size, base_offset):
        end = position + header.batch_length + LENGTH_FROM
        row = _batch(position, header)
        if topic is not None:
            try:
                opened: list[Record] = open_batches(file.read(position, header.size), control=True).records()
                row["records"] = [_record(record, topic, control=header.is_control) for record in opened]
            except ValueError as error:
                row["error"] = f"the records cannot be opened: {error}"
        yield row
    if end != file.size:
        yield {"position": end, "error": f"no whole batch with the right CRC-32C begins here; {file.size - end} bytes follow"}


def _batch(position: int, header: BatchHeader) -> Row:
    return {
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "codec": NAMES[header.codec] if header.codec < len(NAMES) else str(header.codec),
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }


def _record(record: Record, topic: str, *, control: bool) -> Row:
    """Return a record's key and value: with named fields if their format is known, otherwise as text or hex."""
    known = stored_records.marker(record.key, record.value) if control else stored_records.named(topic, record.key, record.value)
    content = known or {"key": stored_records.text(record.key), "value": stored_records.text(record.value)}
    headers = [[name, stored_records.text(value)] for name, value in record.headers]
    row: Row = {"offset": record.offset, "timestamp": record.timestamp, **content}
    return row | ({"headers": headers} if headers else {})


def _entries(suffix: str, data: bytes, base_offset: int) -> Iterator[Row]:
    if suffix.startswith(TRANSACTION_INDEX):
        names: tuple[str, ...] = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
        entry = ABORTED_ENTRY
    elif suffix.startswith(TIME_INDEX):
        names, entry = ("timestamp", "offset"), TIME_ENTRY
    else:
        names, entry = ("offset", "position"), OFFSET_ENTRY
    whole = len(data) // entry.size * entry.size
    for values in entry.iter_unpack(data[:whole]):
        row = dict(zip(names, values, strict=True))
        if "offset" in row:
            row["offset"] += base_offset
        yield row
    if whole != len(data):
        yield {"position": whole, "error": f"{len(data) - whole} bytes are an incomplete entry"}


def _producers(data: bytes) -> Iterator[Row]:
    producers = Producers.decode(data)
    if producers is None:
        yield {"error": "the snapshot is damaged: its CRC-32C or its size is wrong"}
        return
    for producer_id, producer in producers.by_id.items():
        last = producer.batches[-1] if producer.batches else None
        yield {
            "producer_id": producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": last.last_offset if last else -1,
            "last_timestamp": producer.last_timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "current_txn_first_offset": producer.txn_first_offset,
        }


def _lines(name: str, data: bytes) -> Iterator[Row]:
    """Yield the lines of a checkpoint, with named numbers if its name is known. Yield other text unchanged, without final zeros."""
    names = ("leader_epoch", "start_offset") if name == LEADER_EPOCHS else ("topic", "partition", "offset")
    is_known = name == LEADER_EPOCHS or name.endswith("-offset-checkpoint")
    lines, text = parse_checkpoint(data), data.rstrip(b"\0")
    for words in lines or [line.split() for line in text.decode(errors="replace").splitlines()]:
        if lines and is_known and len(words) == len(names):
            yield {field: word if field == "topic" else int(word) for field, word in zip(names, words, strict=True)}
        else:
            yield {"line": " ".join(words)}
    if len(text) < len(data):
        yield {"room_bytes": len(data) - len(text)}
    if lines is None and name.endswith("-checkpoint") and data:
        yield {"error": "the checkpoint is damaged, or of an unknown version"}
