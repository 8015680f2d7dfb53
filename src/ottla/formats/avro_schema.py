"""Avro schemas: parsed from JSON, and the types of their values in Arrow. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.formats.errors import OptionError
from ottla.schemas.avro_bounds import nested_part

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_TIMES: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
TEXT_TYPES = {"int": ("date",), "long": tuple(_TIMES)[1:], "bytes": ("decimal",), "fixed": ("decimal",)}


MEMBER = "member"
"""The prefix of fields for a union of several types.

Its column is a STRUCT with a field for each type, as from Spark's from_avro: member0, member1, …
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

    def has_no_bytes(self) -> bool:
        """Return whether a value is encoded as nothing."""
        if self.kind == "record":
            return all(each.has_no_bytes() for _, each in self.fields)
        return self.kind == "null" or (self.kind == "fixed" and self.size <= 0)

    def has_empty_items(self) -> bool:
        """Return whether arrays within it have items that take no bytes."""
        if self.kind == "array" and self.inner is not None and self.inner.has_no_bytes():
            return True
        inner = () if self.inner is None else (self.inner,)
        return any(each.has_empty_items() for each in (*inner, *self.branches, *(each for _, each in self.fields)))

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


def read(text: str, source: str) -> Avro:
    """Parse a schema from JSON. Raises `OptionError`; `source` is the option or the place that has the schema."""
    try:
        given = json.loads(text)
        found = _node(given, {}, "")
        if clause := nested_part([given]):
            raise _NoAvro(clause)
        return found
    except (_NoAvro, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f"{source} has no schema of Avro that can be read: {error}.") from None


def _node(given: Any, named: dict[str, Avro | None], namespace: str) -> Avro:
    if isinstance(given, list):
        return Avro("union", branches=tuple(_node(each, named, namespace) for each in given))
    if isinstance(given, str):
        if given in PRIMITIVES:
            return Avro(given)
        full = given if "." in given or not namespace else f"{namespace}.{given}"
        found = named.get(full, named.get(given, ...))
        if found is None:
            raise _NoAvro(f"type {given} holds itself, which no column can")
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


def arrow_type(node: Avro) -> pa.DataType:
    """Return Arrow's type of the values. Raises `OptionError` for a type whose values are always null."""
    if node.kind == "record":
        return pa.struct([(name, arrow_type(each)) for name, each in node.fields])
    if node.kind == "union":
        if members := node.members():
            return pa.struct([(f"{MEMBER}{at}", arrow_type(each)) for at, each in enumerate(members)])
        branches = tuple(each for each in node.branches if each.kind != "null")
        return arrow_type(Avro(_widest(branches)) if len(branches) > 1 else next(iter(branches), Avro("null")))
    if node.inner is not None:
        inner = arrow_type(node.inner)
        return pa.list_(inner) if node.kind == "array" else pa.map_(pa.string(), inner)
    if node.logical == "decimal":
        return pa.decimal128(node.precision, node.scale)
    if node.kind == "null":
        raise OptionError("A field of Avro that is always null has no column: leave it out of the columns to read.")
    return _TIMES.get(node.logical) or _SIMPLE[node.kind]
