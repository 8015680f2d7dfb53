"""The canonical text of Avro's schemas, in the order of attributes that Avro's Java library writes. Pure."""

from __future__ import annotations

import json
from typing import Any

from ottla.schema_registry.avro.type_reader import full_name, name_of
from ottla.schema_registry.avro.types import NAMED, PRIMITIVES

_ORDER = ("type", "name", "namespace", "doc", "size", "symbols", "items", "values", "fields", "default")
_INNER = {"array": "items", "map": "values"}
_FIELD_ORDER = ("name", "type", "doc", "default", "order")


def canonical_text(given: Any, *, normalized: bool = False) -> str:
    """Return the text of a valid schema. If `normalized`, custom attributes are sorted too."""
    return json.dumps(_type(given, "", normalized), ensure_ascii=False, separators=(",", ":"))


def _type(given: Any, space: str, normalized: bool) -> Any:
    if isinstance(given, str):
        return _name(given, space)
    if isinstance(given, list):
        return [_type(each, space, normalized) for each in given]
    kind = given["type"]
    if isinstance(kind, dict | list):
        return _type(kind, space, normalized)
    if kind in NAMED:
        return _definition(given, space, normalized)
    inner = _INNER.get(kind)
    if inner is not None:
        return _sort_attributes({**given, inner: _type(given[inner], space, normalized)}, _ORDER, normalized)
    if kind not in PRIMITIVES:  # a name, whose attributes have no meaning
        return _name(kind, space)
    return kind if len(given) == 1 else _sort_attributes(given, _ORDER, normalized)


def _name(name: str, space: str) -> str:
    """Return a reference to a type, without its namespace where it is the one around it."""
    if name in PRIMITIVES:
        return name
    full = full_name(name, space)
    own, _, short = full.rpartition(".")
    return short if own == space else full


def _definition(given: dict[str, Any], space: str, normalized: bool) -> dict[str, Any]:
    name, own = name_of(given, space)
    made = {**given, "name": name}
    made.pop("namespace", None)
    if own != space:
        made["namespace"] = own
    if isinstance(given.get("fields"), list):
        made["fields"] = [_field(each, own, normalized) for each in given["fields"]]
    if not made.get("aliases", True):
        del made["aliases"]
    return _sort_attributes(made, _ORDER, normalized)


def _field(given: dict[str, Any], space: str, normalized: bool) -> dict[str, Any]:
    made = {**given, "type": _type(given["type"], space, normalized)}
    if made.get("order") == "ascending":
        del made["order"]
    if not made.get("aliases", True):
        del made["aliases"]
    return _sort_attributes(made, _FIELD_ORDER, normalized)


def _sort_attributes(made: dict[str, Any], order: tuple[str, ...], normalized: bool) -> dict[str, Any]:
    rest = [name for name in made if name not in order]
    return {name: made[name] for name in (*order, *(sorted(rest) if normalized else rest)) if name in made}
