"""The encoder of Avro's binary encoding, column by column: no row becomes a Python object."""

from __future__ import annotations

import numpy
import pyarrow as pa
import pyarrow.compute as compute

from ottla.formats import cursors
from ottla.formats.avro_resolution import UNITS
from ottla.formats.avro_schema import Avro
from ottla.formats.cursors import scatter
from ottla.formats.decimals import to_unscaled
from ottla.formats.errors import OptionError

_TIMES = {"date": pa.date32(), **UNITS}
_END = b"\x00"


class AvroEncoder:
    """An `Encoder` of Avro that writes all values in one schema."""

    def __init__(self, schema: Avro, name: str) -> None:
        """Create the encoder of a column. `name` is the column's name in messages."""
        self._schema = schema
        self._name = name

    def encode(self, column: pa.Array) -> pa.Array:
        held, rows = cursors.present(column)
        try:
            made = _encode(self._schema, held, self._name)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise OptionError(f"A row does not fit the schema of {self._name}: {error}.") from None
        return made if len(rows) == len(column) else scatter(made, rows, len(column))


def _encode(node: Avro, column: pa.Array, path: str) -> pa.Array:
    """Return the bytes of each row. Raises `OptionError` if the schema cannot represent a value."""
    if node.kind == "union":
        return _union(node, column, path)
    if column.null_count:
        raise OptionError(f"{path} is null in a row, and its schema of Avro has no null there: fill it, or widen the schema.")
    if node.kind == "record":
        return _record(node, column, path)
    if node.kind == "array":
        return _encode_arrays(node, compute.list_flatten(column), None, compute.list_value_length(column), path)
    if node.kind == "map":
        if not pa.types.is_map(column.type):
            raise OptionError(f"{path} is a map in its schema of Avro, and no MAP in the rows: make it one.")
        pairs = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
        keys, values = compute.list_flatten(pairs).flatten()
        return _encode_arrays(node, values, keys, compute.list_value_length(pairs), path)
    return _scalar(node, column, path)


def _union(node: Avro, column: pa.Array, path: str) -> pa.Array:
    found = node.optional()
    if found is None:
        raise OptionError(f"{path} is a union of several types in its schema of Avro: only one of null and one type is written.")
    null, inner = found
    held, rows = cursors.present(column)
    made = cursors.together(bytes([2 * (1 - null)]), _encode(inner, held, path))
    return cursors.fill(made, rows, len(column), bytes([2 * null]))


def _record(node: Avro, column: pa.Array, path: str) -> pa.Array:
    if not pa.types.is_struct(column.type):
        raise OptionError(f"{path} is a record in its schema of Avro, and no STRUCT in the rows: make it one.")
    there = dict(zip(column.type.names, column.flatten(), strict=True))
    if extra := there.keys() - {name for name, _ in node.fields}:
        raise OptionError(f"{path}.{min(extra)} is not in the schema of Avro: leave it out, or widen the schema.")
    parts = [_encode(each, there.get(name, pa.nulls(len(column))), f"{path}.{name}") for name, each in node.fields]
    return cursors.together(b"", *parts) if parts else pa.array([b""] * len(column), pa.binary())


def _encode_arrays(node: Avro, items: pa.Array, keys: pa.Array | None, counts: pa.Array, path: str) -> pa.Array:
    """Encode arrays. An array is a block with its items, followed by an empty block.

    An array without items is only the empty block.
    """
    assert node.inner is not None
    made = _encode(node.inner, items, f"{path}.element")
    if keys is not None:
        made = cursors.together(_with_length(keys), made)
    sizes = counts.to_numpy(zero_copy_only=False).astype(numpy.int64)
    heads = compute.if_else(pa.array(sizes > 0), cursors.zigzags(sizes), pa.scalar(b"", pa.binary()))
    return cursors.together(heads, cursors.rejoin(made, sizes), _END)


def _scalar(node: Avro, column: pa.Array, path: str) -> pa.Array:
    if node.logical == "decimal":
        return _decimal(node, column, path)
    if node.logical:
        column = _at_time(column, _TIMES[node.logical])
        return cursors.zigzags(column.cast(pa.int32() if node.logical == "date" else pa.int64()).cast(pa.int64()).to_numpy())
    if node.kind in ("int", "long"):
        return cursors.zigzags(column.cast(pa.int32() if node.kind == "int" else pa.int64()).cast(pa.int64()).to_numpy())
    if node.kind in ("float", "double"):
        return cursors.encode_fixed(_encode_floats(node, column, path).to_numpy())
    if node.kind == "boolean":
        return _boolean(column, path)
    if node.kind == "enum":
        places = compute.index_in(column, pa.array(node.symbols, pa.string()))
        if places.null_count:
            raise OptionError(
                f"{path} is a text in a row that is none of {', '.join(node.symbols)}: its schema of Avro has no other."
            )
        return cursors.zigzags(places.cast(pa.int64()).to_numpy())
    if node.kind == "fixed":
        if (cursors.lengths(column) != node.size).any():
            raise OptionError(f"{path} must have {node.size} bytes in each row, as its schema of Avro says.")
        return column.cast(pa.binary())
    return _with_length(column)


def _boolean(column: pa.Array, path: str) -> pa.Array:
    if not pa.types.is_boolean(column.type):
        raise OptionError(f"{path} is a boolean in its schema of Avro, and no BOOLEAN in the rows: cast it.")
    return cursors.encode_fixed(column.to_numpy(zero_copy_only=False).astype(numpy.uint8))


def _encode_floats(node: Avro, column: pa.Array, path: str) -> pa.Array:
    made = column.cast(pa.float32() if node.kind == "float" else pa.float64())
    if pa.types.is_floating(column.type) and compute.any(compute.xor(compute.is_inf(made), compute.is_inf(column))).as_py():
        raise OptionError(f"{path} is a number in a row that is too large for a float, as its schema of Avro has it.")
    return made


def _at_time(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column of times to milliseconds or microseconds. Times are rounded down, also before 1970, as by Spark's to_avro."""
    if pa.types.is_timestamp(kind) and kind.unit == "ms" and pa.types.is_timestamp(column.type) and column.type.unit == "us":
        zone = column.type.tz
        column = pa.array(numpy.floor_divide(column.cast(pa.int64()).to_numpy(), 1000)).cast(pa.timestamp("ms", zone))
    return column.cast(kind)


def _with_length(column: pa.Array) -> pa.Array:
    return cursors.together(cursors.zigzags(cursors.lengths(column)), column.cast(pa.binary()))


def _decimal(node: Avro, column: pa.Array, path: str) -> pa.Array:
    """Encode decimals one by one, because there is no columnar conversion for them."""
    numbers = [to_unscaled(each, node.scale) for each in column.cast(pa.decimal128(38, node.scale)).to_pylist()]
    size, limit = node.size, 10**node.precision
    if any(abs(number) >= limit for number in numbers):
        raise OptionError(f"{path} is a number in a row of more than {node.precision} digits, which its schema of Avro has not.")
    try:
        raw = [each.to_bytes(size or each.bit_length() // 8 + 1, "big", signed=True) for each in numbers]
    except OverflowError:
        raise OptionError(
            f"{path} is a number in a row that does not fit into {size} bytes, as its schema of Avro has it."
        ) from None
    made = pa.array(raw, pa.binary())
    return made if size else _with_length(made)
