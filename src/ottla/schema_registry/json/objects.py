"""The differences of JSON Schema's objects and tuples: content models that are open, closed or partially open. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import re2

from ottla.schema_registry.json import limits
from ottla.schema_registry.json.differences import JsonDifference, find_breaking
from ottla.schema_registry.json.views import EMPTY, FALSE, View


class ObjectComparison(Protocol):
    """The comparison that objects are part of: it compares their properties."""

    def old(self, raw: Any, base: Any) -> View:
        """Return the view of a subschema of the older schema."""

    def new(self, raw: Any, base: Any) -> View:
        """Return the view of a subschema of the newer schema."""

    def compare(self, old: View, new: View, path: str) -> list[JsonDifference]:
        """Return the differences."""


def changed_object(within: ObjectComparison, old: View, new: View, path: str) -> Iterator[JsonDifference]:
    """Iterate over the differences of two objects."""
    yield from _changed_required(old.raw, new.raw, path)
    before, after = _mapping_at(old.raw, "properties"), _mapping_at(new.raw, "properties")
    for name in dict.fromkeys((*before, *after)):
        where = f"{path}/properties/{name}"
        if name not in after:
            yield from _removed_member(within, old, new, name, where)
        elif name not in before:
            yield from _added_member(within, old, new, name, where)
        else:
            yield from within.compare(within.old(before[name], old.base), within.new(after[name], new.base), where)
    yield from _dependencies(within, old, new, path)
    yield from _rest(within, old, new, ("additionalProperties", "ADDITIONAL_PROPERTIES"), path)
    yield from _rest(within, old, new, ("unevaluatedProperties", "UNEVALUATED_PROPERTIES"), path)
    yield from limits.changed_limits(limits.OBJECTS, old.raw, new.raw, path)


def _changed_required(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[JsonDifference]:
    before, after = _names(old), _names(new)
    properties = _mapping_at(new, "properties")
    for name in _mapping_at(old, "properties"):
        where = f"{path}/required/{name}"
        if name not in properties or (name in before) == (name in after):
            continue
        if name in before:
            yield JsonDifference("REQUIRED_ATTRIBUTE_REMOVED", where)
        elif _has_default(properties[name]):
            yield JsonDifference("REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", where)
        else:
            yield JsonDifference("REQUIRED_ATTRIBUTE_ADDED", where)


def _removed_member(within: ObjectComparison, old: View, new: View, name: str, path: str) -> Iterator[JsonDifference]:
    """Iterate over the differences of a property that the newer schema no longer names."""
    own = within.old(_mapping_at(old.raw, "properties")[name], old.base)
    covering = _covering_schema(new.raw, name)
    if _is_open(new.raw):
        yield JsonDifference("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", path)
    elif covering is not None:
        found = within.compare(own, within.new(covering, new.base), path)
        yield from found
        yield JsonDifference(f"PROPERTY_REMOVED_{_coverage(found)}_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    else:
        with_false = "WITH_FALSE_" if own.kind == FALSE else ""
        yield JsonDifference(f"PROPERTY_{with_false}REMOVED_FROM_CLOSED_CONTENT_MODEL", path)


def _added_member(within: ObjectComparison, old: View, new: View, name: str, path: str) -> Iterator[JsonDifference]:
    """Iterate over the differences of a property that the older schema does not name."""
    raw = _mapping_at(new.raw, "properties")[name]
    own = within.new(raw, new.base)
    required, default = name in _names(new.raw), "_WITH_DEFAULT" if _has_default(raw) else ""
    kind = f"REQUIRED_PROPERTY{default}" if required else "OPTIONAL_PROPERTY"
    if _is_open(old.raw):
        empty = own.kind == EMPTY
        yield JsonDifference(f"{'PROPERTY_WITH_EMPTY_SCHEMA' if empty else kind}_ADDED_TO_OPEN_CONTENT_MODEL", path)
        return
    covering = _covering_schema(old.raw, name)
    if covering is not None:
        found = within.compare(within.old(covering, old.base), own, path)
        yield from found
        yield JsonDifference(f"PROPERTY_ADDED_{_coverage(found)}_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    yield JsonDifference(f"{kind}_ADDED_TO_UNOPEN_CONTENT_MODEL", path)


def _coverage(found: list[JsonDifference]) -> str:
    return "NOT_COVERED" if find_breaking(found) else "IS_COVERED"


def _dependencies(within: ObjectComparison, old: View, new: View, path: str) -> Iterator[JsonDifference]:
    before, after = _dependency_map(old.raw), _dependency_map(new.raw)
    for name in dict.fromkeys((*before, *after)):
        one, two = before.get(name), after.get(name)
        where = f"{path}/dependencies/{name}"
        if isinstance(one, list) or isinstance(two, list):
            yield from _dependency_lists(one, two, where)
        elif two is None:
            yield JsonDifference("DEPENDENCY_SCHEMA_REMOVED", where)
        elif one is None:
            yield JsonDifference("DEPENDENCY_SCHEMA_ADDED", where)
        else:
            yield from within.compare(within.old(one, old.base), within.new(two, new.base), where)


def _dependency_lists(one: Any, two: Any, path: str) -> Iterator[JsonDifference]:
    if not isinstance(two, list) or not isinstance(one, list):
        yield JsonDifference(f"DEPENDENCY_ARRAY_{'ADDED' if isinstance(two, list) else 'REMOVED'}", path)
    elif set(one) != set(two):
        change = "EXTENDED" if set(one) < set(two) else "NARROWED" if set(two) < set(one) else "CHANGED"
        yield JsonDifference(f"DEPENDENCY_ARRAY_{change}", path)


def _rest(within: ObjectComparison, old: View, new: View, keyword: tuple[str, str], path: str) -> Iterator[JsonDifference]:
    """Iterate over the differences of a keyword for all properties, or all items, that are not named."""
    name, kind = keyword
    before, after = old.raw.get(name, True), new.raw.get(name, True)
    if (before is False) != (after is False):
        yield JsonDifference(f"{kind}_{'ADDED' if before is False else 'REMOVED'}", f"{path}/{name}")
    elif isinstance(before, dict) != isinstance(after, dict):
        yield JsonDifference(f"{kind}_{'EXTENDED' if isinstance(before, dict) else 'NARROWED'}", f"{path}/{name}")
    elif isinstance(before, dict):
        yield from within.compare(within.old(before, old.base), within.new(after, new.base), f"{path}/{name}")


def items_of(raw: dict[str, Any]) -> tuple[list[Any] | None, Any]:
    """Return the schemas of a tuple's items, or None, and the schema of all other items: None if there is none."""
    if isinstance(raw.get("prefixItems"), list):
        return raw["prefixItems"], raw.get("items")
    if isinstance(raw.get("items"), list):
        return raw["items"], raw.get("additionalItems")
    return None, raw.get("items")


