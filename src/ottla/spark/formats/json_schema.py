"""The conversion between JSON Schema and Spark's types. It covers only what columns need. Pure."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import types

from ottla.spark.errors import OptionError

DRAFT = "http://json-schema.org/draft-07/schema#"
_TIMES: dict[str, types.DataType] = {"date-time": types.TimestampType(), "date": types.DateType()}
_SIMPLE: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "integer": types.LongType(),
    "number": types.DoubleType(),
    "string": types.StringType(),
}


def spark_type(text: str, option: str) -> types.DataType:
    """Return Spark's type of the values. A schema without a type becomes STRING, with the value's JSON. Raises `OptionError`."""
    try:
        found = _type(json.loads(text))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f"Option {option} has no JSON Schema that can be read: {error}.") from None
    if not isinstance(found, types.StructType):
        raise OptionError(f"Option {option} has a JSON Schema without properties: name the columns of the values in it.")
    return found


def _type(schema: Any) -> types.DataType:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        named = [each for each in kind if each != "null"]
        kind = named[0] if len(named) == 1 else None
    if kind == "object" and schema.get("properties"):
        return types.StructType([types.StructField(name, _type(each)) for name, each in schema["properties"].items()])
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return types.MapType(types.StringType(), _type(schema["additionalProperties"]))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return types.ArrayType(_type(schema["items"]))
    if kind == "string" and schema.get("format") in _TIMES:
        return _TIMES[schema["format"]]
    return _SIMPLE.get(str(kind), types.StringType())


def from_spark(kind: types.DataType) -> dict[str, Any]:
    """Return a JSON Schema for values of a type, as an argument of `json.dumps`."""
    return {"$schema": DRAFT, **_schema(kind)}


def _schema(kind: types.DataType) -> dict[str, Any]:
    if isinstance(kind, types.StructType):
        return {"type": "object", "properties": {field.name: _schema(field.dataType) for field in kind.fields}}
    if isinstance(kind, types.ArrayType):
        return {"type": "array", "items": _schema(kind.elementType)}
    if isinstance(kind, types.MapType):
        return {"type": "object", "additionalProperties": _schema(kind.valueType)}
    if isinstance(kind, types.TimestampType | types.TimestampNTZType):
        return {"type": "string", "format": "date-time"}
    if isinstance(kind, types.DateType):
        return {"type": "string", "format": "date"}
    if isinstance(kind, types.IntegralType):
        return {"type": "integer"}
    if isinstance(kind, types.NumericType):
        return {"type": "number"}
    return {"type": "boolean" if isinstance(kind, types.BooleanType) else "string"}
