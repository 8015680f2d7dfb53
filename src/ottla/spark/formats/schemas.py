"""The columns of a format's values, and the schema for writing them.

A schema is DDL, Spark's JSON, or a text in the format's own language (Avro, JSON Schema). The option contains it or names a file
with it, or a registry has it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructType

from ottla.formats import avro_schema, json_schema, protobuf_schema
from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format
from ottla.spark.formats.ddl import columns_of
from ottla.spark.formats.written_schemas import avro_schema_of, json_schema_of
from ottla.spark.options import ReadOptions, WriteOptions, named_topics

if TYPE_CHECKING:
    from ottla.formats.registry import Registered

_LOADED = "base64:"
Options = TypeVar("Options", ReadOptions, WriteOptions)


def schema_text(text: str, option: str) -> str:
    """Return the schema of an option, which may name a file. Raises `OptionError`."""
    stripped = text.strip()
    path = Path(stripped)
    if "\n" in stripped or len(stripped) > 1024 or " " in stripped or stripped.startswith("{") or not path.suffix:
        return stripped
    try:
        return _file(stripped, option).decode().strip()
    except UnicodeDecodeError:
        raise OptionError(f"Option {option} names the file {stripped}, which holds no text: name another one.") from None


def _file(path: str, option: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"Option {option} names the file {path}, and it cannot be read: {error}.") from None


def load_schemas(options: Options) -> Options:
    """Return options in which the contents of schemas replace their file names, because executors may not have the files."""
    given: dict[str, Any] = {}
    for column, chosen in options.formats.formats_by_column().items():
        text, option = chosen.schema, f"{column}Schema"
        if text is not None and chosen.name == "protobuf" and not text.startswith(_LOADED):
            path, _, message = text.partition("#")
            text = f"{_LOADED}{base64.b64encode(_file(path.strip(), option)).decode()}#{message}"
        elif text is not None and chosen.name != "protobuf":
            text = schema_text(text, option)
        elif text is None and chosen.name == "avro" and chosen.registry is not None and isinstance(options, ReadOptions):
            text = _newest_text(chosen.registry, column, chosen, named_topics(options.selection))
        given[column] = replace(chosen, schema=text)
    return replace(options, formats=replace(options.formats, **given)) if given else options


def _newest_text(place: str, column: str, chosen: Format, topics: Sequence[str]) -> str | None:
    """Return the newest schema of the first topic, by which values are resolved; None if the registry has none."""
    from ottla.formats.registry import subject_of  # imported when needed, as in `newest`
    from ottla.spark.formats.registries import registry_of

    found = registry_of(place).latest(subject_of(topics[0], column), chosen.name) if topics else None
    return found.text if found is not None and found.text.startswith("{") else None


def spark_type(kind: pa.DataType) -> DataType:
    """Return Spark's type of values that have this type in Arrow."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def protobuf_of(column: str, chosen: Format) -> protobuf_schema.ProtobufSchema:
    """Return the Protobuf schema that option keySchema or valueSchema names. Raises `OptionError`."""
    held, message = descriptors_of(column, chosen)
    return protobuf_schema.read(held, message, f"Option {column}Schema")


def descriptors_of(column: str, chosen: Format) -> tuple[bytes, str]:
    """Return the descriptors in option keySchema or valueSchema, and the name of the message. Raises `OptionError`."""
    option = f"{column}Schema"
    if chosen.schema is None:
        raise OptionError(f"Option {option} is missing: name a file that protoc --include_imports --descriptor_set_out made.")
    text, _, message = chosen.schema.partition("#")
    held = base64.b64decode(text.removeprefix(_LOADED)) if text.startswith(_LOADED) else _file(text.strip(), option)
    return held, message.strip()


def values_type(column: str, chosen: Format, topics: Sequence[str]) -> DataType:
    """Return the type of decoded keys or values. A registry's type is that of the first topic's newest schema.

    Raises `OptionError`.
    """
    option = f"{column}Schema"
    if chosen.name == "protobuf" and (chosen.schema is not None or chosen.registry is None):
        return spark_type(protobuf_schema.arrow_type(protobuf_of(column, chosen)))
    if chosen.schema is not None:
        return _type(schema_text(chosen.schema, option), chosen, option)
    if chosen.registry is None:
        raise OptionError(f"Option {option} is missing: give the columns in the values, such as carrier STRING, delay INT.")
    if not topics:
        raise OptionError(f"Option {option} is missing: with subscribePattern no one topic says which schema its registry has.")
    found = newest(chosen.registry, column, chosen, topics[0])
    if chosen.name == "protobuf":
        return spark_type(
            protobuf_schema.arrow_type(protobuf_schema.read(base64.b64decode(found.text), "", "Option schemaRegistry"))
        )
    return _type(found.text, chosen, "schemaRegistry")


def newest(place: str, column: str, chosen: Format, topic: str) -> Registered:
    """Return the newest schema of a topic's keys or values in the registry. Raises `OptionError`."""
    from ottla.formats.registry import subject_of  # importing an HTTP client takes long, and few jobs need one
    from ottla.spark.formats.registries import registry_of

    subject = subject_of(topic, column)
    found = registry_of(place).latest(subject, chosen.name)
    if found is None:
        raise OptionError(f"The schema registry {place} has no subject {subject}: give {column}Schema, or register it.")
    return found


def _type(text: str, chosen: Format, option: str) -> DataType:
    if not text.startswith("{"):
        if option == "schemaRegistry":
            raise OptionError(f"The newest schema in the registry is no record, and has no columns ({text[:40]}): give others.")
        return columns_of(text, option)
    if (found := _spark_schema(text, option)) is not None:
        return found
    if chosen.name == "avro":
        return spark_type(avro_schema.arrow_type(avro_schema.read(text, f"Option {option}")))
    if chosen.name == "json":
        return spark_type(json_schema.arrow_type(text, f"Option {option}"))
    raise OptionError(f'Option {option} holds JSON without "type": "struct", as df.schema.json() writes it: give that, or DDL.')


def _spark_schema(text: str, option: str) -> StructType | None:
    """Parse a schema in Spark's JSON. Return None if the text is another kind of JSON."""
    try:
        found = json.loads(text)
        return StructType.fromJson(found) if found.get("type") == "struct" else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(f"Option {option} is no schema that Spark writes as JSON: {error}.") from None


def readers_schema(column: str, chosen: Format) -> str | None:
    """Return the Avro schema by which values of a registry are resolved; None if the query only has columns."""
    if chosen.schema is None:
        return None
    text = schema_text(chosen.schema, f"{column}Schema")
    return text if text.startswith("{") and _spark_schema(text, f"{column}Schema") is None else None


def written_schema(column: str, chosen: Format, kind: DataType) -> str:
    """Return the schema for writing values of `kind`, as a text in the format's own language. Raises `OptionError`."""
    given = kind
    if chosen.schema is not None:
        text = schema_text(chosen.schema, f"{column}Schema")
        if text.startswith("{") and _spark_schema(text, f"{column}Schema") is None:
            return text
        given = _type(text, chosen, f"{column}Schema")
    made: Any = avro_schema_of(given) if chosen.name == "avro" else json_schema_of(given)
    return json.dumps(made)
