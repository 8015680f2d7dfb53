"""Protobuf schemas, parsed from descriptors of `protoc --descriptor_set_out`, and their types in Arrow. Pure.

A descriptor is itself a Protobuf message. The module reads only those of its fields that columns need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from ottla.formats.errors import OptionError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
STRING, MESSAGE, BYTES, ENUM = 9, 11, 12, 14
REPEATED = 3
WIRE_TYPES = {
    1: FIXED64, 2: FIXED32, 3: VARINT, 4: VARINT, 5: VARINT, 6: FIXED64, 7: FIXED32, 8: VARINT, STRING: LENGTH, MESSAGE: LENGTH,
    BYTES: LENGTH, 13: VARINT, ENUM: VARINT, 15: FIXED32, 16: FIXED64, 17: VARINT, 18: VARINT,
}  # fmt: skip
"""The wire type of each field type. Groups, which are deprecated, are not supported."""
_ARROW: dict[int, pa.DataType] = {
    1: pa.float64(), 2: pa.float32(), 3: pa.int64(), 4: pa.decimal128(20, 0), 5: pa.int32(),
    6: pa.decimal128(20, 0), 7: pa.int64(), 8: pa.bool_(), STRING: pa.string(), BYTES: pa.binary(),
    13: pa.int64(), ENUM: pa.string(), 15: pa.int32(), 16: pa.int64(), 17: pa.int32(),
    18: pa.int64(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProtobufField:
    """A field of a Protobuf message. `names` maps numbers to names for an enum. `type_name` is the name of a message or an enum."""

    number: int
    name: str
    kind: int
    repeated: bool
    type_name: str = ""


@dataclass(frozen=True, slots=True)
class ProtobufMessage:
    """A message type of a Protobuf schema."""

    name: str
    fields: tuple[ProtobufField, ...]
    is_map_entry: bool = False

    def by_name(self, name: str) -> ProtobufField | None:
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """All messages and enums of a Protobuf descriptor, by their full names. `message` is the message type of the values."""

    messages: Mapping[str, ProtobufMessage]
    enums: Mapping[str, Mapping[int, str]]
    root: ProtobufMessage

    def entry(self, field: ProtobufField) -> ProtobufMessage | None:
        """Return the entry message if the field is a map; else None."""
        found = self.messages.get(field.type_name) if field.kind == MESSAGE else None
        return found if found is not None and found.is_map_entry and field.repeated else None


def _well_known() -> dict[str, ProtobufMessage]:
    """Return the descriptors of Protobuf's well-known types. Registries do not store them."""
    instant = (ProtobufField(1, "seconds", 3, repeated=False), ProtobufField(2, "nanos", 5, repeated=False))
    wrapped = {"Double": 1, "Float": 2, "Int64": 3, "UInt64": 4, "Int32": 5, "UInt32": 13, "Bool": 8, "String": 9, "Bytes": 12}
    shapes = {"Timestamp": instant, "Duration": instant, "Empty": ()}
    shapes |= {f"{name}Value": (ProtobufField(1, "value", kind, repeated=False),) for name, kind in wrapped.items()}
    return {f".google.protobuf.{name}": ProtobufMessage(f".google.protobuf.{name}", fields) for name, fields in shapes.items()}


