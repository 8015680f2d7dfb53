"""Schemas of Avro whose arrays can have any number of items in a few bytes."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.console.messages.avro_bounds import has_items_without_bytes

EMPTY = {"type": "record", "name": "E", "namespace": "a", "fields": [{"name": "n", "type": "null"}]}


def array_of(items: object) -> dict[str, Any]:
    return {"type": "array", "items": items}


def record_of(*kinds: object, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]}


@pytest.mark.parametrize(
    "texts",
    [
        [array_of("null")],
        [array_of({"type": "null"})],
        [array_of(EMPTY)],
        [array_of({"type": "fixed", "name": "F", "size": 0})],
        [array_of(record_of())],
        [record_of("string", ["null", array_of(record_of("null", EMPTY))])],
        [EMPTY, array_of("a.E")],
        [record_of(EMPTY, array_of("E"))],
        [{"type": "map", "values": array_of("null")}],
        [array_of(array_of("null"))],
        [record_of({"type": array_of("null")})],
    ],
)
def test_items_without_bytes_are_found(texts: list[Any]) -> None:
    assert has_items_without_bytes(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ["null"],
        [EMPTY],
        [array_of("string")],
        [array_of(["null", "string"])],
        [array_of({"type": "fixed", "name": "F", "size": 4})],
        [array_of({"type": "enum", "name": "F", "symbols": ["a"]})],
        [array_of(array_of("int"))],
        [array_of(record_of("null", "boolean"))],
        [array_of({"type": "long", "logicalType": "timestamp-millis"})],
        [record_of("null", "string", {"type": "map", "values": "null"})],
        [record_of("int", ["null", "R"])],
    ],
)
def test_other_schemas_are_bounded_by_their_bytes(texts: list[Any]) -> None:
    assert not has_items_without_bytes(texts)


def test_a_schema_that_contains_itself_without_end_counts_as_unbounded() -> None:
    assert has_items_without_bytes([array_of(record_of("R"))])
