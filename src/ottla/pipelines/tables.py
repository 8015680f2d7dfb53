"""Topics as tables: what columns their values have, found by looking at the last records of each. Needs Arrow; starts no Spark."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ottla.client.settings import ConsumerSettings, parse
from ottla.client.types import TopicPartition
from ottla.net.client.admin import Admin
from ottla.net.client.range_reader import RangeReader
from ottla.spark.brokers import Brokers
from ottla.spark.options import TopicSelection

if TYPE_CHECKING:
    import pyarrow as pa

LOOKED_AT = 200
"""How many records at the end of each partition tell the columns."""


@dataclass(frozen=True, slots=True)
class TopicTable:
    """A topic as a table. `offsets`: how many offsets it spans. `columns`: DDL, where its values are JSON objects."""

    name: str
    partitions: int
    offsets: int
    columns: str | None

    def as_sql(self) -> str:
        """The statement that creates the table for `ottla pipeline sql`."""
        name = self.name if self.name.isidentifier() else f"`{self.name}`"
        shape = f" ({self.columns})" if self.columns is not None else ""
        return f"CREATE TABLE {name}{shape} USING ottla OPTIONS (subscribe '{self.name}');"


def tables(servers: str, topics: Sequence[str] = (), client: Mapping[str, Any] = MappingProxyType({})) -> list[TopicTable]:
    """The topics asked for, or all, as tables. Raises `OptionError` for one that does not exist, and the client's errors."""
    settings = parse(ConsumerSettings, {**client, "bootstrap_servers": servers, "isolation_level": "read_committed"})
    with Admin(servers, **settings.secured()) as admin:
        names = list(topics) or admin.list_topics()
    return [_table(settings, name) for name in names]


def _table(settings: ConsumerSettings, topic: str) -> TopicTable:
    with Brokers(settings) as brokers:
        partitions = brokers.partitions(TopicSelection(topics=(topic,)))
        starts, ends = brokers.earliest(partitions), brokers.latest(partitions)
    values: list[bytes] = []
    for where in partitions:
        values += _values(settings, where, max(starts[where], ends[where] - LOOKED_AT), ends[where])
    return TopicTable(topic, len(partitions), sum(ends[where] - starts[where] for where in partitions), columns_of(values))


def _values(settings: ConsumerSettings, where: TopicPartition, start: int, end: int) -> list[bytes]:
    from ottla.records.arrow import to_arrow
    from ottla.records.columns import open_batches

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
    """The columns of values that are JSON objects, as DDL; None where there are none, or others among them."""
    import pyarrow as pa
    from pyarrow import json

    lines = [value.replace(b"\n", b" ").strip() for value in values]
    if not lines or not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        return None
    try:
        found = json.read_json(io.BytesIO(b"\n".join(lines)), read_options=json.ReadOptions(use_threads=False)).schema
    except pa.ArrowInvalid:
        return None
    return ", ".join(f"{_quoted(column.name)} {type_of(column.type)}" for column in found)


def type_of(kind: pa.DataType) -> str:
    """A type of Arrow's as one of Spark's. What looks like a time stays text: the next value may look otherwise."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {type_of(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{type_of(kind.value_type)}>"
    plain = {pa.bool_(): "BOOLEAN", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}
    return plain.get(kind, "STRING")


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else f"`{name.replace('`', '``')}`"