class _NoDescriptors(Exception):
    """Raised for an invalid Protobuf descriptor. The message says why."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _NoDescriptors("it ends too early")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number, value, bytes) of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        size = {FIXED64: 8, FIXED32: 4}.get(tag & 7, 0)
        value = 0
        if tag & 7 == VARINT:
            value, at = _varint(data, at)
        elif tag & 7 == LENGTH:
            size, at = _varint(data, at)
        elif not size:
            raise _NoDescriptors("it has a field that is written in no known way")
        if size > len(data) - at:
            raise _NoDescriptors("it ends too early")
        yield tag >> 3, value, data[at : at + size]
        at += size


def _text(data: bytes, number: int) -> str:
    return next((raw.decode() for found, _, raw in _fields(data) if found == number), "")


def _number(data: bytes, number: int) -> int:
    return next((value for found, value, _ in _fields(data) if found == number), 0)


def _to_signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def read(descriptors: bytes, message: str, source: str) -> ProtobufSchema:
    """Parse a set of descriptors. Raises `OptionError`; `source` is the option or the place that has the descriptors.

    `message` names the message that values have; by default it is the first message of the last file.
    """
    messages = _well_known()
    enums: dict[str, dict[int, str]] = {}
    root = ""
    try:
        for number, _, file in _fields(descriptors):
            if number != 1:
                raise _NoDescriptors("it is not a set of descriptors")
            package = _text(file, 2)
            prefix = f".{package}" if package else ""
            _collect(file, prefix, messages, enums, inner=(4, 5))
            first = next((raw for found, _, raw in _fields(file) if found == 4), None)
            root = root if first is None else f"{prefix}.{_text(first, 1)}"
    except (_NoDescriptors, UnicodeDecodeError, RecursionError) as error:
        made = "make it with protoc --include_imports --descriptor_set_out"
        raise OptionError(f"{source} has no descriptors of Protobuf ({error}): {made}.") from None
    root = f".{message.lstrip('.')}" if message else root
    if root not in messages:
        own = (name for name, each in messages.items() if not each.is_map_entry and not name.startswith(".google.protobuf."))
        offered = ", ".join(sorted(name.lstrip(".") for name in own))
        raise OptionError(f"{source} asks for message {root.lstrip('.')}, and the descriptors have {offered or 'none'}.")
    return ProtobufSchema(messages, enums, messages[root])


def places(descriptors: bytes) -> dict[tuple[int, ...], str]:
    """Return the full name of each message in the last file, by its path of indexes.

    (0, 2) is the third message within the file's first message.
    """
    *_, file = (raw for number, _, raw in _fields(descriptors) if number == 1)
    package = _text(file, 2)
    found: dict[tuple[int, ...], str] = {}
    waiting: list[tuple[tuple[int, ...], str, bytes, int]] = [((), f".{package}" if package else "", file, 4)]
    while waiting:
        place, prefix, data, inner = waiting.pop()
        for index, raw in enumerate([raw for number, _, raw in _fields(data) if number == inner]):
            name = f"{prefix}.{_text(raw, 1)}"
            found[*place, index] = name
            waiting.append(((*place, index), name, raw, 3))
    return found


def files_of(descriptors: bytes) -> list[tuple[str, bytes]]:
    """Return the name and the descriptor of each file in a set. Imported files come first."""
    return [(_text(raw, 1), raw) for number, _, raw in _fields(descriptors) if number == 1]


def _collect(
    data: bytes,
    prefix: str,
    messages: dict[str, ProtobufMessage],
    enums: dict[str, dict[int, str]],
    inner: tuple[int, int],
) -> None:
    """Add the messages and enums of a file, or of a message, to the mappings.

    `inner` are the field numbers of messages and of enums in the descriptor.
    """
    for number, _, raw in _fields(data):
        name = f"{prefix}.{_text(raw, 1)}" if number in inner else ""
        if number == inner[1]:
            enums[name] = {_to_signed(_number(value, 2)): _text(value, 1) for found, _, value in _fields(raw) if found == 2}
        elif number == inner[0]:
            fields = tuple(_field(each) for found, _, each in _fields(raw) if found == 2)
            options = next((each for found, _, each in _fields(raw) if found == 7), b"")
            messages[name] = ProtobufMessage(name, fields, bool(_number(options, 7)))
            _collect(raw, name, messages, enums, inner=(3, 4))


def _field(data: bytes) -> ProtobufField:
    return ProtobufField(_number(data, 3), _text(data, 1), _number(data, 5), _number(data, 4) == REPEATED, _text(data, 6))


def arrow_type(schema: ProtobufSchema, message: ProtobufMessage | None = None, within: tuple[str, ...] = ()) -> pa.StructType:
    """Return Arrow's type of the values. Raises `OptionError` for a recursive message."""
    message = message or schema.root
    if message.name in within:
        name = message.name.lstrip(".")
        raise OptionError(f"Message {name} of Protobuf holds itself, which no column can: leave it out of the columns to read.")
    return pa.struct([(field.name, _field_type(schema, field, (*within, message.name))) for field in message.fields])


def _field_type(schema: ProtobufSchema, field: ProtobufField, within: tuple[str, ...]) -> pa.DataType:
    if (entry := schema.entry(field)) is not None:
        key, value = (_field_type(schema, each, within) for each in entry.fields)
        return pa.map_(key, value)
    if field.kind in (MESSAGE, ENUM) and field.type_name not in (schema.messages if field.kind == MESSAGE else schema.enums):
        name = field.type_name.lstrip(".")
        raise OptionError(
            f"Field {field.name} of Protobuf is of {name}, which the descriptors lack: leave it out of the columns to read."
        )
    if field.kind == MESSAGE:
        one: pa.DataType = arrow_type(schema, schema.messages[field.type_name], within)
    elif field.kind in _ARROW:
        one = _ARROW[field.kind]
    else:
        raise OptionError(f"Field {field.name} of Protobuf is a group, which has no column: leave it out of the columns to read.")
    return pa.list_(one) if field.repeated else one
