"""The content of a log's files as plain values, for people and programs, from Kafka's formats.

The brokers' own records, of internal topics and control records, are shown by Kafka's messages, and not by the coordinators'
state.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

from ottla.log.check.journal_dump import dump_journal
from ottla.log.checkpoints import parse_checkpoint
from ottla.log.journal.format import NAMES as JOURNAL_FILES
from ottla.log.names import INDEX, LEADER_EPOCHS, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX, parse_file_name
from ottla.log.producer_state.producers import Producers
from ottla.log.recovery.recovery import good_batches
from ottla.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.segments.scan import LENGTH_FROM
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.log.segments.transaction_index import ENTRY as ABORTED_ENTRY
from ottla.ports import Buffer, Disk, File
from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.header import BatchHeader
from ottla.records.compression.codecs import NAMES
from ottla.wire import Malformed, decode
from ottla.wire.data.control_records import ControlRecordTypeSchema, EndTxnMarker
from ottla.wire.schema import Field, Message, Struct
from ottla.wire.stored_messages import CONSUMER_OFFSETS, INSIDE, SHARE_GROUP_STATE, TRANSACTION_STATE, record_types

Row = dict[str, Any]

Stored = dict[str, object]
INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
MARKERS = {ABORT: "ABORT", COMMIT: "COMMIT"}


def _name_fields(topic: str, key: bytes | None, value: bytes | None) -> Stored | None:
    """Decode the key and value of an internal topic's record; return None if their format is unknown.

    Key and value are returned with the name or version of their messages. The value of a tombstone is None.
    """
    pair = record_types(topic).get(_number(key)) if topic in INTERNAL and key else None
    if pair is None or key is None:
        return None
    try:
        row: Stored = {"key": {"message": pair[0].__name__, **_message(pair[0], pair[0].WIRE.valid.start, key[2:])}, "value": None}
        if value is not None:
            version = _number(value)
            row["value"] = {"message": pair[1].__name__, "version": version, **_message(pair[1], version, value[2:])}
    except (Malformed, ValueError):
        return None
    return row


def _marker(key: bytes | None, value: bytes | None) -> Stored | None:
    """Decode a control record. Return None if the record is not a transaction marker."""
    try:
        kind = decode(ControlRecordTypeSchema, 0, (key or b"")[2:]).type
        if kind not in MARKERS:
            return None
        return {"control": MARKERS[kind], "coordinator_epoch": decode(EndTxnMarker, 0, (value or b"")[2:]).coordinator_epoch}
    except (Malformed, ValueError):
        return None


def _text(data: Buffer | None) -> object:
    """Return the bytes as text if they are printable, otherwise as hexadecimal digits."""
    if data is None:
        return None
    try:
        found = bytes(data).decode()
    except UnicodeDecodeError:
        return {"hex": bytes(data).hex()}
    return found if found.isprintable() else {"hex": bytes(data).hex()}


def _number(data: bytes | None) -> int:
    return int.from_bytes(data[:2], "big", signed=True) if data and len(data) >= 2 else -1


def _message(cls: type[Message], version: int, data: Buffer) -> Stored:
    """Decode a message. Raises `Malformed`, and ValueError for an unknown version."""
    return _struct(decode(cls, version, data), version, cls.__name__, "")


def _struct(struct: Struct, version: int, message: str, path: str) -> Stored:
    fields = [field for field in type(struct).WIRE.fields if version in field.present]
    return {field.name: _value(getattr(struct, field.name), field, version, message, path + field.name) for field in fields}


def _value(value: object, field: Field, version: int, message: str, path: str) -> object:
    if isinstance(value, list):
        return [_value(one, field, version, message, path) for one in value]
    if isinstance(value, Struct):
        return _struct(value, version, message, f"{path}.")
    if field.kind == "16s" and isinstance(value, bytes):
        return urlsafe_b64encode(value).rstrip(b"=").decode()
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    inside = INSIDE.get((message, path))
    if inside is not None and value:
        try:
            return _message(inside, min(_number(bytes(value)), inside.WIRE.valid.stop - 1), bytes(value)[2:])
        except (Malformed, ValueError):
            pass  # groups of other protocol types store bytes of their own there
    return _text(value)


def dump(disk: Disk, path: str, *, deep: bool = False, topic: str = "") -> Iterator[Row]:
    """Yield a row for each batch, entry or line of a file. Where the file is unreadable, the row has the key `error`.

    With `deep`, rows of batches include the records. Records of an internal `topic` have named fields.
    """
    name = path.rpartition("/")[2]
    base_offset, suffix = parse_file_name(name) or (0, "")
    if name in JOURNAL_FILES or (name.endswith(".damaged") and name.partition(".")[0] in JOURNAL_FILES):
        yield from dump_journal(disk, path)
    elif LOG in suffix:
        yield from _batches(disk.open(path), base_offset, topic if deep else None)
    elif suffix.startswith((INDEX, TIME_INDEX, TRANSACTION_INDEX)):
        yield from _entries(suffix, disk.read_file(path), base_offset)
    elif suffix == SNAPSHOT:
        yield from _producers(disk.read_file(path))
    else:
        yield from _lines(name, disk.read_file(path))


def _batches(file: File, base_offset: int, topic: str | None) -> Iterator[Row]:
    """Yield a row for each batch of a segment, with the batch's records unless `topic` is None."""
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
    known = _marker(record.key, record.value) if control else _name_fields(topic, record.key, record.value)
    content = known or {"key": _text(record.key), "value": _text(record.value)}
    headers = [[name, _text(value)] for name, value in record.headers]
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
    """Yield the lines of a checkpoint, with named numbers for a known kind of checkpoint.

    Yield other text unchanged, without final zeros.
    """
    names = ("leader_epoch", "start_offset") if name == LEADER_EPOCHS else ("topic", "partition", "offset")
    is_known = name == LEADER_EPOCHS or name.endswith("-offset-checkpoint")
    lines, text = parse_checkpoint(data), data.rstrip(b"\0")
    try:
        plain = text.decode()
    except UnicodeDecodeError:
        yield {"error": "the file is not of a log, and no text"}
        return
    for words in lines or [line.split() for line in plain.splitlines()]:
        if lines and is_known and len(words) == len(names):
            yield {field: word if field == "topic" else int(word) for field, word in zip(names, words, strict=True)}
        else:
            line = " ".join(words)
            yield {"line": line if line.isprintable() else repr(line)}
    if len(text) < len(data):
        yield {"room_bytes": len(data) - len(text)}
    if lines is None and name.endswith("-checkpoint") and data:
        yield {"error": "the checkpoint is damaged, or of an unknown version"}
