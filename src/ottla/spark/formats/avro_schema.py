"""Avro schemas: parsed from JSON, made from Spark's types, and converted to the types of their values in Spark. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import types

from ottla.spark.errors import OptionError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_SIMPLE: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "int": types.IntegerType(),
    "long": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "bytes": types.BinaryType(),
    "string": types.StringType(),
    "enum": types.StringType(),
    "fixed": types.BinaryType(),
}
_TIMES: dict[str, types.DataType] = {
    "date": types.DateType(),
    "timestamp-millis": types.TimestampType(),
    "timestamp-micros": types.TimestampType(),
    "local-timestamp-millis": types.TimestampNTZType(),
    "local-timestamp-micros": types.TimestampNTZType(),
}
TEXT_TYPES = {"int": ("date",), "long": tuple(_TIMES)[1:], "bytes": ("decimal",), "fixed": ("decimal",)}


MEMBER = "member"
"""The prefix of fields for a union of several types.

In Spark it is a STRUCT with a field for each type, as from Spark's from_avro: member0, member1, …
"""
_WIDEST = ({"int", "long"}, "long"), ({"float", "double"}, "double")


class FieldRules(NamedTuple):
    """The rules for a reader's field whose name the writer's schema lacks: other names (`aliases`), or a `default`."""

    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class Avro:
    """One type of a schema.

    Only attributes that apply to its `kind` are set: `branches` for a union, `inner` for an array or a map.

    `rules` has one element for each of `fields`. `default_symbol` is for an enum.
    """

    kind: str
    logical: str = ""
    fields: tuple[tuple[str, Avro], ...] = ()
    rules: tuple[FieldRules, ...] = ()
    branches: tuple[Avro, ...] = ()
    inner: Avro | None = None
    symbols: tuple[str, ...] = ()
    default_symbol: str = ""
    size: int = 0
    precision: int = 0
    scale: int = 0

    def optional(self) -> tuple[int, Avro] | None:
        """Return (index of null, the other type) if the type is a union of null and one other type, otherwise None."""
        nulls = [place for place, each in enumerate(self.branches) if each.kind == "null"]
        if self.kind != "union" or len(self.branches) != 2 or len(nulls) != 1:
            return None
        return nulls[0], self.branches[1 - nulls[0]]

    def members(self) -> tuple[Avro, ...]:
        """Return the types of a union, without null, if the union needs several columns; else nothing."""
        types_left = tuple(each for each in self.branches if each.kind != "null")
        return () if len(types_left) < 2 or _widest(types_left) else types_left


def _widest(branches: tuple[Avro, ...]) -> str:
    kinds = {each.kind for each in branches}
    is_plain = not any(each.logical for each in branches)
    return next((widest for narrow, widest in _WIDEST if is_plain and kinds == narrow), "")


class _NoAvro(Exception):
    """Raised for an invalid Avro schema, with the reason."""


def read(text: str, option: str) -> Avro:
    """Parse a schema from JSON. Raises `OptionError`, which names the option `option`."""
    try:
        return _node(json.loads(text), {}, "")
    except (_NoAvro, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f"Option {option} has no schema of Avro that can be read: {error}.") from None


def _node(given: Any, named: dict[str, Avro | None], namespace: str) -> Avro:
    if isinstance(given, list):
        return Avro("union", branches=tuple(_node(each, named, namespace) for each in given))
    if isinstance(given, str):
        if given in PRIMITIVES:
            return Avro(given)
        full = given if "." in given or not namespace else f"{namespace}.{given}"
        found = named.get(full, named.get(given, ...))
        if found is None:
            raise _NoAvro(f"type {given} holds itself, which no column of Spark can")
        if found is ... or not isinstance(found, Avro):
            raise _NoAvro(f"there is no type {given}")
        return found
    kind = given["type"]
    if not isinstance(kind, str):
        return _node(kind, named, namespace)
    if kind in ("record", "enum", "fixed"):
        return _parse_named(given, named, namespace)
    if kind in ("array", "map"):
        return Avro(kind, inner=_node(given["items" if kind == "array" else "values"], named, namespace))
    plain = _node(kind, named, namespace)
    return _logical(plain, given) if plain.kind in PRIMITIVES else plain


def _parse_named(given: dict[str, Any], named: dict[str, Avro | None], namespace: str) -> Avro:
    name = str(given["name"])
    namespace = str(given.get("namespace") or (name.rpartition(".")[0] if "." in name else namespace))
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    named[full] = None
    if given["type"] == "record":
        fields = tuple((str(field["name"]), _node(field["type"], named, namespace)) for field in given["fields"])
        rules = tuple(_rules(field) for field in given["fields"])
        made = Avro("record", fields=fields, rules=rules)
    elif given["type"] == "enum":
        made = Avro("enum", symbols=tuple(map(str, given["symbols"])), default_symbol=str(given.get("default", "")))
    else:
        made = _logical(Avro("fixed", size=int(given["size"])), given)
    named[full] = made
    return made


def _rules(field: dict[str, Any]) -> FieldRules:
    return FieldRules(tuple(map(str, field.get("aliases", ()))), "default" in field, field.get("default"))


def _logical(plain: Avro, given: dict[str, Any]) -> Avro:
    """Return the logical type. A logical type that does not fit its type is ignored, as Avro requires."""
    logical = given.get("logicalType", "")
    if logical not in TEXT_TYPES.get(plain.kind, ()):
        return plain
    precision, scale = int(given.get("precision", 0)), int(given.get("scale", 0))
    if logical == "decimal" and not 0 <= scale <= precision <= 38:
        return plain
    return Avro(plain.kind, logical, size=plain.size, precision=precision, scale=scale)


def spark_type(node: Avro) -> types.DataType:
    """Return Spark's type of the values. Raises `OptionError` for a type whose values are always null."""
    if node.kind == "record":
        return types.StructType([types.StructField(name, spark_type(each)) for name, each in node.fields])
    if node.kind == "union":
        if members := node.members():
            return types.StructType([types.StructField(f"{MEMBER}{at}", spark_type(each)) for at, each in enumerate(members)])
        branches = tuple(each for each in node.branches if each.kind != "null")
        return spark_type(Avro(_widest(branches)) if len(branches) > 1 else next(iter(branches), Avro("null")))
    if node.inner is not None:
        inner = spark_type(node.inner)
        return types.ArrayType(inner) if node.kind == "array" else types.MapType(types.StringType(), inner)
    if node.logical == "decimal":
        return types.DecimalType(node.precision, node.scale)
    if node.kind == "null":
        raise OptionError("A field of Avro that is always null has no column in Spark: leave it out with .schema(...).")
    return _TIMES.get(node.logical) or _SIMPLE[node.kind]


_FROM_SPARK: dict[type[types.DataType], Any] = {
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


def from_spark(kind: types.DataType, name: str = "topLevelRecord", namespace: str = "") -> Any:
    """Return the schema that Spark's `to_avro` uses for a type, as an argument of `json.dumps`.

    A nullable type becomes a union with null.
    """
    if isinstance(kind, types.StructType):
        inner = f"{namespace}.{name}" if namespace else name
        fields = [{"name": field.name, "type": [from_spark(field.dataType, field.name, inner), "null"]} for field in kind.fields]
        return {"type": "record", "name": name, **({"namespace": namespace} if namespace else {}), "fields": fields}
    if isinstance(kind, types.ArrayType):
        return {"type": "array", "items": [from_spark(kind.elementType, name, namespace), "null"]}
    if isinstance(kind, types.MapType):
        return {"type": "map", "values": [from_spark(kind.valueType, name, namespace), "null"]}
    if isinstance(kind, types.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _FROM_SPARK[type(kind)]
