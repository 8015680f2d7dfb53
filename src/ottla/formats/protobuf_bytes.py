"""The encoder of Protobuf messages. It encodes one column of all rows at a time. Null fields are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as compute

from ottla.formats import cursors
from ottla.formats.cursors import scatter
from ottla.formats.errors import OptionError
from ottla.formats.protobuf_schema import (
    ENUM,
    LENGTH,
    MESSAGE,
    WIRE_TYPES,
    ProtobufField,
    ProtobufMessage,
    ProtobufSchema,
)  # fmt: skip


class ProtobufEncoder:
    """An `Encoder` of one type of message."""

    def __init__(self, schema: ProtobufSchema, name: str) -> None:
        """Create the encoder of a column with this name, for error messages."""
        self._schema = schema
        self._name = name

    def encode(self, column: pa.Array) -> pa.Array:
        held, rows = cursors.present(column)
        try:
            made = _message(self._schema, self._schema.root, held, self._name)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise OptionError(f"A row does not fit the descriptor of {self._name}: {error}.") from None
        return scatter(made, rows, len(column))


def _tag(field: ProtobufField, wire: int) -> bytes:
    return bytes(cursors.varints(numpy.array([field.number << 3 | wire], dtype=numpy.uint64))[0].as_py())


def _message(schema: ProtobufSchema, message: ProtobufMessage, column: pa.Array, path: str) -> pa.Array:
    if not pa.types.is_struct(column.type):
        raise OptionError(f"{path} is a message in its descriptor, and no STRUCT in the rows: make it one.")
    parts: list[pa.Array] = []
    for name, values in zip(column.type.names, column.flatten(), strict=True):
        field = message.by_name(name)
        if field is None:
            raise OptionError(f"{path}.{name} is not in the descriptor: leave it out, or add it there.")
        held, rows = cursors.present(values)
        write = _encode_repeated if field.repeated else _single
        parts.append(cursors.fill(write(schema, field, held, f"{path}.{name}"), rows, len(column), b""))
    return cursors.together(b"", *parts)


def _single(schema: ProtobufSchema, field: ProtobufField, column: pa.Array, path: str) -> pa.Array:
    return cursors.together(_tag(field, WIRE_TYPES[field.kind]), _value(schema, field, column, path))


def _encode_repeated(schema: ProtobufSchema, field: ProtobufField, column: pa.Array, path: str) -> pa.Array:
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    if not pa.types.is_list(column.type):
        raise OptionError(f"{path} is repeated in its descriptor, and no ARRAY in the rows: make it one.")
    items = compute.list_flatten(column)
    if items.null_count:
        raise OptionError(f"{path} holds null in a row, and what is repeated in Protobuf cannot: leave such items out.")
    counts = compute.list_value_length(column).to_numpy(zero_copy_only=False).astype(numpy.int64)
    packed = WIRE_TYPES[field.kind] != LENGTH
    values = _value(schema, field, items, path) if packed else _single(schema, field, items, path)
    joined = cursors.rejoin(values, counts)
    if not packed:
        return joined
    whole = cursors.together(_tag(field, LENGTH), _with_sizes(joined))
    return compute.if_else(pa.array(counts > 0), whole, pa.scalar(b"", pa.binary()))


def _with_sizes(column: pa.Array) -> pa.Array:
    return cursors.together(cursors.varints(cursors.lengths(column).view(numpy.uint64)), column.cast(pa.binary()))


def _value(schema: ProtobufSchema, field: ProtobufField, column: pa.Array, path: str) -> pa.Array:
    """Return the bytes of each value, without the field's tag. No value may be null."""
    if field.kind == MESSAGE:
        return _with_sizes(_message(schema, schema.messages[field.type_name], column, path))
    if WIRE_TYPES[field.kind] == LENGTH:
        return _with_sizes(column.cast(pa.binary()))
    if field.kind == ENUM:
        return _symbols(schema.enums[field.type_name], column, path)
    target, write = _NUMBERS[field.kind]
    return write(column.cast(target).to_numpy(zero_copy_only=False))


def _symbols(names: Mapping[int, str], column: pa.Array, path: str) -> pa.Array:
    places = compute.index_in(column.cast(pa.string()), pa.array(list(names.values()), pa.string()))
    if places.null_count:
        raise OptionError(f"{path} is a text in a row that is none of {', '.join(names.values())}: its descriptor has no other.")
    return cursors.varints(numpy.array(list(names), dtype=numpy.int64)[places.to_numpy()].view(numpy.uint64))


def _to_signed(values: Any) -> pa.Array:
    return cursors.varints(values.astype(numpy.int64).view(numpy.uint64))


_NUMBERS: dict[int, tuple[pa.DataType, Callable[[Any], pa.Array]]] = {
    1: (pa.float64(), cursors.encode_fixed),
    2: (pa.float32(), cursors.encode_fixed),
    3: (pa.int64(), _to_signed),
    4: (pa.uint64(), cursors.varints),
    5: (pa.int32(), _to_signed),
    6: (pa.uint64(), cursors.encode_fixed),
    7: (pa.uint32(), cursors.encode_fixed),
    8: (pa.bool_(), _to_signed),
    13: (pa.uint32(), _to_signed),
    15: (pa.int32(), cursors.encode_fixed),
    16: (pa.int64(), cursors.encode_fixed),
    17: (pa.int32(), lambda values: cursors.zigzags(values.astype(numpy.int64))),
    18: (pa.int64(), cursors.zigzags),
}
"""The Arrow type and the encoder of each type of number."""
