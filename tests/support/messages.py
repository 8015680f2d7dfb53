"""Requests from plain values, for any API and version."""

from __future__ import annotations

from typing import Any

from ottla.wire.apis import API


def request(key: int, version: int, /, **values: Any) -> Any:
    """A request of this API from plain values: dictionaries become its structs, and fields that the version lacks are left out."""
    return filled(API[key].request, version, values)


def filled(cls: Any, version: int, values: dict[str, Any]) -> Any:
    """A message or struct of class `cls` with those `values` that it has in this version."""
    wire = {field.name: field for field in cls.WIRE.fields}
    given = {}
    for name, value in values.items():
        field = wire[name]
        if version not in field.present:
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = [filled(field.of, version, each) for each in value]
        elif isinstance(value, dict):
            value = filled(field.of, version, value)
        given[name] = value
    return cls(**given)
