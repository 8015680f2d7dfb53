"""The encoder of JSON. It encodes one column of all rows at a time, and no row becomes a Python object.

The output equals the output of Spark's `to_json`. Null fields are left out, times are in ISO 8601, and bytes are in base64. NaN and
the infinities are texts, because JSON does not have these numbers.
"""

from __future__ import annotations

import base64
import json
import re

import pyarrow as pa
import pyarrow.compute as compute

from ottla.spark.formats.scalars import all_finite, as_text, bytes_of, joined

_SPECIAL = re.compile(rb'[\x00-\x1f"\\]')
_ESCAPES = {chr(code): json.dumps(chr(code))[1:-1] for code in (0x5C, 0x22, *range(0x20))}
"""The characters that JSON escapes in texts. The backslash is first, because all other escapes contain a backslash."""


class JsonEncoder:
    """An `Encoder` of JSON."""

    def encode(self, column: pa.Array) -> pa.Array:
        return json_text(column).cast(pa.binary())


def json_text(column: pa.Array) -> pa.Array:
    """Return the JSON of each row. A null row stays null."""
    kind = column.type
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        keys, values = compute.list_flatten(column).flatten()
        pairs = joined(*_parts(keys), ":", json_text(values).fill_null("null"))
        return _where_valid(column, joined("{", _rejoined(column, pairs), "}"))
    if pa.types.is_list(kind):
        items = json_text(compute.list_flatten(column)).fill_null("null")
        return _where_valid(column, joined("[", _rejoined(column, items), "]"))
    return _where_valid(column, joined(*_object(column))) if pa.types.is_struct(kind) else joined(*_parts(column))


def _parts(column: pa.Array) -> list[pa.Array | str]:
    """Return the parts of the rows' JSON, in order. The caller joins all parts at once, because each join takes long."""
    kind = column.type
    if pa.types.is_nested(kind):
        return [json_text(column)]
    if pa.types.is_binary(kind):
        encoded = [raw if raw is None else base64.b64encode(raw).decode() for raw in column.to_pylist()]
        return ['"', pa.array(encoded, pa.string()), '"']
    if pa.types.is_string(kind):
        return ['"', _escaped(column), '"']
    text = as_text(column)
    if pa.types.is_floating(kind) and not all_finite(column):
        text = compute.if_else(compute.is_finite(column), text, joined('"', text, '"'))
    return ['"', text, '"'] if pa.types.is_temporal(kind) else [text]


def _where_valid(column: pa.Array, text: pa.Array) -> pa.Array:
    return compute.if_else(column.is_valid(), text, pa.scalar(None, pa.string())) if column.null_count else text


def _object(column: pa.StructArray) -> list[pa.Array | str]:
    parts: list[pa.Array | str] = []
    for field, values in zip(column.type, column.flatten(), strict=True):
        name = f",{json.dumps(field.name, ensure_ascii=False)}:"
        parts += [joined(name, *_parts(values)).fill_null("")] if values.null_count else [name, *_parts(values)]
    if isinstance(parts[0], str):
        return ["{" + parts[0].removeprefix(","), *parts[1:], "}"]
    # Remove the comma before the first field of each row: only this comma comes first before a quoted name.
    return ["{", compute.utf8_ltrim(joined(*parts), ","), "}"]


def _rejoined(column: pa.Array, items: pa.Array) -> pa.Array:
    """Join the texts of all items in each row by commas. A null row becomes an empty text."""
    lengths = compute.list_value_length(column).fill_null(0)
    ends = compute.cumulative_sum(lengths.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return compute.binary_join(pa.ListArray.from_arrays(offsets, items), ",")


def _escaped(text: pa.Array) -> pa.Array:
    data = bytes_of(text)
    if _SPECIAL.search(data) is not None:
        raw = bytes(data)
        for character, escape in _ESCAPES.items():
            if character.encode() in raw:
                text = compute.replace_substring(text, character, escape)
    return text