def changed_tuple(within: ObjectComparison, old: View, new: View, path: str) -> Iterator[JsonDifference]:
    """Iterate over the differences of two arrays, at least one of which is a tuple."""
    before, old_rest = items_of(old.raw)
    after, new_rest = items_of(new.raw)
    rests = (
        {"additionalItems": old_rest} if old_rest is not None else {},
        {"additionalItems": new_rest} if new_rest is not None else {},
    )
    old_view, new_view = View(old.kind, rests[0], old.base), View(new.kind, rests[1], new.base)
    yield from _rest(within, old_view, new_view, ("additionalItems", "ADDITIONAL_ITEMS"), path)
    one, two = before or [], after or []
    for place in range(max(len(one), len(two))):
        where = f"{path}/items/{place}"
        if place < len(one) and place < len(two):
            yield from within.compare(within.old(one[place], old.base), within.new(two[place], new.base), where)
        elif place < len(one):
            yield from _item(within, (within.old(one[place], old.base), new_rest, new.base), where)
        else:
            yield from _added_item(within, (old_rest, old.base, within.new(two[place], new.base)), where)


def _item(within: ObjectComparison, values: tuple[View, Any, Any], path: str) -> Iterator[JsonDifference]:
    own, rest, base = values
    if rest is None or rest is True:
        yield JsonDifference("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", path)
    elif rest is False:
        yield JsonDifference(f"ITEM_{'WITH_FALSE_' if own.kind == FALSE else ''}REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
    else:
        found = within.compare(own, within.new(rest, base), path)
        yield from found
        yield JsonDifference(f"ITEM_REMOVED_{_coverage(found)}_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)


def _added_item(within: ObjectComparison, values: tuple[Any, Any, View], path: str) -> Iterator[JsonDifference]:
    rest, base, own = values
    if rest is None or rest is True:
        yield JsonDifference(f"ITEM_{'WITH_EMPTY_SCHEMA_' if own.kind == EMPTY else ''}ADDED_TO_OPEN_CONTENT_MODEL", path)
    elif rest is False:
        yield JsonDifference("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", path)
    else:
        found = within.compare(within.old(rest, base), own, path)
        yield from found
        yield JsonDifference(f"ITEM_ADDED_{_coverage(found)}_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)


def _is_open(raw: dict[str, Any]) -> bool:
    """Return whether an object may have any property that is not named."""
    return all(raw.get(name, True) in (True, {}) for name in ("additionalProperties", "unevaluatedProperties")) and not raw.get(
        "patternProperties"
    )


def _covering_schema(raw: dict[str, Any], name: str) -> Any:
    """Return the schema of a property that `properties` does not name, or None."""
    for pattern, found in _mapping_at(raw, "patternProperties").items():
        if _fits(pattern, name):
            return found
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if isinstance(raw.get(keyword), dict):
            return raw[keyword]
        if keyword in raw:
            return None
    return None


def _fits(pattern: str, name: str) -> bool:
    """Return whether a pattern occurs in a name. RE2 takes no pattern that would need unbounded time."""
    try:
        return bool(re2.search(pattern, name))
    except re2.error:
        return False


def _dependency_map(raw: dict[str, Any]) -> Mapping[str, Any]:
    return {**_mapping_at(raw, "dependencies"), **_mapping_at(raw, "dependentRequired"), **_mapping_at(raw, "dependentSchemas")}


def _mapping_at(raw: dict[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    return found if isinstance(found, dict) else {}


def _names(raw: dict[str, Any]) -> set[str]:
    found = raw.get("required")
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()


def _has_default(raw: Any) -> bool:
    return isinstance(raw, dict) and "default" in raw
