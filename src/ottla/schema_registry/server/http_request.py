"""A request to the registry's HTTP API: the parts of its path, its query and its body, checked. Raises `RegistryRefusal`."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.schema_registry import refusals
from ottla.schema_registry.refusals import RegistryRefusal
from ottla.schema_registry.values import AVRO, Json, Reference, SchemaText

MOST_RESULTS = 2**31 - 1


@dataclass(frozen=True)
class RegistryRequest:
    """A request. `names` are the variable parts of its path."""

    method: str
    path: str
    names: Mapping[str, str]
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: bytes = b""

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter of the query."""
        return self.query.get(name, [default])[-1]

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the query is true."""
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a number of the query."""
        text = self.text(name, str(default))
        try:
            return int(text[:20])
        except ValueError:
            raise RegistryRefusal(404, "HTTP 404 Not Found") from None  # as Confluent's registry answers

    def page(self, found: list[Any]) -> list[Any]:
        """Return the part of a list that `offset` and `limit` select."""
        start, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        return found[start : start + (limit if limit >= 0 else MOST_RESULTS)]

    def json(self) -> dict[str, Any]:
        """Return the body."""
        try:
            found = json.loads(self.body)
            if b"\\ud" in self.body.lower():  # half of a pair, which no record can contain
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise RegistryRefusal(400, f"The body is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise RegistryRefusal(400, "The body is no object of JSON.")
        return found


def schema_of(body: Json) -> SchemaText:
    """Return the schema in the body of a request."""
    text = body.get("schema")
    kind = body.get("schemaType") or AVRO
    references = body.get("references") or []
    if not isinstance(text, str) or not isinstance(kind, str) or not isinstance(references, list):
        raise refusals.invalid_schema("Empty schema" if text is None else "schema and schemaType are texts, references a list")
    if not _encodes(text):
        raise refusals.invalid_schema("it has surrogates, which UTF-8 cannot encode")
    return SchemaText(kind.upper(), text, tuple(map(_reference, references)), _object(body, "metadata"), _object(body, "ruleSet"))


def whole(body: Json, name: str, default: int) -> int:
    """Return a whole number in the body of a request."""
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int:
        raise RegistryRefusal(422, f"{name} is no whole number.")
    return value


def _reference(found: Any) -> Reference:
    name, subject, version = map(found.get, ("name", "subject", "version")) if isinstance(found, dict) else (None, None, None)
    is_version = type(version) is int and -1 <= version < 2**31
    if isinstance(name, str) and isinstance(subject, str) and is_version and _encodes(name + subject):
        return Reference(name, subject, int(version or 0))
    raise refusals.invalid_schema("a reference has a name, a subject and a version")


def _object(body: Json, name: str) -> Json | None:
    found = body.get(name)
    if found is not None and not isinstance(found, dict):
        raise RegistryRefusal(422, f"{name} is no object.")
    return found


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def split_path(raw: bytes) -> list[str]:
    """Return the parts of a path. A slash within a part is encoded."""
    parts = raw.partition(b"?")[0].decode("latin-1").strip("/").split("/")
    return [urllib.parse.unquote(part, errors="replace") for part in parts]
