"""Values of the schema registry: schemas as they are registered and stored. Pure."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"
MODES = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT)
Json = Mapping[str, Any]


class Reference(NamedTuple):
    """A schema to which another refers: by `name` in its text, as a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class SchemaText:
    """A schema with its references. `metadata` and `rule_set` are kept for clients, and belong to a schema's identity."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Return the GUID of the schema: equal schemas have equal GUIDs."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for name, subject, version in self.references:
            digest.update(name.encode() + subject.encode() + version.to_bytes(4, "big", signed=True))
        for extra in (self.metadata, self.rule_set):
            if extra is not None:
                digest.update(b"\1" + json.dumps(extra, sort_keys=True).encode())
        return str(uuid.UUID(bytes=digest.digest()))


@dataclass(frozen=True)
class Stored:
    """One version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: SchemaText
    deleted: bool = False


def render(schema: SchemaText) -> dict[str, Any]:
    """Return the fields of a schema in JSON. AVRO is the type of a schema that names none."""
    found: dict[str, Any] = {}
    if schema.schema_type != AVRO:
        found["schemaType"] = schema.schema_type
    if schema.references:
        found["references"] = [each._asdict() for each in schema.references]
    if schema.metadata is not None:
        found["metadata"] = schema.metadata
    if schema.rule_set is not None:
        found["ruleSet"] = schema.rule_set
    found["schema"] = schema.text
    return found
