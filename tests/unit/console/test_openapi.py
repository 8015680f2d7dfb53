"""The description of the console's JSON: every page and action is there, and every answer is what it says."""

from __future__ import annotations

from typing import Any

from ottla.console.openapi import describe, json_path
from ottla.console.pages import ACTIONS, PAGES

DESCRIBED = describe(PAGES, ACTIONS)


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*(references(each) for each in value.values())) if value else own
    return set().union(*map(references, value)) if isinstance(value, list) and value else set()


def test_every_page_and_action_is_described() -> None:
    for page in PAGES:
        described = DESCRIBED["paths"][json_path(page.path)]["get"]
        assert described["summary"]
        assert {each["name"] for each in described["parameters"] if each["in"] == "path"} == {
            part[1:-1] for part in page.path.split("/") if part[:1] == "{"
        }
    for action in ACTIONS:
        described = DESCRIBED["paths"][json_path(action.path)]["post"]
        body = described["requestBody"]["content"]["application/json"]["schema"]
        assert set(body["required"]) <= set(body["properties"])


def test_every_schema_that_is_named_exists() -> None:
    names = {each.rpartition("/")[2] for each in references(DESCRIBED)}
    assert names
    assert names == set(DESCRIBED["components"]["schemas"])


def test_an_operation_has_a_name_of_its_own() -> None:
    names = [each["operationId"] for some in DESCRIBED["paths"].values() for each in some.values()]
    assert len(names) == len(set(names))


def test_a_generic_part_has_the_schema_of_its_value() -> None:
    users = DESCRIBED["components"]["schemas"]["UserList"]["properties"]["users"]
    value = users["properties"]["value"]
    assert value == {"anyOf": [{"type": "array", "items": {"$ref": "#/components/schemas/ScramUser"}}, {"type": "null"}]}
