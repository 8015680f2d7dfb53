"""The decoder of Protobuf messages. It decodes all records in parallel, and none of them becomes a Python object.

Each step reads the next field of every message. Fields that the wanted type lacks are skipped. Fields that a message lacks are
null, as from Spark's `from_protobuf`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pyarrow as pa

from ottla.formats.bulk import Misfit
from ottla.formats.cursors import TOO_SHORT, CursorDecoder, Cursors, Ints, flatten
from ottla.formats.protobuf_schema import (
    ENUM,
    FIXED32,
    FIXED64,
    LENGTH,
    MESSAGE,
    STRING,
    VARINT,
    WIRE_TYPES,
    ProtobufField,
    ProtobufMessage,
    ProtobufSchema,
    places,
    read,
)  # fmt: skip

Found = dict[int, tuple[list[pa.Array], list[Ints]]]
"""The values found so far, by field, with the row of each."""
MOST_NESTED = 100


class ProtobufDecoder(CursorDecoder):
    """A `Decoder` of values that are Protobuf messages of one type."""

    def __init__(self, kind: pa.StructType, schema: ProtobufSchema) -> None:
        super().__init__(kind)
        self._schema = schema

    def _decode(self, cursors: Cursors) -> pa.Array:
        return _message(self._schema, self._schema.root, self._kind, cursors)


class PlacedProtobufDecoder(CursorDecoder):
    """A `Decoder` of Protobuf values from a registry. Each value begins with its message type's path of indexes in the schema
    file.
    """

    def __init__(self, kind: pa.StructType, descriptors: bytes, source: str) -> None:
        super().__init__(kind)
        self._descriptors, self._source = descriptors, source
        self._names = places(descriptors)

    def _decode(self, cursors: Cursors) -> pa.Array:
        depths = cursors.zigzags()
        if not depths.any():
            return self._messages((0,), cursors)
        made, rows = [], []
        for depth in numpy.unique(depths).tolist():
            (own,) = numpy.nonzero(depths == depth)
            part = cursors.of(own)
            for place, some in self._by_place(depth, part):
                made.append(self._messages(place, part.of(some)))
                rows.append(own[some])
        return pa.concat_arrays(made).take(pa.array(numpy.argsort(numpy.concatenate(rows))))

    def _by_place(self, depth: int, part: Cursors) -> Iterator[tuple[tuple[int, ...], Ints]]:
        """Yield the rows of each path of indexes, and move `part` to the end of the paths."""
        if not 0 <= depth <= MOST_NESTED:
            raise Misfit("it names no message of its schema")
        if depth == 0:
            yield (0,), numpy.arange(len(part))
            return
        found = numpy.stack([part.zigzags() for _ in range(depth)], axis=1)
        for place in numpy.unique(found, axis=0):
            yield tuple(place.tolist()), numpy.nonzero((found == place).all(axis=1))[0]

    def _messages(self, place: tuple[int, ...], cursors: Cursors) -> pa.Array:
        name = self._names.get(place)
        if name is None:
            raise Misfit("it names no message of its schema")
        schema = read(self._descriptors, name, self._source)
        return _message(schema, schema.root, self._kind, cursors)


def _message(schema: ProtobufSchema, message: ProtobufMessage, kind: pa.DataType, cursors: Cursors) -> pa.Array:
    """Decode one Protobuf message per cursor, up to the cursor's end."""
    if not pa.types.is_struct(kind):
        raise Misfit("a message stands where none is asked for")
    by_number = {field.number: field for field in message.fields if kind.get_field_index(field.name) >= 0}
    found: Found = defaultdict(lambda: ([], []))
    (rows,) = numpy.nonzero(cursors.at < cursors.end)
    while len(rows):
        some = cursors.of(rows)
        tags = some.varints()
        cursors.copy_back(rows, some)
        for tag in numpy.unique(tags).tolist():
            if not 8 <= tag < 1 << 32:
                raise Misfit("it has a field with a number that none can have")
            own = rows[tags == tag]
            part = cursors.of(own)
            field = by_number.get(tag >> 3)
            if field is None:
                _skip(tag & 7, part)
            else:
                _read_field(schema, field, _item_kind(schema, field, kind.field(field.name).type), tag & 7, part, own, found)
            cursors.copy_back(own, part)
        rows = rows[cursors.at[rows] < cursors.end[rows]]
    columns = [_column(schema, message, field, found, len(cursors)) for field in kind]
    return pa.StructArray.from_arrays(columns, fields=list(kind)) if columns else pa.array([{}] * len(cursors), kind)


def _item_kind(schema: ProtobufSchema, field: ProtobufField, kind: pa.DataType) -> pa.DataType:
    """Return the type of one value of a field. For a map this is its entry, for a repeated field its item."""
    if schema.entry(field) is not None:
        if not pa.types.is_map(kind):
            raise Misfit(f"{field.name}: a map stands where none is asked for")
        return pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
    if field.repeated and not pa.types.is_list(kind):
        raise Misfit(f"{field.name}: many values stand where one is asked for")
    return kind.value_type if field.repeated else kind


