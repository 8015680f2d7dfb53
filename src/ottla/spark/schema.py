"""The columns of rows in Spark: those of Spark's Kafka connector, and a query's choice of them.

A query can select columns (option `columns`, or `.schema(...)`), and read keys and values as STRING if they are text.

The types that each format supports are checked when a query is planned.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping

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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import BYTES, CORRUPT, Format, Formats

logger = logging.getLogger("ottla.spark")

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, tuple[DataType, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "offset": (LongType(),),
    "timestamp": (TimestampType(),),
    "timestampType": (IntegerType(),),
    "headers": (HEADERS,),
    **{corrupt: (BinaryType(),) for corrupt in CORRUPT.values()},
}
"""The possible types of each column of the source. The first is the default."""
_SOURCES = {corrupt: column for column, corrupt in CORRUPT.items()}
NO_TYPES: Mapping[str, DataType] = {}

SINK_TYPES: dict[str, tuple[DataType, ...]] = {name: TYPES[name] for name in ("key", "value", "headers", "topic", "partition")}
TIMESTAMP = "timestamp"
"""The column that the sink also accepts with option includeTimestamp."""

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


def _check_type(column: str, chosen: Format, kind: DataType) -> None:
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


def source_schema(columns: Iterable[str], typed: Mapping[str, DataType] = NO_TYPES) -> StructType:
    """Return the schema of the selected columns. `typed` has the types of columns with a format. Raises `OptionError`."""
    for corrupt in set(columns) & _SOURCES.keys() - {CORRUPT[column] for column in typed}:
        raise _without_format(corrupt)
    return StructType([StructField(name, typed.get(name) or TYPES[name][0]) for name in columns])


def _without_format(corrupt: str) -> OptionError:
    column = _SOURCES[corrupt]
    sentence = f"Column {corrupt} holds what does not fit {column}Format: give that option, and read the column {column} too."
    return OptionError(sentence)


def _name(kind: DataType) -> str:
    return kind.simpleString().upper()


def _shape(kind: DataType) -> str:
    """Return a type as text without its nullability, which Spark changes by itself, and which does not matter for values."""
    return kind.simpleString()


def check_read_schema(schema: StructType, formats: Formats = BYTES) -> None:
    """Check that the schema of a query has only columns of the source, and types that formats support. Raises `OptionError`."""
    names = set(schema.fieldNames())
    for column in schema.fields:
        kinds = TYPES.get(column.name)
        if kinds is None:
            raise OptionError(f"There is no column {column.name}: a schema may hold {', '.join(TYPES)}.")
        if column.name in _SOURCES and not (
            _SOURCES[column.name] in formats.formats_by_column() and _SOURCES[column.name] in names
        ):
            raise _without_format(column.name)
        if (chosen := formats.formats_by_column().get(column.name)) is not None:
            _check_type(column.name, chosen, column.dataType)
        elif _shape(column.dataType) not in map(_shape, kinds):
            right = " or ".join(map(_name, kinds))
            raise OptionError(f"Column {column.name} cannot be {_name(column.dataType)}, but {right}; cast it in the query.")
        if not column.nullable:
            raise OptionError(f"Column {column.name} must be nullable: leave out NOT NULL.")


def check_write_schema(schema: StructType, topic: str | None, *, include_timestamp: bool = False, formats: Formats = BYTES) -> None:
    """Check that rows have a value, a topic, and columns of the sink's types. Raises `OptionError`.

    Other columns are ignored, as in the JVM connector, and logged.
    """
    names = schema.fieldNames()
    if "value" not in names:
        raise OptionError("The rows to write have no column value: name one so, such as df.select(to_json(...).alias('value')).")
    if topic is None and "topic" not in names:
        raise OptionError("The topic to write to is missing: give option topic or a column named topic.")
    if include_timestamp and TIMESTAMP not in names:
        raise OptionError("Option includeTimestamp asks for a column timestamp, and the rows have none: add it, or leave it out.")
    if formats.packs_rows() and (own := sorted({"key", "headers", TIMESTAMP}.intersection(names))):
        raise OptionError(f"valueFormat arrow packs many rows into a record, which has no {own[0]} of each row: drop that column.")
    taken = SINK_TYPES | ({TIMESTAMP: TYPES[TIMESTAMP]} if include_timestamp else {})
    for column in schema.fields:
        kinds = taken.get(column.name)
        if kinds is None and column.name.lower() in taken:
            raise OptionError(f"The sink takes no column {column.name}, but {column.name.lower()}: rename it, or drop it.")
        if kinds is not None and (chosen := formats.formats_by_column().get(column.name)) is not None:
            _check_type(column.name, chosen, column.dataType)
        elif kinds is not None and _shape(column.dataType) not in map(_shape, kinds):
            right = " or ".join(map(_name, kinds))
            raise OptionError(f"Column {column.name} is {_name(column.dataType)} and must be {right}; cast or encode it.")
    if left_out := [name for name in names if name not in taken]:
        logger.warning("the sink writes no column %s; select what it shall write, or encode it into value", ", ".join(left_out))
