"""Schemas of Avro that the registry calls compatible read each other's data."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.schema_registry.avro.schema import parse
from ottla.schema_registry.refusals import InvalidSchema
from tests.unit.schema_registry.avro_strategies import schemas, values


def reasons(reader: Any, writer: Any) -> list[str]:
    """Return the kinds of the reasons for which a reader cannot read data of a writer."""
    found = parse(json.dumps(reader), {}, True).unreadable(parse(json.dumps(writer), {}, True), reader="new", writer="old")
    return [each.split("'")[1] for each in found]


UNHURRIED = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=30, deadline=None, suppress_health_check=UNHURRIED)
@given(st.data())
def test_what_is_called_compatible_is_read(data: st.DataObject) -> None:
    check_one_pair(data)


@pytest.mark.full(seconds=40)
@settings(max_examples=700, deadline=None, suppress_health_check=UNHURRIED)
@given(st.data())
def test_many_schemas_that_are_called_compatible_are_read(data: st.DataObject) -> None:
    check_one_pair(data)


def check_one_pair(data: st.DataObject) -> None:
    """Draw two schemas. If the registry calls them compatible, the one reads a value of the other."""
    writer, reader = data.draw(schemas()), data.draw(schemas())
    if data.draw(st.booleans()):
        reader = data.draw(st.sampled_from(relatives(writer)))
    try:
        if reasons(reader, writer):
            return
    except InvalidSchema:
        return
    value = data.draw(values(writer))
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), value)
    out.seek(0)
    fastavro.schemaless_reader(out, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    assert not out.read()


def relatives(schema: Any) -> list[Any]:
    """Return schemas that read data of another one, or nearly so."""
    wider = {"int": "double", "long": "float", "float": "double", "string": "bytes", "bytes": "string"}
    found: list[Any] = [schema, [schema] if not isinstance(schema, list) else schema[::-1]]
    if isinstance(schema, str):
        found.append(wider.get(schema, schema))
    elif isinstance(schema, dict) and schema["type"] == "record":
        kept = schema["fields"][1:]
        fields = [*kept, {"name": "z", "type": "int", "default": 3}]
        found += [{**schema, "fields": kept}, {**schema, "fields": fields}]
        found.append({**schema, "fields": [{**each, "type": relatives(each["type"])[-1]} for each in fields]})
    elif isinstance(schema, list) and "null" not in schema:
        found.append(["null", *schema])
    return found


RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def record(*fields: Any, **others: Any) -> Any:
    return {**RECORD, "fields": list(fields), **others}


LIST = record({"name": "next", "type": ["null", "R"], "default": None})
ROWS = [
    ("long", "int", []),
    ("int", "long", ["TYPE_MISMATCH"]),
    ("string", "bytes", []),
    ("bytes", "string", []),
    ("float", "long", []),
    ("double", "float", []),
    ("float", "double", ["TYPE_MISMATCH"]),
    ("string", "int", ["TYPE_MISMATCH"]),
    (["null", "int"], "int", []),
    (["null", "string"], "int", ["MISSING_UNION_BRANCH"]),
    ("int", ["int"], []),
    ("int", ["int", "null"], ["TYPE_MISMATCH"]),
    (["null", "long"], ["int"], []),
    (["int"], ["int", "string"], ["MISSING_UNION_BRANCH"]),
    (record({"name": "b", "type": "int"}), RECORD, ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    (record({"name": "b", "type": "int", "default": 1}), RECORD, []),
    (record({"name": "b", "type": "int", "aliases": ["a"]}), RECORD, []),
    (record(), RECORD, []),
    (record({"name": "a", "type": "string"}), RECORD, ["TYPE_MISMATCH"]),
    ({**RECORD, "name": "S"}, RECORD, ["NAME_MISMATCH"]),
    ({**RECORD, "name": "S", "aliases": ["R"]}, RECORD, []),
    ({**RECORD, "namespace": "x"}, RECORD, []),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, ["FIXED_SIZE_MISMATCH"]),
    (
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        ["MISSING_ENUM_SYMBOLS"],
    ),
    (
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        [],
    ),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, []),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, ["TYPE_MISMATCH"]),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, ["TYPE_MISMATCH"]),
    (LIST, LIST, []),
    (record({"name": "next", "type": ["null", "R"], "default": None}, {"name": "a", "type": "int", "default": 0}), LIST, []),
    (
        record({"name": "next", "type": ["null", "R"], "default": None}, {"name": "a", "type": "int"}),
        LIST,
        ["READER_FIELD_MISSING_DEFAULT_VALUE"],
    ),
    ({"type": "int", "logicalType": "date"}, "int", []),
]


@pytest.mark.parametrize(("reader", "writer", "expected"), ROWS)
def test_differences_have_their_kind(reader: Any, writer: Any, expected: list[str]) -> None:
    assert sorted(reasons(reader, writer)) == sorted(expected)


NO_SCHEMAS = [
    '{"type":"record","name":"R"}',
    '{"type":"record","fields":[]}',
    '{"type":"record","name":"1","fields":[]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"nothing"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":2147483648}]}',
    '{"type":"enum","name":"E","symbols":["A","A"]}',
    '{"type":"enum","name":"E","symbols":["A"],"default":"B"}',
    '{"type":"enum","name":"E"}',
    '{"type":"fixed","name":"F"}',
    '["int","int"]',
    '["int",["string"]]',
    '{"type":"array"}',
    "7",
    "{",
    "",
    "[" * 100_000,
]


@pytest.mark.parametrize("text", NO_SCHEMAS)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text, {}, True)


CANONICAL = [
    ('{"type": "string"}', '"string"'),
    ("int", '"int"'),
    (
        '{"fields": [], "name": "a.b.R", "type": "record", "x": 1}',
        '{"type":"record","name":"R","namespace":"a.b","fields":[],"x":1}',
    ),
    ('["null", {"type": "array", "items": {"type": "int"}}]', '["null",{"type":"array","items":"int"}]'),
    (
        '{"type":"record","name":"R","namespace":"n","fields":[{"type":["null","n.R"],"name":"a","order":"ascending"}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":["null","R"]}]}',
    ),
    ('{"type": "int", "values": {}}', '{"type":"int","values":{}}'),
    ('{"type":"bytes","logicalType":"decimal","precision":4}', '{"type":"bytes","logicalType":"decimal","precision":4}'),
]


@pytest.mark.parametrize(("text", "expected"), CANONICAL)
def test_texts_are_canonical(text: str, expected: str) -> None:
    assert parse(text, {}, True).text == expected
    assert parse(expected, {}, True).text == expected
