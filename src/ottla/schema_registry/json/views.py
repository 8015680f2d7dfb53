"""Views of JSON Schemas: each (sub)schema as one kind with its keywords, so that two can be compared. Pure.

A schema with several kinds of rules, such as `type` and `enum`, is seen as `allOf` of them; a list of types as `anyOf`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.schema_registry.refusals import InvalidSchema

EMPTY, FALSE, COMBINED, NOT, ENUM, CONST = "empty", "false", "combined", "not", "enum", "const"
OBJECT, ARRAY, STRING, NUMBER = "object", "array", "string", "number"
ALL, ANY, ONE = "allOf", "anyOf", "oneOf"
_HINTS = {
    OBJECT: (
        "properties", "additionalProperties", "required", "minProperties", "maxProperties", "dependencies", "patternProperties",
        "propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    ),
    ARRAY: ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "prefixItems", "unevaluatedItems"),
    STRING: ("minLength", "maxLength", "pattern", "format"),
    NUMBER: ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
MOST_JUMPS = 100
"""The number of `$ref` that may follow each other."""


@dataclass(eq=False, slots=True)
class View:
    """A (sub)schema. `raw` has its keywords, and `base` is the document to which its references belong."""

    kind: str
    raw: dict[str, Any]
    base: Any
    criterion: str = ""
    parts: Sequence[Any] = ()


class Views:
    """Makes views. `resolve` returns the document and the subschema of a `$ref`. Raises `InvalidSchema`."""

    def __init__(self, resolve: Callable[[Any, str], tuple[Any, Any]]) -> None:
        self._resolve = resolve
        self._views: dict[int, tuple[Any, View]] = {}

    def of(self, raw: Any, base: Any) -> View:
        """Return the view of a (sub)schema of a document. The same one has the same view."""
        jumps = 0
        while isinstance(raw, dict) and isinstance(raw.get("$ref"), str):
            base, raw = self._resolve(base, raw["$ref"])
            jumps += 1
            if jumps > MOST_JUMPS:
                raise InvalidSchema("its references are a circle")
        if not isinstance(raw, dict):
            return View(FALSE if raw is False else EMPTY, {}, base)
        if id(raw) not in self._views:
            self._views[id(raw)] = raw, _make_view(raw, base)  # the entry keeps `raw`, whose id is therefore its own
        return self._views[id(raw)][1]


def _make_view(raw: dict[str, Any], base: Any) -> View:
    parts = _parts(raw, base)
    if len(parts) == 1:
        return parts[0]
    return View(COMBINED, raw, base, ALL, parts) if parts else View(EMPTY, raw, base)


def _parts(raw: dict[str, Any], base: Any) -> list[View]:
    found = [View(COMBINED, raw, base, name, raw[name]) for name in (ALL, ANY, ONE) if isinstance(raw.get(name), list)]
    if isinstance(raw.get("enum"), list):
        found.append(View(ENUM, raw, base))
    if "const" in raw:
        found.append(View(CONST, raw, base))
    if "not" in raw:
        found.append(View(NOT, raw, base))
    kinds = raw.get("type")
    if isinstance(kinds, list) and len(kinds) == 1:
        kinds = kinds[0]
    if isinstance(kinds, list):
        found.append(View(COMBINED, raw, base, ANY, [_of_type(each, raw, base) for each in kinds]))
    elif isinstance(kinds, str):
        found.append(_of_type(kinds, raw, base))
    else:
        found += [View(kind, raw, base) for kind, hints in _HINTS.items() if any(hint in raw for hint in hints)]
    return found


def _of_type(kind: str, raw: dict[str, Any], base: Any) -> View:
    return View(NUMBER if kind == "integer" else kind, raw, base, criterion=kind)
