"""JSON: the decoder and the encoder of many values at once. No record becomes a Python object.

To be decoded, values that are JSON objects are joined into one text for Arrow's reader. Each value is wrapped in an object,
`{"v": VALUE, MARK: 0}`, whose last field has a random name. So a brace in a malformed value cannot merge or split rows
unnoticed. If the numbers of rows and values differ, or a mark is missing, the run has a malformed value.

The encoder's output equals the output of Spark's `to_json`. Null fields are left out, times are in ISO 8601, and bytes are in
base64. NaN and the infinities are texts, because JSON does not have these numbers.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.json

from ottla.formats.bulk import Decoded, Misfit, as_objects, decode_many
from ottla.formats.decimals import wide
from ottla.formats.python_values import Number, maker
from ottla.formats.scalars import all_finite, as_text, bytes_of, join

_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError)

_SPECIAL = re.compile(rb'[\x00-\x1f"\\]')
_ESCAPES = {chr(code): json.dumps(chr(code))[1:-1] for code in (0x5C, 0x22, *range(0x20))}
"""The characters that JSON escapes in texts. The backslash is first, because all other escapes contain a backslash."""


class JsonEncoder:
    """An `Encoder` of JSON."""

    def encode(self, column: pa.Array) -> pa.Array:
        return _json_text(column).cast(pa.binary())


def _json_text(column: pa.Array) -> pa.Array:
    """Return the JSON of each row. A null row stays null."""
    kind = column.type
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        keys, values = compute.list_flatten(column).flatten()
        pairs = join(*_parts(keys), ":", _json_text(values).fill_null("null"))
        return _where_valid(column, join("{", _join_items(column, pairs), "}"))
    if pa.types.is_list(kind):
        items = _json_text(compute.list_flatten(column)).fill_null("null")
        return _where_valid(column, join("[", _join_items(column, items), "]"))
    return _where_valid(column, join(*_object(column))) if pa.types.is_struct(kind) else join(*_parts(column))


def _parts(column: pa.Array) -> list[pa.Array | str]:
    """Return the parts of the rows' JSON, in order. The caller joins all parts at once, because each join takes long."""
    kind = column.type
    if pa.types.is_nested(kind):
        return [_json_text(column)]
    if pa.types.is_binary(kind):
        encoded = [raw if raw is None else base64.b64encode(raw).decode() for raw in column.to_pylist()]
        return ['"', pa.array(encoded, pa.string()), '"']
    if pa.types.is_string(kind):
        return ['"', _escape(column), '"']
    text = as_text(column)
    if pa.types.is_floating(kind) and not all_finite(column):
        text = compute.if_else(compute.is_finite(column), text, join('"', text, '"'))
    return ['"', text, '"'] if pa.types.is_temporal(kind) else [text]


def _where_valid(column: pa.Array, text: pa.Array) -> pa.Array:
    return compute.if_else(column.is_valid(), text, pa.scalar(None, pa.string())) if column.null_count else text


def _object(column: pa.StructArray) -> list[pa.Array | str]:
    parts: list[pa.Array | str] = []
    for field, values in zip(column.type, column.flatten(), strict=True):
        name = f",{json.dumps(field.name, ensure_ascii=False)}:"
        parts += [join(name, *_parts(values)).fill_null("")] if values.null_count else [name, *_parts(values)]
    if isinstance(parts[0], str):
        return ["{" + parts[0].removeprefix(","), *parts[1:], "}"]
    # Remove the comma before the first field of each row: only this comma comes first before a quoted name.
    return ["{", compute.utf8_ltrim(join(*parts), ","), "}"]


def _join_items(column: pa.Array, items: pa.Array) -> pa.Array:
    """Join the texts of all items in each row by commas. A null row becomes an empty text."""
    lengths = compute.list_value_length(column).fill_null(0)
    ends = compute.cumulative_sum(lengths.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return compute.binary_join(pa.ListArray.from_arrays(offsets, items), ",")


def _escape(text: pa.Array) -> pa.Array:
    data = bytes_of(text)
    if _SPECIAL.search(data) is not None:
        raw = bytes(data)
        for character, escape in _ESCAPES.items():
            if character.encode() in raw:
                text = compute.replace_substring(text, character, escape)
    return text


class JsonDecoder:
    """A `Decoder` of JSON. Unknown fields are ignored, missing ones are null."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._mark = secrets.token_hex(8)
        self._read_as = _read_as(kind)
        self._make = maker(kind)

    def decode(self, values: pa.Array) -> Decoded:
        return decode_many(values, self._kind, self._many, as_objects(self._kind, self._one))

    def _many(self, values: pa.Array) -> pa.Array | None:
        if self._read_as is None or not len(values):
            return None if len(values) else pa.array([], self._kind)
        try:
            rows = self._rows(bytes_of(_wrap(values, self._mark)))
            if rows.num_rows != len(values) or rows.column(1).null_count:
                return None
            found = rows.column(0).combine_chunks()
            return found if found.type == self._kind else found.cast(self._kind)
        except _FAILURES:
            return None

    def _rows(self, text: memoryview) -> pa.Table:
        """Return the rows that Arrow's reader parses, with the fields "v" and the mark."""
        schema = pa.schema([("v", self._read_as), (self._mark, pa.int8())])
        return pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )

    def _one(self, raw: bytes) -> Any:
        return self._make(parse(raw))


def parse(raw: bytes) -> Any:
    """Parse a value. Its numbers stay texts. Raises `Misfit`."""
    try:
        return json.loads(raw.decode(), parse_int=Number, parse_float=Number, parse_constant=Number)
    except UnicodeDecodeError:
        raise Misfit("it is not UTF-8") from None
    except RecursionError:
        raise Misfit("it is nested too deep") from None
    except ValueError as error:
        raise Misfit(f"it is not JSON: {error}") from None


def _read_as(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that Arrow's reader parses, before the cast to `kind`. Return None if it cannot parse the type."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _read_as(field.type)) for field in kind]
        return None if any(each is None for _, each in fields) else pa.struct(fields)
    if pa.types.is_list(kind):
        item = _read_as(kind.value_type)
        return None if item is None else pa.list_(kind.value_field.with_type(item))
    if pa.types.is_map(kind) or pa.types.is_binary(kind):
        return None
    if pa.types.is_decimal(kind):
        return wide(kind)
    return pa.string() if pa.types.is_date32(kind) else kind


def _wrap(values: pa.Array, mark: str) -> pa.Array:
    """Wrap values. Raises `ArrowInvalid` for a value that is not UTF-8, because Arrow's reader does not check that."""
    text = values.cast(pa.string())
    if text.null_count:
        text = text.fill_null("null")
    return join('{"v":', text, f',"{mark}":0}}\n')
