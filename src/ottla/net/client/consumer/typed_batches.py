"""A consumer's chunks as Arrow record batches: chosen columns, with keys and values as bytes or decoded by `ottla.formats`.

The module needs pyarrow, so it is imported on first use. It creates no Python object for each value.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import pyarrow as pa

from ottla.client.arguments import short_repr, text
from ottla.client.consumer.cursor import Cursor
from ottla.client.errors import DeserializationFailed, KafkaError, SettingError
from ottla.formats import avro_schema, json_schema, protobuf_schema
from ottla.formats.bulk import Decoded, Decoder, Misfit, without_rows
from ottla.formats.decoders import decoder_of, framed_decoder_of
from ottla.formats.errors import OptionError
from ottla.formats.registry import SchemaRegistry, subject_of
from ottla.net.client.consumer.bad_records import BadRecords
from ottla.net.client.consumer.column_keywords import ColumnKeywords, Format
from ottla.records.batches.arrow import to_arrow
from ottla.records.batches.columns import Columns
from ottla.schemas.places import schema_place

if TYPE_CHECKING:
    from ottla.net.client.share.share_bad_records import ShareBadRecords

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
SHARE_COLUMNS: Final = (*COLUMNS, "delivery_count")
"""The default columns of a share consumer."""
REGISTERED: Final = ("avro", "json", "protobuf")
"""The formats whose schemas can be in a registry."""


class TypedColumn(NamedTuple):
    """The type of decoded keys or values in Arrow, and their decoder."""

    kind: pa.DataType
    decoder: Decoder


class ColumnFormat:
    """The format of keys or values (`column`), from the arguments of `batches`. Raises `SettingError` if they do not fit."""

    def __init__(self, column: str, name: str, schema: object, registry: SchemaRegistry | None, delimiter: str) -> None:
        self.column, self.name = column, name
        self._option, self._delimiter = f"{column}_schema", delimiter
        self._registry = registry if name in REGISTERED else None
        self._kind, self._text = self._parts(schema)
        self._of_topics: dict[str, TypedColumn] = {}
        if self._kind is None and self._text is None and self._registry is None:
            raise SettingError(f"{column}_format={name!r} needs {self._option}: give a pyarrow.Schema with the columns to read.")
        if self._text is None and self._registry is None and name in ("avro", "protobuf"):
            raise SettingError(f"{self._option} must be the schema by which values were written in {name}: give that or its file.")
        if self._text is not None or self._registry is None:
            self._all = self._typed_by_schema()

    def _parts(self, schema: object) -> tuple[pa.DataType | None, str | None]:
        """Return the columns and the text of a schema: at most one of them."""
        if schema is None:
            return None, None
        if isinstance(schema, pa.Schema):
            return pa.struct(list(schema)), None
        if isinstance(schema, pa.DataType):
            if not pa.types.is_struct(schema):
                raise SettingError(f"{self._option} must be a struct, whose fields are the columns to read, not {schema}.")
            return schema, None
        if isinstance(schema, Mapping):
            return None, json.dumps(schema)
        if not isinstance(schema, str | Path):
            expected = "a pyarrow.Schema, a schema of the format, or the path of one"
            raise TypeError(f"{self._option} must be {expected}, not {short_repr(schema)}.")
        if self.name not in REGISTERED:
            raise SettingError(f"{self._option} must be a pyarrow.Schema for {self.name}, which has no schema of its own.")
        return None, str(schema)

    def _typed_by_schema(self) -> TypedColumn:
        """Return the column of all topics, if the schema that was given says its type."""
        held = self._text
        if self.name == "protobuf" and held is not None:
            path, _, message = held.partition("#")
            protobuf = protobuf_schema.read(self._file(path), message.strip(), self._option)
            kind = protobuf_schema.arrow_type(protobuf)
            if self._registry is not None:
                return TypedColumn(kind, framed_decoder_of(self.name, kind, self._registry))
            return TypedColumn(kind, decoder_of(self.name, kind, protobuf=protobuf))
        if held is not None and not held.lstrip().startswith(("{", "[", '"')):
            held = self._file(held).decode(errors="replace")
        if self.name == "avro" and held is not None:
            node = avro_schema.read(held, self._option)
            return self._of_avro(avro_schema.arrow_type(node), node)
        kind = self._kind if held is None else json_schema.arrow_type(held, self._option)
        if self._registry is not None:
            return TypedColumn(kind, framed_decoder_of(self.name, kind, self._registry))
        return TypedColumn(kind, decoder_of(self.name, kind, delimiter=self._delimiter))

    def _of_avro(self, kind: pa.DataType, node: avro_schema.Avro | None) -> TypedColumn:
        if self._registry is None:
            return TypedColumn(kind, decoder_of("avro", kind, avro=node))
        return TypedColumn(kind, framed_decoder_of("avro", kind, self._registry, node))

    def _file(self, path: str) -> bytes:
        try:
            return Path(path.strip()).read_bytes()
        except OSError as error:
            raise SettingError(f"{self._option} names the file {path.strip()}, which cannot be read: {error}.") from None

    def column_of(self, topic: str) -> TypedColumn:
        """Return the column of a topic. Without a schema, the newest one of its subject in the registry says its type.

        Raises `KafkaError`, and `OptionError` for a schema that cannot be read.
        """
        registry = self._registry
        if registry is None or self._text is not None:
            return self._all
        found = self._of_topics.get(topic)
        if found is None:
            found = self._of_topics[topic] = self._typed_by_registry(topic, registry)
        return found

    def _typed_by_registry(self, topic: str, registry: SchemaRegistry) -> TypedColumn:
        if self._kind is not None:
            return TypedColumn(self._kind, framed_decoder_of(self.name, self._kind, registry))
        subject = subject_of(topic, self.column)
        newest = registry.latest(subject, self.name)
        if newest is None:
            raise KafkaError(f"The schema registry has no subject {subject}: give {self._option}, or register a schema.")
        source = f"Subject {subject} of the schema registry"
        if self.name == "avro":
            node = avro_schema.read(newest.text, source)
            return self._of_avro(avro_schema.arrow_type(node), node)
        if self.name == "protobuf":
            protobuf = protobuf_schema.read(base64.b64decode(newest.text), "", source)
            kind = protobuf_schema.arrow_type(protobuf)
        else:
            kind = json_schema.arrow_type(newest.text, source)
        return TypedColumn(kind, framed_decoder_of(self.name, kind, registry))


class DecodedPart(NamedTuple):
    """Decoded batches, the records that could not be decoded, and the offset at which they end, or None for all of a chunk."""

    batches: list[pa.RecordBatch]
    bad: list[DeserializationFailed]
    end: int | None


class TypedBatches:
    """The conversion of chunks to batches. Use `read` on the consumer's event loop."""

    def __init__(self, columns: tuple[str, ...], formats: list[ColumnFormat]) -> None:
        self._columns, self._formats = columns, {each.column: each for each in formats}

    @property
    def decodes(self) -> bool:
        return bool(self._formats)

    def plain(self, cursor: Cursor) -> list[pa.RecordBatch]:
        """Return the rest of `cursor` as batches with the chosen columns. Keys and values are bytes."""
        return [self._plain(each, self._columns, cursor) for each in cursor.remaining_columns()]

    def _plain(self, columns: Columns, names: Sequence[str], cursor: Cursor) -> pa.RecordBatch:
        (topic, partition), count = cursor.where, getattr(cursor.where, "delivery_count", None)
        return to_arrow(columns, names, topic=topic, partition=partition, delivery_count=count)

    async def read(self, cursor: Cursor, bad_records: BadRecords | ShareBadRecords) -> list[pa.RecordBatch]:
        """Return the rest of `cursor`, decoded, or what is before a record that cannot be decoded.

        If the first record cannot be decoded, raise `DeserializationFailed`, unless bad records are skipped or copied.
        """
        raises = bad_records.are_raised(cursor.where.topic)
        try:
            part = await asyncio.to_thread(self.decode, cursor, raises)
        except OptionError as error:  # of the registry
            raise KafkaError(str(error)) from None
        except DeserializationFailed as error:
            raise bad_records.explain(error) from error.__cause__
        if part.bad:
            await bad_records.pass_over_all(part.bad)
        return part.batches if cursor.claim_columns(part.end) else []

    def decode(self, cursor: Cursor, raises: bool) -> DecodedPart:
        typed = {name: each.column_of(cursor.where.topic) for name, each in self._formats.items()}
        made: list[pa.RecordBatch] = []
        bad: list[DeserializationFailed] = []
        for columns in cursor.peek_columns():
            decoded, wrong = self._decoded(columns, typed)
            if wrong and raises:
                first = min(wrong)
                error = self._failure(columns, first, wrong[first], cursor)
                if first or made:
                    before = columns.slice(0, first)
                    rows = [self._rows(before, *self._decoded(before, typed), cursor)] if first else []
                    return DecodedPart([*made, *rows], [], error.offset)
                raise error
            bad += [self._failure(columns, row, wrong[row], cursor) for row in sorted(wrong)]
            made.append(self._rows(columns, decoded, wrong, cursor))
        return DecodedPart([each for each in made if each.num_rows], bad, None)

    def _decoded(self, columns: Columns, typed: Mapping[str, TypedColumn]) -> tuple[dict[str, Decoded], dict[int, tuple[str, str]]]:
        """Return decoded keys and values, and for each row that cannot be decoded the name of its column and the reason."""
        opened = to_arrow(columns, tuple(typed))
        decoded = {name: each.decoder.decode(opened.column(name)) for name, each in typed.items()}
        return decoded, {row: (name, why) for name, each in decoded.items() for row, why in each.wrong.items()}

    def _rows(
        self, columns: Columns, decoded: Mapping[str, Decoded], wrong: Mapping[int, object], cursor: Cursor
    ) -> pa.RecordBatch:
        plain = self._plain(columns, [name for name in self._columns if name not in decoded], cursor)
        origins = decoded["value"].records if "value" in decoded else None
        if origins is not None:  # a record of Arrow's format has many rows
            plain = plain.take(origins)
        made = [decoded[name].values if name in decoded else plain.column(name) for name in self._columns]
        rows = pa.RecordBatch.from_arrays(made, names=list(self._columns))
        return without_rows(rows, wrong, origins) if wrong else rows

    def _failure(self, columns: Columns, row: int, wrong: tuple[str, str], cursor: Cursor) -> DeserializationFailed:
        name, why = wrong
        (record,) = columns.slice(row, row + 1).records(cursor.where)
        return DeserializationFailed(record, name, Misfit(why), f"{name}_format={self._formats[name].name}")