def _read_field(
    schema: ProtobufSchema, field: ProtobufField, kind: pa.DataType, wire: int, part: Cursors, own: Ints, found: Found
) -> None:
    """Read the next value of each message. For a packed field, read all its values."""
    values, owners = found[field.number]
    if wire == WIRE_TYPES[field.kind]:
        values.append(_value(schema, field, kind, part))
        owners.append(own)
        return
    if wire != LENGTH or not field.repeated:
        _skip(wire, part)  # skip it like an unknown field, as all readers do
        return
    inner = _within(part)
    (left,) = numpy.nonzero(inner.at < inner.end)
    while len(left):
        some = inner.of(left)
        values.append(_value(schema, field, kind, some))
        owners.append(own[left])
        inner.copy_back(left, some)
        left = left[inner.at[left] < inner.end[left]]


def _within(part: Cursors) -> Cursors:
    """Return cursors over the next length-prefixed bytes of each string."""
    sizes = _sizes(part)
    starts = part.skip(sizes)
    return Cursors(part.data, starts, starts + sizes)


def _sizes(part: Cursors) -> Ints:
    found = part.varints()
    if (found > numpy.uint64(0x7FFFFFFF)).any():
        raise Misfit(TOO_SHORT)
    return found.astype(numpy.int64)


def _skip(wire: int, part: Cursors) -> None:
    if wire == VARINT:
        part.varints()
    elif wire == LENGTH:
        part.skip(_sizes(part))
    elif wire in (FIXED32, FIXED64):
        part.skip(numpy.full(len(part), 4 if wire == FIXED32 else 8, dtype=numpy.int64))
    else:
        raise Misfit("it has a field that is written in no known way")


def _value(schema: ProtobufSchema, field: ProtobufField, kind: pa.DataType, part: Cursors) -> pa.Array:
    if field.kind == MESSAGE:
        return _message(schema, schema.messages[field.type_name], kind, _within(part))
    if WIRE_TYPES[field.kind] == LENGTH:
        sizes = _sizes(part)
        made = part.gather(part.skip(sizes), sizes)
        return made.cast(pa.string()).cast(kind) if field.kind == STRING else made.cast(kind)
    if field.kind == ENUM:
        return _symbols(schema.enums[field.type_name], part.varints().view(numpy.int64)).cast(kind)
    return pa.array(_NUMBERS[field.kind](part)).cast(kind)


def _symbols(names: Any, numbers: Ints) -> pa.Array:
    """Return the names of an enum's values. A number without a name becomes a text."""
    found, places = numpy.unique(numbers, return_inverse=True)
    return pa.array([names.get(number, str(number)) for number in found.tolist()], pa.string()).take(pa.array(places))


def _column(schema: ProtobufSchema, message: ProtobufMessage, asked: pa.Field, found: Found, count: int) -> pa.Array:
    field = message.by_name(asked.name)
    if field is None:
        return pa.nulls(count, asked.type)
    values, owners = found[field.number]
    if not values:
        return pa.nulls(count, asked.type)
    if not field.repeated:
        where = numpy.full(count, -1, dtype=numpy.int64)
        for rows, start in zip(owners, numpy.cumsum([0, *map(len, owners)]).tolist(), strict=False):
            where[rows] = numpy.arange(start, start + len(rows))  # if a field has several values, the last one is valid
        return pa.concat_arrays(values).take(pa.array(where, mask=where < 0))
    items, offsets = flatten(values, owners, count, values[0].type)
    starts = pa.array(offsets.astype(numpy.int32), mask=numpy.append(offsets[1:] == offsets[:-1], False))
    if schema.entry(field) is None:
        return pa.ListArray.from_arrays(starts, items, type=asked.type)
    return pa.MapArray.from_arrays(starts, *items.flatten(), type=asked.type)


_NUMBERS: dict[int, Callable[[Cursors], Any]] = {
    1: lambda part: part.fixed_size("<f8", 8),
    2: lambda part: part.fixed_size("<f4", 4),
    3: lambda part: part.varints().view(numpy.int64),
    4: lambda part: part.varints(),
    5: lambda part: part.varints().astype(numpy.uint32).view(numpy.int32),
    6: lambda part: part.fixed_size("<u8", 8),
    7: lambda part: part.fixed_size("<u4", 4),
    8: lambda part: part.varints() != 0,
    13: lambda part: part.varints().astype(numpy.uint32),
    15: lambda part: part.fixed_size("<i4", 4),
    16: lambda part: part.fixed_size("<i8", 8),
    17: lambda part: part.zigzags().astype(numpy.int32),
    18: lambda part: part.zigzags(),
}
"""The decoder of each type of number."""
