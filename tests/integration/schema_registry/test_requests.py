"""A registry answers each request of requests.txt as the table says."""

from __future__ import annotations

import json
import random
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


VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**40,
    1.5,
    "x",
    "",
    [],
    {},
    [{}],
    "latest",
    "FULL",
    "IMPORT",
    "JSON",
    "PROTOBUF",
    {"properties": []},
]
NAMES = ["references", "metadata", "ruleSet", "id", "version", "schemaType", "alias", "normalize", "compatibility", "mode"]
PARTS = ["%00", "..", "%ff%fe", ":.:", ":.x:y", ":*:", ":.__GLOBAL:", "__EMPTY", "0", "-1", "9" * 30]
QUERIES = ["deleted=true", "offset=x", "limit=-5", "offset=-1", f"limit={'9' * 30}", "subject=%ff", "format=serialized", "&&&="]


def mutate(step: Step, chance: random.Random) -> tuple[str, str, Any]:
    """Return a request that resembles one of the table."""
    method, path, body, _, _ = step
    if chance.random() < 0.3:
        path += ("&" if "?" in path else "?") + chance.choice(QUERIES)
    if chance.random() < 0.3:
        path = path.replace(chance.choice(path.split("/")) or "none", chance.choice(PARTS), 1)
    if isinstance(body, dict) and chance.random() < 0.7:
        body = {**body, chance.choice([*body, *NAMES]): chance.choice(VALUES)}
    return method if chance.random() < 0.9 else "PUT", f"/{path.lstrip('/')}", body


def test_mutated_requests_are_refused_and_cost_no_error() -> None:
    chance = random.Random(17)
    steps = [step for section in sections().values() for step in section if step[0] != "PATCH"]
    with ottla.Broker() as broker, instance(broker.address) as registry:
        for _ in range(300):
            method, path, body = mutate(chance.choice(steps), chance)
            text = path.encode("ascii", "ignore").decode().replace(" ", "%20")
            status = registry.status(method, text, body)
            assert status < 500, f"{method} {path} {body}: {status}"
