"""JSON Schemas that the registry compares, by the rules of Confluent's: a newer schema reads data of an older one."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schema_registry.json.schema import parse
from ottla.schema_registry.refusals import InvalidSchema


def reasons(new: Any, old: Any) -> list[str]:
    """Return the kinds of the differences for which `new` cannot read data of `old`."""
    found = parse(json.dumps(new), {}, True).unreadable(parse(json.dumps(old), {}, True), reader="new", writer="old")
    return [each.split("'")[1] for each in found]


def an_object(properties: Any = None, **others: Any) -> Any:
    return {"type": "object", "properties": properties or {}, **others}


TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
CLOSED = {"additionalProperties": False}
A, AB = {"a": TEXT}, {"a": TEXT, "b": TEXT}
TREE = an_object({"child": {"$ref": "#"}, "name": TEXT}, additionalProperties=False)
ROWS: list[tuple[Any, Any, list[str]]] = [
    (TEXT, TEXT, []),
    (NUMBER, TEXT, ["TYPE_CHANGED"]),
    (NUMBER, WHOLE, []),
    (WHOLE, NUMBER, ["TYPE_NARROWED"]),
    (True, TEXT, []),
    ({}, TEXT, []),
    (TEXT, {}, ["TYPE_CHANGED"]),
    (TEXT, False, []),
    ({"type": ["string", "null"]}, TEXT, []),
    (TEXT, {"type": ["string", "null"]}, ["TYPE_CHANGED"]),
    ({"type": "string", "maxLength": 5}, TEXT, ["MAX_LENGTH_ADDED"]),
    (TEXT, {"type": "string", "maxLength": 5}, []),
    ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 4}, []),
    ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 4}, ["MAX_LENGTH_DECREASED"]),
    ({"type": "string", "minLength": 3}, {"type": "string", "minLength": 2}, ["MIN_LENGTH_INCREASED"]),
    ({"type": "string", "pattern": "a"}, TEXT, ["PATTERN_ADDED"]),
    ({"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"}, ["PATTERN_CHANGED"]),
    ({"type": "number", "maximum": 5}, {"type": "number", "maximum": 6}, ["MAXIMUM_DECREASED"]),
    ({"type": "number", "exclusiveMinimum": 5}, {"type": "number", "exclusiveMinimum": 6}, []),
    ({"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 4}, []),
    ({"type": "number", "multipleOf": 4}, {"type": "number", "multipleOf": 2}, ["MULTIPLE_OF_EXPANDED"]),
    ({"type": "number", "multipleOf": 3}, {"type": "number", "multipleOf": 2}, ["MULTIPLE_OF_CHANGED"]),
    (an_object(AB), an_object(A), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (an_object({"a": TEXT, "b": {}}), an_object(A), []),
    (an_object(AB, required=["b"]), an_object(A), ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (an_object(AB, **CLOSED), an_object(A, **CLOSED), []),
    (an_object(AB, **CLOSED, required=["b"]), an_object(A, **CLOSED), ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
    (an_object({"a": TEXT, "b": {**TEXT, "default": ""}}, **CLOSED, required=["b"]), an_object(A, **CLOSED), []),
    (an_object(A), an_object(AB), []),
    (an_object(A, **CLOSED), an_object(AB, **CLOSED), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (an_object(A, **CLOSED), an_object(A), ["ADDITIONAL_PROPERTIES_REMOVED"]),
    (an_object(A), an_object(A, **CLOSED), []),
    (an_object(A, additionalProperties=TEXT), an_object(A), ["ADDITIONAL_PROPERTIES_NARROWED"]),
    (an_object(AB, additionalProperties=TEXT), an_object(A, additionalProperties=TEXT), []),
    (
        an_object({"a": TEXT, "b": NUMBER}, additionalProperties=TEXT),
        an_object(A, additionalProperties=TEXT),
        ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED"],
    ),
    (an_object(A, additionalProperties=TEXT), an_object(AB, additionalProperties=TEXT), []),
    (an_object(A, required=["a"]), an_object(A), ["REQUIRED_ATTRIBUTE_ADDED"]),
    (an_object(A), an_object(A, required=["a"]), []),
    (an_object({"a": {**TEXT, "default": ""}}, required=["a"]), an_object(A), []),
    (an_object(A, maxProperties=1), an_object(A), ["MAX_PROPERTIES_ADDED"]),
    (an_object(A, dependencies={"a": ["b"]}), an_object(A), ["DEPENDENCY_ARRAY_ADDED"]),
    (an_object(A), an_object(A, dependencies={"a": ["b"]}), []),
    ({"type": "array", "items": NUMBER}, {"type": "array", "items": WHOLE}, []),
    ({"type": "array", "items": WHOLE}, {"type": "array", "items": NUMBER}, ["TYPE_NARROWED"]),
    ({"type": "array", "items": WHOLE}, {"type": "array"}, ["SCHEMA_ADDED"]),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED"]),
    ({"type": "array", "maxItems": 1}, {"type": "array"}, ["MAX_ITEMS_ADDED"]),
    ({"type": "array", "items": [TEXT, TEXT]}, {"type": "array", "items": [TEXT]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (
        {"type": "array", "items": [TEXT, TEXT], "additionalItems": False},
        {"type": "array", "items": [TEXT], "additionalItems": False},
        [],
    ),
    ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a"]}, []),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED"]),
    ({"enum": [1, True]}, {"enum": [1.0]}, []),
    ({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED"]),
    ({"oneOf": [TEXT, NUMBER]}, {"oneOf": [TEXT]}, []),
    ({"oneOf": [TEXT]}, {"oneOf": [TEXT, NUMBER]}, ["SUM_TYPE_NARROWED"]),
    ({"oneOf": [NUMBER, TEXT]}, {"oneOf": [TEXT, NUMBER]}, []),
    ({"oneOf": [WHOLE, TEXT]}, {"oneOf": [TEXT, NUMBER]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]),
    ({"anyOf": [TEXT, NUMBER]}, {"oneOf": [TEXT, NUMBER]}, []),
    ({"allOf": [TEXT, NUMBER]}, {"oneOf": [TEXT, NUMBER]}, ["COMBINED_TYPE_CHANGED"]),
    ({"allOf": [TEXT]}, {"allOf": [TEXT, {"type": "string", "maxLength": 4}]}, []),
    ({"oneOf": [TEXT, NUMBER]}, TEXT, []),
    ({"oneOf": [NUMBER, {"type": "null"}]}, TEXT, ["TYPE_CHANGED"]),
    ({"not": WHOLE}, {"not": NUMBER}, []),
    ({"not": NUMBER}, {"not": WHOLE}, ["NOT_TYPE_EXTENDED"]),
    (TREE, TREE, []),
    ({**TREE, "properties": {**TREE["properties"], "name": NUMBER}}, TREE, ["TYPE_CHANGED"]),
    ({"$ref": "#/definitions/a", "definitions": {"a": TEXT}}, TEXT, []),
    ({"not": {"$ref": "#"}}, {"not": {"$ref": "#"}}, []),
]


@pytest.mark.parametrize(("new", "old", "expected"), ROWS)
def test_differences_have_their_kind(new: Any, old: Any, expected: list[str]) -> None:
    assert sorted(reasons(new, old)) == sorted(expected)


SIMPLE = st.sampled_from(
    [TEXT, NUMBER, WHOLE, {"type": "string", "maxLength": 1}, {"enum": ["a"]}, {"type": ["null", "string"]}, {}]
)
VALUES = st.recursive(
    st.sampled_from([None, "a", "abc", 1, 1.5]), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)


@st.composite
def objects(draw: st.DrawFn) -> Any:
    """Return a schema of objects with few properties."""
    properties = draw(st.dictionaries(st.sampled_from("abc"), st.one_of(SIMPLE, st.just(an_object(A))), max_size=3))
    found = an_object(properties)
    rest = draw(st.sampled_from([None, False, TEXT]))
    if rest is not None:
        found["additionalProperties"] = rest
    if draw(st.booleans()):
        found["required"] = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=1))
    return draw(st.sampled_from([found, {"oneOf": [found]}, {"anyOf": [found, TEXT]}]))


@settings(max_examples=150, deadline=None)
@given(old=objects(), new=objects(), value=VALUES)
def test_what_is_called_compatible_accepts_the_same_values(old: Any, new: Any, value: Any) -> None:
    """A required property that the schema does not name is outside the rules, as in Confluent's registry."""
    if reasons(new, old) or not jsonschema.Draft7Validator(old).is_valid(value):
        return
    unnamed = [each for each in _objects(new) if set(each.get("required", ())) - set(each["properties"])]
    assert unnamed or jsonschema.Draft7Validator(new).is_valid(value)


