"""A schema of Avro in the registry. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.schema_registry.avro.canonical import canonical_text
from ottla.schema_registry.avro.compatibility import AvroComparison
from ottla.schema_registry.avro.type_reader import TypeReader
from ottla.schema_registry.avro.types import PRIMITIVES, AvroType
from ottla.schema_registry.formats import Parsed
from ottla.schema_registry.refusals import InvalidSchema


class AvroSchema:
    """A parsed schema."""

    def __init__(self, given: Any, root: AvroType) -> None:
        self._given = given
        self.root = root
        self.text = canonical_text(given)

    def normalize(self) -> str:
        return canonical_text(self._given, normalized=True)

    def unreadable(self, written: Parsed, *, reader: str, writer: str) -> list[str]:
        if not isinstance(written, AvroSchema):
            raise TypeError("two schemas of Avro are compared")
        found = AvroComparison(reader, writer).mismatches(self.root, written.root)
        return [f"{{errorType:'{each.kind}', description:'{each.description}', additionalInfo:'{each.detail}'}}" for each in found]

    def format_as(self, name: str) -> str:
        return self.text


def parse(text: str, references: Mapping[str, str], is_new: bool) -> AvroSchema:
    """Parse a schema. Raises `InvalidSchema`."""
    reader = TypeReader(is_new=is_new)
    try:
        for each in references.values():
            reader.read(_json(each))
        given = _json(text)
        return AvroSchema(given, reader.read(given))
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None


def _json(text: str) -> Any:
    """Return the JSON of a schema. The name of a primitive type may be without quotes, as in Avro's libraries."""
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidSchema(f"it is no JSON ({error})") from None
