"""The differences of two JSON Schemas: which data of the older one the newer one no longer accepts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ottla.schema_registry.json import limits, objects
from ottla.schema_registry.json.differences import JsonDifference, find_breaking
from ottla.schema_registry.json.pairs import match_pairs
from ottla.schema_registry.json.views import (
    ALL,
    ANY,
    ARRAY,
    COMBINED,
    CONST,
    EMPTY,
    ENUM,
    FALSE,
    NOT,
    NUMBER,
    OBJECT,
    ONE,
    STRING,
    View,
    Views,
)


class JsonComparison:
    """Compares (sub)schemas of an older and a newer schema."""

    def __init__(self, old: Views, new: Views, other: JsonComparison | None = None) -> None:
        self._old, self._new = old, new
        self._other = other
        self._known: dict[tuple[int, int], list[JsonDifference]] = {}
        self._kept: list[View] = []

    def old(self, raw: Any, base: Any) -> View:
        """Return the view of a subschema of the older schema."""
        return raw if isinstance(raw, View) else self._old.of(raw, base)

    def new(self, raw: Any, base: Any) -> View:
        """Return the view of a subschema of the newer schema."""
        return raw if isinstance(raw, View) else self._new.of(raw, base)

    def reverse(self) -> JsonComparison:
        """Return the comparison in the other direction, for `not`."""
        self._other = self._other or JsonComparison(self._new, self._old, self)
        return self._other

    def compare(self, old: View, new: View, path: str) -> list[JsonDifference]:
        """Return the differences. A pair that contains itself is compared once."""
        key = id(old), id(new)
        if key not in self._known:
            self._known[key] = []  # it is under way, or compatible
            self._kept += old, new  # so that their ids are not used again
            before = len(self._known)
            found = list(self._types(old, new, path))
            if find_breaking(found):
                while len(self._known) > before:  # results that assumed that this pair is compatible
                    self._known.popitem()
            self._known[key] = found
        return self._known[key]

    def _types(self, old: View, new: View, path: str) -> Iterator[JsonDifference]:
        through = self._through_combination(old, new, path)
        if through is not None:
            yield from through
        elif old.kind != new.kind:
            if old.kind != FALSE and new.kind != EMPTY:
                yield JsonDifference("TYPE_CHANGED", path)
        else:
            yield from self._same_kind(old, new, path)

    def _through_combination(self, old: View, new: View, path: str) -> list[JsonDifference] | None:
        """Return the differences to the one part of a combination that makes it compatible, or None."""
        if new.kind == COMBINED and old.kind != COMBINED and (len(new.parts) == 1 or new.criterion in (ANY, ONE)):
            pairs = [(old, self.new(each, new.base)) for each in new.parts]
        elif old.kind == COMBINED and new.kind != COMBINED and (len(old.parts) == 1 or old.criterion == ALL):
            pairs = [(self.old(each, old.base), new) for each in old.parts]
        else:
            return None
        for before, after in pairs:
            found = self.compare(before, after, path)
            if not find_breaking(found):
                return found
        return None

    def _same_kind(self, old: View, new: View, path: str) -> Iterator[JsonDifference]:
        if old.kind == COMBINED:
            yield from self._changed_combination(old, new, path)
        elif old.kind == OBJECT:
            yield from objects.changed_object(self, old, new, path)
        elif old.kind == ARRAY:
            yield from self._arrays(old, new, path)
        elif old.kind == STRING:
            yield from limits.changed_limits(limits.STRINGS, old.raw, new.raw, path)
            yield from limits.changed_pattern(old.raw, new.raw, path)
        elif old.kind == NUMBER:
            yield from _numbers(old, new, path)
        elif old.kind == ENUM:
            yield from _enums(old.raw["enum"], new.raw["enum"], path)
        elif old.kind == CONST:
            if _key(old.raw["const"]) != _key(new.raw["const"]):
                yield JsonDifference("ENUM_ARRAY_CHANGED", f"{path}/const")
        elif old.kind == NOT:
            found = self.reverse().compare(self.new(new.raw["not"], new.base), self.old(old.raw["not"], old.base), f"{path}/not")
            yield JsonDifference("NOT_TYPE_EXTENDED" if find_breaking(found) else "NOT_TYPE_NARROWED", f"{path}/not")

    def _changed_combination(self, old: View, new: View, path: str) -> Iterator[JsonDifference]:
        change = _criterion_change(old, new)
        if change:
            yield JsonDifference(change, path)
        if change == "COMBINED_TYPE_CHANGED":
            return
        before = _distinct([self.old(each, old.base) for each in old.parts])
        after = _distinct([self.new(each, new.base) for each in new.parts])
        if len(before) < len(after):
            yield JsonDifference("PRODUCT_TYPE_EXTENDED" if new.criterion == ALL else "SUM_TYPE_EXTENDED", path)
        elif len(before) > len(after):
            yield JsonDifference("SUM_TYPE_NARROWED" if old.criterion in (ANY, ONE) else "PRODUCT_TYPE_NARROWED", path)
        edges = {
            (place, other)
            for place, one in enumerate(before)
            for other, two in enumerate(after)
            if not find_breaking(self.compare(one, two, f"{path}/{old.criterion}/{place}"))
        }
        if len(match_pairs(edges, len(before))) < min(len(before), len(after)):
            yield JsonDifference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path)

    def _arrays(self, old: View, new: View, path: str) -> Iterator[JsonDifference]:
        yield from limits.changed_limits(limits.ARRAYS, old.raw, new.raw, path)
        before, after = bool(old.raw.get("uniqueItems")), bool(new.raw.get("uniqueItems"))
        if before != after:
            yield JsonDifference("UNIQUE_ITEMS_ADDED" if after else "UNIQUE_ITEMS_REMOVED", f"{path}/uniqueItems")
        old_tuple, old_rest = objects.items_of(old.raw)
        new_tuple, new_rest = objects.items_of(new.raw)
        if old_tuple is None and new_tuple is None:
            yield from self.changed_schema(old, new, ("items", old_rest, new_rest), f"{path}/items")
        else:
            yield from objects.changed_tuple(self, old, new, path)

    def changed_schema(self, old: View, new: View, values: tuple[str, Any, Any], path: str) -> Iterator[JsonDifference]:
        """Iterate over the differences of a keyword's subschemas, which may be missing."""
        _, before, after = values
        if before is None and after is not None:
            if after is not True and after != {}:
                yield JsonDifference("SCHEMA_ADDED", path)
        elif after is None and before is not None:
            yield JsonDifference("SCHEMA_REMOVED", path)
        elif before is not None:
            yield from self.compare(self.old(before, old.base), self.new(after, new.base), path)