def parse(given: ColumnKeywords, offered: tuple[str, ...] = COLUMNS) -> TypedBatches:
    """Return the conversion that the arguments of `batches` ask for. `offered` are the names of all columns.

    Raises `SettingError`, `TypeError`.
    """
    left: dict[str, Any] = dict(given)
    columns = _columns(left.pop("columns", offered), offered)
    place = left.pop("schema_registry", None)
    registry = None
    if place is not None:
        instead = "key_schema or value_schema, and leave schema_registry out"
        registry = SchemaRegistry(schema_place(text("schema_registry", place), "schema_registry", instead))
    delimiter = _delimiter(left.pop("delimiter", ","))
    formats = [each for column in ("key", "value") if (each := _format(column, left, registry, delimiter)) is not None]
    if left:
        raise TypeError(f"batches() has no argument {min(left)}: it has {', '.join(ColumnKeywords.__annotations__)}.")
    if registry is not None and not any(each.name in REGISTERED for each in formats):
        raise SettingError(f"schema_registry is for the formats {', '.join(REGISTERED)}: give value_format, or leave it out.")
    if len(formats) > 1 and formats[1].name == "arrow":
        raise SettingError("key_format goes without value_format='arrow', whose records have many rows and no key: leave it out.")
    return TypedBatches(columns, formats)


