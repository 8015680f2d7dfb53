"""JsonComparison of JSON Schema's keywords whose values are limits: lengths, bounds, numbers of items. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla.schema_registry.json.differences import JsonDifference

STRINGS = {"maxLength": "MAX_LENGTH", "minLength": "MIN_LENGTH"}
OBJECTS = {"maxProperties": "MAX_PROPERTIES", "minProperties": "MIN_PROPERTIES"}
ARRAYS = {"maxItems": "MAX_ITEMS", "minItems": "MIN_ITEMS"}
NUMBERS = {
    "maximum": "MAXIMUM",
    "minimum": "MINIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
}


def changed_limits(names: dict[str, str], old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[JsonDifference]:
    """Iterate over changed limits."""
    for keyword, name in names.items():
        before, after = _number(old.get(keyword)), _number(new.get(keyword))
        if before != after:
            change = "ADDED" if before is None else "REMOVED" if after is None else "INCREASED" if before < after else "DECREASED"
            yield JsonDifference(f"{name}_{change}", f"{path}/{keyword}")


def changed_pattern(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[JsonDifference]:
    """Iterate over changes of a pattern."""
    before, after = old.get("pattern"), new.get("pattern")
    if before != after:
        change = "ADDED" if before is None else "REMOVED" if after is None else "CHANGED"
        yield JsonDifference(f"PATTERN_{change}", f"{path}/pattern")


def changed_multiple(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[JsonDifference]:
    """Iterate over changes of `multipleOf`. Multiples of 4 are multiples of 2 too, and thus remain readable."""
    before, after = _number(old.get("multipleOf")), _number(new.get("multipleOf"))
    if before != after:
        yield JsonDifference(f"MULTIPLE_OF_{_multiple_change(before, after)}", f"{path}/multipleOf")


def _multiple_change(before: Decimal | None, after: Decimal | None) -> str:
    if before is None or after is None:
        return "ADDED" if before is None else "REMOVED"
    try:
        if before and after % before == 0:
            return "EXPANDED"
        return "REDUCED" if after and before % after == 0 else "CHANGED"
    except InvalidOperation:  # the quotient has too many digits
        return "CHANGED"


def _number(value: Any) -> Decimal | None:
    return Decimal(str(value)) if type(value) in (int, float) else None
