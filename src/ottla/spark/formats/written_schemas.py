"""The schemas of written values in Avro and in JSON Schema, made from Spark's types. Pure."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types

DRAFT = "http://json-schema.org/draft-07/schema#"
_AVRO: dict[type[types.DataType], Any] = {
    types.BooleanType: "boolean",
    types.ByteType: "int",
    types.ShortType: "int",
    types.IntegerType: "int",
    types.LongType: "long",
    types.FloatType: "float",
    types.DoubleType: "double",
    types.StringType: "string",
    types.BinaryType: "bytes",
    types.DateType: {"type": "int", "logicalType": "date"},
    types.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    types.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_schema_of(kind: types.DataType, name: str = "topLevelRecord", namespace: str = "") -> Any:
    """Return the schema that Spark's `to_avro` uses for a type, as an argument of `json.dumps`.

    A nullable type becomes a union with null.
    """
    if isinstance(kind, types.StructType):
        inner = f"{namespace}.{name}" if namespace else name
        fields = [
            {"name": field.name, "type": [avro_schema_of(field.dataType, field.name, inner), "null"]} for field in kind.fields
        ]
        return {"type": "record", "name": name, **({"namespace": namespace} if namespace else {}), "fields": fields}
    if isinstance(kind, types.ArrayType):
        return {"type": "array", "items": [avro_schema_of(kind.elementType, name, namespace), "null"]}
    if isinstance(kind, types.MapType):
        return {"type": "map", "values": [avro_schema_of(kind.valueType, name, namespace), "null"]}
    if isinstance(kind, types.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _AVRO[type(kind)]


def json_schema_of(kind: types.DataType) -> dict[str, Any]:
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
