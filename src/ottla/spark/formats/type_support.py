"""The types that each format supports, checked when a query is planned. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format

_SCALARS = (
    BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType, StringType, DateType,
    TimestampType, TimestampNTZType,
)  # fmt: skip
NAMED = ("avro", "protobuf")
"""Formats whose field names can only have letters, digits and underscores."""
_TEXT = {"csv": _SCALARS}
_NESTED = (*_SCALARS, BinaryType, ArrayType, MapType, StructType)


def _inner(kind: DataType, path: str) -> Iterator[tuple[str, DataType]]:
    """Yield a type and all types within it, each with its path of names."""
    yield path, kind
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _inner(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, ArrayType):
        yield from _inner(kind.elementType, f"{path}.element")
    elif isinstance(kind, MapType):
        yield from _inner(kind.keyType, f"{path}.key")
        yield from _inner(kind.valueType, f"{path}.value")


def check_type(column: str, chosen: Format, kind: DataType) -> None:
    """Check that a format supports values of `kind`. Raises `OptionError`."""
    option = f"{column}Format {chosen.name}"
    if not isinstance(kind, StructType):
        shown = kind.simpleString().upper()
        raise OptionError(f"Column {column} is {shown}, and {option} needs a STRUCT: such as named_struct('delay', delay).")
    if not kind.fields:
        raise OptionError(f"Column {column} is a STRUCT without fields, and {option} needs one at least.")
    allowed = _TEXT.get(chosen.name, _NESTED)
    for name, each in _inner(kind, column):
        if name != column and not isinstance(each, allowed):
            raise OptionError(f"{option} cannot hold {name}, which is {each.simpleString().upper()}: cast it or leave it out.")
        if chosen.name in NAMED and isinstance(each, StructType):
            _check_names(option, each)
        if chosen.name != "protobuf" and isinstance(each, MapType) and not isinstance(each.keyType, StringType):
            raise OptionError(f"{option} cannot hold {name}: the keys of a MAP must be STRING.")


def _check_names(option: str, kind: StructType) -> None:
    for name in kind.fieldNames():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise OptionError(f"{option} cannot have a field {name!r}: it takes letters, digits and underscores, so rename it.")
