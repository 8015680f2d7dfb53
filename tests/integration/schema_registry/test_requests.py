"""A registry answers each request of requests.txt as the table says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ottla
from tests.integration.schema_registry.instances import instance

TABLE = Path(__file__).with_name("requests.txt").read_text(encoding="utf-8")
Step = tuple[str, str, Any, int, Any]


def sections() -> dict[str, list[Step]]:
    """Return the requests of each section, with the expected answers."""
    found: dict[str, list[Step]] = {}
    for title, text in re.findall(r"^== (.*)\n((?:[^=\n].*\n|\n)*)", TABLE, re.MULTILINE):
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        found[title] = [_step(*pair) for pair in zip(lines[::2], lines[1::2], strict=True)]
    return found


def _step(request: str, answer: str) -> Step:
    _, method, path, *body = request.split(" ", 3)
    _, status, *expected = answer.split(" ", 2)
    return method, path, json.loads(body[0]) if body else None, int(status), json.loads(expected[0]) if expected else None


def fits(found: Any, expected: Any) -> bool:
    """Return whether an answer has what is expected; an object may have further fields."""
    if expected == "...":
        return found is not None
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(name in found and fits(found[name], value) for name, value in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(fits, found, expected))
    return bool(found == expected) and type(found) is type(expected)


def test_the_table_has_many_requests() -> None:
    assert sum(map(len, sections().values())) >= 200


@pytest.mark.parametrize("section", sections())
def test_answers_are_those_of_the_table(section: str) -> None:
    with ottla.Broker() as broker, instance(broker.address) as registry:
        for method, path, body, status, expected in sections()[section]:
            found = registry.ask(method, path, body)
            assert (found[0], fits(found[1], expected)) == (status, True), f"{method} {path} {body}: {found[:2]}"
