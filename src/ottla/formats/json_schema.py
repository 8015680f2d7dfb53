"""The types of columns in Arrow that a JSON Schema describes. Pure."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ottla.formats.errors import OptionError

_TIMES: dict[str, pa.DataType] = {"date-time": pa.timestamp("us", tz="UTC"), "date": pa.date32()}
_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
}


def arrow_type(text: str, source: str) -> pa.StructType:
    """Return Arrow's type of the values. A schema without a type becomes STRING, with the value's JSON. Raises `OptionError`."""
    try:
        found = _type(json.loads(text))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f"{source} has no JSON Schema that can be read: {error}.") from None
    if not pa.types.is_struct(found):
        raise OptionError(f"{source} has a JSON Schema without properties: name the columns of the values in it.")
    return found


def _type(schema: Any) -> pa.DataType:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        named = [each for each in kind if each != "null"]
        kind = named[0] if len(named) == 1 else None
    if kind == "object" and schema.get("properties"):
        return pa.struct([(name, _type(each)) for name, each in schema["properties"].items()])
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return pa.map_(pa.string(), _type(schema["additionalProperties"]))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return pa.list_(_type(schema["items"]))
    if kind == "string" and schema.get("format") in _TIMES:
        return _TIMES[schema["format"]]
    return _SIMPLE.get(str(kind), pa.string())