def _columns(given: object, offered: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"columns must be a list of names, such as ['offset', 'value'], not {short_repr(given)}.")
    names = tuple(given)
    unknown = [name for name in names if name not in offered]
    if unknown or not names or len(set(names)) < len(names):
        problem = f"{short_repr(unknown[0])} is none of them" if unknown else "each at most once, and at least one"
        raise SettingError(f"columns must be names out of {', '.join(offered)}: {problem}.")
    return names


def _delimiter(given: object) -> str:
    if not isinstance(given, str) or len(given) != 1 or given in '"\r\n' or not given.isascii():
        raise SettingError(f"delimiter must be one ASCII character other than a quote or a line's end, not {short_repr(given)}.")
    return given


def _format(column: str, left: dict[str, Any], registry: SchemaRegistry | None, delimiter: str) -> ColumnFormat | None:
    name, schema = left.pop(f"{column}_format", None), left.pop(f"{column}_schema", None)
    if name is None:
        if schema is not None:
            raise SettingError(f"{column}_schema needs {column}_format: give that too, such as {column}_format='json'.")
        return None
    offered = [each for each in get_args(Format) if (column, each) != ("key", "arrow")]
    if name not in offered:
        raise SettingError(f"{column}_format must be one of {', '.join(offered)}, not {short_repr(name)}.")
    try:
        return ColumnFormat(column, name, schema, registry, delimiter)
    except OptionError as error:
        raise SettingError(str(error)) from None
