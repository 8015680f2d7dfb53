"""Schemas of Avro whose arrays can have any number of items in a few bytes."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from ottla.errors import SettingError
from ottla.formats import avro_schema
from ottla.formats.errors import OptionError
from ottla.schemas.avro_bounds import unbounded_part
from ottla.schemas.libraries import UnfitValue
from ottla.schemas.schema import AVRO, ValueSchema
from ottla.schemas.values import decoder_of

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
        [array_of({"type": "fixed", "name": "F", "size": -1})],
        [{"type": "record", "name": "a.b.R", "fields": [{"name": "e", "type": {**EMPTY, "namespace": "a.b"}}]}, array_of("a.b.E")],
        [record_of(record_of(name="a.E"), record_of("int", name="b.E"), array_of("a.E"))],
    ],
)
def test_items_without_bytes_are_found(texts: list[Any]) -> None:
    assert "items that take no bytes" in unbounded_part(texts)


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
    assert unbounded_part(texts) == ""


def test_a_schema_that_contains_itself_without_end_counts_as_unbounded() -> None:
    assert unbounded_part([array_of(record_of("R"))])


def doubled(levels: int) -> dict[str, Any]:
    """Return a record that contains two of the next level's, and at the last level two nulls."""
    schema = record_of("null", "null", name="R0")
    for level in range(1, levels):
        schema = record_of(schema, f"R{level - 1}", name=f"R{level}")
    return schema


def test_records_that_double_with_each_level_are_unbounded() -> None:
    assert "more than 100000 values" in unbounded_part([doubled(60)])
    assert unbounded_part([doubled(10)]) == ""
    assert unbounded_part([record_of("R")])
    with pytest.raises(OptionError, match="valueSchema has no schema of Avro that can be read: a record of it has more than"):
        avro_schema.read(json.dumps(doubled(40)), "valueSchema")


def avro(schema: object) -> ValueSchema:
    return ValueSchema(AVRO, (json.dumps(schema).encode(),), "schema 7")


@pytest.mark.parametrize("schema", [array_of("null"), record_of(array_of(EMPTY)), doubled(40)])
def test_values_of_an_unbounded_schema_are_decoded_nowhere(schema: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"^Values of schema 7 cannot be decoded: .+; name another schema\.$"):
        decoder_of(avro(schema))


@pytest.mark.parametrize("schema", [array_of("int"), {"type": "map", "values": "null"}, {"type": "map", "values": EMPTY}])
def test_a_count_that_is_larger_than_the_value_ends_the_decoder(schema: dict[str, Any]) -> None:
    with pytest.raises(UnfitValue):
        decoder_of(avro(schema))(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")


@pytest.mark.parametrize("data", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff" * 200])
def test_messagepack_does_not_make_more_items_than_its_value_has_bytes(data: bytes) -> None:
    """The library refuses a count that is larger than the value has bytes, since each item takes at least one."""
    with pytest.raises(ValueError, match="exceeds max"):
        msgpack.unpackb(data, strict_map_key=False, timestamp=3)