def _numbers(old: View, new: View, path: str) -> Iterator[JsonDifference]:
    yield from limits.changed_limits(limits.NUMBERS, old.raw, new.raw, path)
    yield from limits.changed_multiple(old.raw, new.raw, path)
    before, after = old.criterion == "integer", new.criterion == "integer"
    if before != after:
        yield JsonDifference("TYPE_EXTENDED" if before else "TYPE_NARROWED", path)


def _enums(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[JsonDifference]:
    old, new = {_key(each) for each in before}, {_key(each) for each in after}
    if old != new:
        change = "EXTENDED" if old < new else "NARROWED" if new < old else "CHANGED"
        yield JsonDifference(f"ENUM_ARRAY_{change}", f"{path}/enum")


def _criterion_change(old: View, new: View) -> str:
    single = len(old.parts) == 1, len(new.parts) == 1
    if old.criterion == new.criterion:
        return ""
    extended = new.criterion == ANY or all(single) or (single[0] and new.criterion == ONE) or (single[1] and old.criterion == ALL)
    return "COMBINED_TYPE_EXTENDED" if extended else "COMBINED_TYPE_CHANGED"


def _distinct(parts: list[View]) -> list[View]:
    found: list[View] = []
    for each in parts:
        if not any(each.kind == other.kind and each.criterion == other.criterion and each.raw == other.raw for other in found):
            found.append(each)
    return found


def _key(value: Any) -> str:
    """Return a text that is the same for equal values: 1 and true are not equal in JSON."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{_key(value[name])}" for name in sorted(value)) + "}"
    return "[" + ",".join(map(_key, value)) + "]" if isinstance(value, list) else repr(value)