def _objects(schema: Any) -> list[Any]:
    return [each for each in (schema, *schema.get("oneOf", ()), *schema.get("anyOf", ())) if "properties" in each]


NO_SCHEMAS = [
    "",
    "{",
    "7",
    '"string"',
    "[]",
    '{"type":"text"}',
    '{"type":"object","properties":7}',
    '{"$ref":"#/definitions/a"}',
    '{"$ref":"elsewhere.json"}',
    '{"type":"string","maxLength":-1}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", NO_SCHEMAS)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text, {}, True)


def test_a_reference_resolves_by_its_name() -> None:
    others = {"name.json": '{"$id":"http://example.com/name.json","type":"string"}'}
    new = parse('{"$id":"http://example.com/a.json","properties":{"a":{"$ref":"name.json"}}}', others, True)
    old = parse('{"properties":{"a":{"type":"number"}}}', {}, True)
    assert "TYPE_CHANGED" in new.unreadable(old, reader="new", writer="old")[0]


def test_references_in_a_circle_are_refused() -> None:
    text = '{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#"}}}'
    with pytest.raises(InvalidSchema, match="circle"):
        parse(text, {}, True)
    circle = parse(text, {}, False)  # another registry may have stored it
    with pytest.raises(InvalidSchema, match="circle"):
        circle.unreadable(parse("{}", {}, True), reader="new", writer="old")


def test_sorted_keys_are_the_normal_text() -> None:
    assert parse('{ "type" : "object", "title": "é" }', {}, True).normalize() == '{"title":"é","type":"object"}'
    assert parse('{ "type" : "object", "title": "é" }', {}, True).text == '{"type":"object","title":"é"}'
