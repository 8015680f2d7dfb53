"""Mutated schemas are refused or parsed and compared; nothing else is raised."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest

from ottla.schema_registry.format_table import PARSERS
from ottla.schema_registry.formats import Parsed
from ottla.schema_registry.refusals import InvalidSchema
from ottla.schema_registry.values import AVRO, JSON, PROTOBUF
from tests.unit.schema_registry import test_avro_compatibility, test_json_compatibility, test_protobuf_schemas

PIECES = [
    "{", "}", "[", "]", '"', "\\", "7", "-1", "1e999", "true", '"a"', ":", ",", "\0", "é", "=", ";", "<", "message", "option",
    "repeated", "999999999999", '"$ref":"#"', '"type":[]',
]  # fmt: skip
TEXTS = {
    AVRO: [json.dumps(each) for row in test_avro_compatibility.ROWS for each in row[:2]],
    JSON: [json.dumps(each) for row in test_json_compatibility.ROWS for each in row[:2]],
    PROTOBUF: [test_protobuf_schemas.EVERYTHING, test_protobuf_schemas.OLDER],
}


def mutate(text: str, chance: random.Random) -> str:
    """Return a text with a piece more, or a few characters less."""
    at = chance.randrange(len(text) + 1)
    if chance.random() < 0.5:
        return text[:at] + chance.choice(PIECES) + text[at:]
    return text[:at] + text[at + chance.choice([1, 3, 10]) :]


@pytest.mark.parametrize("kind", TEXTS)
def test_mutated_schemas_raise_nothing_else(kind: str) -> None:
    chance, before = random.Random(5), None
    for _ in range(400):
        parsed: Parsed | None = None
        with suppress(InvalidSchema):
            parsed = PARSERS[kind](mutate(chance.choice(TEXTS[kind]), chance), {}, chance.random() < 0.5)
        if parsed is not None:
            assert PARSERS[kind](parsed.text, {}, False).text == parsed.text
            parsed.normalize()
            with suppress(InvalidSchema):
                parsed.unreadable(before or parsed, reader="new", writer="old")
            before = parsed
