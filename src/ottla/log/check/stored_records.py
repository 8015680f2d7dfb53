"""The brokers' own records as plain values by name: records of internal topics, and control records.

It uses only Kafka's messages, and not the coordinators' state.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode

from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.ports import Buffer
from ottla.wire import Malformed, decode
from ottla.wire.data.control_records import ControlRecordTypeSchema, EndTxnMarker
from ottla.wire.schema import Field, Message, Struct
from ottla.wire.stored_messages import CONSUMER_OFFSETS, INSIDE, SHARE_GROUP_STATE, TRANSACTION_STATE, record_types

Row = dict[str, object]
INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
MARKERS = {ABORT: "ABORT", COMMIT: "COMMIT"}


def named(topic: str, key: bytes | None, value: bytes | None) -> Row | None:
    """Decode the key and value of an internal topic's record, each with its message's name or version; None if unknown.

    A tombstone's value is None.
    """
    pair = record_types(topic).get(_number(key)) if topic in INTERNAL and key else None
    if pair is None or key is None:
        return None
    try:
        row: Row = {"key": {"message": pair[0].__name__, **_message(pair[0], pair[0].WIRE.valid.start, key[2:])}, "value": None}
        if value is not None:
            version = _number(value)
            row["value"] = {"message": pair[1].__name__, "version": version, **_message(pair[1], version, value[2:])}
    except (Malformed, ValueError):
        return None
    return row


def marker(key: bytes | None, value: bytes | None) -> Row | None:
    """Decode a control record. Return None if the record is no transaction marker."""
    try:
        kind = decode(ControlRecordTypeSchema, 0, (key or b"")[2:]).type
        if kind not in MARKERS:
            return None
        return {"control": MARKERS[kind], "coordinator_epoch": decode(EndTxnMarker, 0, (value or b"")[2:]).coordinator_epoch}
    except (Malformed, ValueError):
        return None


def text(data: Buffer | None) -> object:
    """Return printable bytes as text, others as hex."""
    if data is None:
        return None
    try:
        found = bytes(data).decode()
    except UnicodeDecodeError:
        return {"hex": bytes(data).hex()}
    return found if found.isprintable() else {"hex": bytes(data).hex()}


def _number(data: bytes | None) -> int:
    return int.from_bytes(data[:2], "big", signed=True) if data and len(data) >= 2 else -1


def _message(cls: type[Message], version: int, data: Buffer) -> Row:
    """Decode a message. Raises `Malformed`, and ValueError for an unknown version."""
    return _struct(decode(cls, version, data), version, cls.__name__, "")


def _struct(struct: Struct, version: int, message: str, path: str) -> Row:
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
    return text(value)
