"""Topics as tables. The columns of their values come from a schema, or from the last records. Needs Arrow, but not Spark."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ottla.client.settings.clients import ConsumerSettings, parse
from ottla.client.types import TopicPartition
from ottla.formats.registry import subject_of
from ottla.net.client.admin.admin import Admin
from ottla.net.client.consumer.range_reader import RangeReader
from ottla.spark.brokers import Brokers
from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format
from ottla.spark.formats.ddl import quote, text_of
from ottla.spark.formats.registries import registry_of
from ottla.spark.formats.schemas import values_type
from ottla.spark.options import TopicSelection

if TYPE_CHECKING:
    import pyarrow as pa

LOOKED_AT = 200
"""The number of records, at the end of each partition, from which the columns are inferred."""


@dataclass(frozen=True, slots=True)
class TopicTable:
    """A topic as a SQL table. `offsets` is the number of offsets in the topic's logs.

    `columns` is DDL, or None if the format of values is unknown. `options` say how values are decoded if they are not JSON.
    """

    name: str
    partitions: int
    offsets: int
    columns: str | None
    options: Mapping[str, str] = field(default_factory=dict)

    def as_sql(self) -> str:
        """Return the statement that creates the table for `ottla pipeline sql`."""
        name = self.name if self.name.isidentifier() else f"`{self.name}`"
        has_schema = self.options.keys() & {"valueSchema", "schemaRegistry"}
        shape = "" if self.columns is None or has_schema else f" ({self.columns})"
        options = {"subscribe": self.name, **self.options}
        told = ", ".join(f"{name} '{value}'" for name, value in options.items())
        return f"CREATE TABLE {name}{shape} USING ottla OPTIONS ({told});"


@dataclass(frozen=True, slots=True)
class ValuesOfTables:
    """The format of values, from options of the Spark source. Without a format, JSON is assumed.

    If a registry is given, topics with a schema in it get the schema's columns. Other topics are treated as if no registry was
    given.
    """

    format_name: str | None = None
    schema: str | None = None
    registry: str | None = None
    delimiter: str = ","


def tables(
    servers: str,
    topics: Sequence[str] = (),
    client: Mapping[str, Any] = MappingProxyType({}),
    *,
    values: ValuesOfTables | None = None,
) -> list[TopicTable]:
    """Return the given topics as tables, or all topics if `topics` is empty. Raises `OptionError` for a missing topic.

    Also raises the client's exceptions.
    """
    settings = parse(ConsumerSettings, {**client, "bootstrap_servers": servers, "isolation_level": "read_committed"})
    with Admin(servers, **settings.security_settings()) as admin:
        names = list(topics) or admin.list_topics()
    return [_table(settings, name, values or ValuesOfTables()) for name in names]


def _table(settings: ConsumerSettings, topic: str, values: ValuesOfTables) -> TopicTable:
    with Brokers(settings) as brokers:
        partitions = brokers.partitions(TopicSelection(topics=(topic,)))
        starts, ends = brokers.earliest(partitions), brokers.latest(partitions)
    offsets = sum(ends[where] - starts[where] for where in partitions)
    known = of_schema(topic, values)
    if known is not None:
        return TopicTable(topic, len(partitions), offsets, *known)
    found: list[bytes] = []
    for where in partitions:
        found += _values(settings, where, max(starts[where], ends[where] - LOOKED_AT), ends[where])
    return TopicTable(topic, len(partitions), offsets, *of_values(found, values))


def of_schema(topic: str, values: ValuesOfTables) -> tuple[str, dict[str, str]] | None:
    """Return the columns of the topic's schema, and the options that name it; None without a schema. Raises `OptionError`."""
    from pyspark.sql.types import StructType

    name, options = values.format_name, {}
    if values.registry is not None:
        newest = registry_of(values.registry).latest(subject_of(topic, "value"), "avro")
        if newest is None or not newest.format_name or (newest.format_name == "avro" and not newest.text.startswith("{")):
            return None  # an Avro schema can be a number or a union, which has no columns
        name, options = newest.format_name, {"schemaRegistry": values.registry}
    elif values.schema is not None and name is not None:
        options = {"valueSchema": values.schema}
    if name is None or not options:
        return None
    chosen = Format(name, values.schema if values.registry is None else None, values.registry)
    kind = values_type("value", chosen, [topic])
    if not isinstance(kind, StructType):
        return None
    return text_of(kind), {"valueFormat": name, **options}


def of_values(found: Sequence[bytes], values: ValuesOfTables) -> tuple[str | None, dict[str, str]]:
    """Return the columns of these values, and the options to decode them.

    The columns are None if there are no values, or if they do not all have the format.
    """
    if values.format_name == "csv":
        separated = {} if values.delimiter == "," else {"delimiter": values.delimiter}
        return columns_of_csv(found, values.delimiter), {"valueFormat": "csv", **separated}
    if values.format_name == "arrow":
        return columns_of_arrow(found), {"valueFormat": "arrow"}
    if values.format_name in ("avro", "protobuf"):
        raise OptionError(f"Values of {values.format_name} do not describe their columns: name their schema, or a registry.")
    return columns_of(found), {}


def columns_of_csv(found: Sequence[bytes], delimiter: str) -> str | None:
    """Return the columns c0, c1 … of CSV rows without a header; None if they cannot be parsed."""
    import pyarrow as pa
    from pyarrow import csv

    if not found:
        return None
    many = csv.ReadOptions(autogenerate_column_names=True, use_threads=False)
    parsed = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    try:
        rows = csv.read_csv(io.BytesIO(b"\n".join(found)), many, parsed)
    except pa.ArrowInvalid:
        return None
    return ", ".join(f"c{at} {type_of(column.type)}" for at, column in enumerate(rows.schema))


def columns_of_arrow(found: Sequence[bytes]) -> str | None:
    """Return the columns in the schema that the last value contains; None if the value cannot be read."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    if not found:
        return None
    try:
        return text_of(from_arrow_schema(pa.ipc.open_stream(found[-1]).schema))
    except pa.ArrowInvalid:
        return None


def _values(settings: ConsumerSettings, where: TopicPartition, start: int, end: int) -> list[bytes]:
    from ottla.records.batches.arrow import to_arrow
    from ottla.records.batches.columns import open_batches

    found: list[bytes] = []
    reader = RangeReader(settings, where, start, end)
    with asyncio.Runner() as runner:
        try:
            while (pieces := runner.run(reader.next_batches())) is not None:
                for piece in pieces:
                    opened = open_batches(piece, from_offset=start, until_offset=end)
                    values = to_arrow(opened, ["value"], topic=where.topic, partition=where.partition).column(0)
                    found += [value for value in values.to_pylist() if value is not None]
        finally:
            runner.run(reader.close())
    return found


def columns_of(values: Sequence[bytes]) -> str | None:
    """Return the columns of JSON objects as DDL; None if there are no values, or if some are not JSON objects."""
    import pyarrow as pa
    from pyarrow import json

    lines = [value.replace(b"\n", b" ").strip() for value in values]
    if not lines or not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        return None
    try:
        found = json.read_json(io.BytesIO(b"\n".join(lines)), read_options=json.ReadOptions(use_threads=False)).schema
    except pa.ArrowInvalid:
        return None
    return ", ".join(f"{quote(column.name)} {type_of(column.type)}" for column in found)


def type_of(kind: pa.DataType) -> str:
    """Return Spark's type for an Arrow type. A value that resembles a time stays text, because the next value may not."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{quote(field.name)}: {type_of(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{type_of(kind.value_type)}>"
    plain = {pa.bool_(): "BOOLEAN", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}
    return plain.get(kind, "STRING")
