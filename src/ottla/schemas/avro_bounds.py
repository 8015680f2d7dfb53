"""Schemas of Avro by which a few bytes become a value of any size. Pure.

The items of an array may take no bytes, so that its number of items is bounded by nothing, and a decoder would make items until all
memory is taken. Likewise, records within records can double with each level. Therefore values of these schemas are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

MOST_DEPTH: Final = 100
MOST_VALUES: Final = 100_000
"""The largest number of values within one value, without those of arrays, maps and unions, each of which takes a byte."""


def unbounded_part(texts: list[Any]) -> str:
    """Return a clause about the part of parsed schemas that makes their values unbounded; empty if no part does.

    The texts that a schema refers to come before it.
    """
    return nested_part(texts) or _found(texts, lambda bounds, schema: bounds.empty_items(schema))


def nested_part(texts: list[Any]) -> str:
    """Return a clause about records with too many values; empty without any. It is for decoders that count items themselves."""
    return _found(texts, lambda bounds, schema: bounds.large_record(schema))


def _found(texts: list[Any], clause_of: Callable[[_Bounds, Mapping[str, Any]], str]) -> str:
    bounds = _Bounds()
    try:
        for text in texts:
            bounds.collect_names(text)
        return next((clause for text in texts for schema in _walk(text) if (clause := clause_of(bounds, schema))), "")
    except RecursionError:
        return "it is nested too deeply"


class _Bounds:
    """The named types of schemas, and the sizes of types that were calculated.

    A name counts without its namespace, so that of two types with one name the worse one counts.
    """

    def __init__(self) -> None:
        self._named: dict[str, list[Any]] = {}
        self._empty: dict[int, bool] = {}
        self._values: dict[int, int] = {}

    def collect_names(self, text: Any) -> None:
        for schema in _walk(text):
            if isinstance(schema.get("name"), str) and schema.get("type") in ("record", "error", "fixed", "enum"):
                self._named.setdefault(_short(schema["name"]), []).append(schema)

    def empty_items(self, schema: Mapping[str, Any]) -> str:
        is_array = schema.get("type") == "array" and self._can_be_empty(schema.get("items"), 0)
        return "its arrays have items that take no bytes, of which there could be any number" if is_array else ""

    def large_record(self, schema: Mapping[str, Any]) -> str:
        is_large = schema.get("type") in ("record", "error") and self._count(schema, 0) > MOST_VALUES
        return f"a record of it has more than {MOST_VALUES} values, with the records within it" if is_large else ""

    def _can_be_empty(self, schema: Any, depth: int) -> bool:
        """Return whether a value can take no bytes. What is too deep to be checked counts as empty."""
        if depth > MOST_DEPTH:
            return True
        if isinstance(schema, str):
            return schema == "null" or any(self._can_be_empty(each, depth + 1) for each in self._named.get(_short(schema), ()))
        if not isinstance(schema, dict):
            return False  # a union has the number of its branch
        if id(schema) not in self._empty:
            self._empty[id(schema)] = self._is_empty(schema, depth)
        return self._empty[id(schema)]

    def _is_empty(self, schema: Mapping[str, Any], depth: int) -> bool:
        kind = schema.get("type")
        if kind in ("record", "error"):
            return all(self._can_be_empty(each, depth + 1) for each in _types_of_fields(schema))
        if kind == "fixed":
            size = schema.get("size")
            return not (isinstance(size, int) and size > 0)
        return self._can_be_empty(kind, depth + 1) if kind not in ("array", "map", "enum") else False

    def _count(self, schema: Any, depth: int) -> int:
        """Return the number of values within a value, `MOST_VALUES` or more for one that contains itself without end."""
        if depth > MOST_DEPTH:
            return MOST_VALUES
        if isinstance(schema, str):
            return max((self._count(each, depth + 1) for each in self._named.get(_short(schema), ())), default=1)
        if not isinstance(schema, dict) or schema.get("type") in ("array", "map", "fixed", "enum"):
            return 1
        if id(schema) not in self._values:
            fields = _types_of_fields(schema) if schema.get("type") in ("record", "error") else [schema.get("type")]
            self._values[id(schema)] = 1 + sum(self._count(each, depth + 1) for each in fields)
        return self._values[id(schema)]


def _walk(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas in a schema that are objects of JSON, itself first."""
    if isinstance(schema, dict):
        yield schema
    for inner in schema if isinstance(schema, list) else _inner(schema) if isinstance(schema, dict) else ():
        yield from _walk(inner)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _types_of_fields(schema: Mapping[str, Any]) -> list[Any]:
    fields = schema.get("fields")
    return [each.get("type") for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _inner(schema: Mapping[str, Any]) -> list[Any]:
    """Return the schemas within a schema."""
    own = (schema[name] for name in ("items", "values", "type") if isinstance(schema.get(name), list | dict))
    return [*_types_of_fields(schema), *own]
