"""Schemas of Avro by which a few bytes become a list of any length, because its items take no bytes. Pure.

fastavro would make such a list until all memory is taken. Therefore the console does not decode values of these schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_DEPTH = 100


def has_items_without_bytes(texts: list[Any]) -> bool:
    """Return whether arrays in parsed schemas can have items of no bytes. The texts that a schema refers to come before it."""
    named: dict[str, Any] = {}
    for text in texts:
        _collect_names(text, named, "", 0)
    return any(_has_empty_items(text, named, 0) for text in texts)


def _collect_names(schema: Any, named: dict[str, Any], space: str, depth: int) -> None:
    if isinstance(schema, list):
        for each in schema:
            _collect_names(each, named, space, depth + 1)
    elif isinstance(schema, dict) and depth < MOST_DEPTH:
        space = str(schema.get("namespace", space))
        name = schema.get("name")
        if isinstance(name, str) and schema.get("type") in ("record", "error", "fixed", "enum"):
            named[name] = schema
            named[name if "." in name else f"{space}.{name}"] = schema
        for inner in _inner(schema):
            _collect_names(inner, named, space, depth + 1)


def _inner(schema: Mapping[str, Any]) -> list[Any]:
    """Return the schemas within a schema."""
    fields = schema.get("fields")
    found = [each.get("type") for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []
    return [*found, *(schema[name] for name in ("items", "values", "type") if isinstance(schema.get(name), list | dict))]


def _has_empty_items(schema: Any, named: Mapping[str, Any], depth: int) -> bool:
    if depth > MOST_DEPTH:
        return True
    if isinstance(schema, list):
        return any(_has_empty_items(each, named, depth + 1) for each in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "array" and _can_be_empty(schema.get("items"), named, 0):
        return True
    return any(_has_empty_items(each, named, depth + 1) for each in _inner(schema))


def _can_be_empty(schema: Any, named: Mapping[str, Any], depth: int) -> bool:
    """Return whether a value can take no bytes. What is too deep to be checked counts as empty."""
    if depth > MOST_DEPTH:
        return True
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _can_be_empty(named[schema], named, depth + 1))
    if not isinstance(schema, dict):
        return False  # a union has the number of its branch
    kind = schema.get("type")
    if kind in ("record", "error"):
        return all(_can_be_empty(each, named, depth + 1) for each in _inner(schema))
    if kind == "fixed":
        return schema.get("size") == 0
    return _can_be_empty(kind, named, depth + 1) if kind not in ("array", "map", "enum") else False
