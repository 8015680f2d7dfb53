"""Default values of Avro's fields, in the JSON of a schema. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.schema_registry.avro.types import AvroType


def is_default(kind: AvroType, value: Any) -> bool:
    """Return whether a JSON value is a default of a type. The default of a union fits any of its branches."""
    return _CHECKS[kind.kind](kind, value)


def _is_int(bits: int) -> Callable[[AvroType, Any], bool]:
    return lambda kind, value: type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1


def _is_number(kind: AvroType, value: Any) -> bool:
    return type(value) in (int, float) or value in ("NaN", "Infinity", "-Infinity")


def _is_text(kind: AvroType, value: Any) -> bool:
    return isinstance(value, str)


def _is_bytes(kind: AvroType, value: Any) -> bool:
    return isinstance(value, str) and all(ord(char) < 256 for char in value)


def _is_fixed(kind: AvroType, value: Any) -> bool:
    return _is_bytes(kind, value) and len(value) == kind.size


def _is_record(kind: AvroType, value: Any) -> bool:
    return isinstance(value, dict) and all(
        is_default(each.type, value[each.name]) if each.name in value else each.has_default for each in kind.fields
    )


def _is_array(kind: AvroType, value: Any) -> bool:
    return isinstance(value, list) and kind.inner is not None and all(is_default(kind.inner, each) for each in value)


def _is_map(kind: AvroType, value: Any) -> bool:
    return isinstance(value, dict) and kind.inner is not None and all(is_default(kind.inner, each) for each in value.values())


_CHECKS: Mapping[str, Callable[[AvroType, Any], bool]] = {
    "null": lambda kind, value: value is None,
    "boolean": lambda kind, value: isinstance(value, bool),
    "int": _is_int(32),
    "long": _is_int(64),
    "float": _is_number,
    "double": _is_number,
    "string": _is_text,
    "bytes": _is_bytes,
    "fixed": _is_fixed,
    "enum": lambda kind, value: value in kind.symbols,
    "record": _is_record,
    "array": _is_array,
    "map": _is_map,
    "union": lambda kind, value: any(is_default(each, value) for each in kind.branches),
}
