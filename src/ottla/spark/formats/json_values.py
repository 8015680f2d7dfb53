"""Values that are JSON objects, joined into one text and decoded by Arrow's reader: no record becomes a Python object.

Each value is wrapped in an object, `{"v": VALUE, MARK: 0}`, whose last field has a random name. So a brace in a malformed value
cannot merge or split rows unnoticed. If the numbers of rows and values differ, or a mark is missing, the run has a malformed value.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

import pyarrow as pa
import pyarrow.json

from ottla.spark.formats.bulk import Decoded, Misfit, as_objects, decode_many
from ottla.spark.formats.decimals import wide
from ottla.spark.formats.python_values import Number, maker
from ottla.spark.formats.scalars import bytes_of, joined

_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError)


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
            rows = self._rows(bytes_of(_wrapped(values, self._mark)))
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
        return self._make(parsed(raw))


def parsed(raw: bytes) -> Any:
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


def _wrapped(values: pa.Array, mark: str) -> pa.Array:
    """Wrap values. Raises `ArrowInvalid` for a value that is not UTF-8, because Arrow's reader does not check that."""
    text = values.cast(pa.string())
    if text.null_count:
        text = text.fill_null("null")
    return joined('{"v":', text, f',"{mark}":0}}\n')
